//! Runs and their order. Each measurement is made with one library right after the other, so that a machine that
//! becomes busy meanwhile spoils both.
use std::path::{Path, PathBuf};
use std::process::Command;

use instanton::internal::stock::SERVED;
use instanton_benches::run::{Library, Programs, RunError};
use instanton_benches::samples::Samples;
use instanton_benches::up::{Up, timed};

use crate::{Part, seen, zero_copy};

/// Everything a run needs.
pub struct Plan {
    pub programs: Programs,
    pub ours: Library,
    pub stock: Library,
    /// Folder with later suites of Debian.
    pub suites: PathBuf,
    /// Folder of the plug-in for stock servers.
    pub plugin: PathBuf,
    pub mpi: Option<PathBuf>,
    /// A program of MPICH, and its own launcher.
    pub mpich: Option<Vec<PathBuf>>,
    /// Factor of all counts.
    pub divisor: u32,
    pub stock_million: bool,
    /// Part that is measured, where that is not everything.
    pub only: Option<Part>,
}

/// The samples of each library, rows named `CONFIGURATION/WHAT`.
#[derive(Default)]
pub struct Measured {
    pub ours: Samples,
    pub stock: Samples,
}

/// In how many turns fences are measured.
const FENCE_TURNS: u32 = 10;
/// Turns of two servers with many stock clients.
const STOCK_TURNS: u32 = 10;
/// The same with two clients: short, and the kernel decides in each anew by which core they share what.
const TURNS_OF_TWO: u32 = 40;
/// Turns of a server with the plug-in and without.
const PLUGGED_TURNS: u32 = 5;
/// Sizes of the jobs that a server with the plug-in registers.
pub const PLUGGED: [u32; 2] = [10_000, 100_000];
/// Numbers of clients for what depends on them.
pub const CLIENTS: [u32; 4] = [1, 2, 8, 32];
/// Ranks of a job of MPICH.
pub const MPICH: u32 = 4;
/// Ranks of a job of many.
pub const MANY: u32 = 300;
/// A program that does nothing.
const PROGRAM: &str = "/bin/true";
/// Numbers of clients on the stock library.
pub const STOCK_CLIENTS: [u32; 2] = [2, 32];

impl Plan {
    /// Runs everything, or a part. A program that fails is reported and left out.
    pub fn measure(&self) -> Measured {
        let mut measured = Measured::default();
        match self.only {
            None => self.all(&mut measured),
            Some(Part::Plugged) => self.plugged(&mut measured),
            Some(Part::StockClients) => self.stock_clients(&mut measured),
        }
        measured
    }

    fn all(&self, measured: &mut Measured) {
        self.gets(measured);
        for clients in CLIENTS {
            self.clients(measured, clients);
        }
        self.stock_clients(measured);
        self.registrations(measured);
        self.helpers(measured);
        self.launchers(measured);
        self.control(measured);
        say(self.persistent(&mut measured.ours));
        say(self.seen(&mut measured.ours));
        self.plugged(measured);
    }

    /// Calls back for each release of the stock library that the plug-in serves and that is here.
    fn each_release(&self, mut measure: impl FnMut(&Library, &str)) {
        let suites = ["trixie", "testing"].map(|suite| Library::of_suite(&self.suites.join(suite)));
        let suites: Vec<_> =
            suites.into_iter().filter_map(|found| found.map_err(|error| say(Err(error))).ok()).collect();
        for release in SERVED {
            let name = format!("{release} (");
            if let Some(stock) = std::iter::once(&self.stock).chain(&suites).find(|library| library.says(&name)) {
                measure(stock, release);
            }
        }
    }

    /// A stock server with the plug-in and clients of ours, and with stock clients; beside the stock library alone.
    fn plugged(&self, measured: &mut Measured) {
        self.each_release(|stock, release| self.plugged_into(stock, release, measured));
    }

    fn plugged_into(&self, stock: &Library, release: &str, measured: &mut Measured) {
        let clients = [("ours", &self.ours), ("stock", stock)];
        let plugged = clients.map(|(name, clients)| (name, stock.with_plugin(&self.plugin, clients)));
        let mut beside = |part: &str, options: &str, client: &str| {
            for (name, library) in &plugged {
                let prefix = format!("plug {release}/{name}/{part}");
                say(self.programs.host(library, &prefix, options, client, &mut measured.ours));
            }
            let prefix = format!("plug {release}/{part}");
            say(self.programs.host(stock, &prefix, options, client, &mut measured.stock));
        };
        beside("", "-n 8 -c 8 -k", &format!("gets {}", 20_000 / self.divisor));
        beside("2/", "-n 2 -c 2 -k", &format!("writes {}", 500 / self.divisor));
        // The clients of a job lie on their cores as they happen to, and a server registers one job: one run says little.
        for _ in 0..(PLUGGED_TURNS / self.divisor).max(1) {
            beside("8/", "-n 8 -c 8 -k -s", &format!("fences {} {FENCE_TURNS}", 20 / self.divisor));
            for ranks in PLUGGED {
                beside(&format!("{ranks}/alone/"), &format!("-n {ranks} -c 1 -k"), "");
            }
        }
        for ranks in PLUGGED {
            beside(&format!("{ranks}/"), &format!("-n {ranks} -c 1 -k"), "init get");
        }
    }

