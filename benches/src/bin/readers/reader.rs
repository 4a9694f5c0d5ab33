//! A reader, and the three ways to be one.
use std::fs::{File, OpenOptions, read_to_string};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use instanton::data::{Rank, Value};
use instanton::store::{Have, JobReader, MappedSegment, Miss, Question, ReaderPage};
use instanton_benches::jobs;

use crate::JOB;
use crate::cores::Cores;
use crate::writer::Writer;

/// Kind of reader: thread or process, copying or under a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Threads that copy, as the C interface does.
    Threads,
    /// Threads that take a guard for each read and look at the value where it is.
    Guards,
    /// Processes that copy.
    Processes,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Threads, Self::Guards, Self::Processes];

    pub fn words(self) -> &'static str {
        match self {
            Self::Threads => "Threads that copy",
            Self::Guards => "Threads that read in place, a guard for each read",
            Self::Processes => "Processes that copy",
        }
    }

    pub fn short(self) -> &'static str {
        match self {
            Self::Threads => "threads, copying",
            Self::Guards => "threads, in place",
            Self::Processes => "processes, copying",
        }
    }

    /// Runs a reader in each place, and with them the writer if it is to be `busy`; its updates in a second.
    pub fn run(
        self,
        writer: &mut Writer,
        places: Vec<Place>,
        busy: bool,
        cores: &Cores,
    ) -> anyhow::Result<(Vec<Done>, Option<f64>)> {
        match self {
            Self::Processes => in_processes(writer, &places, busy, cores),
            Self::Threads | Self::Guards => in_threads(writer, &places, busy, cores),
        }
    }
}

/// Order to one reader; to a process on its command line: `CORE,SECONDS,SEED`.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    pub kind: Kind,
    pub core: usize,
    pub seconds: f64,
    pub seed: u64,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{},{}", self.core, self.seconds, self.seed)
    }
}

impl FromStr for Place {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let words: Vec<&str> = text.split(',').collect();
        let [core, seconds, seed] = words.as_slice() else { anyhow::bail!("not CORE,SECONDS,SEED: {text}") };
        Ok(Self { kind: Kind::Processes, core: core.parse()?, seconds: seconds.parse()?, seed: seed.parse()? })
    }
}

/// Result of one reader; on a line with tabs between.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Done {
    pub reads: u64,
    /// Looks at a record that changed too often, or moved away: a client would have asked the server.
    pub again: u64,
    /// Values that nobody wrote.
    pub wrong: u64,
    pub seconds: f64,
    /// On its core.
    pub cpu_us: f64,
}

impl Done {
    pub fn rate(&self) -> f64 {
        self.reads as f64 / self.seconds
    }

    fn line(&self) -> String {
        format!("{}\t{}\t{}\t{}\t{}", self.reads, self.again, self.wrong, self.seconds, self.cpu_us)
    }

    fn parse(line: &str) -> anyhow::Result<Self> {
        let fields: Vec<&str> = line.trim_end().split('\t').collect();
        let [reads, again, wrong, seconds, cpu] = fields.as_slice() else {
            anyhow::bail!("not what a reader did: {line}")
        };
        Ok(Self {
            reads: reads.parse()?,
            again: again.parse()?,
            wrong: wrong.parse()?,
            seconds: seconds.parse()?,
            cpu_us: cpu.parse()?,
        })
    }
}

/// Returns the time that the kernel let the calling thread run.
fn cpu_us() -> anyhow::Result<f64> {
    let text = read_to_string("/proc/thread-self/schedstat")?;
    let ns: f64 = text.split_whitespace().next().context("an empty schedstat")?.parse()?;
    Ok(ns / 1e3)
}

fn alike(bytes: &[u8]) -> bool {
    bytes.len() == 64 && bytes.iter().all(|byte| *byte == bytes[0])
}

/// One read; whether the value is one that was written. Copies are looked at now and then: that takes longer than they
/// do.
fn read(reader: &JobReader, kind: Kind, rank: Rank, look: bool) -> Result<bool, Miss> {
    let question = Question::new(rank, "endpoint");
    if kind == Kind::Guards {
        let guard = reader.pin().expect("a slot for each reader");
        return Ok(alike(&guard.get(&question)?.bytes()));
    }
    if look {
        return Ok(matches!(reader.get(&question)?, Value::ByteObject(bytes) if alike(&bytes)));
    }
    let mut copy = [std::mem::MaybeUninit::<u8>::uninit(); 64];
    reader.read(&question, |value| std::hint::black_box(value.copy_to(&mut copy)) == 64)
}

