//! Servers that accept tools, with a host that records what it is asked about them.
#![allow(dead_code, reason = "every test uses its own part of it")]
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use instanton::data::{App, Channels, Info, Nspace, Proc, Status, keys};
use instanton::server::{Accepted, Answer, Completion, Host, Server, ServerConfig, ToolSupport};

/// Longer than anything here takes; a test that waits for ever fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A host that records the requests about its tools, and answers as it is told to.
#[derive(Default)]
pub struct RecordingHost {
    /// The name that a tool gets from the host; a refusal where that is an error; none where the host has no such function.
    pub names: Option<Result<Proc, Status>>,
    pub connected: Mutex<Vec<Vec<Info>>>,
    pub finalized: Mutex<Vec<Proc>>,
    pub lost: Mutex<Option<mpsc::Sender<(Proc, Status)>>>,
    pub spawned: Mutex<Vec<Info>>,
    pub pushed: Mutex<Vec<Vec<u8>>>,
}

impl Host for RecordingHost {
    fn tool_connected(&self, info: &[Info], done: Completion<Proc>) -> Accepted {
        self.connected.lock().unwrap().push(info.to_vec());
        match &self.names {
            None => Err(Status::ERR_NOT_SUPPORTED),
            Some(answer) => {
                done.complete(answer.clone());
                Ok(Answer::Later)
            }
        }
    }

    fn client_finalized(&self, proc: &Proc, _: Completion<()>) -> Accepted {
        self.finalized.lock().unwrap().push(proc.clone());
        Ok(Answer::Done)
    }

    fn client_lost(&self, proc: &Proc, status: Status) {
        if let Some(tell) = &*self.lost.lock().unwrap() {
            let _ = tell.send((proc.clone(), status));
        }
    }

    fn spawn(&self, _: &Proc, job_info: &[Info], _: &[App], done: Completion<Nspace>) -> Accepted {
        *self.spawned.lock().unwrap() = job_info.to_vec();
        done.complete(Ok(Nspace::new("child@1").unwrap()));
        Ok(Answer::Later)
    }

    fn push_stdin(&self, _: &Proc, _: &[Proc], _: &[Info], bytes: &[u8], _: Completion<()>) -> Accepted {
        let mut pushed = self.pushed.lock().unwrap();
        pushed.push(bytes.to_vec());
        // It wants no more after the first.
        if pushed.len() == 1 { Err(Status::ERR_IOF_XOFF) } else { Ok(Answer::Done) }
    }

    fn iof_pull(&self, _: &[Proc], _: &[Info], _: Channels, _: Completion<()>) -> Accepted {
        Ok(Answer::Done)
    }
}

/// Starts a server of that name, which accepts tools as it is told to.
pub fn server_of(name: &str, tools: Option<ToolSupport>, host: Arc<RecordingHost>) -> Server {
    let nspace = Nspace::new(name).unwrap();
    Server::start(ServerConfig { nspace, tools, ..ServerConfig::default() }, host).unwrap()
}

/// Starts a server of that name that accepts tools of its own user.
pub fn server(name: &str) -> (Server, Arc<RecordingHost>) {
    let host = Arc::new(RecordingHost::default());
    (server_of(name, Some(ToolSupport::default()), host.clone()), host)
}

/// Names a server to a tool, by its address.
pub fn at(server: &Server) -> Info {
    Info::new(keys::SERVER_URI, server.uri().unwrap().to_string().as_str())
}
