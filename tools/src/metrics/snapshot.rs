//! The counters of one moment. Their names and meanings stand in `docs/DIAGNOSIS.md`.
use std::collections::BTreeMap;
use std::time::Duration;

use instanton::data::{Activity, JobLoad, Load, Nspace, WaitReport};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::nodes::servers::Servers;

/// Time that the servers have for a report.
const PATIENCE: Duration = Duration::from_secs(2);

/// Labels with their values.
type Labels = Vec<(&'static str, String)>;

/// Reports of servers, each with the label of its node where there are several.
type Of<T> = Vec<(Labels, T)>;

/// The text of this moment.
pub fn text(servers: &Servers) -> String {
    let mut registry = Registry::with_prefix("instanton");
    one(&mut registry, "up", "1 as long as the server runs", u64::from(servers.is_up()));
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    gauges(&mut registry, "build", "The release, as a label", [(version, 1)]);
    process(&mut registry);
    let label = |node: usize| match servers.are_several() {
        true => vec![("node", node.to_string())],
        false => Vec::new(),
    };
    let (waiting, mut loads) = (servers.waiting(PATIENCE), servers.load(PATIENCE));
    let (mut answered, mut reports, mut load) = (Vec::new(), Of::new(), Of::new());
    for (node, report) in waiting {
        let both = report.zip(loads.remove(&node).flatten());
        answered.push((label(node), u64::from(both.is_some())));
        if let Some((its_report, its_load)) = both {
            reports.push((label(node), its_report));
            load.push((label(node), its_load));
        }
    }
    gauges(&mut registry, "answered", "1 if the server has answered in time", answered);
    if !reports.is_empty() {
        activities(&mut registry, &reports);
        requests(&mut registry, &load);
        memory(&mut registry, &load);
    }
    let mut text = String::new();
    // A text takes all that is written to it.
    let _ = encode(&mut text, &registry);
    text
}

/// Peers that ask, and how often they do.
fn requests(registry: &mut Registry, loads: &Of<Load>) {
    let peers = loads.iter().map(|(node, load)| (node.clone(), load.peers));
    gauges(registry, "peers", "Connections of processes and tools", peers);
    let family: Family<Labels, Counter> = Family::default();
    for (node, load) in loads {
        for (kind, count) in &load.requests {
            family.get_or_create(&with(node, [("kind", kind.clone())])).inc_by(*count);
        }
    }
    registry.register("requests", "Requests since the server began, by kind", family);
    of_jobs(registry, "job_attached", "Processes of the job that are attached", loads, |job| Some(job.attached));
}

/// Memory of jobs, and its limits.
fn memory(registry: &mut Registry, loads: &Of<Load>) {
    let mut held = Vec::new();
    for (node, load) in loads {
        for job in &load.jobs {
            let kind = |(kind, bytes): &(String, u64)| (with(&of(node, &job.nspace), [("kind", kind.clone())]), *bytes);
            held.extend(job.kinds.iter().map(kind));
        }
    }
    gauges(registry, "job_held_bytes", "Memory that processes of the job make the server hold, by kind", held);
    let mut each = |name, help, value: fn(&JobLoad) -> Option<u64>| of_jobs(registry, name, help, loads, value);
    each("job_held_limit_bytes", "The most that they may", |job| Some(job.held_limit));
    each("job_shared_bytes", "Shared memory of the job", |job| Some(job.shared?.bytes));
    each("job_shared_limit_bytes", "The most that it may have", |job| Some(job.shared?.limit));
    each("job_live_bytes", "Records in it that are current", |job| Some(job.shared?.live));
    each("job_retired_bytes", "Records in it that wait for readers", |job| Some(job.shared?.retired));
    each("job_segments", "Modex segments of the job", |job| Some(job.shared?.segments));
    each("job_generation", "Generation of its information", |job| Some(job.shared?.generation));
}

/// A value of each job on each node.
fn of_jobs(registry: &mut Registry, name: &str, help: &str, loads: &Of<Load>, value: fn(&JobLoad) -> Option<u64>) {
    let mut values = Vec::new();
    for (node, load) in loads {
        values.extend(load.jobs.iter().filter_map(|job| Some((of(node, &job.nspace), value(job)?))));
    }
    gauges(registry, name, help, values);
}

fn with<const N: usize>(labels: &Labels, more: [(&'static str, String); N]) -> Labels {
    labels.iter().cloned().chain(more).collect()
}

fn of(node: &Labels, nspace: &Nspace) -> Labels {
    with(node, [("namespace", nspace.to_string())])
}

/// Activities of processes, and whom they wait for.
fn activities(registry: &mut Registry, reports: &Of<WaitReport>) {
    let mut processes: BTreeMap<Labels, u64> = BTreeMap::new();
    let mut waiting: BTreeMap<Labels, (u64, u64)> = BTreeMap::new();
    let rows =
        reports.iter().flat_map(|(node, report)| report.rows.iter().map(move |row| (of(node, &row.nspace), row)));
    for (job, row) in rows {
        *processes.entry(with(&job, [("state", row.activity.name().to_owned())])).or_default() += row.ranks.len();
        if row.activity == Activity::Waits {
            let (count, longest) = waiting.entry(with(&job, [("call", row.call.clone())])).or_default();
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
