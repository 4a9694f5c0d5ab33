//! One process: on which library it is, who its server is, and what it waits for.
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use instanton::data::{Activity, Info, Nspace, Query, Text, WAITING, WaitReport, Waiting, keys};
use instanton::internal::client::from_variables;
use instanton::internal::control::address::{self, Address};
use instanton::internal::control::rendezvous::{self, Listed};
use nix::unistd::Pid;

use super::doors;
use super::environment;
use super::finding::Finding;
use super::process::{self, Mapped};
use crate::family;
use crate::library::NAME;
use crate::release::Release;
use crate::see::{missing, stacks, waiting};
use crate::threads::start_thread;

const PROCESS: &str = "process";
/// Name of a job's segment in the list of mapped files; the namespace follows.
const JOB: &[u8] = b"/memfd:instanton-job:";
/// Time for all servers to say what a rank waits for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A process that was looked at.
struct Rank {
    pid: i32,
    /// `process 17 (prog)`.
    shown: String,
    environment: BTreeMap<OsString, OsString>,
    mapped: Vec<Mapped>,
}

/// Findings about a process.
pub fn all(pid: i32) -> Vec<Finding> {
    let shown = format!("process {pid} ({})", process::command(pid));
    let read = process::mapped(pid).and_then(|mapped| Ok((process::environment(pid)?, mapped)));
    let (environment, mapped) = match read {
        Ok(read) => read,
        Err(error) => {
            let advice = "name a process that runs, as its own user or root";
            let text = process::unseen(pid, &error);
            return vec![Finding::problem(PROCESS, "process.unseen", text, advice)];
        }
    };
    let rank = Rank { pid, shown, environment, mapped };
    if let Some(launcher) = rank.launcher() {
        return vec![launcher];
    }
    let mut all = rank.libraries();
    all.extend(rank.server());
    all.extend(rank.stopped());
    all.push(rank.waiting());
    all
}

