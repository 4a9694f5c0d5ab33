//! Costs of registering a job at sizes from a thousand to a million ranks: a table, and two pictures.
//!
//! Every measurement is made by a process of its own, so that none finds memory that another one left.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use instanton_benches::chart::{Chart, Series};
use instanton_benches::grid;
use instanton_benches::jobs::{self, Blocks};
use instanton_benches::machine;
use instanton_benches::run::{Library, Programs};
use instanton_benches::samples::Samples;
use instanton_benches::units::Unit::{Memory, Time};
use instanton_benches::units::count;

const SIZES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
const PER_NODE: u32 = 32;

/// Seed of ranks at random.
const SEED: u64 = 20_261_122;

/// The stock library takes ten times as long for each step, and gigabytes at the last one.
const STOCK_LIMIT: u32 = 100_000;

/// A description in C takes 6.6 kB a rank, the library's work not counted.
const C_KEYS_NEED: u64 = 12_000_000_000;

#[derive(Parser)]
#[command(about = "Registers jobs of a thousand to a million ranks, and shows what it costs")]
struct Options {
    /// Folder of the release
    #[arg(long, default_value = "dist")]
    dist: PathBuf,
    /// Folder of the compiled programs of benches/c
    #[arg(long)]
    programs: Option<PathBuf>,
    /// The library to compare with
    #[arg(long)]
    stock: Option<PathBuf>,
    /// Folder for the pictures registration-time.svg and registration-memory.svg
    #[arg(long)]
    pictures: Option<PathBuf>,
    /// Writes the table there too, as Markdown
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Sizes up to that
    #[arg(long, default_value_t = 1_000_000)]
    up_to: u32,
    /// Registers one job in this process and prints samples
    #[arg(long, hide = true, num_args = 2, value_names = ["WHAT", "RANKS"])]
    one: Option<Vec<String>>,
}

/// Information about the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    Maps,
    /// Maps of other shapes than blocks.
    Cyclic,
    /// Ranks at random, by their numbers within a node.
    Random,
    /// Ranks at random, in no order at all.
    Shuffled,
    Keys,
    /// Keys as above, each rank's values handed over as they are. Only Rust can.
    Values,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Maps => "maps",
            What::Cyclic => "cyclic",
            What::Random => "random",
            What::Shuffled => "shuffled",
            What::Keys => "keys",
            What::Values => "values",
        }
    }

    fn words(self) -> &'static str {
        match self {
            What::Maps => "maps only",
            What::Cyclic => "maps only, ranks dealt to nodes by turns",
            What::Random => "maps only, ranks at random",
            What::Shuffled => "maps only, ranks at random and in no order",
            What::Keys => "11 keys a rank",
            What::Values => "11 keys a rank, streamed",
        }
    }
}

impl What {
    /// Options of the host in C, where it knows such jobs.
    fn option(self) -> Option<&'static str> {
        match self {
            What::Maps => Some(""),
            What::Keys => Some("-k"),
            What::Random => Some("-m random"),
            What::Shuffled => Some("-m shuffled"),
            What::Cyclic | What::Values => None,
        }
    }
}

/// Language and library that register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Rust,
    C,
    Stock,
}

impl Way {
    fn words(self) -> &'static str {
        match self {
            Way::Rust => "Instanton, Rust",
            Way::C => "Instanton, C",
            Way::Stock => "stock, C",
        }
    }
}

/// The parts of the table and the lines of the pictures.
const LINES: [(What, Way); 12] = [
    (What::Keys, Way::Stock),
    (What::Maps, Way::Stock),
    (What::Keys, Way::C),
    (What::Maps, Way::C),
    (What::Random, Way::C),
    (What::Shuffled, Way::C),
    (What::Keys, Way::Rust),
    (What::Maps, Way::Rust),
    (What::Cyclic, Way::Rust),
    (What::Random, Way::Rust),
    (What::Shuffled, Way::Rust),
    (What::Values, Way::Rust),
];

/// One line of the table.
struct Measured {
    way: Way,
    what: What,
    ranks: u32,
    time: f64,
    grows: f64,
    segments: Option<f64>,
}

/// In a process that does nothing else.
fn register_one(what: What, ranks: u32) -> anyhow::Result<()> {
    let blocks = Blocks { ranks, per_node: PER_NODE };
    let infos = match what {
        What::Maps => blocks.maps(),
        What::Cyclic => blocks.cyclic_maps(),
        What::Random => blocks.random_maps(SEED, true),
        What::Shuffled => blocks.random_maps(SEED, false),
        What::Keys => blocks.keys(),
        What::Values => Vec::new(),
    };
    let before = machine::resident().context("no /proc")?;
    let start = Instant::now();
    let writer = match what {
        What::Values => jobs::hand_over(blocks),
        _ => jobs::register(&infos, PER_NODE),
    };
    let took = start.elapsed().as_secs_f64() * 1e6;
    let after = machine::resident().context("no /proc")?;
    println!("time\t{took}\t0\ngrows\t{}\t0\nsegments\t{}\t0", after.saturating_sub(before), writer.stats().bytes);
    Ok(())
}

/// Returns the number of registrations, each by a new process; the medians are shown. One suffices where it takes long.
fn repeats(ranks: u32) -> u32 {
    if ranks <= STOCK_LIMIT { 3 } else { 1 }
}

