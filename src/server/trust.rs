//! Words that are a server's alone: events that servers act on, and attributes by which they tell each other things.
//!
//! Servers hear of groups on other nodes by events, which their hosts relay. Such an event is believed where it carries
//! the name of the server that has raised it ([`Event::sign`](super::ctx::event::Event::sign)), and no rank or tool can
//! give it one: what they ask is looked through here before it goes anywhere.
use std::fmt;

use crate::data::{Info, Key, Status, WATCH, keys};
use crate::message::{Forward, Request, is_a_servers};

/// Prefix of attributes that servers and hosts alone give.
const PRIVATE: &[u8] = b"instanton.";

/// Word in a request that only a server may say.
#[derive(Debug, PartialEq)]
pub enum Forbidden<'a> {
    /// An event that servers raise.
    Event(Status),
    /// An attribute that servers set.
    Attribute(&'a Key),
}

impl fmt::Display for Forbidden<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Forbidden::Event(status) => write!(f, "the event {status}"),
            Forbidden::Attribute(key) => write!(f, "the attribute {key}"),
        }
    }
}

/// Returns the first word in a client's request that only a server may say; `allowed` are events that are taken for
/// requests of its own.
pub fn forbidden<'a>(request: &'a Request, allowed: &[Status]) -> Option<Forbidden<'a>> {
    if let Request::Notify { status, .. } = request
        && is_a_servers(*status)
        && !allowed.contains(status)
    {
        return Some(Forbidden::Event(*status));
    }
    // A tool may ask to see events, and gets what its user may see.
    let is_wish = |info: &Info| matches!(request, Request::RegisterEvents { .. }) && info.key == WATCH;
    let private = attributes(request).find(|info| is_private(&info.key) && !is_wish(info));
    private.map(|info| Forbidden::Attribute(&info.key))
}

fn is_private(key: &Key) -> bool {
    key.as_bytes().starts_with(PRIVATE) || key.as_str().is_some_and(|key| keys::canonical(key) == keys::EVENT_PROXY)
}

/// The attributes of a request: those that say how it is to be done, and those that it brings besides.
fn attributes(request: &Request) -> impl Iterator<Item = &Info> {
    let besides: Box<dyn Iterator<Item = &Info> + '_> = match request {
        Request::Forward(Forward::Log { data, .. }) => Box::new(data.iter()),
        Request::Forward(Forward::Monitor { monitor, .. }) => Box::new(std::iter::once(monitor)),
        Request::Forward(Forward::Spawn { apps, .. }) => Box::new(apps.iter().flat_map(|app| &app.info)),
        Request::Forward(Forward::Query { queries }) => Box::new(queries.iter().flat_map(|query| &query.qualifiers)),
        _ => Box::new(std::iter::empty()),
    };
    request.attributes().iter().chain(besides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{App, DataRange, Nspace, Query};
    use crate::message::GroupCall;

    fn notify(status: Status, info: Vec<Info>) -> Request {
        Request::Notify { status, range: DataRange::GLOBAL, info }
    }

    #[test]
    fn events_that_servers_act_on_are_theirs_alone() {
        for status in [
            Status::GROUP_INVITED,
            Status::GROUP_LEFT,
            Status::GROUP_CONSTRUCT_COMPLETE,
            Status::GROUP_LEADER_SELECTED,
            Status::GROUP_MEMBER_FAILED,
            Status::ERR_PROC_ABORTED,
            Status::EVENT_JOB_START,
            Status::EVENT_JOB_END,
            Status::ERR_JOB_ABORTED,
        ] {
            assert_eq!(forbidden(&notify(status, vec![]), &[]), Some(Forbidden::Event(status)));
            assert_eq!(forbidden(&notify(status, vec![]), &[status]), None);
        }
        for status in [Status::GROUP_CONSTRUCT_ABORT, Status::READY_FOR_DEBUG, Status::MODEL_DECLARED, Status(-5000)] {
            assert_eq!(forbidden(&notify(status, vec![Info::new(keys::GROUP_ID, "g")]), &[]), None);
        }
    }

    #[test]
    fn attributes_of_servers_are_found_in_every_request() {
        let group = |call| Request::Group { group: Nspace::new("g").unwrap(), call, seen: None };
        let app = |info| App { cmd: None, argv: Vec::new(), env: Vec::new(), cwd: None, maxprocs: 1, info };
        let requests: [fn(Vec<Info>) -> Request; 6] = [
            |info| notify(Status(-5000), info),
            |info| Request::Fence { procs: Vec::new(), info },
            |info| Request::Meet { seen: 0, info },
            |info| Request::Forward(Forward::Publish { info }),
            |directives| Request::Forward(Forward::Log { data: Vec::new(), directives }),
            |qualifiers| Request::Forward(Forward::Query { queries: vec![Query { keys: Vec::new(), qualifiers }] }),
        ];
        for key in ["instanton.event.said.by", keys::EVENT_PROXY, "instanton.group.awaited"] {
            let info = || vec![Info::new("other", 1u32), Info::new(key, true)];
            let more = [
                group(GroupCall::Invite { procs: Vec::new(), info: info() }),
                Request::Forward(Forward::Spawn { job_info: Vec::new(), apps: vec![app(vec![]), app(info())] }),
            ];
            for request in requests.map(|request| request(info())).into_iter().chain(more) {
                let found = forbidden(&request, &[Status(-5000)]);
                assert_eq!(found, Some(Forbidden::Attribute(&Key::new(key).unwrap())), "{request:?}");
            }
        }
        assert_eq!(forbidden(&requests[0](vec![Info::new("instantons", 1u32)]), &[]), None);
        let registers = |key: &str| Request::RegisterEvents { codes: Vec::new(), info: vec![Info::new(key, true)] };
        assert_eq!(forbidden(&registers(WATCH), &[]), None);
        assert!(forbidden(&registers("instanton.event.said.by"), &[]).is_some());
    }
}