    fn gets(&self, measured: &mut Measured) {
        let calls = 20_000 / self.divisor;
        self.both(measured, "8/", "-n 8 -c 8 -k", &format!("gets {calls}"));
        self.both(measured, "32/", "-n 32 -c 32 -k", "gets 80");
        self.both(measured, "remote/", "-n 16 -p 8 -c 8 -k -2", &format!("gets {calls} posted"));
        self.both(measured, "far/", "-n 100000 -c 1 -k", &format!("gets {calls} far"));
        let count = 500 / self.divisor;
        self.both(measured, "2/", "-n 2 -c 2 -k", &format!("writes {count}"));
        zero_copy::measure(calls, &mut measured.ours);
    }

    /// Fences and starts of so many clients on one node.
    fn clients(&self, measured: &mut Measured, clients: u32) {
        let job = format!("-n {clients} -c {clients} -k");
        // The floor and the fence that is compared with it take turns.
        let (prefix, fences) = (format!("{clients}/"), format!("fences {} {FENCE_TURNS}", 20 / self.divisor));
        say(self.programs.host(&self.ours, &prefix, &format!("{job} -s -b floor"), &fences, &mut measured.ours));
        say(self.programs.host(&self.stock, &prefix, &format!("{job} -s"), &fences, &mut measured.stock));
        let rounds = (20 / self.divisor).max(1);
        self.both(measured, &format!("start {clients}/"), &format!("{job} -r {rounds}"), "init get");
    }

    /// Clients on each release of the stock library, under a server on ours and under their own. The servers take turns,
    /// and the first of a turn is the other one in the next: what each of these takes depends on where the kernel has
    /// put the processes of that job, and on what ran before. All ranks touch their peers' records at once: a rank that
    /// a fence lets go first does so among the others that are still to go on.
    fn stock_clients(&self, measured: &mut Measured) {
        self.each_release(|stock, release| self.clients_of(stock, release, measured));
    }

    fn clients_of(&self, stock: &Library, release: &str, measured: &mut Measured) {
        let ours = self.ours.with_clients(stock);
        for clients in STOCK_CLIENTS {
            let turns = match clients {
                2 => TURNS_OF_TWO,
                _ if std::ptr::eq(stock, &self.stock) => STOCK_TURNS,
                // Programs of another suite take a second for 32 processes to load.
                _ => STOCK_TURNS / 2,
            };
            let (prefix, job) = (format!("stock {release}/{clients}/"), format!("-n {clients} -c {clients} -k"));
            let programs = [("-r 2", "init get"), ("", "fences 20 10"), ("", "gets 80 touch")];
            for turn in 0..(turns / self.divisor).max(1) {
                for (options, client) in programs {
                    let options = format!("{job} {options}");
                    let mut servers = [(&ours, &mut measured.ours), (stock, &mut measured.stock)];
                    servers.rotate_left(turn as usize % 2);
                    for (server, samples) in servers {
                        say(self.programs.host(server, &prefix, &options, client, samples));
                    }
                }
            }
        }
    }

    /// Big jobs, of which one process runs here. A process that has registered one before has memory left of it: each
    /// round begins with a new one.
    fn registrations(&self, measured: &mut Measured) {
        for _ in 0..if self.divisor == 1 { 3 } else { 1 } {
            self.both(measured, "keys/", "-n 100000 -c 1 -k", "init get");
            self.both(measured, "maps/", "-n 100000 -c 1", "init");
            say(self.programs.host(&self.ours, "million/", "-n 1000000 -c 1", "init", &mut measured.ours));
            for map in ["random", "shuffled"] {
                let (prefix, job) = (format!("{map}/"), format!("-n 1000000 -c 1 -m {map}"));
                say(self.programs.host(&self.ours, &prefix, &job, "init", &mut measured.ours));
            }
        }
        if self.stock_million {
            say(self.programs.host(&self.stock, "million/", "-n 1000000 -c 1", "init", &mut measured.stock));
        }
    }

    /// Helpers, which need no server. The libraries take many short turns, because the machine's own speed changes
    /// between them.
    fn helpers(&self, measured: &mut Measured) {
        for _ in 0..(60 / self.divisor).max(1) {
            for (library, samples) in [(&self.ours, &mut measured.ours), (&self.stock, &mut measured.stock)] {
                say(self.programs.alone(library, "helper/", &["helpers", "4"], samples));
            }
        }
    }

