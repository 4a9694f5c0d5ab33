//! The host of one node's server, in the launcher: what concerns a node or several goes to the [hub](super::hub), and the
//! rest to the host of a run of one node, whoever asks. None of it may wait.
use std::sync::Arc;

use instanton::data::{
    App, Channels, DataArray, DataRange, Info, InfoList, Nspace, Proc, Query, Status, Text, Value, keys,
};
use instanton::server::{
    Accepted, Answer, Blob, Completion, Credential, Host, Infos, Operation, Published, part_of_the_gone,
};

use super::NODE;
use super::hub::{Hub, OWN};
use super::meetings::{Kind, Met};
use super::wire::{Call, Given};

/// The host of one node's server.
pub struct NodeHost {
    hub: Arc<Hub>,
    node: usize,
}

impl NodeHost {
    /// The host of this node's server.
    pub fn new(hub: Arc<Hub>, node: usize) -> Self {
        Self { hub, node }
    }

    /// The time limit of this node has passed, in a meeting that it waits for.
    pub fn late(&self, kind: &Kind, procs: &[Proc]) {
        self.hub.withdraw(self.node, kind, procs);
    }

    /// Asks the node of a process for what it has posted.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` where nobody knows its node, and `ERR_UNREACH` where that is gone.
    pub fn posted(&self, proc: &Proc, info: &[Info], done: Completion<Blob>) -> Accepted {
        self.hub.introduce(self.node, &proc.nspace);
        let nodes = self.hub.nodes_of(std::slice::from_ref(proc));
        let node = nodes.and_then(|nodes| nodes.first().copied()).ok_or(Status::ERR_NOT_FOUND)?;
        if node == OWN {
            let own = self.hub.own().ok_or(Status::ERR_UNREACH)?;
            own.dmodex_request(proc, info).then(|blob| done.complete(blob))?;
            return Ok(Answer::Later);
        }
        self.hub.link(node)?.ask(Call::Dmodex { proc: proc.clone(), infos: info.to_vec() }, |given| {
            done.complete(given.and_then(|given| match given {
                Given::Bytes(blob) => Ok(blob),
                _ => Err(Status::ERR_BAD_PARAM),
            }));
        });
        Ok(Answer::Later)
    }

    /// Attributes that say as well at which node something is asked.
    fn with_node(&self, mut infos: Vec<Info>) -> Vec<Info> {
        infos.push(Info::new(NODE, self.node as u32));
        infos
    }
}

impl Host for NodeHost {
    fn client_connected(&self, proc: &Proc, done: Completion<()>) -> Accepted {
        self.hub.inner.client_connected(proc, done)
    }

    fn client_finalized(&self, proc: &Proc, done: Completion<()>) -> Accepted {
        let accepted = self.hub.inner.client_finalized(proc, done);
        self.hub.tool_gone(proc);
        accepted
    }

    fn client_lost(&self, proc: &Proc, status: Status) {
        self.hub.inner.client_lost(proc, status);
        self.hub.tool_gone(proc);
    }

    fn tool_connected(&self, info: &[Info], done: Completion<Proc>) -> Accepted {
        self.hub.inner.tool_connected(info, done)
    }

    fn tool_admitted(&self, tool: &Proc) {
        self.hub.admit(tool, self.node);
        self.hub.inner.tool_admitted(tool);
    }

    fn abort(
        &self,
        proc: &Proc,
        status: i32,
        message: Option<&[u8]>,
        procs: &[Proc],
        done: Completion<()>,
    ) -> Accepted {
        self.hub.inner.abort(proc, status, message, procs, done)
    }

    fn fence_nb(&self, procs: &[Proc], info: &[Info], data: Vec<u8>, done: Completion<Vec<u8>>) -> Accepted {
        let answer = Box::new(move |met: Result<Met, Status>| done.complete(met.map(|met| met.data)));
        self.hub.meet(self.node, Kind::Fence, procs, info, data, answer)
    }

    fn withdraw(&self, operation: &Operation, procs: &[Proc]) -> Result<(), Status> {
        self.late(&operation.into(), procs);
        Ok(())
    }

