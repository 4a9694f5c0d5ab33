//! Bounds of requests: each list, and the attributes of a collective, are gone through in one step of the control
//! thread.
use crate::data::{DataArray, Info, Proc};
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
        // Others have bounds of their own, or go to the host as they are.
        _ => (nobody, 0),
    };
    listed > MAX_LISTED || is_too_many(jobs, procs.len())
}

/// Returns whether nobody needs to name so many processes.
fn is_too_many(jobs: &Jobs, procs: usize) -> bool {
    procs > FEW && procs > 2 * jobs.ranks()
}

/// Elements of an attribute that is an array.
fn elements(info: &Info) -> usize {
    info.value.as_array().map_or(0, DataArray::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Status, Value, keys};
    use crate::server::ctx::testing::proc;

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
