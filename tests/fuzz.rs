//! Every parser on damaged input: what its corpus holds, changed at random, makes none panic, and none take more memory
//! than a multiple of the input.
//!
//! An input follows from its seed alone. The seeds are the same in every run, unless `INSTANTON_FUZZ_SECONDS=3600` asks
//! for others, as many as that time allows; `INSTANTON_FUZZ_SEED=17` repeats one. `INSTANTON_FUZZ_PARSER=frame` chooses a
//! parser. An input that ends the whole process leaves its parser and seed in the file `fuzz-last` of cargo's folder
//! for temporary files (`target/tmp`).
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::env;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[path = "../fuzz/src/lib.rs"]
mod parsers;

use parsers::Parser;

/// Memory that any input may take, and what each byte of it may take beyond that.
const BASE: usize = 64 << 20;
const PER_BYTE: usize = 1000;
/// No input is longer.
const LONGEST: usize = 1 << 16;

/// Allocator that counts what the thread holds.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn held(more: isize) {
    // A thread that ends may still free something.
    let live = LIVE.try_with(|live| live.replace(live.get() + more) + more).unwrap_or(0);
    let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live)));
}

// SAFETY:
// - each function hands its arguments to the system's allocator as they are, and returns what that returns
// - what is counted is in the thread's cells, which take no memory
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        held(layout.size() as isize);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        held(layout.size() as isize);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        held(-(layout.size() as isize));
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(place, layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        held(size as isize - layout.size() as isize);
        // SAFETY: as promised by the caller.
        unsafe { System.realloc(place, layout, size) }
    }
}

/// A sequence of numbers that follows from a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        // Seeds next to one another have little in common then, and none is 0.
        let mut random = Self((seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d) | 1);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 32) as usize) % end.max(1)
    }

    /// A place in some bytes, and the end of a short piece from there.
    fn piece(&mut self, bytes: &[u8]) -> (usize, usize) {
        let at = self.below(bytes.len());
        (at, (at + 1 + self.below(32)).min(bytes.len()))
    }
}

/// Bytes and numbers at which parsers have their corners.
const BYTES: &[u8] = b"\0\x01\x7f\x80\xff,;:-[](){}<>=\"/9x%\n";
const NUMBERS: [u64; 10] =
    [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff];

/// The input of a seed.
fn input(corpus: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(6) {
        let (at, end) = random.piece(&bytes);
        match random.below(9) {
            0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            2 if !bytes.is_empty() => bytes[at] = BYTES[random.below(BYTES.len())],
            3 => {
                let (number, len) = (NUMBERS[random.below(NUMBERS.len())], 1 << random.below(4));
                bytes[at..].iter_mut().zip(&number.to_le_bytes()[..len]).for_each(|(byte, new)| *byte = *new);
            }
            4 => {
                let new = vec![BYTES[random.below(BYTES.len())]; 1 + random.below(8)];
                bytes.splice(at..at, new);
            }
            5 => drop(bytes.drain(at..end)),
            6 => bytes.truncate(at),
            7 => {
                let again = bytes[at..end].repeat(1 + random.below(64));
                bytes.splice(at..at, again);
            }
            _ => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
        bytes.truncate(LONGEST);
    }
    bytes
}

/// Gives an input to a parser; returns whether that takes it.
fn check(parser: Parser, bytes: &[u8]) -> Result<bool, String> {
    let before = LIVE.get();
    PEAK.set(before);
    let taken = catch_unwind(AssertUnwindSafe(|| parser(bytes))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        format!("it panics: {}", text.unwrap_or("no message"))
    })?;
    let most = (PEAK.get() - before) as usize;
    match most > BASE + PER_BYTE * bytes.len() {
        true => Err(format!("it takes {most} bytes for {}", bytes.len())),
        false => Ok(taken),
    }
}

/// A parser with the inputs where changes begin.
struct Target {
    name: &'static str,
    parser: Parser,
    corpus: Vec<Vec<u8>>,
    last: File,
}

impl Target {
    fn new(name: &'static str, parser: Parser, corpus: Vec<Vec<u8>>) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz-last");
        let last = File::options().create(true).write(true).truncate(false).open(path).expect("a file");
        Self { name, parser, corpus, last }
    }

