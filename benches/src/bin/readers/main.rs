//! Readers on every core, beside a writer that publishes as fast as it can: does a reader slow another one, or wait?
//!
//! Each reader is bound to a core of its own, the first to the first; the writer is bound to the last one, which it
//! shares with a reader only when there are as many readers as cores. Readers are threads that share a mapping, or
//! processes that have one each. A reader counts what it has read in a given time, and what the kernel says it ran
//! meanwhile.
mod cores;
mod reader;
mod writer;

use std::fs;
use std::path::PathBuf;

use clap::Parser;
use instanton_benches::chart::{Chart, Series};
use instanton_benches::jobs::{self, Blocks};
use instanton_benches::units::Unit::{Rate, Time};
use instanton_benches::{grid, machine};

use crate::cores::Cores;
use crate::reader::{Done, Kind, Place};
use crate::writer::Writer;

/// Small enough that no growth of the job disturbs: what is measured is one record read while another one is written.
const JOB: Blocks = Blocks { ranks: 64, per_node: 64 };

#[derive(Parser)]
#[command(about = "Readers on every core, beside a writer that publishes as fast as it can")]
struct Options {
    /// Number of readers at most; by default one on each core
    #[arg(long)]
    readers: Option<usize>,
    /// Seconds that each measurement takes
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Seed of the ranks that are read
    #[arg(long, default_value_t = 20_261_120)]
    seed: u64,
    /// Folder for the picture readers.svg, which takes more than two readers
    #[arg(long)]
    pictures: Option<PathBuf>,
    /// Writes the table there too, as Markdown
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Is one of the readers: maps these files, waits for the end of its standard input, reads, and says what it did
    #[arg(long, hide = true)]
    child: Option<Place>,
    #[arg(hide = true)]
    files: Vec<PathBuf>,
}

/// One line of the table.
struct Measured {
    kind: Kind,
    readers: usize,
    updates: Option<f64>,
    done: Vec<Done>,
}

impl Measured {
    fn reads_per_second(&self) -> f64 {
        self.done.iter().map(Done::rate).sum()
    }

    fn beside(&self) -> &'static str {
        if self.updates.is_some() { BESIDE } else { "" }
    }

    fn cells(&self) -> Vec<String> {
        let sum = |of: fn(&Done) -> u64| self.done.iter().map(of).sum::<u64>();
        let slowest = self.done.iter().map(Done::rate).fold(f64::INFINITY, f64::min);
        let cpu = self.done.iter().map(|done| done.cpu_us).sum::<f64>() / sum(|done| done.reads) as f64;
        vec![
            format!("{} {}{}", self.readers, if self.readers == 1 { "reader" } else { "readers" }, self.beside()),
            self.updates.map_or("-".to_owned(), |updates| Rate.show(updates)),
            Rate.show(self.reads_per_second()),
            Rate.show(slowest),
            Time.show(cpu),
            sum(|done| done.again).to_string(),
            sum(|done| done.wrong).to_string(),
        ]
    }
}

const BESIDE: &str = ", busy writer";

const COLUMNS: [&str; 7] =
    ["", "updates", "reads of all", "of the slowest", "core time a read", "had to ask", "read wrongly"];

/// 1, 2, 4, ... and as many as there may be.
fn counts(most: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < most).collect();
    counts.push(most);
    counts
}

fn measure(options: &Options, cores: &Cores) -> anyhow::Result<Vec<Measured>> {
    let most = options.readers.unwrap_or(cores.count()).max(1);
    let mut all = Vec::new();
    for kind in Kind::ALL {
        for busy in [false, true] {
            for readers in counts(most) {
                let places =
                    (0..readers).map(|core| Place { kind, core, seconds: options.seconds, seed: options.seed });
                let mut writer = Writer::new(jobs::posting_small(JOB));
                let (done, updates) = kind.run(&mut writer, places.collect(), busy, cores)?;
                all.push(Measured { kind, readers, updates, done });
            }
        }
    }
    Ok(all)
}

fn rows(all: &[Measured]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        rows.push(vec![kind.words().to_owned()]);
        rows.extend(all.iter().filter(|one| one.kind == kind).map(Measured::cells));
    }
    rows
}

fn picture(all: &[Measured]) -> Chart {
    let line = |(kind, busy): (Kind, bool)| {
        let of = all.iter().filter(|one| one.kind == kind && one.updates.is_some() == busy);
        let beside = if busy { BESIDE } else { "" };
        Series {
            name: format!("{}{beside}", kind.short()),
            points: of.map(|one| (one.readers as f64, one.reads_per_second())).collect(),
        }
    };
    Chart {
        title: format!("Reads of 64 bytes, all readers together: {}", machine::processor()),
        across: "readers, each on a core of its own".to_owned(),
        base: 2,
        unit: Rate,
        series: Kind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]).map(line).collect(),
    }
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let cores = Cores::new()?;
    if let Some(place) = &options.child {
        return reader::be_child(place, &options.files, &cores);
    }
    let all = measure(&options, &cores)?;
    let notes = format!(
        "{}, {}; {} seconds each; seed {}.",
        machine::processor(),
        machine::kernel(),
        options.seconds,
        options.seed
    );
    print!("{}\n{notes}\n", grid::plain(&COLUMNS, &rows(&all)));
    if let Some(path) = &options.markdown {
        fs::write(path, format!("{notes}\n\n{}", grid::markdown(&COLUMNS, &rows(&all))))?;
    }
    if let Some(folder) = &options.pictures {
        // Two points show no line.
        match all.iter().map(|one| one.readers).max() {
            Some(0..=2) | None => println!("no picture: it takes more than two readers, each on a core of its own"),
            _ => fs::write(folder.join("readers.svg"), picture(&all).svg().map_err(anyhow::Error::from_boxed)?)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_double_and_end_with_all() {
        assert_eq!(counts(1), [1]);
        assert_eq!(counts(2), [1, 2]);
        assert_eq!(counts(6), [1, 2, 4, 6]);
        assert_eq!(counts(16), [1, 2, 4, 8, 16]);
    }
}