/// Reads random ranks until the time is over.
fn read_on(reader: &JobReader, place: &Place) -> anyhow::Result<Done> {
    let mut done = Done::default();
    let mut random = (place.seed + place.core as u64) | 1;
    let (start, cpu, length) = (Instant::now(), cpu_us()?, Duration::from_secs_f64(place.seconds));
    while start.elapsed() < length {
        for n in 0..256 {
            // xorshift64
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match read(reader, place.kind, Rank((random >> 32) as u32 % JOB.ranks), n == 0) {
                Ok(right) => done.wrong += u64::from(!right),
                Err(_) => done.again += 1,
            }
        }
        done.reads += 256;
    }
    done.seconds = start.elapsed().as_secs_f64();
    done.cpu_us = cpu_us()? - cpu;
    Ok(done)
}

fn in_threads(
    writer: &mut Writer,
    places: &[Place],
    busy: bool,
    cores: &Cores,
) -> anyhow::Result<(Vec<Done>, Option<f64>)> {
    let reader = jobs::reader(&mut writer.job);
    thread::scope(|scope| {
        let reader = &reader;
        let mut threads = Vec::new();
        for place in places {
            threads.push(scope.spawn(move || cores.bind(place.core).and_then(|()| read_on(reader, place))));
        }
        let write = || cores.bind_to_last().and_then(|()| writer.run(places[0].seconds, Some(reader)));
        let updates = busy.then(|| scope.spawn(write));
        let done = threads.into_iter().map(|thread| thread.join().expect("a reader")).collect::<anyhow::Result<_>>()?;
        Ok((done, updates.map(|thread| thread.join().expect("the writer")).transpose()?))
    })
}

/// Every process opens the segments anew by what the kernel calls them, and has a reader page of its own.
fn in_processes(
    writer: &mut Writer,
    places: &[Place],
    busy: bool,
    cores: &Cores,
) -> anyhow::Result<(Vec<Done>, Option<f64>)> {
    let own = |fd: i32| format!("/proc/{}/fd/{fd}", std::process::id());
    let mut children = Vec::new();
    for place in places {
        let page = writer.job.make_reader_page()?;
        let segments = writer.job.segments(&Have::default());
        let files = segments.iter().map(|(_, fd)| own(fd.as_raw_fd()));
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--child", &place.to_string()]).arg(own(page.as_fd().as_raw_fd())).args(files);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        children.push((child, page));
    }
    for (child, _) in &mut children {
        line_of(child)?; // It has mapped everything.
    }
    for (child, _) in &mut children {
        drop(child.stdin.take());
    }
    let updates = thread::scope(|scope| {
        let write = || cores.bind_to_last().and_then(|()| writer.run(places[0].seconds, None));
        let updates = busy.then(|| scope.spawn(write));
        updates.map(|thread| thread.join().expect("the writer")).transpose()
    })?;
    let mut done = Vec::new();
    for (mut child, _page) in children {
        done.push(Done::parse(&line_of(&mut child)?)?);
        ensure!(child.wait()?.success(), "a reader failed");
    }
    Ok((done, updates))
}

/// The next line that a child says. It says so little that reading byte by byte does not matter.
fn line_of(child: &mut Child) -> anyhow::Result<String> {
    let output = child.stdout.as_mut().context("no output of the reader")?;
    let mut line = Vec::new();
    let mut byte = [0];
    while output.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    ensure!(!line.is_empty(), "a reader ended too early");
    Ok(String::from_utf8(line)?)
}

/// In a process of its own: maps the page, which is the first file, and the segments.
pub fn be_child(place: &Place, files: &[PathBuf], cores: &Cores) -> anyhow::Result<()> {
    let [page, segments @ ..] = files else { anyhow::bail!("no files to map") };
    cores.bind(place.core)?;
    let page = ReaderPage::map(OpenOptions::new().read(true).write(true).open(page)?.as_fd())?;
    let map = |path| anyhow::Ok(MappedSegment::map(File::open(path)?.as_fd())?);
    let parts = segments.iter().map(map).collect::<anyhow::Result<_>>()?;
    let reader = JobReader::attach(parts, Some(page))?;
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new())?;
    println!("{}", read_on(&reader, place)?.line());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_is_told_and_says_arrives() {
        let place = Place { kind: Kind::Processes, core: 3, seconds: 0.25, seed: 7 };
        assert_eq!(place.to_string().parse::<Place>().expect("a place"), place);
        assert!("3,0.25".parse::<Place>().is_err());
        let done = Done { reads: 5, again: 1, wrong: 0, seconds: 0.5, cpu_us: 0.25 };
        assert_eq!(Done::parse(&done.line()).expect("a line"), done);
        assert!(Done::parse("5\t1").is_err());
    }

    #[test]
    fn a_mixture_is_not_alike() {
        let mut bytes = [7; 64];
        assert!(alike(&bytes));
        bytes[63] = 8;
        assert!(!alike(&bytes) && !alike(&bytes[..63]));
    }
}
