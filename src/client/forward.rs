//! Requests that the host answers, and that the library only carries: queries, logs, allocations, monitors, sessions, resources,
//! credentials, fabrics, input for others.
//!
//! Each has a twin that waits. What has attributes for an answer brings them with a status: a failure may be explained by
//! some, and a success may be a partial one. A host that does not do such things answers `ERR_NOT_SUPPORTED`.
use std::sync::PoisonError;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::attribute_support;
use crate::data::{Info, InfoList, Proc, Query, ResourceUnit, Status, Text, Value, keys};
use crate::message::{Credential, Forward, Infos, Reply, Request};

use super::connection::Answer;
use super::{Client, Error, Inner};

impl Inner {
    /// The answers to queries for nothing but supported attributes, where the library has them: what hosts support is known by their
    /// servers.
    fn support(&self, queries: &[Query]) -> Option<Vec<Info>> {
        let is_ours = |query: &Query| {
            let host = attribute_support::asks_for_host(&query.qualifiers) && self.link.has_server();
            !query.keys.is_empty() && query.keys.iter().all(attribute_support::is_asked_by) && !host
        };
        if !queries.iter().all(is_ours) {
            return None;
        }
        let host = self.own.host_support.lock().unwrap_or_else(PoisonError::into_inner);
        Some(queries.iter().flat_map(|query| attribute_support::answers(&query.qualifiers, &host)).collect())
    }

    /// The answers to queries for nothing but servers on this node, an attribute for each.
    fn servers(queries: &[Query]) -> Option<Vec<Info>> {
        let answers = queries.iter().flat_map(|query| &query.keys).map(attribute_support::available_servers);
        answers.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty()).map(|all| all.concat())
    }

    /// Asks the server; `take` says what its reply brings.
    pub(super) fn ask_for<T: 'static>(
        &self,
        call: &'static str,
        request: &Request,
        take: fn(Reply) -> Option<T>,
        then: impl FnOnce(Result<T, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.life.check()?;
        self.link.request(call, request, Box::new(move |answer| then(taken(answer, take))))
    }
}

/// What an answer brings.
pub(super) fn taken<T>(answer: Result<Answer, Error>, take: fn(Reply) -> Option<T>) -> Result<T, Error> {
    match answer?.reply {
        Reply::Done(status) if status != Status::SUCCESS => Err(status.into()),
        reply => take(reply).ok_or(Status::ERR_COMM_FAILURE.into()),
    }
}

/// Nothing but that it is done.
pub(super) fn nothing(reply: Reply) -> Option<()> {
    matches!(reply, Reply::Done(_)).then_some(())
}

/// Attributes.
pub(super) fn infos(reply: Reply) -> Option<Infos> {
    match reply {
        Reply::Infos(status, infos) => Some((status, infos)),
        Reply::Done(status) => Some((status, Vec::new())),
        _ => None,
    }
}

fn credential(reply: Reply) -> Option<Credential> {
    match reply {
        Reply::Credential(credential, infos) => Some((credential, infos)),
        _ => None,
    }
}

fn given<T>(list: &[T]) -> Result<(), Error> {
    if list.is_empty() { Err(Status::ERR_BAD_PARAM.into()) } else { Ok(()) }
}

/// Whether a process is named in two ways, which the Standard forbids.
fn names_two(qualifiers: &[Info]) -> bool {
    let has = |key| qualifiers.find(key).is_some();
    has(keys::PROCID) && (has(keys::NSPACE) || has(keys::RANK))
}

/// The answers to queries for nothing but the version of the binary interface, which need no server and no init.
pub fn abi_versions(queries: &[Query]) -> Option<Vec<Info>> {
    let answers = queries.iter().flat_map(|query| &query.keys).map(attribute_support::abi_version);
    answers.collect::<Option<Vec<Info>>>().filter(|all| !all.is_empty())
}

impl Client {
    fn forward<T: 'static>(
        &self,
        call: &'static str,
        request: Forward,
        take: fn(Reply) -> Option<T>,
        done: impl FnOnce(Result<T, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.inner.ask_for(call, &Request::Forward(request), take, done)
    }

    /// Asks about jobs, processes, the system (`PMIx_Query_info`). What is not known is left out or comes without a type, and
    /// the status says so.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without a query; what the host answers when it answers nothing else.
    pub fn query(&self, queries: &[Query]) -> Result<Infos, Error> {
        self.wait("PMIx_Query_info", |done| self.query_nb(queries, done))
    }

    /// The same without waiting (`PMIx_Query_info_nb`).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn query_nb(
        &self,
        queries: &[Query],
        done: impl FnOnce(Result<Infos, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        given(queries)?;
        if queries.iter().any(|query| names_two(&query.qualifiers)) {
            return Err(Status::ERR_BAD_PARAM.into());
        }
        if let Some(answers) = abi_versions(queries) {
            self.inner.life.check()?;
            self.inner.link.run_later(move || done(Ok((Status::SUCCESS, answers))));
            return Ok(());
        }
        if let Some(answers) = self.inner.support(queries).or_else(|| Inner::servers(queries)) {
            self.inner.life.check()?;
            let found = answers.iter().filter(|info| info.value != Value::Undef).count();
            let status = match found {
                0 => Status::ERR_NOT_FOUND,
                found if found < answers.len() => Status::ERR_PARTIAL_SUCCESS,
                _ => Status::SUCCESS,
            };
            self.inner.link.run_later(move || done(Ok((status, answers))));
            return Ok(());
        }
        if self.is_alone() {
            self.inner.life.check()?;
            self.inner.link.run_later(move || done(Err(Status::ERR_UNREACH.into())));
            return Ok(());
        }
        self.forward("PMIx_Query_info", Forward::Query { queries: queries.to_vec() }, infos, done)
    }