    fn of_sources((name, parser): (&'static str, Parser)) -> Self {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder(name)).expect("a corpus").map(|file| file.expect("a file").path()).collect();
        paths.sort();
        Self::new(name, parser, paths.iter().map(|path| fs::read(path).expect("an input")).collect())
    }

    /// Tries a seed; returns the failure with all that is needed to repeat it.
    fn try_seed(&self, seed: u64) -> Result<bool, String> {
        let note = format!("{:<12} {seed:>20}\n", self.name);
        self.last.write_all_at(note.as_bytes(), 0).expect("room for a note");
        let bytes = input(&self.corpus, seed);
        check(self.parser, &bytes).map_err(|failure| {
            let (name, bytes) = (self.name, bytes.escape_ascii());
            format!("{name}: {failure}\nINSTANTON_FUZZ_PARSER={name} INSTANTON_FUZZ_SEED={seed} repeats it\n{bytes}")
        })
    }

    /// Number of seeds in a run of every test: those of costly parsers are fewer.
    fn rounds(&self) -> u64 {
        match self.name {
            "topology" => 100,
            "segments" => 500,
            "maps" | "zlib" => 2500,
            _ => 8_000,
        }
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name)
}

fn asked(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

#[test]
fn no_parser_panics_or_takes_more_memory_than_its_input_allows() {
    let only = env::var("INSTANTON_FUZZ_PARSER").ok();
    let targets = parsers::PARSERS.into_iter().filter(|(name, _)| only.as_ref().is_none_or(|only| only == name));
    let targets: Vec<Target> = targets.map(Target::of_sources).collect();
    let run = |target: &Target, seeds: std::ops::Range<u64>| {
        let tried = seeds.map(|seed| target.try_seed(seed).unwrap_or_else(|failure| panic!("{failure}")));
        tried.filter(|taken| *taken).count()
    };
    if let Some(seed) = asked("INSTANTON_FUZZ_SEED") {
        for target in &targets {
            run(target, seed..seed + 1);
        }
        return;
    }
    let Some(seconds) = asked("INSTANTON_FUZZ_SECONDS") else {
        for target in &targets {
            let started = Instant::now();
            let taken = run(target, 0..target.rounds());
            println!("{}: {taken} of {} taken, {:?}", target.name, target.rounds(), started.elapsed());
        }
        return;
    };
    let (started, mut tried) = (Instant::now(), 0);
    let first = u64::from_le_bytes(instanton::internal::sys::random::bytes().unwrap()) >> 1;
    while started.elapsed() < Duration::from_secs(seconds) {
        for target in &targets {
            let some = target.rounds() / 10;
            run(target, first + tried..first + tried + some);
        }
        tried += 2000;
    }
    println!("seeds from {first} to {}", first + tried);
}

/// The corpus is of today's formats: each parser takes some of it as it is.
#[test]
fn each_parser_takes_some_of_its_corpus() {
    let has_hwloc = instanton::internal::sys::hwloc::is_present();
    for (name, parser) in parsers::PARSERS {
        if has_hwloc || !["cpuset", "topology"].contains(&name) {
            let target = Target::of_sources((name, parser));
            let taken = target.corpus.iter().filter(|bytes| check(parser, bytes) == Ok(true)).count();
            assert!(taken > 0, "{name} takes none of {}", target.corpus.len());
        }
    }
}

/// Parsers with a mistake: one believes an index, one a length, one a sum. The others read what their namesakes do, and
/// are found from the same corpus.
mod planted {
    use instanton::internal::pmi::is_pmi;
    use instanton::internal::stock::{is_ack, is_conversation, is_request};
    use instanton::internal::upstream::{is_answer, is_job_info, is_news};
    use instanton::internal::wire::flex;

    pub fn index(bytes: &[u8]) -> bool {
        let Some(at) = bytes.get(4) else { return false };
        bytes[usize::from(*at)] != 0
    }

    pub fn length(bytes: &[u8]) -> bool {
        let Some(claimed) = bytes.first_chunk() else { return false };
        let claimed = u32::from_le_bytes(*claimed) as usize;
        std::hint::black_box(Vec::<u8>::with_capacity(claimed)).capacity() < bytes.len()
    }

    pub fn sum(bytes: &[u8]) -> bool {
        // Each of these is within bounds.
        let parts: Vec<Vec<u64>> = bytes.iter().map(|byte| vec![0; usize::from(*byte) << 12]).collect();
        std::hint::black_box(parts).is_empty()
    }

    /// The length of the credential counts as checked, because the message was.
    pub fn ack(bytes: &[u8]) -> bool {
        const CREDENTIAL: usize = 16 + b"native\0".len();
        let Some(len) = bytes.get(CREDENTIAL..).and_then(<[u8]>::first_chunk) else { return false };
        bytes[CREDENTIAL + 4..][..u32::from_be_bytes(*len) as usize].len() == 8 && is_ack(bytes)
    }

    /// Room is made for as many processes as a fence announces.
    pub fn request(bytes: &[u8]) -> bool {
        if let [1, 2, 3, 2, rest @ ..] = bytes
            && let Some((count, _)) = flex::get(rest)
        {
            std::hint::black_box(Vec::<[u8; 64]>::with_capacity(count as usize & 0x3ff_ffff));
        }
        is_request(bytes)
    }

    /// A message counts as whole when its header is.
    pub fn conversation(mut bytes: &[u8]) -> bool {
        let taken = is_conversation(bytes);
        while let Some((header, rest)) = bytes.split_first_chunk::<16>() {
            let is_first = header[..4] == [0xff; 4];
            let len = [header[8], header[9], header[10], header[11]];
            let len = if is_first { u32::from_ne_bytes(len) } else { u32::from_be_bytes(len) };
            bytes = &rest[len as usize..];
        }
        taken
    }

    /// A good status has something behind it.
    pub fn answer(bytes: &[u8]) -> bool {
        bytes.get(..3).is_some_and(|begin| begin[1..] == [2, 0] && bytes[3] > 0) | is_answer(bytes)
    }

    /// Each entry keeps all that came.
    pub fn job_info(bytes: &[u8]) -> bool {
        let entries = bytes.windows(5).filter(|window| *window == b"pmix.");
        std::hint::black_box(entries.map(|_| bytes.repeat(256)).collect::<Vec<_>>()).is_empty() | is_job_info(bytes)
    }

    /// The last byte of output ends a line.
    pub fn news(bytes: &[u8]) -> bool {
        is_news(bytes) && (bytes[0] != 2 || bytes[1] == 12 || *bytes.last().unwrap_or(&0) == b'\n' || bytes[200] > 0)
    }

    /// A frame is as long as it says.
    pub fn pmi(bytes: &[u8]) -> bool {
        let taken = is_pmi(bytes);
        let Some((b'2', mut rest)) = bytes.split_first() else { return taken };
        while let Some((head, behind)) = rest.split_first_chunk::<6>() {
            let len = std::str::from_utf8(head).ok().and_then(|len| len.trim().parse::<usize>().ok());
            let Some(len) = len else { break };
            rest = &behind[len..];
        }
        taken
    }
}

#[test]
fn planted_mistakes_are_found_and_repeated() {
    let corpus = || vec![vec![1, 0, 0, 0, 2, 0, 0, 0], vec![3; 12]];
    let small = [("index", planted::index as Parser), ("length", planted::length), ("sum", planted::sum)];
    let twins = [
        ("ack", planted::ack as Parser),
        ("request", planted::request),
        ("conversation", planted::conversation),
        ("answer", planted::answer),
        ("job_info", planted::job_info),
        ("news", planted::news),
        ("pmi", planted::pmi),
    ];
    let small = small.into_iter().map(|(name, parser)| Target::new(name, parser, corpus()));
    for target in small.chain(twins.into_iter().map(Target::of_sources)) {
        let found = (0..100_000).find_map(|seed| Some((seed, target.try_seed(seed).err()?)));
        let (seed, failure) = found.unwrap_or_else(|| panic!("the mistake of {} is not found", target.name));
        assert!(failure.contains(&format!("INSTANTON_FUZZ_SEED={seed} ")), "{failure}");
        assert_eq!(target.try_seed(seed), Err(failure));
    }
}