    fn launchers(&self, measured: &mut Measured) {
        let init = PathBuf::from(self.programs.path("init"));
        for _ in 0..(10 / self.divisor).max(1) {
            for (library, samples) in [(&self.ours, &mut measured.ours), (&self.stock, &mut measured.stock)] {
                let launched = self.programs.launch(library, 32, &init, &[]);
                say(launched.map(|(_, took)| samples.push("launch 32", took, 0)));
            }
        }
        if let Some([program, hydra]) = self.mpich.as_deref() {
            self.mpi(measured, "MPICH", &Library::of_launcher(hydra), MPICH, program, 20);
        }
        let Some(program) = &self.mpi else { return };
        for ranks in [2, 16, 32] {
            self.mpi(measured, "MPI", &self.stock, ranks, program, 5);
        }
    }

    /// Jobs of an MPI program that says how long its start took, under this launcher and another in turn.
    fn mpi(&self, measured: &mut Measured, name: &str, other: &Library, ranks: u32, program: &Path, jobs: u32) {
        for _ in 0..(jobs / self.divisor).max(1) {
            for (library, samples) in [(&self.ours, &mut measured.ours), (other, &mut measured.stock)] {
                let launched = self.programs.launch(library, ranks, program, &[]);
                say(launched.map(|(output, took)| {
                    if let Some(slowest) = slowest_init(&output) {
                        samples.push(&format!("{name}_Init {ranks}"), slowest, 0);
                    }
                    samples.push(&format!("{name} job {ranks}"), took, 0);
                }));
            }
        }
    }

    /// Calls that launchers serve, and starts. Calls that one of them refuses are left out.
    fn control(&self, measured: &mut Measured) {
        let count = |count: u32| (count / self.divisor).max(1).to_string();
        let control = PathBuf::from(self.programs.path("control"));
        // Two processes and the server on two cores: the kernel places them anew for each job, and for all of it.
        let publish = std::iter::repeat_n((2, "publish", count(60)), 5);
        for (ranks, what, times) in std::iter::once((32, "events", count(200)))
            .chain(publish)
            .chain([(32, "groups", count(50)), (1, "spawn", count(30))])
        {
            let words = [what, &times];
            if what == "events" {
                say(self.programs.alone(&self.ours, "control/", &["wakes", "32", &times], &mut measured.ours));
            }
            for (library, samples) in [(&self.ours, &mut measured.ours), (&self.stock, &mut measured.stock)] {
                // The server of Open MPI's mpirun 4.1 tells other processes of no event, and they would wait for it.
                if what == "events" && std::ptr::eq(library, &self.stock) {
                    continue;
                }
                let launched = self.programs.launch(library, ranks, &control, &words);
                say(launched.and_then(|(output, _)| Ok(samples.read("control/", &output)?)));
            }
        }
        for _ in 0..(10 / self.divisor).max(1) {
            let launched = self.programs.launch(&self.ours, MANY, &control, &["nothing"]);
            say(launched.map(|(_, took)| measured.ours.push("control/a rank of many", took / f64::from(MANY), 0)));
        }
    }

    /// Jobs inside `instanton up`, which take turns with the program alone.
    fn persistent(&self, samples: &mut Samples) -> Result<(), RunError> {
        let command = self.ours.command();
        let failed = |error| RunError::Start { command: format!("{command} up"), error };
        let up = Up::start(command).map_err(failed)?;
        for _ in 0..(50 / self.divisor).max(1) {
            samples.push("control/true", timed(&mut Command::new(PROGRAM)).map_err(failed)?, 0);
            samples.push("control/job inside", up.run(PROGRAM).map_err(failed)?, 0);
        }
        Ok(())
    }

    fn seen(&self, samples: &mut Samples) -> Result<(), RunError> {
        let command = self.ours.command();
        let failed = |error| RunError::Start { command: format!("{command} ps and top"), error };
        seen::measure(command, self.divisor, samples).map_err(failed)
    }

    fn both(&self, measured: &mut Measured, prefix: &str, options: &str, client: &str) {
        say(self.programs.host(&self.ours, prefix, options, client, &mut measured.ours));
        say(self.programs.host(&self.stock, prefix, options, client, &mut measured.stock));
    }
}

/// Reads `slowest MPI_Init of N: T ms`, in microseconds.
fn slowest_init(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.starts_with("slowest MPI_Init"))?;
    let (_, time) = line.split_once(": ")?;
    time.strip_suffix(" ms")?.parse::<f64>().ok().map(|ms| ms * 1e3)
}

fn say(result: Result<(), RunError>) {
    if let Err(error) = result {
        eprintln!("left out: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_taken_from_what_the_mpi_program_says() {
        assert_eq!(slowest_init("rank 0\nslowest MPI_Init of 4: 12.5 ms\n"), Some(12_500.0));
        assert_eq!(slowest_init("rank 0\n"), None);
    }
}
