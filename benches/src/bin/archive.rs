//! Job information as one rkyv archive, beside the info segment of the store: bytes, attach, look-up.
//!
//! Three shapes of archive are measured, from the one that is written down first to the one that comes nearest to the
//! store:
//!
//! - a map for each rank: a hash map from key to value for the job and for each of its ranks;
//! - a column for each key: for each rank a cell that holds a number or a text;
//! - typed columns: for each key an array of plain integers, and each different text once.
//!
//! All of them are built from the same attributes as the segment, lie in memory that is mapped already, and are
//! attached with [`rkyv::access`], which checks the whole archive. Access without that check is not measured: on bytes
//! that a process has not checked itself it is undefined behaviour. The store's attach includes its system calls and
//! page faults.
use std::collections::{BTreeMap, HashMap};
use std::hint::black_box;
use std::time::Instant;

use anyhow::{bail, ensure};
use clap::Parser;
use instanton::data::{Info, Rank, Value, keys};
use instanton::store::Question;
use instanton_benches::grid;
use instanton_benches::jobs::{self, Blocks};
use instanton_benches::machine;
use instanton_benches::units::Unit::{Memory, Time};
use instanton_benches::units::count;
use rkyv::rancor::Error;
use rkyv::util::AlignedVec;
use rkyv::{Archive, Serialize};

const PER_NODE: u32 = 32;

/// Look-ups that are timed together; a single one is too short for the clock.
const LOOKUPS: u32 = 20_000;

#[derive(Parser)]
#[command(about = "Compares job information in one rkyv archive with that in the store's segments")]
struct Options {
    /// Sizes of the jobs
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
    ranks: Vec<u32>,
    /// Number of attaches and of rounds of look-ups; the best are shown
    #[arg(long, default_value_t = 31)]
    repeats: u32,
}

#[derive(Debug, Clone, PartialEq, Archive, Serialize)]
enum Cell {
    Absent,
    Small(u16),
    Number(u32),
    Text(String),
}

#[derive(Archive, Serialize)]
struct MapsOfRanks {
    job: HashMap<String, Cell>,
    ranks: Vec<HashMap<String, Cell>>,
}

#[derive(Archive, Serialize)]
struct Columns {
    job: HashMap<String, Cell>,
    columns: HashMap<String, Vec<Cell>>,
}

#[derive(Archive, Serialize)]
enum Column {
    Small(Vec<u16>),
    Number(Vec<u32>),
    /// Indexes of texts.
    Text(Vec<u32>),
}

#[derive(Archive, Serialize)]
struct TypedColumns {
    job: HashMap<String, Cell>,
    columns: HashMap<String, Column>,
    texts: Vec<String>,
}

/// Cells of the job, and of each rank in the order of the ranks.
struct Cells {
    job: HashMap<String, Cell>,
    ranks: Vec<HashMap<String, Cell>>,
}

impl Cells {
    fn of(infos: &[Info]) -> anyhow::Result<Self> {
        let mut cells = Cells { job: HashMap::new(), ranks: Vec::new() };
        for info in infos {
            match &info.value {
                Value::DataArray(array) => cells.ranks.push(array.infos().map(entry).collect::<Result<_, _>>()?),
                _ => {
                    let (key, cell) = entry(info)?;
                    cells.job.insert(key, cell);
                }
            }
        }
        Ok(cells)
    }

    fn columns(&self) -> HashMap<String, Vec<Cell>> {
        let mut columns: HashMap<String, Vec<Cell>> = HashMap::new();
        for (rank, cells) in self.ranks.iter().enumerate() {
            for (key, cell) in cells {
                let column = columns.entry(key.clone()).or_insert_with(|| vec![Cell::Absent; self.ranks.len()]);
                column[rank] = cell.clone();
            }
        }
        columns
    }

