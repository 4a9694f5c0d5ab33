//! Servers that tools can go to: our own, by the kernel's table of sockets, and stock ones, by the files that they leave.
//! Each is tried by a thread of its own, because one that hangs answers nobody.
use std::sync::mpsc;
use std::time::{Duration, Instant};

use instanton::client::InitError;
use instanton::data::{Info, Value, keys};
use instanton::internal::control::rendezvous::{self, Listed, Uri};
use instanton::internal::sys::sock_diag;
use instanton::internal::upstream::contacts::{Contact, Directories};
use instanton::tool::Tool;

use super::finding::Finding;
use super::process;
use crate::threads::start_thread;

const SERVERS: &str = "servers";
/// Time for a server to let a tool in.
const PATIENCE: Duration = Duration::from_secs(3);
/// Servers that are tried; others are only counted.
pub const MOST: usize = 32;

/// Findings about all servers in reach.
pub fn all() -> Vec<Finding> {
    let mut all = Vec::new();
    let own = match rendezvous::servers() {
        Ok(own) => own,
        Err(error) => {
            let advice = "mount /proc whole: it lists the servers";
            all.push(Finding::problem(SERVERS, "servers.list", format!("servers cannot be listed: {error}"), advice));
            Vec::new()
        }
    };
    let directories = Directories::new(None, None);
    let mut stock = directories.of_system();
    stock.extend(directories.others());
    stock.dedup_by(|one, other| one.address.uri == other.address.uri);
    if own.is_empty() && stock.is_empty() {
        all.push(Finding::ok(
            SERVERS,
            "servers.none",
            "no server here accepts tools",
            "`instanton run` and `up` start one",
        ));
    }
    if own.len() + stock.len() > MOST {
        let text = format!("{} servers are here; {MOST} of them are tried", own.len() + stock.len());
        all.push(Finding::ok(SERVERS, "servers.many", text, ""));
    }
    let (told, findings) = mpsc::channel();
    let mut awaited = 0;
    for server in own.into_iter().take(MOST) {
        let told = told.clone();
        awaited += usize::from(start_thread("server", move || _ = told.send(ours(&server))).is_ok());
    }
    for contact in stock.into_iter().take(MOST.saturating_sub(awaited)) {
        let told = told.clone();
        awaited += usize::from(start_thread("server", move || _ = told.send(stocks(&contact))).is_ok());
    }
    let until = Instant::now() + PATIENCE * 2;
    let tried = (0..awaited).map_while(|_| findings.recv_timeout(until.saturating_duration_since(Instant::now())).ok());
    let mut tried: Vec<Finding> = tried.collect();
    if tried.len() < awaited {
        let text = format!("{} servers have not answered within {PATIENCE:?}", awaited - tried.len());
        tried.push(Finding::problem(SERVERS, "server.silent", text, SILENT));
    }
    tried.sort_by(|one, other| one.text.cmp(&other.text));
    all.extend(tried);
    all
}

const SILENT: &str = "see whether its process is stopped (state T in ps: kill -CONT PID) or busy, and what it waits for: \
                      `instanton doctor PID`; jobs of a server that never answers must be ended";

/// Tries a server of ours.
fn ours(server: &Listed) -> Finding {
    let name = server.server.as_ref().map_or("a server".into(), |server| server.to_string());
    let shown = format!("{name}, process {} ({})", server.pid, process::command(server.pid));
    match attach(named(server)) {
        Ok(()) => Finding::ok(SERVERS, "server.reached", format!("{shown} lets tools in"), ""),
        Err(InitError::TimedOut) => silent(&shown, &server.name),
        Err(error) => refused(&shown, &error),
    }
}

/// A server that does not answer at its door: the process that listens there may be stopped.
fn silent(shown: &str, door: &str) -> Finding {
    let text = format!("{shown} does not answer within {PATIENCE:?}");
    let stopped = process::listener(door).and_then(|pid| {
        let (what, advice) = process::held(pid)?;
        Some((format!("{text}: process {pid} ({}) {what}", process::command(pid)), advice))
    });
    let (text, advice) = stopped.unwrap_or_else(|| (text, SILENT.to_owned()));
    Finding::problem(SERVERS, "server.silent", text, advice)
}

/// The attribute that names a server: by its address where its socket says it, else by its process.
pub fn named(server: &Listed) -> Info {
    match server.server.clone() {
        Some(of) => {
            let uri = Uri { server: of, name: server.name.clone() };
            Info::new(keys::SERVER_URI, uri.to_string().as_str())
        }
        None => Info::new(keys::SERVER_PIDINFO, Value::Pid(server.pid)),
    }
}

/// Tries a stock server.
fn stocks(contact: &Contact) -> Finding {
    let process = contact.pid.map_or(String::new(), |pid| format!(", process {pid}"));
    let shown = format!("stock server {}{process}", contact.address.uri);
    let is_gone =
        sock_diag::owner_of_listener(contact.address.socket).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
    if is_gone {
        return Finding::notice(
            SERVERS,
            "server.stale",
            format!("{shown} has left its files, and listens no more"),
            "remove its session directory below TMPDIR: tools that look for any server try it first",
        );
    }
    match attach(Info::new(keys::SERVER_URI, contact.address.uri.as_str())) {
        Ok(()) => Finding::ok(SERVERS, "server.reached", format!("{shown} lets tools in"), ""),
        Err(error) => refused(&shown, &error),
    }
}

fn attach(server: Info) -> Result<(), InitError> {
    let tool = enter(server)?;
    // It has let this tool in; how it says farewell is of no interest.
    let _ = tool.finalize(&[Info::new(keys::TIMEOUT, 1u32)]);
    Ok(())
}

/// Goes to a server as a tool, within the time that each has.
///
/// # Errors
/// Those of [`Tool::init`].
pub fn enter(server: Info) -> Result<Tool, InitError> {
    let seconds = u32::try_from(PATIENCE.as_secs()).unwrap_or(u32::MAX);
    Tool::init(&[server, Info::new(keys::TIMEOUT, seconds)])
}

fn refused(shown: &str, error: &InitError) -> Finding {
    let text = format!("{shown}: {error}");
    match error {
        InitError::TimedOut => {
            Finding::problem(SERVERS, "server.silent", format!("{shown} does not answer within {PATIENCE:?}"), SILENT)
        }
        InitError::NotAdmitted { .. } | InitError::ForeignServer { .. } => Finding::ok(
            SERVERS,
            "server.refuses",
            text,
            "its own user and root are let in, and whom its host allows (PMIX_SERVER_ALLOW_FOREIGN_TOOLS)",
        ),
        _ => Finding::notice(
            SERVERS,
            "server.unreached",
            text,
            "it may just have ended; otherwise INSTANTON_TRACE=stderr says more of the way there",
        ),
    }
}
