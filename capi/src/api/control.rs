//! Controlling processes, and finding out where they are.
use std::collections::HashSet;
use std::ptr;

use instanton::client::Client;
use instanton::data::{Info, Nspace, Proc, Rank, Status, Value, keys};
use libc::{c_char, c_void};

use super::services::{Results, wait_infos};
use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::callbacks::{self, InfoFn};
use crate::convert::{made_array, many};
use crate::session::{self, told};
use crate::types::*;

export! {
    after_init;

    /// Controls processes, or registers what is to be cleaned up after them; where none is named, those of the caller's
    /// namespace.
    fn PMIx_Job_control(
        targets: *const pmix_proc_t, ntargets: usize, directives: *const pmix_info_t, ndirs: usize,
        results: *mut *mut pmix_info_t, nresults: *mut usize,
    ) -> Outcome {
        let places = Results::none(results, nresults);
        let (targets, directives) = (many::<_, Proc>(targets, ntargets)?, many::<_, Info>(directives, ndirs)?);
        wait_infos(session::client()?.job_control(&targets, &directives), places)
    }

    /// Nonblocking form of `PMIx_Job_control`; `cbfunc` may be NULL.
    fn PMIx_Job_control_nb(
        targets: *const pmix_proc_t, ntargets: usize, directives: *const pmix_info_t, ndirs: usize,
        cbfunc: Option<InfoFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (targets, directives) = (many::<_, Proc>(targets, ntargets)?, many::<_, Info>(directives, ndirs)?);
        told(session::client()?.job_control(&targets, &directives).then(callbacks::info(cbfunc, cbdata)))
    }

    /// The processes of a namespace on a node; without a node, on this one; without a namespace, or with an empty one,
    /// of every job that the caller can look into. Nobody is NULL and 0.
    fn PMIx_Resolve_peers(
        node: *const c_char, nspace: *const c_char, procs: *mut *mut pmix_proc_t, nprocs: *mut usize,
    ) -> Outcome {
        let (Some(procs), Some(nprocs)) = (procs.as_mut(), nprocs.as_mut()) else {
            return Err(Status::ERR_BAD_PARAM);
        };
        (*procs, *nprocs) = (ptr::null_mut(), 0);
        let client = session::client()?;
        let nspaces = namespaces(&client, nspace)?;
        let mut level = vec![Info::new(keys::OPTIONAL, true)];
        if let Some(node) = alloc::c_bytes(node) {
            let name = instanton::data::Text::new(node).map_err(|_| Status::ERR_BAD_PARAM)?;
            level.extend([Info::new(keys::NODE_INFO, true), Info::new(keys::HOSTNAME, Value::String(Some(name)))]);
        }
        let mut found = Vec::new();
        for (nspace, peers) in lists(&client, nspaces, keys::LOCAL_PEERS, &level)? {
            for rank in peers.split(|byte| *byte == b',').filter(|rank| !rank.is_empty()) {
                let rank = std::str::from_utf8(rank).ok().and_then(|rank| rank.trim().parse().ok());
                found.push(Proc::new(nspace.clone(), Rank(rank.ok_or(Status::ERR_INVALID_VAL)?)));
            }
        }
        (*procs, *nprocs) = (made_array(&found)?, found.len());
        Ok(())
    }

    /// The nodes that a namespace has processes on, with commas between them; without one, those of every job that the
    /// caller can look into. The text is the caller's to free.
    fn PMIx_Resolve_nodes(nspace: *const c_char, nodes: *mut *mut c_char) -> Outcome {
        let nodes = nodes.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        *nodes = ptr::null_mut();
        let client = session::client()?;
        let known = lists(&client, namespaces(&client, nspace)?, keys::NODE_LIST, &[Info::new(keys::OPTIONAL, true)])?;
        let names = known.iter().flat_map(|(_, list)| list.split(|byte| *byte == b','));
        let mut seen = HashSet::new();
        let each: Vec<&[u8]> = names.filter(|name| seen.insert(*name)).collect();
        *nodes = alloc::text(&each.join(&b','))?;
        Ok(())
    }
}

/// The namespace that is meant; where none is given, or an empty one, all that are known.
unsafe fn namespaces(client: &Client, nspace: *const c_char) -> Result<Vec<Nspace>, Status> {
    // SAFETY: NULL, a C string or a fixed array, the contract with C.
    let name = if nspace.is_null() { &[][..] } else { unsafe { alloc::name(nspace, NSPACE_SIZE) }? };
    match name.is_empty() {
        true => Ok(client.namespaces()),
        false => Ok(vec![Nspace::new(name).map_err(|_| Status::ERR_BAD_PARAM)?]),
    }
}

/// A text of each job that has it; where none has, why.
fn lists(client: &Client, nspaces: Vec<Nspace>, key: &str, info: &[Info]) -> Result<Vec<(Nspace, Vec<u8>)>, Status> {
    let (mut found, mut refused) = (Vec::new(), Status::ERR_NOT_FOUND);
    for nspace in nspaces {
        match list(client, &nspace, key, info) {
            Ok(text) => found.push((nspace, text)),
            Err(status) => refused = status,
        }
    }
    if found.is_empty() { Err(refused) } else { Ok(found) }
}

/// A text that is known of a job.
fn list(client: &Client, nspace: &Nspace, key: &str, info: &[Info]) -> Result<Vec<u8>, Status> {
    let job = Proc::new(nspace.clone(), Rank::WILDCARD);
    match told(client.get(&job, key, info))? {
        Value::String(Some(text)) => Ok(text.as_bytes().to_vec()),
        _ => Err(Status::ERR_NOT_FOUND),
    }
}