    fn direct_modex(&self, proc: &Proc, info: &[Info], done: Completion<Vec<u8>>) -> Accepted {
        self.posted(proc, info, Completion::new(|blob: Result<Blob, Status>| done.complete(blob.map(Vec::from))))
    }

    fn publish(&self, proc: &Proc, info: &[Info], done: Completion<()>) -> Accepted {
        self.publish_owned(proc, info.to_vec(), done)
    }

    fn publish_owned(&self, proc: &Proc, info: Vec<Info>, done: Completion<()>) -> Accepted {
        self.hub.inner.publish_owned(proc, self.with_node(info), done)
    }

    fn lookup(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<Published>) -> Accepted {
        self.hub.inner.lookup(proc, keys, &self.with_node(info.to_vec()), done)
    }

    fn unpublish(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<()>) -> Accepted {
        self.hub.inner.unpublish(proc, keys, info, done)
    }

    fn spawn(&self, proc: &Proc, job_info: &[Info], apps: &[App], done: Completion<Nspace>) -> Accepted {
        self.hub.inner.spawn(proc, job_info, apps, done)
    }

    fn spawn_owned(&self, proc: &Proc, job_info: Vec<Info>, apps: Vec<App>, done: Completion<Nspace>) -> Accepted {
        self.hub.inner.spawn_owned(proc, job_info, apps, done)
    }

