//! The rows of the table and what they are to reach.
use instanton::internal::stock::SERVED;
use instanton_benches::samples::{Samples, Summary};
use instanton_benches::table::{Row, Table, Target};
use instanton_benches::units::Unit::{self, Memory, Time};

use crate::Part;
use crate::measure::{CLIENTS, MANY, MPICH, Measured, PLUGGED, STOCK_CLIENTS};
use crate::seen::{LISTED, WATCHED};

const MS: f64 = 1e3;

struct Rows<'a> {
    table: Table,
    measured: &'a Measured,
}

impl Rows<'_> {
    fn add(&mut self, label: impl Into<String>, unit: Unit, row: &str, target: Target) {
        let of = |samples: &Samples| samples.summary(row);
        let (ours, stock) = (of(&self.measured.ours), of(&self.measured.stock));
        self.table.row(Row { label: label.into(), unit, target, ours, stock });
    }

    /// A row of a stock server with the plug-in and such clients, and of the stock library alone.
    fn beside(
        &mut self,
        label: impl Into<String>,
        unit: Unit,
        release: &str,
        clients: &str,
        row: &str,
        target: Target,
    ) {
        let ours = self.measured.ours.summary(&format!("plug {release}/{clients}/{row}"));
        let stock = self.measured.stock.summary(&format!("plug {release}/{row}"));
        self.table.row(Row { label: label.into(), unit, target, ours, stock });
    }

    /// At most so many times the median of a stock library alone.
    fn times_stock(&self, release: &str, row: &str, factor: f64) -> Option<Target> {
        let stock = self.measured.stock.summary(&format!("plug {release}/{row}"))?;
        let words = if factor == 1.0 { "stock".to_owned() } else { format!("{factor} x stock") };
        Some(Target::Measured(stock.median * factor, words))
    }

    fn time(&mut self, label: impl Into<String>, row: &str, limit: impl Into<Option<f64>>) {
        self.add(label, Time, row, limit.into().map_or(Target::None, Target::AtMost));
    }

    fn memory(&mut self, label: impl Into<String>, row: &str, limit: impl Into<Option<f64>>) {
        self.add(label, Memory, row, limit.into().map_or(Target::None, Target::AtMost));
    }

    /// At most so many times the median of another row of ours.
    fn relative(&mut self, label: impl Into<String>, row: &str, factor: f64, words: &str, other: &str) {
        let limit = self.measured.ours.summary(other).map(|other| other.median * factor);
        self.add(label, Time, row, limit.map_or(Target::None, |limit| Target::Measured(limit, words.to_owned())));
    }

    /// At most so many microseconds more than the median of another row of ours.
    fn above(&mut self, label: impl Into<String>, row: &str, more: f64, words: &str, other: &str) {
        let limit = self.measured.ours.summary(other).map(|other| other.median + more);
        self.add(label, Time, row, limit.map_or(Target::None, |limit| Target::Measured(limit, words.to_owned())));
    }

    /// At most the median of the stock one in the same run.
    fn no_slower(&mut self, label: impl Into<String>, row: &str, words: &str) {
        let limit = self.measured.stock.summary(row).map(|stock| stock.median);
        self.add(label, Time, row, limit.map_or(Target::None, |limit| Target::Measured(limit, words.to_owned())));
    }

    /// Memory shared among the ranks of a job.
    fn per_rank(&mut self, row: &str, ranks: f64) {
        let of = |samples: &Samples| {
            let shared = |value: f64| value / ranks;
            samples.summary(row).map(|all| Summary { median: shared(all.median), p99: shared(all.p99), faults: 0.0 })
        };
        let (ours, stock) = (of(&self.measured.ours), of(&self.measured.stock));
        let label = "... for each rank".to_owned();
        self.table.row(Row { label, unit: Memory, target: Target::None, ours, stock });
    }
}

