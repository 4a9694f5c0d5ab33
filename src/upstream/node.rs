//! The node's segments of the own job, where a plug-in of this project stands in the stock server.
//!
//! The plug-in (crate `instanton-gds`) writes what the stock server knows of a job into segments, once for the node,
//! and puts their address into the environment of each process that the server starts. A process that finds it there
//! asks the server for the plug-in's way of information, and maps the segments. Everything else goes to the stock
//! server as ever: so does a look-up of what the segments do not have, and all of them where there are none.
//!
//! The environment alone decides, before the first word to the server, whether the plug-in is asked for
//! ([`offered`]). The first process that asks for its job's information is told all of it, and the segments are made of
//! the same answer; later ones are told that the segments have it ([`LOOK_THERE`]). Either way a process looks there
//! first, and only one that cannot map them (another network namespace, another user, another release) reads what it is
//! told, or asks for the values. When the stock server dies, its segments stay readable, and nothing new is mapped.
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use super::job_info::JobInfo;
use crate::data::{DataArray, Info, Proc, Rank, Status, keys};
use crate::handover::{Opened, Source};
use crate::store::{JobReader, Miss, Origin};
use crate::trace;

/// Release that a process says it is of where it asks for the plug-in, which knows it by that among stock ones: no stock
/// library has it. Servers tell it from 4.2.2 in nothing.
pub const RELEASE: [u8; 3] = [4, 2, 202];
/// The same as the text that servers read.
pub const RELEASE_TEXT: &str = "4.2.202";
/// Variable with the address of the node's segments, and behind it that of the server which has put it there.
pub const VARIABLE: &str = "INSTANTON_NODE_STORE";
/// Variable with the number of processes of the job, where the plug-in knows it before there are segments.
pub const SIZE_VARIABLE: &str = "INSTANTON_NODE_STORE_SIZE";
/// Name of the plug-in among a stock server's ways of information.
pub const MODULE: &str = "instanton";
/// The plug-in's answer in place of the job's information: the segments have all of it. It is the status that the server
/// hands on without a word of its own.
pub const LOOK_THERE: Status = Status::ERR_SILENT;
/// The ways of information that the server offers, and those that its user wants.
const OFFERED: &str = "PMIX_GDS_MODULE";
const WANTED: &str = "PMIX_MCA_gds";
/// Variable by which a process that has segments tells those of ours that it starts what it has set as `WANTED` for
/// stock ones beside them: no user has said that.
pub const FOR_STOCK: &str = "INSTANTON_GDS_FOR_STOCK";
/// Longest wait for an answer of the plug-in.
const PATIENCE: Duration = Duration::from_secs(30);

/// The value of [`VARIABLE`].
pub fn variable(address: &str, server: &str) -> String {
    format!("{address};{server}")
}

