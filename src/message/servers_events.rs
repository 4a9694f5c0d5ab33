//! Events that servers raise and nobody else may: servers and launchers act on them.
use crate::data::Status;

/// Returns whether an event tells of the members of a group, or of the start and end of processes and jobs. A process
/// that takes part in a group may give it up.
pub fn is_a_servers(event: Status) -> bool {
    const GROUPS: std::ops::RangeInclusive<i32> = Status::GROUP_MEMBER_FAILED.0..=Status::GROUP_INVITED.0;
    const JOBS: std::ops::RangeInclusive<i32> = Status::EVENT_SESSION_END.0..=Status::ERR_JOB_APP_NOT_EXECUTABLE.0;
    const ENDS: [Status; 12] = [
        Status::ERR_PROC_ABORTED,
        Status::ERR_PROC_REQUESTED_ABORT,
        Status::ERR_PROC_ABORTING,
        Status::ERR_PROC_TERM_WO_SYNC,
        Status::EVENT_PROC_TERMINATED,
        Status::PROC_TERMINATED,
        Status::EVENT_JOB_END,
        Status::ERR_INVALID_TERMINATION,
        Status::ERR_LOST_CONNECTION,
        Status::ERR_LOST_CONNECTION_TO_SERVER,
        Status::ERR_LOST_PEER_CONNECTION,
        Status::ERR_LOST_CONNECTION_TO_CLIENT,
    ];
    let is_membership = GROUPS.contains(&event.0) && event != Status::GROUP_CONSTRUCT_ABORT;
    is_membership || JOBS.contains(&event.0) || ENDS.contains(&event)
}
