//! The process table of a job: where each of its ranks runs, which program, as which process, and what it is at.
use std::path::PathBuf;

use instanton::data::constants::proc_state::{
    PROC_STATE_ABORTED_BY_SIG, PROC_STATE_CONNECTED, PROC_STATE_KILLED_BY_CMD, PROC_STATE_LAUNCH_UNDERWAY,
    PROC_STATE_RUNNING, PROC_STATE_TERM_NON_ZERO, PROC_STATE_TERMINATED,
};
use instanton::data::{ProcInfo, Text};
use instanton::launch::App;
use nix::unistd::Pid;

use super::{Jobs, LiveJob, Process};
use crate::outcome::End;

impl Jobs {
    /// The file of each application's program, from which a job's ranks are started.
    pub fn found(&mut self, number: u32, programs: &[PathBuf]) {
        if let Some(live) = self.live.get_mut(&number) {
            live.programs = programs.to_vec();
        }
    }
}

impl LiveJob {
    /// A line of the process table for each rank.
    pub fn table(&self) -> impl Iterator<Item = ProcInfo> {
        let text = |text: &[u8]| Text::new(text).ok();
        self.job.ranks().zip(&self.ranks).map(move |((rank, app), process)| ProcInfo {
            proc: self.job.proc(rank),
            hostname: text(self.job.node_name(rank).as_bytes()),
            executable: text(self.program(app).as_os_str().as_encoded_bytes()),
            pid: process.pid.map_or(0, Pid::as_raw),
            exit_code: match process.end {
                Some(End::Code(code)) => code,
                _ => 0,
            },
            state: process.state(),
        })
    }

    /// The file of an application's program, or its name while nothing of it is started.
    fn program(&self, app: &App) -> PathBuf {
        let found = self.programs.get(app.number as usize);
        found.map_or_else(|| app.spec.program.clone().into(), |found| app.wdir.join(found))
    }
}

impl Process {
    fn state(&self) -> u8 {
        match self.end {
            None if self.is_initialised => PROC_STATE_CONNECTED,
            None if self.is_held => PROC_STATE_LAUNCH_UNDERWAY,
            None => PROC_STATE_RUNNING,
            Some(End::Code(0)) => PROC_STATE_TERMINATED,
            Some(_) if self.is_dismissed => PROC_STATE_KILLED_BY_CMD,
            Some(End::Signal(_)) => PROC_STATE_ABORTED_BY_SIG,
            Some(End::Code(_)) => PROC_STATE_TERM_NON_ZERO,
        }
    }
}
