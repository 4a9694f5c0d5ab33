//! A server that is looked into: one connection, as a tool, and questions with a time limit.
//!
//! A server that is stopped or hangs costs its time limit and is told of; others are looked into all the same.
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use instanton::client::{Client, Error, InitError};
use instanton::data::{Info, InfoList, Query, Status, Text, Value, keys};
use instanton::tool::Tool;

use super::patience::{self, PATIENCE};
use super::places::{Library, Server};

/// Beginning of the keys of this project's own.
const OWN: &[u8] = b"instanton.";

/// A server, with the way to it.
pub struct Source {
    /// The server.
    pub server: Server,
    tool: Tool,
    client: Arc<Client>,
}

/// Reason why a server tells nothing.
#[derive(Debug)]
pub enum Failure {
    /// The server belongs to another user.
    NotOurs,
    /// The server cannot be reached, or does not answer; the reason in words.
    Silent(String),
}

impl Failure {
    /// Words for it.
    pub fn words(&self) -> String {
        match self {
            Self::NotOurs => "it belongs to another user".into(),
            Self::Silent(reason) => reason.clone(),
        }
    }
}

impl Source {
    /// Attaches to a server.
    ///
    /// # Errors
    /// When it cannot be reached, or does not let us in.
    pub fn attach(server: Server) -> Result<Self, Failure> {
        let (mut wish, left) = (server.way.clone(), patience::left(server.whose));
        if left.is_zero() {
            return Err(Failure::Silent("it is not asked: others of its user do not answer".into()));
        }
        let begin = Instant::now();
        wish.push(Info::new(keys::TIMEOUT, left.as_secs().max(1) as u32));
        let tool = Tool::init(&wish).map_err(|error| match error {
            InitError::ForeignServer { .. } => Failure::NotOurs,
            error if error.status() == Status::ERR_INVALID_CRED => Failure::NotOurs,
            error => {
                patience::spend(server.whose, begin.elapsed());
                Failure::Silent(error.to_string())
            }
        })?;
        Ok(Self { server, client: tool.primary(), tool })
    }

    /// The connection.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Returns whether a key is worth asking for: a stock server knows none of this project's own.
    fn may_know(&self, key: &[u8]) -> bool {
        self.server.library == Library::Instanton || !key.starts_with(OWN)
    }

    /// Asks for several keys about the same. A stock server is asked one by one: it may fail all for one.
    ///
    /// # Errors
    /// When it does not answer, or the connection is lost.
    pub fn ask(&self, asked: &[&str], about: &[Info]) -> Result<Vec<Info>, Failure> {
        let of = |key: &str| Query { keys: vec![text(key)], qualifiers: about.to_vec() };
        if self.server.library == Library::Instanton {
            let query = Query { keys: asked.iter().map(|key| text(key)).collect(), qualifiers: about.to_vec() };
            return self.query(vec![query]);
        }
        let mut all = Vec::new();
        for key in asked.iter().filter(|key| self.may_know(key.as_bytes())) {
            all.extend(self.query(vec![of(key)])?);
        }
        Ok(all)
    }

    /// The name of its node; none where the server is a stock one, which may not tell it.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn node(&self) -> Result<Option<String>, Failure> {
        match self.server.library {
            Library::Instanton => Ok(self.value(keys::HOSTNAME, &[])?.and_then(|name| Some(name.as_str()?.to_owned()))),
            Library::Stock => Ok(None),
        }
    }

    /// Asks for one key; none where the server does not tell it.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn value(&self, key: &str, about: &[Info]) -> Result<Option<Value>, Failure> {
        let answers = self.ask(&[key], about)?;
        Ok(answers.find(key).map(|info| info.value.clone()).filter(|value| *value != Value::Undef))
    }

    /// Asks queries, and returns what was answered: nothing where the server knows none of it.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn query(&self, queries: Vec<Query>) -> Result<Vec<Info>, Failure> {
        match self.queried(queries)? {
            Ok((_, infos)) => Ok(infos),
            Err(_) => Ok(Vec::new()),
        }
    }

    /// Asks queries, and returns what was answered, or the refusal.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn queried(&self, queries: Vec<Query>) -> Result<Result<(Status, Vec<Info>), Status>, Failure> {
        // The server in this process that goes to a stock one for us would answer of itself.
        if !queries.iter().flat_map(|query| &query.keys).all(|key| self.may_know(key.as_bytes())) {
            return Ok(Err(Status::ERR_NOT_SUPPORTED));
        }
        let (tell, told) = mpsc::channel();
        let sent = self.client.query(&queries).then(move |answer| _ = tell.send(answer));
        let answer = match sent {
            Ok(()) => told.recv_timeout(PATIENCE).map_err(|_| {
                patience::spend(self.server.whose, PATIENCE);
                Failure::Silent(format!("no answer within {} s", PATIENCE.as_secs()))
            })?,
            Err(error) => Err(error),
        };
        match answer {
            Ok(answer) => Ok(Ok(answer)),
            Err(Error::Status(status)) if !is_lost(status) => Ok(Err(status)),
            Err(error) => Err(Failure::Silent(error.to_string())),
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // One that is gone needs no goodbye.
        let _ = self.tool.finalize(&[Info::new(keys::TIMEOUT, 1u32)]);
    }
}

/// Returns whether a status says that there is no server any more.
fn is_lost(status: Status) -> bool {
    [Status::ERR_LOST_CONNECTION, Status::ERR_UNREACH, Status::ERR_COMM_FAILURE].contains(&status)
}

fn text(key: &str) -> Text {
    Text::new(key).expect("a key has no NUL")
}