    fn connect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        let (inner, connected) = (self.hub.inner.clone(), procs.to_vec());
        let answer = Box::new(move |met: Result<Met, Status>| {
            let met = met.map(drop);
            if met.is_ok() {
                let _ = inner.connect(&connected, &[], Completion::new(|_| ()));
            }
            done.complete(met);
        });
        self.hub.meet(self.node, Kind::Connect, procs, info, Vec::new(), answer)
    }

    fn disconnect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        let (inner, disconnected) = (self.hub.inner.clone(), procs.to_vec());
        let answer = Box::new(move |met: Result<Met, Status>| {
            let _ = inner.disconnect(&disconnected, &[], Completion::new(|_| ()));
            done.complete(met.map(drop));
        });
        self.hub.meet(self.node, Kind::Disconnect, procs, info, Vec::new(), answer)
    }

    fn register_events(&self, codes: &[Status], info: &[Info], done: Completion<()>) -> Accepted {
        self.hub.inner.register_events(codes, info, done)
    }

    fn deregister_events(&self, codes: &[Status], done: Completion<()>) -> Accepted {
        self.hub.inner.deregister_events(codes, done)
    }

    /// The other nodes hear of it, and the launcher.
    fn notify_event(
        &self,
        status: Status,
        source: &Proc,
        range: DataRange,
        info: &[Info],
        done: Completion<()>,
    ) -> Accepted {
        let bytes = self.hub.room_for(self.node, source, info)?;
        self.hub.hear(status, source, info);
        let call = || Call::Event { status, source: source.clone(), range, infos: info.to_vec() };
        self.hub.tell_of(self.node, source, bytes, call);
        if self.node != OWN
            && let Some(own) = self.hub.own()
        {
            let _ = own.notify_event(status, source, range, info).then(|_| ());
        }
        self.hub.inner.notify_event(status, source, range, info, done)
    }

    /// A local question is local to the node of the server that is asked.
    fn query(&self, proc: &Proc, queries: &[Query], done: Completion<Infos>) -> Accepted {
        let here = |query: &Query| {
            let mut query = query.clone();
            let names_node = [keys::HOSTNAME, keys::NODEID].iter().any(|key| query.qualifiers.find(key).is_some());
            if !names_node && query.keys.iter().any(|key| key.as_bytes() == keys::QUERY_LOCAL_PROC_TABLE.as_bytes()) {
                query.qualifiers.push(Info::new(NODE, self.node as u32));
            }
            query
        };
        self.hub.inner.query(proc, &queries.iter().map(here).collect::<Vec<_>>(), done)
    }

    fn log(&self, client: &Proc, data: &[Info], directives: &[Info], done: Completion<()>) -> Accepted {
        self.hub.inner.log(client, data, directives, done)
    }

    fn log_owned(&self, client: &Proc, data: Vec<Info>, directives: &[Info], done: Completion<()>) -> Accepted {
        self.hub.inner.log_owned(client, data, directives, done)
    }

    fn job_control(
        &self,
        requestor: &Proc,
        targets: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        self.hub.inner.job_control(requestor, targets, directives, done)
    }

    fn allocate(&self, client: &Proc, directive: u8, data: &[Info], done: Completion<Infos>) -> Accepted {
        self.hub.inner.allocate(client, directive, data, done)
    }

    fn session_control(&self, proc: &Proc, session: u32, directives: &[Info], done: Completion<Infos>) -> Accepted {
        self.hub.inner.session_control(proc, session, directives, done)
    }

    fn monitor(
        &self,
        requestor: &Proc,
        monitor: &Info,
        error: Status,
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        self.hub.inner.monitor(requestor, monitor, error, &self.with_node(directives.to_vec()), done)
    }

    fn get_credential(&self, proc: &Proc, directives: &[Info], done: Completion<Credential>) -> Accepted {
        self.hub.inner.get_credential(proc, directives, done)
    }

    fn validate_credential(
        &self,
        proc: &Proc,
        credential: &[u8],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        self.hub.inner.validate_credential(proc, credential, directives, done)
    }

    /// The server learns of tools of other nodes when somebody there first waits for one.
    fn namespace_awaited(&self, nspace: &Nspace, done: Completion<()>) -> Accepted {
        match self.hub.introduce(self.node, nspace) {
            true => Ok(Answer::Done),
            false => self.hub.inner.namespace_awaited(nspace, done),
        }
    }

    fn not_registered(&self, nspace: &Nspace, reason: &str) {
        self.hub.inner.not_registered(nspace, reason);
    }

    fn iof_pull(&self, procs: &[Proc], directives: &[Info], channels: Channels, done: Completion<()>) -> Accepted {
        self.hub.inner.iof_pull(procs, directives, channels, done)
    }

    fn push_stdin(
        &self,
        source: &Proc,
        targets: &[Proc],
        directives: &[Info],
        bytes: &[u8],
        done: Completion<()>,
    ) -> Accepted {
        self.hub.inner.push_stdin(source, targets, directives, bytes, done)
    }

    /// All members are named: the nodes of the members meet.
    fn group(
        &self,
        operation: i64,
        group: &Nspace,
        procs: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        let by_leaders = [keys::GROUP_BOOTSTRAP, keys::GROUP_ADD_MEMBERS];
        if procs.is_empty() || by_leaders.iter().any(|key| directives.find(key).is_some()) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let data = directives.find(keys::GROUP_ENDPT_DATA).and_then(|info| info.value.as_bytes());
        let data = data.map(<[u8]>::to_vec).unwrap_or_default();
        let (hub, named) = (self.hub.clone(), procs.to_vec());
        let answer = Box::new(move |met: Result<Met, Status>| {
            let infos = |Met { mut data, context, gone, failed }: Met| {
                let mut infos = Vec::new();
                infos.extend(context.map(|context| Info::new(keys::GROUP_CONTEXT_ID, Value::Size(context as u64))));
                if !gone.is_empty() {
                    let mut members = hub.by_rank(&named);
                    members.retain(|proc| !gone.contains(proc));
                    infos.push(Info::new(keys::GROUP_MEMBERSHIP, Value::DataArray(DataArray::of(members))));
                }
                if let Some((status, own)) = failed.zip(hub.own()) {
                    data.extend(part_of_the_gone(&own.proc(), status, gone));
                }
                infos.extend((!data.is_empty()).then(|| Info::new(keys::GROUP_ENDPT_DATA, Value::from(data))));
                (Status::SUCCESS, infos)
            };
            done.complete(met.map(infos));
        });
        self.hub.meet(self.node, Kind::Group(operation, group.clone()), procs, directives, data, answer)
    }

    fn cleanup_registered(&self, proc: &Proc, directives: &[Info]) {
        self.hub.inner.cleanup_registered(proc, directives);
    }
}
