//! Bounds of requests: each list, and the attributes of a collective, are gone through in one step of the control
//! thread.
use crate::data::{DataArray, Info, Proc, Query};
use crate::message::{Forward, GroupCall, Request};
use crate::server::jobs::Jobs;

/// Attributes, keys and the like that one request lists at most.
const MAX_LISTED: usize = 8192;
/// Processes that a request may name in any case; beyond them, twice as many as there are in all jobs.
const FEW: usize = 8192;

/// Bytes of attributes that a process may bring to a collective, data for a group among them: they are copied for
/// others to have.
const MAX_ATTRIBUTES: usize = 2 << 20;

/// Returns whether a request, which takes so many bytes, has larger attributes than one step should copy.
pub fn is_too_large(request: &Request, bytes: usize) -> bool {
    let procs: &[Proc] = match request {
        Request::Fence { procs, .. } | Request::Connect { procs, .. } | Request::Disconnect { procs, .. } => procs,
        Request::Group { call, .. } => match call {
            GroupCall::Construct { procs, .. } | GroupCall::Invite { procs, .. } => procs,
            GroupCall::Destruct { .. } | GroupCall::Leave { .. } | GroupCall::Join { .. } => &[],
            GroupCall::Decide(_) => return false,
        },
        _ => return false,
    };
    bytes > MAX_ATTRIBUTES && bytes.saturating_sub(procs.iter().map(Proc::kept_size).sum()) > MAX_ATTRIBUTES
}

/// Returns whether a request lists more than one step should go through.
pub fn is_too_long(jobs: &Jobs, request: &Request) -> bool {
    let nobody: &[Proc] = &[];
    let (procs, listed) = match request {
        Request::Fence { procs, info } | Request::Connect { procs, info } | Request::Disconnect { procs, info } => {
            (&procs[..], info.len())
        }
        Request::Meet { info, .. } | Request::Get { info, .. } | Request::RegisterEvents { info, .. } => {
            (nobody, info.len())
        }
        Request::Notify { info, .. } => (nobody, info.len()),
        Request::Abort { procs, .. } => (&procs[..], 0),
        Request::JobControl { targets, directives } => (&targets[..], directives.len()),
        Request::PullOutput { procs, directives, .. } => (&procs[..], directives.len()),
        Request::Group { call, .. } => match call {
            GroupCall::Construct { procs, info } | GroupCall::Invite { procs, info } => (&procs[..], info.len()),
            GroupCall::Destruct { info } | GroupCall::Leave { info } | GroupCall::Join { info, .. } => {
                (nobody, info.len())
            }
            GroupCall::Decide(decision) => (&decision.add[..], 0),
        },
        Request::Forward(Forward::Publish { info }) => (nobody, info.len()),
        Request::Forward(Forward::Lookup { keys, info } | Forward::Unpublish { keys, info }) => {
            (nobody, keys.len().max(info.len()))
        }
        Request::Forward(Forward::Log { data, directives }) => (nobody, data.len().max(directives.len())),
        Request::Forward(Forward::Push { targets, directives, .. }) => (&targets[..], directives.len()),
        Request::Forward(Forward::Monitor { monitor, directives, .. }) => {
            let in_arrays = directives.iter().map(elements).max().unwrap_or(0);
            return directives.len().max(elements(monitor)) > MAX_LISTED || is_too_many(jobs, in_arrays);
        }
        Request::Forward(Forward::Query { queries }) => (nobody, listed_in(queries)),
        Request::Forward(Forward::Allocate { info, .. }) => (nobody, info.len()),
        Request::Forward(
            Forward::GetCredential { directives }
            | Forward::ValidateCredential { directives, .. }
            | Forward::SessionControl { directives, .. },
        ) => (nobody, directives.len()),
        // Others have bounds of their own, or go to the host as they are.
        _ => (nobody, 0),
    };
    listed > MAX_LISTED || is_too_many(jobs, procs.len())
}

/// Returns whether nobody needs to name so many processes.
fn is_too_many(jobs: &Jobs, procs: usize) -> bool {
    procs > FEW && procs > 2 * jobs.ranks()
}

/// The longest of the lists that queries have together: theirs, and those of all their keys and of all their qualifiers.
fn listed_in(queries: &[Query]) -> usize {
    // Each is looked at, unless they are too many by themselves.
    let few = &queries[..queries.len().min(MAX_LISTED)];
    let keys = few.iter().map(|query| query.keys.len()).sum::<usize>();
    let qualifiers = few.iter().map(|query| query.qualifiers.len()).sum::<usize>();
    queries.len().max(keys).max(qualifiers)
}

/// Elements of an attribute that is an array.
fn elements(info: &Info) -> usize {
    info.value.as_array().map_or(0, DataArray::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Status, Text, Value, keys};
    use crate::server::ctx::testing::proc;

    #[test]
    fn lists_of_queries_and_allocations_are_bounded_before_anybody_copies_them() {
        let is_long = |request| is_too_long(&Jobs::default(), &Request::Forward(request));
        let info = |count| vec![Info::new("k", true); count];
        let query = |queries: usize, keys, qualifiers| {
            let query = Query { keys: vec![Text::new("k").unwrap(); keys], qualifiers: info(qualifiers) };
            is_long(Forward::Query { queries: vec![query; queries] })
        };
        let half = MAX_LISTED / 2;
        assert!(!query(2, half, half) && !query(MAX_LISTED, 1, 1));
        assert!(query(2, half + 1, 0) && query(2, 1, half + 1) && query(MAX_LISTED + 1, 0, 0));
        let allocate = |count| is_long(Forward::Allocate { directive: 1, info: info(count) });
        assert_eq!([allocate(MAX_LISTED), allocate(MAX_LISTED + 1)], [false, true]);
    }

    #[test]
    fn what_a_monitor_names_in_arrays_is_bounded() {
        let look = |processes: usize, wanted: usize| {
            let named = Value::DataArray(DataArray::of(vec![proc("job", 0); processes]));
            let wanted = Value::DataArray(DataArray::of_info(vec![Info::new("k", true); wanted]));
            let monitor = Info::new(keys::MONITOR_PROC_RESOURCE_USAGE, wanted);
            let directives = vec![Info::new(keys::MONITOR_TARGET_PROCS, named)];
            let request = Request::Forward(Forward::Monitor { monitor, error: Status::SUCCESS, directives });
            is_too_long(&Jobs::default(), &request)
        };
        assert_eq!([look(FEW, 1), look(FEW + 1, 1), look(1, MAX_LISTED + 1)], [false, true, true]);
    }
}
