//! One table of what PMIx costs: this library beside the stock one, the same programs in the same run.
//!
//! `make bench` builds all of it and runs this.
mod measure;
mod rows;
mod seen;
mod summary;
mod zero_copy;

use std::fs;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use instanton_benches::machine;
use instanton_benches::run::{Library, Programs};
use instanton_benches::samples::Samples;
use instanton_benches::units::Unit;

/// A part that can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Stock servers with the plug-in.
    Plugged,
    /// Clients on the stock library, under a server on ours and under their own.
    StockClients,
}

#[derive(Parser)]
#[command(about = "Prints one table: this library beside the stock one")]
struct Options {
    /// Folder of the release
    #[arg(long, default_value = "dist")]
    dist: PathBuf,
    /// Folder of the compiled programs of benches/c
    #[arg(long, required_unless_present = "in_place")]
    programs: Option<PathBuf>,
    /// An MPI program that says how long the slowest MPI_Init took; without it those rows are left out
    #[arg(long)]
    mpi: Option<PathBuf>,
    /// The same program of MPICH, and its own launcher; without them those rows are left out
    #[arg(long, num_args = 2, value_names = ["PROGRAM", "MPIEXEC"])]
    mpich: Option<Vec<PathBuf>>,
    /// The library to compare with
    #[arg(long, required_unless_present = "in_place")]
    stock: Option<PathBuf>,
    /// Name of that library in the table
    #[arg(long, default_value = "the stock library")]
    stock_name: String,
    /// Writes the table there too, as Markdown
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Folder for a picture, times.svg, and for its words, summary.md
    #[arg(long)]
    summary: Option<PathBuf>,
    /// Folder in which `scripts/suite` has unpacked later suites
    #[arg(long)]
    suites: Option<PathBuf>,
    /// Seed of everything that is chosen at random
    #[arg(long, default_value_t = 20_261_120)]
    seed: u64,
    /// Registers a million ranks with the stock library too, which takes it half a minute and gigabytes
    #[arg(long)]
    stock_million: bool,
    /// Measures this part, and nothing else
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
    /// A tenth of the samples: to see whether everything runs, not what it costs
    #[arg(long)]
    quick: bool,
    /// Reads in place only, so many times each, and prints medians: to be watched by a profiler
    #[arg(long, hide = true)]
    in_place: Option<u32>,
}

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    if let Some(calls) = options.in_place {
        let mut samples = Samples::default();
        zero_copy::measure(calls, &mut samples);
        for row in samples.rows("") {
            let summary = samples.summary(&row).expect("a row has samples");
            println!("{row}\t{:.1} ns", summary.median * 1e3);
        }
        return Ok(());
    }
    let instanton = options.dist.join("bin/instanton").display().to_string();
    let plan = measure::Plan {
        programs: Programs { folder: options.programs.unwrap_or_default().canonicalize()?, seed: options.seed },
        ours: Library::new(&options.dist.join("lib/libpmix.so.2"), &[&instanton, "run"])?,
        stock: Library::new(&options.stock.unwrap_or_default(), &["mpirun.openmpi", "--oversubscribe"])?,
        suites: options.suites.unwrap_or_default(),
        plugin: options.dist.join("lib/instanton").canonicalize()?,
        mpi: options.mpi.map(|path| path.canonicalize()).transpose()?,
        mpich: options.mpich,
        divisor: if options.quick { 10 } else { 1 },
        stock_million: options.stock_million,
        only: options.only,
    };
    let measured = plan.measure();
    let table = rows::table(&measured, plan.only);
    let (reached, targets) = table.reached();
    let notes = [
        format!("{}, {}; stock is {}.", machine::processor(), machine::kernel(), options.stock_name),
        format!("Seed of all random choices: {}.", options.seed),
        format!(
            "A reading of the clock takes {}; it is part of every time. A time of a Get is the mean of 6 calls one after \
             another, and p99 is of such means.",
            Unit::Time.show(machine::clock_overhead())
        ),
        format!("{reached} of {targets} rows that have a target reach it in this run."),
    ];
    print!("\n{}\n{}\n", table.plain(), notes.join("\n"));
    if let Some(path) = options.markdown {
        let missed: String = table.missed().iter().map(|row| format!("- {row}\n")).collect();
        let (notes, table) = (notes.join("\n"), table.markdown());
        fs::write(path, format!("{notes}\n\n{table}\n### Rows that miss their target\n\n{missed}"))?;
    }
    if let Some(folder) = options.summary.filter(|_| plan.only.is_none()) {
        fs::write(folder.join("summary.md"), summary::lines(&measured))?;
        fs::write(folder.join("times.svg"), summary::picture(&measured)?)?;
    }
    Ok(())
}
