//! Requests that the host answers, and that the library only carries: queries, logs, allocations, monitors, sessions, resources,
//! credentials, fabrics, input for others.
//!
//! An answer of attributes brings a status with them: a failure may be explained by some, and a success may
//! be a partial one. A host that does not do such things answers `ERR_NOT_SUPPORTED`.
use std::sync::PoisonError;

use crate::attribute_support;
use crate::data::{Info, InfoList, Proc, Query, ResourceUnit, Status, Text, Value, keys};
use crate::message::{Credential, Forward, Infos, Reply, Request};
use crate::pending::{Callback, Pending};
#[cfg(feature = "server")]
use crate::upstream::contacts;
use crate::wall_clock;

use super::call::{infos, limit_in, nothing};
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
        let answers = queries.iter().flat_map(|query| &query.keys).map(|key| {
            let native = attribute_support::available_servers(key);
            #[cfg(feature = "server")]
            let native = native.map(|native| [native, contacts::available()].concat());
            native
        });
        answers.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty()).map(|all| all.concat())
    }

    /// Answers queries, or asks the server.
    fn query(&self, queries: Vec<Query>, callback: Callback<Infos, Error>) -> Result<(), Error> {
        if queries.is_empty() || !queries.iter().all(Query::is_sound) {
            return Err(Status::ERR_BAD_PARAM.into());
        }
        let answer = if let Some(versions) = abi_versions(&queries) {
            Ok((Status::SUCCESS, versions))
        } else if let Some(answers) = self.support(&queries).or_else(|| Inner::servers(&queries)) {
            let found = answers.iter().filter(|info| info.value != Value::Undef).count();
            let status = match found {
                0 => Status::ERR_NOT_FOUND,
                found if found < answers.len() => Status::ERR_PARTIAL_SUCCESS,
                _ => Status::SUCCESS,
            };
            Ok((status, answers))
        } else if self.link.can_ask() {
            return self.ask_for("PMIx_Query_info", &Request::Forward(Forward::Query { queries }), infos, callback);
        } else {
            Err(Status::ERR_UNREACH.into())
        };
        self.link.run_later(move || callback(answer));
        Ok(())
    }
}

fn credential(reply: Reply) -> Option<Credential> {
    match reply {
        Reply::Credential(credential, infos) => Some((credential, infos)),
        _ => None,
    }
}

/// The answers to queries for nothing but the version of the binary interface, which need no server and no init.
pub fn abi_versions(queries: &[Query]) -> Option<Vec<Info>> {
    let answers = queries.iter().flat_map(|query| &query.keys).map(attribute_support::abi_version);
    answers.collect::<Option<Vec<Info>>>().filter(|all| !all.is_empty())
}