/// All of it, or the rows of a part.
pub fn table(measured: &Measured, only: Option<Part>) -> Table {
    let all: [fn(&mut Rows<'_>); 12] =
        [gets, writes, starts, fences, stock_clients, registrations, helpers, launchers, mpich, control, seen, plugged];
    let mut rows = Rows { table: Table::default(), measured };
    match only {
        None => all.into_iter().for_each(|part| part(&mut rows)),
        Some(Part::Plugged) => plugged(&mut rows),
        Some(Part::StockClients) => stock_clients(&mut rows),
    }
    rows.table
}

fn gets(rows: &mut Rows<'_>) {
    rows.table.section("PMIx_Get, 8 clients on the node");
    for (label, row, limit) in [
        ("of the job: JOB_SIZE", "8/get job", 0.1),
        ("own: LOCAL_RANK", "8/get own", 0.1),
        ("own, a string: LOCALITY_STRING", "8/get own string", 0.1),
        ("of another rank: LOCAL_RANK", "8/get other", 0.1),
        ("of the node: HOSTNAME", "8/get hostname", 0.1),
        ("of the node: LOCAL_PEERS", "8/get local peers", 0.1),
        ("of the application: APP_SIZE", "8/get app", 0.1),
        ("of the session: UNIV_SIZE", "8/get session", 0.1),
        ("not there, PMIX_OPTIONAL", "8/get absent optional", 0.1),
        ("not there, PMIX_IMMEDIATE", "8/get absent immediate", 0.1),
        ("posted by a peer, 64 B", "8/get 64", 0.1),
        ("posted by a peer, 4 KiB", "8/get 4096", 0.25),
        ("posted on another node, 64 B", "remote/get 64", 0.1),
        ("posted on another node, 4 KiB", "remote/get 4096", 0.25),
    ] {
        rows.time(label, row, limit);
    }
    rows.time("one thread, release included", "8/get in one thread", None);
    rows.relative("two threads, each", "8/get in two threads", 1.1, "1.1 x one", "8/get in one thread");
    rows.time("first touch of a peer after a fence, of 32", "32/first touch", None);
    rows.time("first touch after a fence, of 16 on two nodes", "remote/first touch", None);
    rows.table.section("PMIx_Get of a random rank of 100,000 on 3,125 nodes");
    rows.time("HOSTNAME, first time of this rank", "far/far hostname, first", None);
    rows.time("HOSTNAME, again", "far/far hostname", 0.2);
    rows.time("LOCAL_PEERS, first time of this rank", "far/far local peers, first", None);
    rows.time("LOCAL_PEERS, again", "far/far local peers", 0.2);
    rows.table.section("Reads in place, Rust");
    for (label, row) in [
        ("of the job: JOB_SIZE", "in place job"),
        ("of a rank, a string: LOCALITY_STRING", "in place own"),
        ("posted by a peer, 64 B", "in place 64"),
        ("posted by a peer, 4 KiB", "in place 4096"),
        ("posted by a peer, 64 B, guard included", "pin and get 64"),
    ] {
        rows.time(label, row, 0.04);
    }
}

fn writes(rows: &mut Rows<'_>) {
    rows.table.section("Writes of one client");
    rows.time("PMIx_Put, 64 B", "2/put", 0.3);
    rows.time("PMIx_Commit, 64 B", "2/commit", 15.0);
}

fn starts(rows: &mut Rows<'_>) {
    rows.table.section("Start, from the opening of a gate until all clients have come through PMIx_Init");
    for clients in CLIENTS {
        let limit = [(1, 0.5 * MS), (32, 15.0 * MS)].into_iter().find(|(of, _)| *of == clients);
        rows.time(counted(clients), &format!("start {clients}/init of all"), limit.map(|(_, limit)| limit));
    }
    rows.table.section("... each client, cold");
    for clients in CLIENTS {
        rows.time(format!("PMIx_Init, {}", counted(clients)), &format!("start {clients}/init"), None);
        rows.time(
            format!("first 8 Gets of own and node keys, {}", counted(clients)),
            &format!("start {clients}/first gets"),
            None,
        );
        rows.time(format!("PMIx_Finalize, {}", counted(clients)), &format!("start {clients}/finalize"), None);
    }
    rows.table.section("... memory: of the server with all clients, and what PMIx_Init adds to a client's own");
    for clients in CLIENTS {
        rows.memory(format!("server, {}", counted(clients)), &format!("start {clients}/server resident"), None);
        rows.memory(format!("client, {}", counted(clients)), &format!("start {clients}/client private"), 0.5e6);
    }
}

fn fences(rows: &mut Rows<'_>) {
    rows.table.section("PMIx_Fence on one node; floor: a socket write each, one epoll, one futex wake, no PMIx");
    for clients in CLIENTS {
        rows.time(format!("floor, {}", counted(clients)), &format!("{clients}/floor"), None);
        let floor = format!("{clients}/floor");
        rows.relative(format!("fence, {}", counted(clients)), &format!("{clients}/fence"), 1.5, "1.5 x floor", &floor);
        rows.time(
            format!("put, commit and fence of 64 B each, {}", counted(clients)),
            &format!("{clients}/fence with data"),
            None,
        );
    }
}

/// Clients on a release of the stock library are to be served no slower than by their own server.
fn stock_clients(rows: &mut Rows<'_>) {
    for release in SERVED {
        if rows.measured.ours.rows(&format!("stock {release}/")).is_empty() {
            continue;
        }
        rows.table.section(format!("Clients on {release}: under this library's server, and under their own"));
        for clients in STOCK_CLIENTS {
            for (what, row) in [
                ("from a gate until all are through PMIx_Init", "init of all"),
                ("PMIx_Init", "init"),
                ("PMIx_Fence", "fence"),
                ("first touch of a peer after a fence, by all at once", "first touch"),
            ] {
                let row = format!("stock {release}/{clients}/{row}");
                rows.no_slower(format!("{what}, {}", counted(clients)), &row, "stock");
            }
        }
    }
}

fn registrations(rows: &mut Rows<'_>) {
    for (what, prefix, ranks, limits) in [
        ("100,000 ranks, 32 a node, 11 keys each", "keys/", 1e5, (100.0 * MS, 8e6)),
        ("100,000 ranks from node and process maps", "maps/", 1e5, (50.0 * MS, 8e6)),
        ("1,000,000 ranks from node and process maps", "million/", 1e6, (50.0 * MS, 8e6)),
        ("1,000,000 ranks at random from maps", "random/", 1e6, (50.0 * MS, 8e6)),
        ("1,000,000 ranks at random and in no order from maps", "shuffled/", 1e6, (50.0 * MS, 8e6)),
    ] {
        rows.table.section(format!("Registering {what}"));
        rows.time("PMIx_server_register_nspace", &format!("{prefix}register"), limits.0);
        rows.time("PMIx_Init of the first client", &format!("{prefix}init"), 1.0 * MS);
        if prefix == "keys/" {
            rows.time("... its first 8 Gets of own and node keys", &format!("{prefix}first gets"), None);
        }
        rows.memory("resident memory that the job adds to the server", &format!("{prefix}server grows"), limits.1);
        rows.per_rank(&format!("{prefix}server grows"), ranks);
        rows.memory("resident memory of the server, one client", &format!("{prefix}server resident"), None);
        rows.memory("memory of the client's own", &format!("{prefix}client private"), 0.5e6);
    }
}

/// Each is to be no slower than the stock one in the same run.
fn helpers(rows: &mut Rows<'_>) {
    rows.table.section("Helper functions, without a server; what is packed is unpacked and freed");
    for label in rows.measured.ours.rows("helper/") {
        let row = format!("helper/{label}");
        rows.no_slower(label, &row, "stock");
    }
}

fn launchers(rows: &mut Rows<'_>) {
    rows.table.section("Launchers: instanton run, and mpirun of Open MPI 4.1 on the system's libpmix");
    rows.time("32 processes: init, fence, finalize, whole job", "launch 32", 80.0 * MS);
    for ranks in [2, 16, 32] {
        rows.no_slower(format!("MPI_Init, slowest of {ranks} ranks"), &format!("MPI_Init {ranks}"), "mpirun");
        rows.time(format!("... whole job of {ranks} ranks"), &format!("MPI job {ranks}"), None);
    }
}

/// The start of MPICH, which speaks PMI-1.
fn mpich(rows: &mut Rows<'_>) {
    if rows.measured.stock.rows("MPICH job").is_empty() {
        return;
    }
    rows.table.section("MPICH 5.0.2: under instanton run, and under its own hydra");
    rows.no_slower(format!("MPI_Init, slowest of {MPICH} ranks"), &format!("MPICH_Init {MPICH}"), "hydra");
    rows.no_slower(format!("... whole job of {MPICH} ranks"), &format!("MPICH job {MPICH}"), "hydra");
}

/// Calls that launchers serve, and jobs that they start.
fn control(rows: &mut Rows<'_>) {
    rows.table.section("The control plane of the launchers");
    rows.time("floor: 32 processes told by a socket write each, no PMIx", "control/wakes", None);
    rows.time("an event, until the last of 32 processes has it", "control/event", 300.0);
    rows.time("PMIx_Publish", "control/publish", 60.0);
    rows.time("PMIx_Lookup", "control/look-up", 60.0);
    rows.time("fence, 32 ranks", "control/fence between", None);
    let (construct, fence) = ("control/group construct", "control/fence between");
    rows.relative("PMIx_Group_construct, 32 ranks", construct, 2.0, "2 fences", fence);
    rows.relative("PMIx_Group_destruct, 32 ranks", "control/group destruct", 2.0, "2 fences", fence);
    rows.time("fork and exec of 8 processes", "control/fork and exec", None);
    let forked = "control/fork and exec";
    rows.above("PMIx_Spawn of 8 processes", "control/spawn", 5.0 * MS, "fork and exec + 5 ms", forked);
    rows.time(format!("Init and Finalize, each of {MANY} ranks"), "control/a rank of many", 1.5 * MS);
    rows.time("fork and exec of true, and its end", "control/true", None);
    let alone = "control/true";
    rows.above("true as a job inside instanton up", "control/job inside", 5.0 * MS, "true + 5 ms", alone);
}

/// Commands that look into a server.
fn seen(rows: &mut Rows<'_>) {
    rows.table.section("What it takes to see what runs");
    rows.time(format!("instanton ps, of a job of {LISTED} ranks"), "seen/ps", 50.0 * MS);
    rows.time("... --waiting", "seen/ps waiting", 50.0 * MS);
    // One a second: 1 % of a core.
    let label = format!("processor time of the server of {WATCHED} ranks for a look of instanton top");
    rows.time(label, "seen/top", 10.0 * MS);
}

/// The column of this library is a stock server with the plug-in; the other one is the stock library alone. The plug-in
/// may add a tenth to a registration and a twentieth to a fence; clients of this library are to start no later than stock
/// ones, and read as they do under their own server.
fn plugged(rows: &mut Rows<'_>) {
    for release in SERVED {
        for (clients, words) in [("ours", "clients of this library"), ("stock", "stock clients")] {
            let prefix = format!("plug {release}/{clients}/");
            if rows.measured.ours.rows(&prefix).is_empty() {
                continue;
            }
            let server = format!("A server on {release} with the plug-in");
            let heading = format!("{server}, and {words}; beside it the stock library alone");
            rows.table.section(heading);
            let is_ours = clients == "ours";
            let get = if is_ours { Target::AtMost(0.1) } else { Target::None };
            for (label, row) in [
                ("Get of the job: JOB_SIZE", "get job"),
                ("Get of the own rank: LOCAL_RANK", "get own"),
                ("Get posted by a peer, 64 B", "get 64"),
            ] {
                rows.beside(label, Time, release, clients, row, get.clone());
            }
            rows.beside("first touch of a peer", Time, release, clients, "first touch", Target::None);
            let fence = rows.times_stock(release, "8/fence", 1.05).filter(|_| !is_ours);
            rows.beside("fence, 8 clients", Time, release, clients, "8/fence", fence.unwrap_or(Target::None));
            let (label, row) = ("put, commit and fence of 64 B each, 8 clients", "8/fence with data");
            rows.beside(label, Time, release, clients, row, Target::None);
            rows.beside("PMIx_Commit, 64 B", Time, release, clients, "2/commit", Target::None);
            let init = |rows: &Rows<'_>, row: &str| rows.times_stock(release, row, 1.0).filter(|_| is_ours);
            let target = init(rows, "init").unwrap_or(Target::None);
            rows.beside("PMIx_Init, 8 clients", Time, release, clients, "init", target);
            for ranks in PLUGGED {
                let row = |what: &str| format!("{ranks}/{what}");
                let label = format!("PMIx_server_register_nspace, {ranks} ranks");
                let register = row("alone/register");
                let target = rows.times_stock(release, &register, 1.1).unwrap_or(Target::None);
                rows.beside(label, Time, release, clients, &register, target);
                let label = format!("PMIx_Init of the first client, {ranks} ranks");
                let target = init(rows, &row("init")).unwrap_or(Target::None);
                rows.beside(label, Time, release, clients, &row("init"), target);
                for (who, what) in [("server", "server resident"), ("client", "client private")] {
                    let label = format!("memory of the {who}, {ranks} ranks");
                    rows.beside(label, Memory, release, clients, &row(what), Target::None);
                }
            }
        }
    }
}

fn counted(clients: u32) -> String {
    format!("{clients} {}", if clients == 1 { "client" } else { "clients" })
}
