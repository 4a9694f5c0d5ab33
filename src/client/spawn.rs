//! Spawning jobs (`PMIx_Spawn`), and connecting with them (`PMIx_Connect`). The host launches the processes.
//!
//! A job that this process has spawned, or is connected with, is as readable as its own job: a Get asks the server for that job's
//! memory, maps it, and reads it from then on.
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::data::{App, Info, InfoList, Nspace, Proc, Status, Text, keys};
use crate::message::{Forward, Reply, Request};
use crate::pending::{Callback, Pending};

use super::call::{limit_in, nothing};
use super::{Client, Error};

fn spawned(reply: Reply) -> Option<Nspace> {
    match reply {
        Reply::Spawned(nspace) => Some(nspace),
        _ => None,
    }
}

/// A program as hosts expect it. It is named by its command or else its first word. Words that do not begin with its name, as it is
/// or without folders, are all arguments: the name goes before them. It runs where it or its job says, or where this process
/// is: the host is another process, and may be elsewhere.
fn in_full(app: &App, job_info: &[Info]) -> App {
    let wdir = |info: &[Info]| info.find(keys::WDIR)?.value.as_text().cloned();
    let named = || wdir(&app.info).or_else(|| wdir(job_info));
    let own = || Text::new(std::env::current_dir().ok()?.as_os_str().as_bytes()).ok();
    let cmd = app.cmd.as_ref().or(app.argv.first());
    let file = cmd.and_then(|cmd| Text::new(cmd.as_bytes().rsplit(|byte| *byte == b'/').next()?).ok());
    let first = app.argv.first();
    let is_named = first.is_some() && (first == cmd || first == file.as_ref());
    let argv = file.filter(|_| !is_named).into_iter().chain(app.argv.iter().cloned()).collect();
    App { cmd: cmd.cloned(), argv, cwd: app.cwd.clone().or_else(named).or_else(own), ..app.clone() }
}

/// Returns the applications of a spawn request with command, arguments and directory filled in.
///
/// # Errors
/// `ERR_BAD_PARAM` without an application, or for one that names no program.
pub fn complete_apps(job_info: &[Info], apps: &[App]) -> Result<Vec<App>, Status> {
    if apps.is_empty() || apps.iter().any(|app| app.cmd.is_none() && app.argv.is_empty()) {
        return Err(Status::ERR_BAD_PARAM);
    }
    Ok(apps.iter().map(|app| in_full(app, job_info)).collect())
}

impl Client {
    /// Spawns a job (`PMIx_Spawn`) and answers its namespace when all of it runs.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without an application, or for one that names no program; what the host answers.
    pub fn spawn(&self, job_info: &[Info], apps: &[App]) -> Pending<Nspace, Error> {
        let job_info = job_info.to_vec();
        // The Standard takes both for the same.
        let limits = [limit_in(&job_info), job_info.seconds(keys::SPAWN_TIMEOUT).flatten()];
        let limit = limits.into_iter().flatten().min();
        let request = complete_apps(&job_info, apps).map(|apps| Request::Forward(Forward::Spawn { job_info, apps }));
        self.prepare("PMIx_Spawn", limit, move |inner, callback: Callback<Nspace, Error>| {
            let meeting = Arc::downgrade(inner);
            inner.ask_for("PMIx_Spawn", &request?, spawned, move |answer| {
                if let (Some(inner), Ok(nspace)) = (meeting.upgrade(), &answer) {
                    inner.meet_jobs([nspace.clone()]);
                }
                callback(answer);
            })
        })
    }

    /// Connects with other processes (`PMIx_Connect`), which all call this with the same list.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without processes, `ERR_NOT_A_MEMBER` when this one is not among them; `ERR_PARTIAL_SUCCESS` when
    /// one of them is gone; what the host answers.
    pub fn connect_to(&self, procs: &[Proc], info: &[Info]) -> Pending<(), Error> {
        let (procs, info) = (procs.to_vec(), info.to_vec());
        self.prepare("PMIx_Connect", limit_in(&info), move |inner, callback: Callback<(), Error>| {
            if procs.is_empty() {
                return Err(Status::ERR_BAD_PARAM.into());
            }
            let nspaces: Vec<Nspace> = procs.iter().map(|proc| proc.nspace.clone()).collect();
            let meeting = Arc::downgrade(inner);
            inner.ask_for("PMIx_Connect", &Request::Connect { procs, info }, nothing, move |answer| {
                if let (Some(inner), Ok(())) = (meeting.upgrade(), &answer) {
                    inner.meet_jobs(nspaces);
                }
                callback(answer);
            })
        })
    }

    /// Ends a connect (`PMIx_Disconnect`): all who made it call this with the same list.
    ///
    /// # Errors
    /// `ERR_INVALID_OPERATION` when these processes are not connected; else as [`connect_to`](Client::connect_to).
    pub fn disconnect_from(&self, procs: &[Proc], info: &[Info]) -> Pending<(), Error> {
        let request = match procs {
            [] => Err(Status::ERR_BAD_PARAM),
            procs => Ok(Request::Disconnect { procs: procs.to_vec(), info: info.to_vec() }),
        };
        self.prepare_request("PMIx_Disconnect", request, nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(cmd: Option<&str>, argv: &[&str]) -> String {
        let text = |text: &&str| Text::new(*text).unwrap();
        let argv = argv.iter().map(text).collect();
        let app = App { cmd: cmd.as_ref().map(text), argv, env: vec![], cwd: None, maxprocs: 1, info: vec![] };
        let app = in_full(&app, &[]);
        let words = app.cmd.iter().chain(&app.argv).map(|word| word.to_string());
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_begin_with_the_name_of_the_program() {
        assert_eq!(words(Some("/bin/prog"), &[]), "/bin/prog prog");
        assert_eq!(words(Some("/bin/prog"), &["prog", "a"]), "/bin/prog prog a");
        assert_eq!(words(Some("/bin/prog"), &["/bin/prog", "a"]), "/bin/prog /bin/prog a");
        assert_eq!(words(Some("/bin/prog"), &["a", "b"]), "/bin/prog prog a b");
        assert_eq!(words(Some("prog"), &["/bin/prog"]), "prog prog /bin/prog");
        assert_eq!(words(None, &["/bin/prog", "a"]), "/bin/prog /bin/prog a");
    }
}
