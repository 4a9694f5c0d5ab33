//! Costs of registering jobs of many shapes, against one of equal size in blocks: each shape in a process of its own.
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Parser;
use instanton::data::maps::{Form, NodeMap, ProcMap};
use instanton::data::{DataType, Info, Nspace, Value, keys};
use instanton::store::{BadJobInfo, Datum, JobInfoBuilder, JobWriter, Limits};
use instanton_benches::grid;
use instanton_benches::machine;
use instanton_benches::samples::Samples;
use instanton_benches::units::Unit::{Memory, Time};

#[derive(Parser)]
#[command(about = "Registers jobs of many shapes, and shows what each costs against blocks")]
struct Options {
    /// Ranks of each job
    #[arg(long, default_value_t = 1_000_000)]
    ranks: u32,
    /// Number of registrations of each; the medians are shown
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Says eleven keys of each rank as well
    #[arg(long)]
    keys: bool,
    /// Registers one job in this process and prints samples
    #[arg(long, hide = true)]
    one: Option<String>,
    /// Writes the two maps of that job instead, as the files nodes and processes of this folder
    #[arg(long, hide = true)]
    write: Option<PathBuf>,
}

/// Names of nodes, and the ranks of each.
struct Shape {
    words: &'static str,
    name: fn(u32) -> String,
    nodes: fn(u32) -> u32,
    /// The ranks of a node, of so many ranks and nodes.
    on: fn(u32, u32, u32) -> Vec<u32>,
    form: Form,
}

/// Ranks of a node in all of them but a few.
const BLOCK: u32 = 32;

fn padded(node: u32) -> String {
    format!("node{node:07}")
}

fn block(ranks: u32, nodes: u32, node: u32) -> Vec<u32> {
    let size = ranks.div_ceil(nodes);
    (ranks.min(node * size)..ranks.min((node + 1) * size)).collect()
}

/// A block of which each rank has become another one, far away.
fn scattered(ranks: u32, nodes: u32, node: u32) -> Vec<u32> {
    // Odd, and no multiple of 5: each number of ranks in the table has one place for each.
    let far = |rank: u32| (u64::from(rank) * 618_033_989 % u64::from(ranks)) as u32;
    block(ranks, nodes, node).into_iter().map(far).collect()
}

/// Names that have nothing in common.
fn patternless(node: u32) -> String {
    let mixed = u64::from(node + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..12).map(|at| char::from(b'a' + (mixed >> (5 * at) & 15) as u8)).collect()
}

fn shapes() -> Vec<Shape> {
    let blocks = |ranks: u32| ranks.div_ceil(BLOCK);
    let usual = Shape { words: "blocks", name: padded, nodes: blocks, on: block, form: Form::Bracket };
    let shape = |words| Shape { words, ..usual };
    vec![
        shape("blocks"),
        Shape { form: Form::Raw, ..shape("blocks, every name and rank") },
        Shape { nodes: |ranks| ranks, ..shape("a node each") },
        Shape { nodes: |ranks| ranks, form: Form::Raw, ..shape("a node each, every name and rank") },
        Shape { nodes: |ranks| ranks / 2, ..shape("two a node") },
        Shape { nodes: |_| 1, ..shape("one node") },
        Shape { nodes: |_| 1, form: Form::Raw, ..shape("one node, every rank") },
        Shape { on: |ranks, nodes, node| block(ranks, nodes, nodes - 1 - node), ..shape("blocks from the last") },
        Shape {
            on: |ranks, nodes, node| {
                let begin = |node: u32| ranks.min(node / 2 * 64 + node % 2 * 16);
                (begin(node)..if node + 1 == nodes { ranks } else { begin(node + 1) }).collect()
            },
            ..shape("16 and 48 by turns")
        },
        Shape { on: |ranks, nodes, node| (node..ranks).step_by(nodes as usize).collect(), ..shape("cyclic") },
        Shape {
            on: |ranks, nodes, node| {
                let mut on_it = scattered(ranks, nodes, node);
                on_it.sort_unstable();
                on_it
            },
            ..shape("scattered, in order")
        },
        Shape { on: scattered, ..shape("scattered") },
        Shape {
            on: |ranks, nodes, node| block(ranks, nodes, node).into_iter().filter(|rank| rank % 3 == 0).collect(),
            ..shape("every third rank")
        },
        Shape {
            nodes: |ranks| ranks,
            on: |ranks, nodes, node| {
                if node % BLOCK == 0 { block(ranks, nodes / BLOCK, node / BLOCK) } else { Vec::new() }
            },
            ..shape("31 of 32 nodes idle")
        },
        Shape { name: |node| format!("n{node}"), ..shape("names of several widths") },
        Shape { name: |node| format!("n{node}"), nodes: |ranks| ranks, ..shape("a node each, of several widths") },
        Shape { name: patternless, ..shape("names without a pattern") },
        Shape { name: patternless, nodes: |ranks| ranks, ..shape("a node each, without a pattern") },
        Shape { name: |node| format!("r{}n{:02}", node / 40, node % 40), ..shape("racks") },
        Shape {
            name: |node| format!("r{}n{:02}", node / 40, node % 40),
            nodes: |ranks| ranks,
            ..shape("a node each, in racks")
        },
    ]
}

