//! Memory that a request takes while it waits for its answer: lists of short attributes take many times what they have in
//! its message.
use super::{Forward, GroupCall, Request};
use crate::data::{App, Info, Posted, Proc, Query, Text};

impl Request {
    /// Returns the bytes of its lists as they lie here.
    pub(crate) fn kept_size(&self) -> usize {
        match self {
            Request::Fence { procs, info } | Request::Connect { procs, info } | Request::Disconnect { procs, info } => {
                of_procs(procs) + of_infos(info)
            }
            Request::Meet { info, .. } | Request::Get { info, .. } | Request::RegisterEvents { info, .. } => {
                of_infos(info)
            }
            // The host has a copy until other nodes have heard of it.
            Request::Notify { info, .. } => 2 * of_infos(info),
            Request::JobControl { targets: procs, directives: info }
            | Request::PullOutput { procs, directives: info, .. } => of_procs(procs) + of_infos(info),
            Request::Abort { procs, .. } => of_procs(procs),
            Request::Group { call, .. } => match call {
                GroupCall::Construct { procs, info } | GroupCall::Invite { procs, info } => {
                    of_procs(procs) + of_infos(info)
                }
                GroupCall::Destruct { info } | GroupCall::Leave { info } | GroupCall::Join { info, .. } => {
                    of_infos(info)
                }
                GroupCall::Decide(decision) => of_procs(&decision.add),
            },
            Request::Forward(forward) => forward.kept_size(),
            Request::Commit { entries } => entries.iter().map(of_posted).sum(),
            Request::Segments { .. }
            | Request::Finalize
            | Request::DeregisterEvents { .. }
            | Request::StopOutput { .. }
            | Request::OutputTaken { .. } => 0,
        }
    }
}

impl Forward {
    fn kept_size(&self) -> usize {
        match self {
            Forward::Publish { info }
            | Forward::Allocate { info, .. }
            | Forward::ResourceBlock { info, .. }
            | Forward::GetCredential { directives: info }
            | Forward::ValidateCredential { directives: info, .. }
            | Forward::Fabric { directives: info, .. }
            | Forward::SessionControl { directives: info, .. } => of_infos(info),
            Forward::Lookup { keys, info } | Forward::Unpublish { keys, info } => of_texts(keys) + of_infos(info),
            Forward::Spawn { job_info, apps } => of_infos(job_info) + apps.iter().map(of_app).sum::<usize>(),
            Forward::Query { queries } => queries.iter().map(of_query).sum(),
            Forward::Log { data, directives } => of_infos(data) + of_infos(directives),
            Forward::Monitor { monitor, directives, .. } => monitor.kept_size() + of_infos(directives),
            Forward::Push { targets, directives, .. } => of_procs(targets) + of_infos(directives),
        }
    }
}

fn of_procs(procs: &[Proc]) -> usize {
    procs.iter().map(Proc::kept_size).sum()
}

fn of_infos(infos: &[Info]) -> usize {
    infos.iter().map(Info::kept_size).sum()
}

fn of_texts(texts: &[Text]) -> usize {
    texts.iter().map(Text::kept_size).sum()
}

fn of_posted(posted: &Posted) -> usize {
    size_of::<Posted>() + posted.key.len() + posted.value.kept_size()
}

fn of_app(app: &App) -> usize {
    size_of::<App>() + of_texts(&app.argv) + of_texts(&app.env) + of_infos(&app.info)
}

fn of_query(query: &Query) -> usize {
    size_of::<Query>() + of_texts(&query.keys) + of_infos(&query.qualifiers)
}