impl Client {
    /// Prepares a request that goes to the host.
    fn forward<T: Send + 'static>(
        &self,
        call: &'static str,
        request: Forward,
        take: fn(Reply) -> Option<T>,
    ) -> Pending<T, Error> {
        self.prepare_request(call, Ok(Request::Forward(request)), take)
    }

    /// Asks about jobs, processes, the system (`PMIx_Query_info`). An answer that is not known is left out or comes
    /// without a type, and the status says so.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without a query; what the host answers when it answers nothing else.
    pub fn query(&self, queries: &[Query]) -> Pending<Infos, Error> {
        // All of them are answered at once: the shortest limit counts.
        let limit = queries.iter().filter_map(|query| limit_in(&query.qualifiers)).min();
        let queries = queries.to_vec();
        self.prepare("PMIx_Query_info", limit, move |inner, callback| inner.query(queries, callback))
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
    pub fn log(&self, data: &[Info], directives: &[Info]) -> Pending<(), Error> {
        let mut directives = directives.to_vec();
        if directives.find(keys::LOG_SOURCE).is_none() {
            directives.push(Info::new(keys::LOG_SOURCE, self.proc().clone()));
        }
        if directives.is_set(keys::LOG_GENERATE_TIMESTAMP) && directives.find(keys::LOG_TIMESTAMP).is_none() {
            let now = wall_clock::since_1970();
            directives.push(Info::new(keys::LOG_TIMESTAMP, Value::Time(now.as_secs() as i64)));
        }
        let request = match data {
            [] => Err(Status::ERR_BAD_PARAM),
            data => Ok(Request::Forward(Forward::Log { data: data.to_vec(), directives })),
        };
        self.prepare_request("PMIx_Log", request, nothing)
    }

    /// Asks for resources, or gives some back (`PMIx_Allocation_request`); `directive` is a
    /// `constants::alloc_directive`.
    ///
    /// # Errors
    /// The host's status.
    pub fn allocation_request(&self, directive: u8, info: &[Info]) -> Pending<Infos, Error> {
        self.forward("PMIx_Allocation_request", Forward::Allocate { directive, info: info.to_vec() }, infos)
    }

    /// Has this process watched (`PMIx_Process_monitor`): `monitor` says how, and `error` is the event that is raised
    /// when it stalls.
    ///
    /// # Errors
    /// The host's status.
    pub fn process_monitor(&self, monitor: &Info, error: Status, directives: &[Info]) -> Pending<Infos, Error> {
        let request = Forward::Monitor { monitor: monitor.clone(), error, directives: directives.to_vec() };
        self.forward("PMIx_Process_monitor", request, infos)
    }

    /// Asks for something that proves who this process is (`PMIx_Get_credential`).
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` without a server; what the host answers.
    pub fn get_credential(&self, directives: &[Info]) -> Pending<Credential, Error> {
        let request = match self.is_alone() {
            true => Err(Status::ERR_NOT_SUPPORTED),
            false => Ok(Request::Forward(Forward::GetCredential { directives: directives.to_vec() })),
        };
        self.prepare_request("PMIx_Get_credential", request, credential)
    }

    /// Asks whether a credential is good, and whose it is (`PMIx_Validate_credential`).
    ///
    /// # Errors
    /// `ERR_INVALID_CRED` without a server: nobody has made one; what the host answers.
    pub fn validate_credential(&self, credential: &[u8], directives: &[Info]) -> Pending<Infos, Error> {
        let (credential, directives) = (credential.to_vec(), directives.to_vec());
        let request = match self.is_alone() {
            true => Err(Status::ERR_INVALID_CRED),
            false => Ok(Request::Forward(Forward::ValidateCredential { credential, directives })),
        };
        self.prepare_request("PMIx_Validate_credential", request, infos)
    }

    /// Sends bytes to the standard input of processes (`PMIx_IOF_push`); none end it.
    ///
    /// # Errors
    /// The host's status.
    pub fn iof_push(&self, targets: &[Proc], bytes: &[u8], directives: &[Info]) -> Pending<(), Error> {
        let request =
            Forward::Push { targets: targets.to_vec(), bytes: bytes.to_vec(), directives: directives.to_vec() };
        self.forward("PMIx_IOF_push", request, nothing)
    }

    /// Asks about a fabric (`PMIx_Fabric_register` and its like); `operation` is a `constants::fabric_operation`.
    ///
    /// # Errors
    /// The host's status.
    pub fn fabric(&self, operation: i64, directives: &[Info]) -> Pending<Infos, Error> {
        self.forward("PMIx_Fabric", Forward::Fabric { operation, directives: directives.to_vec() }, infos)
    }

    /// Controls a session (`PMIx_Session_control`).
    ///
    /// # Errors
    /// The host's status.
    pub fn session_control(&self, session: u32, directives: &[Info]) -> Pending<Infos, Error> {
        let request = Forward::SessionControl { session, directives: directives.to_vec() };
        self.forward("PMIx_Session_control", request, infos)
    }

    /// Defines, changes or removes a block of resources (`PMIx_Resource_block`); `directive` is a
    /// `constants::resource_block_directive`.
    ///
    /// # Errors
    /// The host's status.
    pub fn resource_block(
        &self,
        directive: u8,
        block: &Text,
        units: &[ResourceUnit],
        info: &[Info],
    ) -> Pending<(), Error> {
        let request =
            Forward::ResourceBlock { directive, block: block.clone(), units: units.to_vec(), info: info.to_vec() };
        self.forward("PMIx_Resource_block", request, nothing)
    }
}