    /// Says which attributes this program supports for one function of its server module, by their names
    /// (`PMIx_Register_attributes`): what its own queries are answered. Its server has a function of that name, too.
    ///
    /// # Errors
    /// `ERR_REPEAT_ATTR_REGISTRATION` for a function of which that was said.
    pub fn register_attributes(&self, function: &str, attributes: &[String]) -> Result<(), Error> {
        self.inner.life.check()?;
        let mut host = self.inner.own.host_support.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(host.register(function, attributes)?)
    }

    /// Logs data (`PMIx_Log`): each attribute names a channel and says what goes there. The host is told who logs, and when if that is wanted.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without data, and what the host answers.
    pub fn log(&self, data: &[Info], directives: &[Info]) -> Result<(), Error> {
        self.wait("PMIx_Log", |done| self.log_nb(data, directives, done))
    }

    /// The same without waiting (`PMIx_Log_nb`).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn log_nb(
        &self,
        data: &[Info],
        directives: &[Info],
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        given(data)?;
        let mut directives = directives.to_vec();
        if directives.find(keys::LOG_SOURCE).is_none() {
            directives.push(Info::new(keys::LOG_SOURCE, self.proc().clone()));
        }
        if directives.is_set(keys::LOG_GENERATE_TIMESTAMP) && directives.find(keys::LOG_TIMESTAMP).is_none() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            directives.push(Info::new(keys::LOG_TIMESTAMP, Value::Time(now.as_secs() as i64)));
        }
        let request = Forward::Log { data: data.to_vec(), directives };
        self.forward("PMIx_Log", request, nothing, done)
    }

    /// Asks for resources, or gives some back (`PMIx_Allocation_request_nb`); `directive` is a `constants::alloc_directive`.
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn allocation_request_nb(
        &self,
        directive: u8,
        info: &[Info],
        done: impl FnOnce(Result<Infos, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.forward("PMIx_Allocation_request", Forward::Allocate { directive, info: info.to_vec() }, infos, done)
    }

    /// Has this process watched (`PMIx_Process_monitor_nb`): `monitor` says how, and `error` is the event that is raised when
    /// it stalls.
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn process_monitor_nb(
        &self,
        monitor: &Info,
        error: Status,
        directives: &[Info],
        done: impl FnOnce(Result<Infos, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let request = Forward::Monitor { monitor: monitor.clone(), error, directives: directives.to_vec() };
        self.forward("PMIx_Process_monitor", request, infos, done)
    }

    /// Asks for something that proves who this process is (`PMIx_Get_credential_nb`).
    ///
    /// # Errors
    /// When `done` will not run; `ERR_NOT_SUPPORTED` without a server.
    pub fn get_credential_nb(
        &self,
        directives: &[Info],
        done: impl FnOnce(Result<Credential, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.inner.life.check()?;
        if self.is_alone() {
            return Err(Status::ERR_NOT_SUPPORTED.into());
        }
        let request = Forward::GetCredential { directives: directives.to_vec() };
        self.forward("PMIx_Get_credential", request, credential, done)
    }

    /// Asks whether a credential is good, and whose it is (`PMIx_Validate_credential_nb`).
    ///
    /// # Errors
    /// When `done` will not run; `ERR_INVALID_CRED` without a server: nobody has made one.
    pub fn validate_credential_nb(
        &self,
        credential: &[u8],
        directives: &[Info],
        done: impl FnOnce(Result<Infos, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.inner.life.check()?;
        if self.is_alone() {
            return Err(Status::ERR_INVALID_CRED.into());
        }
        let request = Forward::ValidateCredential { credential: credential.to_vec(), directives: directives.to_vec() };
        self.forward("PMIx_Validate_credential", request, infos, done)
    }

    /// Sends bytes to the standard input of processes (`PMIx_IOF_push`); none end it.
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn iof_push_nb(
        &self,
        targets: &[Proc],
        bytes: &[u8],
        directives: &[Info],
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let request =
            Forward::Push { targets: targets.to_vec(), bytes: bytes.to_vec(), directives: directives.to_vec() };
        self.forward("PMIx_IOF_push", request, nothing, done)
    }

    /// Asks about a fabric (`PMIx_Fabric_register_nb` and its like); `operation` is a `constants::fabric_operation`.
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn fabric_nb(
        &self,
        operation: i64,
        directives: &[Info],
        done: impl FnOnce(Result<Infos, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.forward("PMIx_Fabric", Forward::Fabric { operation, directives: directives.to_vec() }, infos, done)
    }

    /// Controls a session (`PMIx_Session_control`).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn session_control_nb(
        &self,
        session: u32,
        directives: &[Info],
        done: impl FnOnce(Result<Infos, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let request = Forward::SessionControl { session, directives: directives.to_vec() };
        self.forward("PMIx_Session_control", request, infos, done)
    }

    /// Defines, changes or removes a block of resources (`PMIx_Resource_block_nb`); `directive` is a
    /// `constants::resource_block_directive`.
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn resource_block_nb(
        &self,
        directive: u8,
        block: &Text,
        units: &[ResourceUnit],
        info: &[Info],
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let request =
            Forward::ResourceBlock { directive, block: block.clone(), units: units.to_vec(), info: info.to_vec() };
        self.forward("PMIx_Resource_block", request, nothing, done)
    }
}