/// The address of the node's segments, if it was put there by the server that the process goes to, whose address is
/// `server`, and neither that one nor the user does without the plug-in.
pub fn offered(server: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<String> {
    let text = |name| variable(name).map(|value| String::from_utf8_lossy(&value.into_vec()).into_owned());
    let found = text(VARIABLE)?;
    let (address, beside) = found.split_once(';')?;
    let offered = text(OFFERED).unwrap_or_default();
    let reason = if beside != server {
        "was left by another server"
    } else if !offered.split(',').any(|name| name == MODULE) {
        "stands beside a PMIX_GDS_MODULE without the plug-in"
    } else if !text(WANTED).is_none_or(|wanted| is_wanted(&wanted) || text(FOR_STOCK).is_some_and(|set| set == wanted))
    {
        "stands beside a PMIX_MCA_gds without the plug-in"
    } else {
        return Some(address.to_owned());
    };
    trace!("{VARIABLE} {reason}");
    None
}

/// Returns whether a list of the library's parameters admits the plug-in.
fn is_wanted(list: &str) -> bool {
    let names = |list: &str| list.split(',').any(|name| name.trim() == MODULE);
    match list.strip_prefix('^') {
        Some(excluded) => !names(excluded),
        None => list.is_empty() || names(list),
    }
}

/// Opens the node's segments, if they can be had and are of the job of this process.
pub fn open(address: &str, proc: &Proc, until: Option<Instant>) -> Option<Opened> {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let own = nix::unistd::geteuid().as_raw();
    let opened = Source::open(address, left.unwrap_or(PATIENCE).min(PATIENCE), |user| user == 0 || user == own);
    let (reader, source) =
        opened.map_err(|error| trace!("no segments of {} on this node: {error}", proc.nspace)).ok()?;
    let unusable = |miss: Miss| trace!("the node's segments cannot be used: {miss}");
    let nspace = reader.nspace().map_err(unusable).ok()?;
    if nspace != proc.nspace {
        trace!("the node's segments are those of {nspace}, and this is {proc}");
        return None;
    }
    match reader.populate_own(proc.rank) {
        Ok(()) => Some((reader, source)),
        Err(error) => {
            trace!("the node's segments cannot be used: {error}");
            None
        }
    }
}

/// Job information for the server in this process, read from the mapped segments: what is said of the job, and of the
/// process itself.
pub fn job_info(reader: &JobReader, proc: &Proc) -> Option<JobInfo> {
    let of = |rank: Rank| -> Option<Vec<Info>> {
        let all = reader.all(rank).map_err(|miss| trace!("the node's segments cannot be used: {miss}")).ok()?;
        let said = all.into_iter().filter(|(.., origin)| *origin == Origin::Info);
        Some(said.map(|(key, _, value, _)| Info { key, flags: 0, value }).collect())
    };
    let mut own = of(proc.rank)?;
    own.retain(|info| info.key != keys::RANK);
    own.insert(0, Info::new(keys::RANK, proc.rank));
    let mut info = of(Rank::WILDCARD)?;
    info.push(Info::new(keys::PROC_INFO_ARRAY, DataArray::of_info(own)));
    Some(JobInfo { nspace: Some(proc.nspace.clone()), info }).filter(JobInfo::is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<String> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        offered("x.0;tcp4://127.0.0.1:1", value)
    }

    #[test]
    fn the_plug_in_is_asked_for_where_server_and_user_want_it() {
        let address = variable("instanton-store:1:a:b", "x.0;tcp4://127.0.0.1:1");
        let is = |offered: &str, wanted: Option<&str>| {
            let mut variables = vec![(VARIABLE, &*address), (OFFERED, offered)];
            variables.extend(wanted.map(|wanted| (WANTED, wanted)));
            found(&variables).as_deref() == Some("instanton-store:1:a:b")
        };
        assert!(is("instanton,ds21,hash", None) && is("instanton,hash", Some("hash,instanton")));
        assert!(is("instanton,hash", Some("^ds21")) && is("instanton,hash", Some("")));
        assert!(!is("ds21,hash", None) && !is("", None));
        assert!(!is("instanton,hash", Some("hash")) && !is("instanton,hash", Some("^instanton")));
    }

    #[test]
    fn what_a_spawn_has_set_for_stock_processes_is_no_word_of_a_user() {
        let address = variable("instanton-store:1:a:b", "x.0;tcp4://127.0.0.1:1");
        let of = |wanted: &str, set: &str| {
            found(&[(VARIABLE, &*address), (OFFERED, "instanton,hash"), (WANTED, wanted), (FOR_STOCK, set)]).is_some()
        };
        assert!(of("hash", "hash") && !of("hash", "") && !of("ds21", "hash"));
    }

    #[test]
    fn servers_read_the_release_that_the_plug_in_looks_for() {
        let numbers = RELEASE_TEXT.split('.').map(|number| number.parse::<u8>().unwrap());
        assert!(numbers.eq(RELEASE));
    }

    #[test]
    fn what_an_outer_launcher_has_left_counts_for_nothing() {
        let offered = (OFFERED, "instanton,hash");
        for left in ["", "x", ";", "instanton-store:1:a:b", "instanton-store:1:a:b;y.0;tcp4://127.0.0.1:1"] {
            assert_eq!(found(&[(VARIABLE, left), offered]), None, "{left:?}");
        }
        assert_eq!(found(&[offered]), None);
    }
}
