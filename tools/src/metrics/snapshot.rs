//! The counters of one moment. Their names and meanings stand in `docs/DIAGNOSIS.md`.
use std::collections::BTreeMap;
use std::sync::{Weak, mpsc};
use std::time::Duration;

use instanton::Pending;
use instanton::data::{Activity, JobLoad, Load, Nspace, Status, WaitReport};
use instanton::server::Server;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Time that the server has for a report.
const PATIENCE: Duration = Duration::from_secs(2);

/// Labels with their values.
type Labels = Vec<(&'static str, String)>;

/// The text of this moment.
pub fn text(server: &Weak<Server>) -> String {
    let mut registry = Registry::with_prefix("instanton");
    let server = server.upgrade();
    one(&mut registry, "up", "1 as long as the server runs", u64::from(server.is_some()));
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    gauges(&mut registry, "build", "The release, as a label", [(version, 1)]);
    process(&mut registry);
    let told = server.and_then(|server| Some((answer(server.waiting())?, answer(server.load())?)));
    one(&mut registry, "answered", "1 if the server has answered in time", u64::from(told.is_some()));
    if let Some((report, load)) = told {
        activities(&mut registry, &report);
        requests(&mut registry, &load);
        memory(&mut registry, &load);
    }
    let mut text = String::new();
    // A text takes all that is written to it.
    let _ = encode(&mut text, &registry);
    text
}

/// The server's answer, if it comes in time.
fn answer<T: Send + 'static>(pending: Pending<T, Status>) -> Option<T> {
    let (tell, told) = mpsc::channel();
    // A server that has ended drops the way back.
    let _ = pending.then(move |answer| _ = tell.send(answer));
    told.recv_timeout(PATIENCE).ok()?.ok()
}

/// Those who ask, and how often.
fn requests(registry: &mut Registry, load: &Load) {
    one(registry, "peers", "Connections of processes and tools", load.peers);
    let family: Family<Labels, Counter> = Family::default();
    for (kind, count) in &load.requests {
        family.get_or_create(&vec![("kind", kind.clone())]).inc_by(*count);
    }
    registry.register("requests", "Requests since the server began, by kind", family);
    let attached = load.jobs.iter().map(|job| (of(&job.nspace), job.attached));
    gauges(registry, "job_attached", "Processes of the job that are attached", attached);
}

/// Memory of jobs, and its limits.
fn memory(registry: &mut Registry, load: &Load) {
    let of_kind = |job: &JobLoad| {
        let labels = of(&job.nspace);
        let each =
            job.kinds.iter().map(move |(kind, bytes)| ([&labels[..], &[("kind", kind.clone())]].concat(), *bytes));
        each.collect::<Vec<_>>()
    };
    let held = load.jobs.iter().flat_map(of_kind);
    gauges(registry, "job_held_bytes", "Memory that processes of the job make the server hold, by kind", held);
    let limits = load.jobs.iter().map(|job| (of(&job.nspace), job.held_limit));
    gauges(registry, "job_held_limit_bytes", "The most that they may", limits);
    let shared = || load.jobs.iter().filter_map(|job| Some((of(&job.nspace), job.shared.as_ref()?)));
    gauges(registry, "job_shared_bytes", "Shared memory of the job", shared().map(|(of, it)| (of, it.bytes)));
    gauges(registry, "job_shared_limit_bytes", "The most that it may have", shared().map(|(of, it)| (of, it.limit)));
    gauges(registry, "job_live_bytes", "Records in it that are current", shared().map(|(of, it)| (of, it.live)));
    gauges(
        registry,
        "job_retired_bytes",
        "Records in it that wait for readers",
        shared().map(|(of, it)| (of, it.retired)),
    );
    gauges(registry, "job_segments", "Modex segments of the job", shared().map(|(of, it)| (of, it.segments)));
    gauges(registry, "job_generation", "Generation of its information", shared().map(|(of, it)| (of, it.generation)));
}

fn of(nspace: &Nspace) -> Labels {
    vec![("namespace", nspace.to_string())]
}

/// Activities of processes, and whom they wait for.
fn activities(registry: &mut Registry, report: &WaitReport) {
    let mut processes: BTreeMap<Labels, u64> = BTreeMap::new();
    let mut waiting: BTreeMap<Labels, (u64, u64)> = BTreeMap::new();
    for row in &report.rows {
        let nspace = ("namespace", row.nspace.to_string());
        *processes.entry(vec![nspace.clone(), ("state", row.activity.name().to_owned())]).or_default() +=
            row.ranks.len();
        if row.activity == Activity::Waits {
            let (count, longest) = waiting.entry(vec![nspace, ("call", row.call.clone())]).or_default();
            *count += row.ranks.len();
            *longest = row.since.as_secs().max(*longest);
        }
    }
    gauges(registry, "processes", "Processes of jobs, by what they are at", processes);
    let counts = waiting.iter().map(|(labels, (count, _))| (labels.clone(), *count));
    gauges(registry, "waiting_processes", "Processes that wait in a call", counts);
    let longest = waiting.iter().map(|(labels, (_, longest))| (labels.clone(), *longest));
    gauges(registry, "waiting_seconds", "Time since the first of them began to wait", longest);
}

/// The launcher's own process.
fn process(registry: &mut Registry) {
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
        let micros = (usage.user_time() + usage.system_time()).num_microseconds();
        let counter: Counter = Counter::default();
        counter.inc_by(u64::try_from(micros).unwrap_or(0));
        registry.register("cpu_microseconds", "Processor time of the launcher and its server", counter);
    }
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = status.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096);
    let bytes = pages * u64::try_from(page).unwrap_or(4096);
    one(registry, "resident_bytes", "Memory of the launcher and its server, what is shared included", bytes);
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    one(registry, "descriptors", "Descriptors that the launcher has open", descriptors);
}

fn one(registry: &mut Registry, name: &str, help: &str, value: u64) {
    gauges(registry, name, help, [(Vec::new(), value)]);
}

fn gauges(registry: &mut Registry, name: &str, help: &str, values: impl IntoIterator<Item = (Labels, u64)>) {
    let family: Family<Labels, Gauge> = Family::default();
    for (labels, value) in values {
        family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
    }
    registry.register(name, help, family);
}