impl Shape {
    /// The node map and the process map.
    fn maps(&self, ranks: u32) -> anyhow::Result<[String; 2]> {
        let nodes = (self.nodes)(ranks);
        let names = NodeMap::from_names((0..nodes).map(self.name))?.to_text(self.form);
        let ranks = ProcMap::from_ranks((0..nodes).map(|node| (self.on)(ranks, nodes, node)))?.to_text(self.form);
        Ok([String::from_utf8(names)?, String::from_utf8(ranks)?])
    }
}

impl Shape {
    /// Says of each rank what resource managers say.
    fn speak_of_all(&self, ranks: u32, job: &mut JobInfoBuilder) -> Result<(), BadJobInfo> {
        let number = |value: u32| Datum::Scalar(DataType::UINT32, value.into());
        let small = |value: usize| Datum::Scalar(DataType::UINT16, value as u64);
        let nodes = (self.nodes)(ranks);
        for node in 0..nodes {
            let host = (self.name)(node);
            for (local, rank) in (self.on)(ranks, nodes, node).into_iter().enumerate() {
                let cpus = format!("{}-{}", 2 * local, 2 * local + 1);
                let values = [
                    (keys::APPNUM, number(0)),
                    (keys::GLOBAL_RANK, Datum::Scalar(DataType::PROC_RANK, rank.into())),
                    (keys::APP_RANK, Datum::Scalar(DataType::PROC_RANK, rank.into())),
                    (keys::LOCAL_RANK, small(local)),
                    (keys::NODE_RANK, small(local)),
                    (keys::NODEID, number(node)),
                    (keys::HOSTNAME, Datum::Text(Some(host.as_bytes()))),
                    (keys::REINCARNATION, number(0)),
                    (keys::PACKAGE_RANK, small(local % 16)),
                    (keys::CPUSET, Datum::Text(Some(cpus.as_bytes()))),
                    (keys::LOCALITY_STRING, Datum::Text(Some(cpus.as_bytes()))),
                ];
                job.process(rank, values.into_iter().map(|(key, value)| (key.as_bytes(), value)))?;
            }
        }
        Ok(())
    }
}

#[inline(never)]
fn register(shape: &Shape, options: &Options, infos: &[Info], local: u32) -> anyhow::Result<JobWriter> {
    let nspace = Nspace::try_from("bench@1")?;
    let mut job = JobInfoBuilder::new(&nspace, local, "here");
    job.infos(infos)?;
    if options.keys {
        shape.speak_of_all(options.ranks, &mut job)?;
    }
    Ok(JobWriter::create(&nspace, job.build()?, &Limits::default())?)
}

/// In a process that does nothing else.
fn register_one(shape: &Shape, options: &Options) -> anyhow::Result<()> {
    let ranks = options.ranks;
    let [nodes, processes] = shape.maps(ranks)?;
    let infos = [
        Info::new(keys::JOB_SIZE, ranks),
        Info::new(keys::NODE_MAP, Value::from(&nodes[..])),
        Info::new(keys::PROC_MAP, Value::from(&processes[..])),
        Info::new(keys::HOSTNAME, (shape.name)(0)),
    ];
    drop((nodes, processes));
    let local = (shape.on)(ranks, (shape.nodes)(ranks), 0).len() as u32;
    machine::forget_peak()?;
    let before = machine::resident().context("no /proc")?;
    let start = Instant::now();
    let writer = register(shape, options, &infos, local)?;
    let took = start.elapsed().as_secs_f64() * 1e6;
    let (peak, after) = machine::peak().zip(machine::resident()).context("no /proc")?;
    println!("time\t{took}\t0\npeak\t{}\t0", peak.saturating_sub(before));
    println!("grows\t{}\t0\nsegments\t{}\t0", after.saturating_sub(before), writer.stats().bytes);
    Ok(())
}

/// The medians of several processes: time, peak, what stays, segments.
fn measure(shape: &Shape, options: &Options) -> anyhow::Result<[f64; 4]> {
    let mut samples = Samples::default();
    for _ in 0..options.repeats {
        let one = ["--one", shape.words, "--ranks", &options.ranks.to_string()];
        let keys = options.keys.then_some("--keys");
        let output = Command::new(std::env::current_exe()?).args(one).args(keys).output()?;
        ensure!(output.status.success(), "{}: {}", shape.words, String::from_utf8_lossy(&output.stderr));
        samples.read("", &String::from_utf8(output.stdout)?)?;
    }
    let mut all = [0.0; 4];
    for (value, row) in all.iter_mut().zip(["time", "peak", "grows", "segments"]) {
        *value = samples.summary(row).context("no samples")?.median;
    }
    Ok(all)
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let shapes = shapes();
    if let Some(words) = &options.one {
        let shape = shapes.iter().find(|shape| shape.words == words).context("no such shape")?;
        let Some(folder) = &options.write else { return register_one(shape, &options) };
        let [nodes, processes] = shape.maps(options.ranks)?;
        fs::write(folder.join("nodes"), nodes)?;
        return Ok(fs::write(folder.join("processes"), processes)?);
    }
    let (mut rows, mut blocks) = (Vec::new(), None);
    for shape in &shapes {
        let [time, peak, grows, segments] = measure(shape, &options)?;
        let ratio = time / *blocks.get_or_insert(time);
        let memory = [peak, grows, segments].map(|bytes| Memory.show(bytes));
        rows.push([vec![shape.words.to_owned(), Time.show(time), format!("{ratio:.1}")], memory.to_vec()].concat());
    }
    let columns = ["", "time", "of blocks", "memory at most", "memory grows by", "segments"];
    print!("{}", grid::plain(&columns, &rows));
    Ok(())
}