impl Rank {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.environment.get(OsStr::new(name)).filter(|value| !value.is_empty()).cloned()
    }

    fn nspace(&self) -> Option<Nspace> {
        Nspace::new(self.variable("PMIX_NAMESPACE")?.as_bytes()).ok()
    }

    fn number(&self) -> Option<u32> {
        self.variable("PMIX_RANK")?.to_str()?.parse().ok()
    }

    /// A process that is no rank itself, and has ranks below it.
    fn launcher(&self) -> Option<Finding> {
        if self.nspace().is_some() || self.reads_a_job() {
            return None;
        }
        let below = family::descendants(Pid::from_raw(self.pid)).into_iter().map(Pid::as_raw);
        let is_rank = |pid: &i32| {
            let is_set = |environment: BTreeMap<_, _>| environment.contains_key(OsStr::new("PMIX_RANK"));
            process::environment(*pid).is_ok_and(is_set)
        };
        let mut ranks: Vec<i32> = below.filter(is_rank).collect();
        ranks.sort_unstable();
        let first = ranks.first()?;
        let shown = &self.shown;
        Some(Finding::ok(
            PROCESS,
            "process.launcher",
            format!("{shown} is no rank, and has {} processes of ranks below it", ranks.len()),
            format!(
                "`instanton ps --ranks` lists them, `instanton ps --waiting` says who waits for whom; \
                 `instanton doctor {first}` what the first of them is at"
            ),
        ))
    }

    /// Returns whether it has mapped the segment of a job.
    fn reads_a_job(&self) -> bool {
        self.mapped.iter().any(|mapped| mapped.path.as_os_str().as_bytes().starts_with(JOB))
    }

    /// The libraries that it has loaded.
    fn libraries(&self) -> Vec<Finding> {
        let is_pmix =
            |mapped: &&Mapped| mapped.path.file_name().is_some_and(|name| name.as_bytes().starts_with(b"libpmix.so"));
        let found: Vec<&Mapped> = self.mapped.iter().filter(is_pmix).collect();
        let shown = &self.shown;
        if found.is_empty() && self.reads_a_job() {
            let text = format!("{shown} has the Rust crate instanton in it");
            return vec![Finding::ok(PROCESS, "process.library", text, "")];
        }
        if found.is_empty() {
            let text = format!("{shown} has loaded no {NAME}");
            let advice = "it is no program of PMIx, or has not come to its Init yet; a launcher's script has children: \
                          name the program's own process";
            return vec![Finding::notice(PROCESS, "process.library", text, advice)];
        }
        let several = (found.len() > 1).then(|| {
            let files: Vec<String> = found.iter().map(|mapped| mapped.path.display().to_string()).collect();
            Finding::problem(
                PROCESS,
                "process.libraries",
                format!("{shown} has loaded {} PMIx libraries: {}", files.len(), files.join(", ")),
                "let all of its parts find one: see LD_LIBRARY_PATH and the run paths of its libraries",
            )
        });
        let each = found.into_iter().map(|mapped| {
            // The link leads to the very file, also where another one has its name by now.
            let release = if mapped.is_gone { Ok(Release::Unknown) } else { Release::of(&mapped.path) };
            let release = release.unwrap_or(Release::Unknown);
            let file = mapped.path.display();
            match (mapped.is_gone, &release) {
                (true, _) => Finding::notice(
                    PROCESS,
                    "process.library",
                    format!("{shown} is on {file}, which was replaced or removed since"),
                    "it keeps what it has loaded; start it again to get the new one",
                ),
                (_, Release::Own(_)) => {
                    Finding::ok(PROCESS, "process.library", format!("{shown} is on {file}, {release}"), "")
                }
                _ => Finding::notice(
                    PROCESS,
                    "process.library",
                    format!("{shown} is on {file}, {release}"),
                    "servers on this library serve it; for Gets out of common memory, have its loader find ours \
                     (instanton run --library instanton, or LD_LIBRARY_PATH)",
                ),
            }
        });
        several.into_iter().chain(each).collect()
    }

    /// Its server, and whether it has been let in.
    fn server(&self) -> Vec<Finding> {
        let variable = |name: &str| self.variable(name);
        let shown = &self.shown;
        let Some(nspace) = self.nspace() else {
            let text = format!("{shown} has no launcher's variables");
            let advice = "it runs as a job of its own, or as a tool: start it by a launcher to make it a rank";
            return vec![Finding::notice(PROCESS, "process.server", text, advice)];
        };
        let mut all = Vec::new();
        let name = format!("{nspace}.{}", self.number().map_or("?".into(), |rank| rank.to_string()));
        let names = || [address::VARIABLE].map(OsString::from).into_iter();
        match from_variables(variable, names) {
            Ok(address) => all.extend(self.of_ours(&name, &address)),
            Err(_) if variable("PMIX_SERVER_URI41").is_some() || variable("PMIX_SERVER_URI4").is_some() => {
                all.push(self.of_stock(&name));
            }
            Err(_) => all.push(environment::server(variable)),
        }
        let elsewhere = ["net", "pid"].into_iter().filter(|kind| {
            process::namespace(self.pid, kind)
                .is_some_and(|of| Some(of) != process::namespace(std::process::id() as i32, kind))
        });
        let elsewhere: Vec<&str> = elsewhere.collect();
        if !elsewhere.is_empty() {
            all.push(Finding::notice(
                PROCESS,
                "process.namespaces",
                format!("{shown} is in another {} namespace than this command", elsewhere.join(" and ")),
                "what is said of its server's doors may differ in there: run this command there (nsenter)",
            ));
        }
        all
    }

    fn of_ours(&self, name: &str, address: &Address) -> Vec<Finding> {
        let shown = &self.shown;
        let owner =
            process::listener(&address.abstract_name).map(|pid| format!("process {pid} ({})", process::command(pid)));
        let server = owner.clone().unwrap_or_else(|| format!("who listens at {}", address.abstract_name));
        let mut all = Vec::new();
        if process::listening(&address.abstract_name).is_none() {
            all.push(Finding::problem(
                PROCESS,
                "process.server",
                format!("{shown} is {name}, and nobody listens at its server's door {}", address.abstract_name),
                "its server has ended or is in another network namespace: end the process, and start the job again",
            ));
        } else {
            let text = format!("{shown} is {name} of {server}");
            all.push(Finding::ok(PROCESS, "process.server", text, ""));
        }
        let by_memory = self.variable("INSTANTON_SHM").is_none_or(|value| value != "off");
        all.push(match self.reads_a_job() {
            true => Finding::ok(PROCESS, "process.attached", format!("{shown} reads its job in shared memory"), ""),
            false if by_memory => Finding::notice(
                PROCESS,
                "process.attached",
                format!("{shown} has not mapped its job"),
                "it has not come to its Init, has left by Finalize, or is on a stock library; otherwise \
                 INSTANTON_TRACE=stderr in its environment says why",
            ),
            false => Finding::notice(
                PROCESS,
                "process.attached",
                format!("{shown} was told to map nothing (INSTANTON_SHM=off)"),
                "each of its Gets asks the server; unset the variable",
            ),
        });
        all
    }

    /// A stock server's rank has a connection to the port that its variables name.
    fn of_stock(&self, name: &str) -> Finding {
        let uris = ["PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI21"];
        let uri = uris.iter().find_map(|name| self.variable(name)).unwrap_or_default();
        let uri = uri.to_string_lossy().into_owned();
        let port: Option<u16> = uri.rsplit_once(':').and_then(|(_, port)| port.trim().parse().ok());
        let own = process::sockets(self.pid);
        let is_attached = port.is_some_and(|port| connections(self.pid, port).iter().any(|inode| own.contains(inode)));
        let shown = &self.shown;
        match is_attached {
            true => Finding::ok(PROCESS, "process.server", format!("{shown} is {name} of the stock server {uri}"), ""),
            false => Finding::notice(
                PROCESS,
                "process.server",
                format!("{shown} is {name}, and has no connection to its server {uri}"),
                "it has not come to its Init, has left by Finalize, or its server has ended",
            ),
        }
    }

    /// A stopped process goes nowhere, whatever it waits for.
    fn stopped(&self) -> Option<Finding> {
        let ended = || {
            let advice = "its parent is stopped or waits for something else: look at that".to_owned();
            let has_ended = process::state(self.pid) == Some('Z');
            has_ended.then_some(("has ended, and its parent has not asked for its status", advice))
        };
        let (what, advice) = process::held(self.pid).or_else(ended)?;
        Some(Finding::problem(PROCESS, "process.stopped", format!("{} {what}", self.shown), advice))
    }

    /// The call that it waits in, as its server knows it; else its place in the kernel.
    fn waiting(&self) -> Finding {
        let rank = self.number();
        let said = self.nspace().zip(rank).and_then(|(nspace, rank)| told(&nspace, rank));
        let shown = &self.shown;
        let Some(row) = said else {
            let lines = stacks::of_kernel(Pid::from_raw(self.pid));
            let text = format!("{shown}, in the kernel: {}", lines.join("; "));
            let advice = "no server says what it waits for; gdb -p or eu-stack -p shows its stack";
            return Finding::ok(PROCESS, "process.waits", text, advice);
        };
        let text = format!("{shown} {}", waiting::words(&row));
        match row.activity {
            Activity::Waits => Finding::notice(
                PROCESS,
                "process.waits",
                text,
                "look at those that it waits for: `instanton doctor PID` of each says what they are at",
            ),
            _ => Finding::ok(PROCESS, "process.waits", text, ""),
        }
    }
}