    fn typed_columns(&self) -> anyhow::Result<TypedColumns> {
        let (mut texts, mut places) = (Vec::new(), BTreeMap::new());
        let mut columns = HashMap::new();
        for (key, cells) in self.columns() {
            let (mut small, mut number, mut text) = (Vec::new(), Vec::new(), Vec::new());
            for cell in cells {
                match cell {
                    Cell::Small(value) => small.push(value),
                    Cell::Number(value) => number.push(value),
                    Cell::Text(value) => text.push(*places.entry(value).or_insert_with_key(|value| {
                        texts.push(value.clone());
                        texts.len() as u32 - 1
                    })),
                    Cell::Absent => bail!("{key} of some ranks only"),
                }
            }
            let column = match (small.len(), number.len(), text.len()) {
                (_, 0, 0) => Column::Small(small),
                (0, _, 0) => Column::Number(number),
                (0, 0, _) => Column::Text(text),
                _ => bail!("{key} has values of several types"),
            };
            columns.insert(key, column);
        }
        Ok(TypedColumns { job: self.job.clone(), columns, texts })
    }
}

fn entry(info: &Info) -> anyhow::Result<(String, Cell)> {
    let cell = match &info.value {
        Value::Uint16(value) => Cell::Small(*value),
        Value::Uint32(value) => Cell::Number(*value),
        Value::ProcRank(rank) => Cell::Number(rank.0),
        Value::String(Some(text)) => Cell::Text(text.to_string_lossy().into_owned()),
        other => bail!("no cell for {other:?}"),
    };
    Ok((String::from_utf8(info.key.as_bytes().to_vec())?, cell))
}

/// A timed operation.
#[derive(Clone, Copy)]
enum What {
    Attach,
    Number,
    Text,
}

/// The costs of one form of the information about one job: of several rounds the best, whatever else the machine does.
struct Measured {
    bytes: u64,
    best: [f64; 3],
}

impl Measured {
    fn new(bytes: u64) -> Self {
        Measured { bytes, best: [f64::INFINITY; 3] }
    }

    fn push(&mut self, what: What, start: Instant, turns: u32) {
        let took = start.elapsed().as_secs_f64() * 1e6 / f64::from(turns);
        let best = &mut self.best[what as usize];
        *best = best.min(took);
    }

    fn row(&self, words: &str, ranks: u32) -> Vec<String> {
        let each = format!("{:.1} B", self.bytes as f64 / f64::from(ranks));
        let times = self.best.map(|best| Time.show(best));
        [vec![words.to_owned(), Memory.show(self.bytes as f64), each], times.to_vec()].concat()
    }
}

/// Ranks far from each other, one after the other.
fn next(rank: u32, ranks: u32) -> u32 {
    (rank + 61_803) % ranks
}

/// A look-up: the key as a string, the value copied out.
fn look_up(ranks: u32, repeats: u32, measured: &mut Measured, get: impl Fn(u32, &str) -> usize) {
    for (what, key) in [(What::Number, keys::PACKAGE_RANK), (What::Text, keys::LOCALITY_STRING)] {
        for _ in 0..repeats {
            let (mut rank, start) = (0, Instant::now());
            for _ in 0..LOOKUPS {
                rank = next(rank, ranks);
                black_box(get(rank, black_box(key)));
            }
            measured.push(what, start, LOOKUPS);
        }
    }
}

fn touch(text: &str) -> usize {
    let mut copy = [0u8; 64];
    let len = text.len().min(copy.len());
    copy[..len].copy_from_slice(&text.as_bytes()[..len]);
    black_box(&copy);
    len
}

fn value(cell: &ArchivedCell) -> usize {
    match cell {
        ArchivedCell::Absent => 0,
        ArchivedCell::Small(value) => value.to_native().into(),
        ArchivedCell::Number(value) => value.to_native() as usize,
        ArchivedCell::Text(text) => touch(text),
    }
}