fn rust(what: What, ranks: u32) -> anyhow::Result<Measured> {
    let mut samples = Samples::default();
    for _ in 0..repeats(ranks) {
        let output =
            Command::new(std::env::current_exe()?).args(["--one", what.name(), &ranks.to_string()]).output()?;
        ensure!(output.status.success(), "{ranks} ranks: {}", String::from_utf8_lossy(&output.stderr));
        samples.read("", &String::from_utf8(output.stdout)?)?;
    }
    let value = |row| samples.summary(row).map(|row| row.median);
    let (time, grows) = value("time").zip(value("grows")).context("no samples")?;
    Ok(Measured { way: Way::Rust, what, ranks, time, grows, segments: value("segments") })
}

fn c(way: Way, programs: &Programs, library: &Library, what: What, ranks: u32) -> anyhow::Result<Measured> {
    let option = what.option().context("no such job in C")?;
    let mut samples = Samples::default();
    for _ in 0..repeats(ranks) {
        programs.host(library, "", &format!("-n {ranks} -p {PER_NODE} {option}"), "", &mut samples)?;
    }
    let value = |row| samples.summary(row).map(|row| row.median);
    let (time, grows) = value("register").zip(value("server grows")).context("no samples")?;
    Ok(Measured { way, what, ranks, time, grows, segments: None })
}

/// Measures everything that there is a program, a library and the memory for.
fn measure(options: &Options) -> anyhow::Result<Vec<Measured>> {
    let ours = Library::new(&options.dist.join("lib/libpmix.so.2"), &[]);
    let stock = options.stock.as_ref().map(|file| Library::new(file, &[])).transpose()?;
    let programs = options.programs.as_ref().map(|folder| Programs { folder: folder.clone(), seed: 0 });
    let mut all = Vec::new();
    for what in [What::Maps, What::Cyclic, What::Random, What::Shuffled, What::Keys, What::Values] {
        for ranks in SIZES.into_iter().filter(|ranks| *ranks <= options.up_to) {
            all.push(rust(what, ranks)?);
            let Some(programs) = programs.as_ref().filter(|_| what.option().is_some()) else {
                continue;
            };
            let fits = what != What::Keys || ranks <= STOCK_LIMIT || machine::available() > Some(C_KEYS_NEED);
            if let (Ok(ours), true) = (&ours, fits) {
                all.push(c(Way::C, programs, ours, what, ranks)?);
            }
            if let (Some(stock), true) = (&stock, ranks <= STOCK_LIMIT && matches!(what, What::Maps | What::Keys)) {
                all.push(c(Way::Stock, programs, stock, what, ranks)?);
            }
        }
    }
    Ok(all)
}

const COLUMNS: [&str; 7] =
    ["", "time", "for each rank", "memory grows by", "for each rank", "segments", "for each rank"];

/// A part for each description and way.
fn rows(all: &[Measured]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (what, way) in LINES {
        let of: Vec<&Measured> = all.iter().filter(|one| one.way == way && one.what == what).collect();
        if !of.is_empty() {
            rows.push(vec![format!("{}, {}", way.words(), what.words())]);
        }
        rows.extend(of.into_iter().map(|one| {
            let each = f64::from(one.ranks);
            let memory = |bytes: Option<f64>| bytes.map_or("-".to_owned(), |bytes| Memory.show(bytes));
            vec![
                format!("{} ranks", count(one.ranks.into())),
                Time.show(one.time),
                Time.show(one.time / each),
                Memory.show(one.grows),
                Memory.show(one.grows / each),
                memory(one.segments),
                memory(one.segments.map(|bytes| bytes / each)),
            ]
        }));
    }
    rows
}

/// One line for each way and each description.
fn series(all: &[Measured], cost: impl Fn(&Measured) -> f64) -> Vec<Series> {
    // Other maps than those of blocks are told apart in the table, by ranks at random in the picture.
    let shown = LINES.into_iter().filter(|(what, way)| {
        !matches!(what, What::Cyclic | What::Shuffled) && (*what, *way) != (What::Random, Way::C)
    });
    let lines = shown.map(|(what, way)| {
        let of = all.iter().filter(|one| one.way == way && one.what == what);
        let points = of.map(|one| (one.ranks.into(), cost(one).max(1.0))).collect();
        Series { name: format!("{}, {}", way.words(), what.words()), points }
    });
    lines.filter(|series| !series.points.is_empty()).collect()
}

fn draw(all: &[Measured], folder: &Path) -> anyhow::Result<()> {
    let across = "ranks of the job, 32 on each node".to_owned();
    let title = "Registering a job: time".to_owned();
    let time = Chart { title, across: across.clone(), base: 10, unit: Time, series: series(all, |one| one.time) };
    fs::write(folder.join("registration-time.svg"), time.svg().map_err(anyhow::Error::from_boxed)?)?;
    let title = "Registering a job: resident memory that it adds".to_owned();
    let memory = Chart { title, across, base: 10, unit: Memory, series: series(all, |one| one.grows) };
    Ok(fs::write(folder.join("registration-memory.svg"), memory.svg().map_err(anyhow::Error::from_boxed)?)?)
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if let Some([what, ranks]) = options.one.as_deref() {
        let what = What::from_str(what, false).map_err(anyhow::Error::msg)?;
        return register_one(what, ranks.parse()?);
    }
    let all = measure(&options)?;
    let machine = format!("{}, {}.", machine::processor(), machine::kernel());
    print!("{}\n{machine}\n", grid::plain(&COLUMNS, &rows(&all)));
    if let Some(path) = &options.markdown {
        fs::write(path, format!("{machine}\n\n{}", grid::markdown(&COLUMNS, &rows(&all))))?;
    }
    if let Some(folder) = &options.pictures {
        draw(&all, folder)?;
    }
    Ok(())
}
