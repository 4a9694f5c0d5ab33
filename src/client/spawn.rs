//! Spawning jobs (`PMIx_Spawn`), and connecting with them (`PMIx_Connect`). The host launches the processes.
//!
//! A job that this process has spawned, or is connected with, is as readable as its own job: a Get asks the server for that job's
//! memory, maps it, and reads it from then on.
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::data::{App, Info, InfoList, Nspace, Proc, Status, Text, keys};
use crate::message::{Forward, Reply, Request};

use super::forward::nothing;
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
    /// Spawns a job (`PMIx_Spawn`) and returns its namespace when all of it runs.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without an application, or for one that names no program; what the host answers.
    pub fn spawn(&self, job_info: &[Info], apps: &[App]) -> Result<Nspace, Error> {
        self.wait("PMIx_Spawn", |done| self.spawn_nb(job_info, apps, done))
    }

    /// The same without waiting (`PMIx_Spawn_nb`).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn spawn_nb(
        &self,
        job_info: &[Info],
        apps: &[App],
        done: impl FnOnce(Result<Nspace, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let apps = complete_apps(job_info, apps)?;
        let request = Request::Forward(Forward::Spawn { job_info: job_info.to_vec(), apps });
        let inner = Arc::downgrade(&self.inner);
        let met = move |answer: Result<Nspace, Error>| {
            if let (Some(inner), Ok(nspace)) = (inner.upgrade(), &answer) {
                inner.meet_jobs([nspace.clone()]);
            }
            done(answer);
        };
        self.inner.ask_for("PMIx_Spawn", &request, spawned, met)
    }

    /// Connects with other processes (`PMIx_Connect`), which all call this with the same list.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without processes, `ERR_NOT_A_MEMBER` when this one is not among them; `ERR_PARTIAL_SUCCESS` when
    /// one of them is gone; what the host answers.
    pub fn connect_to(&self, procs: &[Proc], info: &[Info]) -> Result<(), Error> {
        self.wait("PMIx_Connect", |done| self.connect_to_nb(procs, info, done))
    }

    /// The same without waiting (`PMIx_Connect_nb`).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn connect_to_nb(
        &self,
        procs: &[Proc],
        info: &[Info],
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let (inner, nspaces) =
            (Arc::downgrade(&self.inner), procs.iter().map(|proc| proc.nspace.clone()).collect::<Vec<_>>());
        let met = move |answer: Result<(), Error>| {
            if let (Some(inner), Ok(())) = (inner.upgrade(), &answer) {
                inner.meet_jobs(nspaces);
            }
            done(answer);
        };
        self.meet_to("PMIx_Connect", |procs, info| Request::Connect { procs, info }, procs, info, met)
    }

    /// Ends a connect (`PMIx_Disconnect`): all who made it call this with the same list.
    ///
    /// # Errors
    /// `ERR_INVALID_OPERATION` when these processes are not connected; else as [`connect_to`](Client::connect_to).
    pub fn disconnect_from(&self, procs: &[Proc], info: &[Info]) -> Result<(), Error> {
        self.wait("PMIx_Disconnect", |done| self.disconnect_from_nb(procs, info, done))
    }

    /// The same without waiting (`PMIx_Disconnect_nb`).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn disconnect_from_nb(
        &self,
        procs: &[Proc],
        info: &[Info],
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.meet_to("PMIx_Disconnect", |procs, info| Request::Disconnect { procs, info }, procs, info, done)
    }

    fn meet_to(
        &self,
        call: &'static str,
        request: fn(Vec<Proc>, Vec<Info>) -> Request,
        procs: &[Proc],
        info: &[Info],
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        if procs.is_empty() {
            return Err(Status::ERR_BAD_PARAM.into());
        }
        self.inner.ask_for(call, &request(procs.to_vec(), info.to_vec()), nothing, done)
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