/// Place of a rank in its calls, by its server, with those whom other servers say to be missing there. All servers are
/// asked at a time: some may hang.
fn told(nspace: &Nspace, rank: u32) -> Option<Waiting> {
    let (tell, told) = mpsc::channel();
    for server in rendezvous::servers().ok()?.into_iter().take(doors::MOST) {
        let tell = tell.clone();
        let ask = move || {
            if let Some(report) = said_by(&server) {
                // Others may have said enough meanwhile.
                let _ = tell.send(report);
            }
        };
        start_thread("server", ask).ok()?;
    }
    drop(tell);
    let until = Instant::now() + PATIENCE;
    let is_its_own = |row: &&Waiting| row.nspace == *nspace && row.ranks.contains(rank);
    let own = |reports: &[WaitReport]| reports.iter().flat_map(|report| &report.rows).find(is_its_own).cloned();
    let mut reports = Vec::new();
    while let Ok(report) = told.recv_timeout(until.saturating_duration_since(Instant::now())) {
        reports.push(report);
        // A collective of several nodes is told by all of these together.
        if own(&reports).is_some_and(|row| row.participants.is_empty()) {
            break;
        }
    }
    missing::name_missing(&mut reports.iter_mut().collect::<Vec<_>>());
    own(&reports)
}

fn said_by(server: &Listed) -> Option<WaitReport> {
    let tool = doors::enter(doors::named(server)).ok()?;
    let query = Query { keys: vec![Text::new(WAITING).ok()?], qualifiers: vec![Info::new(keys::TIMEOUT, 2u32)] };
    let answer = tool.primary().query(&[query]).wait();
    let _ = tool.finalize(&[Info::new(keys::TIMEOUT, 1u32)]);
    answer.ok()?.1.iter().find_map(|info| WaitReport::from_value(&info.value))
}

/// Inodes of the connections to a port, in the network namespace of a process.
fn connections(pid: i32, port: u16) -> Vec<u64> {
    const ESTABLISHED: &str = "01";
    let port = format!(":{port:04X}");
    let of = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_meant = fields.get(2)?.ends_with(&port) && *fields.get(3)? == ESTABLISHED;
        is_meant.then(|| fields.get(9)?.parse().ok())?
    };
    let tables =
        ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().filter_map(of)).collect()
}