/// Attaches as often as asked, then looks up in the last one.
macro_rules! measure {
    ($bytes:expr, $archived:ty, $options:expr, $ranks:expr, $get:expr) => {{
        let bytes: &AlignedVec = &$bytes;
        let mut measured = Measured::new(bytes.len() as u64);
        for _ in 0..$options.repeats {
            let start = Instant::now();
            black_box(rkyv::access::<$archived, Error>(black_box(bytes))?);
            measured.push(What::Attach, start, 1);
        }
        let archive = rkyv::access::<$archived, Error>(bytes)?;
        look_up($ranks, $options.repeats, &mut measured, |rank, key| $get(archive, rank, key));
        measured
    }};
}

fn store(infos: &[Info], ranks: u32, options: &Options) -> anyhow::Result<Measured> {
    let mut writer = jobs::register(infos, PER_NODE);
    let mut measured = Measured::new(writer.stats().bytes);
    for _ in 0..options.repeats {
        let start = Instant::now();
        black_box(jobs::reader(&mut writer));
        measured.push(What::Attach, start, 1);
    }
    let reader = jobs::reader(&mut writer);
    ensure!(reader.contains(&Question::new(Rank(ranks - 1), keys::LOCALITY_STRING))?, "the last rank has no locality");
    look_up(ranks, options.repeats, &mut measured, |rank, key| {
        let read = reader.read(&Question::new(Rank(rank), key), |value| {
            let mut copy = [std::mem::MaybeUninit::<u8>::uninit(); 64];
            match value.scalar() {
                Some(number) => number as usize,
                None => value.copy_to(&mut copy[..value.len().min(64)]),
            }
        });
        read.expect("every rank has both keys")
    });
    Ok(measured)
}

fn measure(ranks: u32, options: &Options) -> anyhow::Result<Vec<Vec<String>>> {
    let infos = Blocks { ranks, per_node: PER_NODE }.keys();
    let mut rows = vec![vec![format!("{} ranks", count(ranks.into()))]];
    rows.push(store(&infos, ranks, options)?.row("info segment", ranks));

    let Cells { job, ranks: of_ranks } = Cells::of(&infos)?;
    let maps = MapsOfRanks { job, ranks: of_ranks };
    let bytes = rkyv::to_bytes::<Error>(&maps)?;
    let get = |archive: &ArchivedMapsOfRanks, rank, key: &str| {
        archive.ranks.get(rank as usize).and_then(|cells| cells.get(key)).map_or(0, value)
    };
    rows.push(measure!(bytes, ArchivedMapsOfRanks, options, ranks, get).row("archive, a map for each rank", ranks));
    drop(bytes);

    let cells = Cells { job: maps.job, ranks: maps.ranks };
    let bytes = rkyv::to_bytes::<Error>(&Columns { job: cells.job.clone(), columns: cells.columns() })?;
    let get = |archive: &ArchivedColumns, rank, key: &str| {
        archive.columns.get(key).and_then(|column| column.get(rank as usize)).map_or(0, value)
    };
    rows.push(measure!(bytes, ArchivedColumns, options, ranks, get).row("archive, a column for each key", ranks));
    drop(bytes);

    let bytes = rkyv::to_bytes::<Error>(&cells.typed_columns()?)?;
    let get = |archive: &ArchivedTypedColumns, rank, key: &str| {
        let rank = rank as usize;
        match archive.columns.get(key) {
            Some(ArchivedColumn::Small(values)) => values.get(rank).map_or(0, |value| value.to_native().into()),
            Some(ArchivedColumn::Number(values)) => values.get(rank).map_or(0, |value| value.to_native() as usize),
            Some(ArchivedColumn::Text(values)) => {
                let text = values.get(rank).and_then(|text| archive.texts.get(text.to_native() as usize));
                text.map_or(0, |text| touch(text))
            }
            None => 0,
        }
    };
    rows.push(measure!(bytes, ArchivedTypedColumns, options, ranks, get).row("archive, typed columns", ranks));
    Ok(rows)
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let mut rows = Vec::new();
    for &ranks in &options.ranks {
        rows.extend(measure(ranks, &options)?);
    }
    println!("{}, {}", machine::processor(), machine::kernel());
    print!("{}", grid::plain(&["", "bytes", "a rank", "attach", "look-up, number", "look-up, text"], &rows));
    Ok(())
}
