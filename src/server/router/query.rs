//! Queries, with what other rooms know for their answers.
use std::cell::OnceCell;

use super::Router;
use crate::data::{Info, InfoList, Key, Nspace, Proc, Query, Rank, Status, Value, WaitReport, keys};
use crate::message::{Infos, Reply};
use crate::server::ctx::Ctx;
use crate::server::ctx::peers::Caller;
use crate::server::query::Queries;
use crate::server::query::known::Known;
use crate::server::waiting::Rooms;
use crate::store::Directives;

impl Router {
    /// A client looks a key up. The sets that a process is in are known here where the host has not given them.
    pub(super) fn get(&mut self, caller: Caller, proc: Proc, key: Option<Key>, info: &[Info]) {
        let is_given = |key: &Key| {
            let store = self.jobs.store(&proc.nspace);
            store.is_some_and(|store| store.get(Rank::UNDEF, proc.rank, key, Directives::none()).is_ok())
        };
        match key.as_ref().and_then(|key| self.process_sets.of(&proc, key).filter(|_| !is_given(key))) {
            Some(sets) => self.cx.reply(caller.peer, caller.number, Reply::Value(sets)),
            None => self.gets.get(&mut self.cx, &self.jobs, caller, proc, key, info),
        }
    }

    /// A client asks something.
    pub(in crate::server) fn query(&mut self, caller: Caller, asker: Proc, queries: Vec<Query>) {
        self.with_known(|room, cx, known| room.ask(cx, known, caller, asker, queries));
    }

    /// The host has answered a query.
    pub(super) fn query_answered(&mut self, number: u64, result: Result<Infos, Status>) {
        self.with_known(|room, cx, known| room.answered(cx, known, number, result));
    }

    /// Lends the queries room what the server knows itself.
    fn with_known(&mut self, act: impl FnOnce(&mut Queries, &mut Ctx, &Known)) {
        let (process_sets, groups) = (&self.process_sets, &self.groups);
        let sets = |key: &str, query: &Query| -> Option<Value> {
            let named = |key| query.qualifiers.find(key).and_then(|info| info.value.as_text());
            let value = process_sets.answer(key, named(keys::PSET_NAME), groups.names());
            value.or_else(|| match key {
                // Groups are listed among the sets.
                keys::QUERY_PSET_MEMBERSHIP => groups.answer(keys::QUERY_GROUP_MEMBERSHIP, named(keys::PSET_NAME)),
                _ => groups.answer(key, named(keys::GROUP_ID)),
            })
        };
        let hostname = self.cx.config.hostname.clone();
        let (jobs, collectives) = (&self.jobs, &self.collectives);
        let rooms = Rooms { jobs, collectives, fences: &self.fences, gets: &self.gets, groups };
        // However often it is asked for in one call.
        let report = OnceCell::new();
        let waiting = |cx: &Ctx, asker: &Proc, query: &Query| {
            let report: &WaitReport = report.get_or_init(|| rooms.report_for(cx, asker));
            let name = query.qualifiers.find(keys::NSPACE).and_then(|info| info.value.as_bytes());
            let is_meant = |nspace: &Nspace| name.is_none_or(|name| name == nspace.as_bytes());
            let rows = report.rows.iter().filter(|row| is_meant(&row.nspace)).cloned().collect();
            WaitReport { rows, is_cut: report.is_cut }.into_value()
        };
        let known = Known {
            jobs,
            hostname: &hostname,
            uri: self.cx.config.tools.map(|_| self.cx.identity.uri.clone()),
            host_support: &self.host_support,
            sets: &sets,
            waiting: &waiting,
        };
        act(&mut self.queries, &mut self.cx, &known);
    }
}
