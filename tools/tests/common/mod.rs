//! `instanton run` under observation: what it prints, how it exits, and that nothing of it stays.
//!
//! Every job has a temporary directory of its own, which must be empty again afterwards. Nothing here waits for an
//! amount of time; what is waited for has a deadline that only a failure reaches.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// No job of these tests is silent for so long unless it hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// A job that was started.
pub struct Job {
    child: Child,
    /// Line by line, with their ends.
    stdout: Receiver<Vec<u8>>,
    stderr: Option<JoinHandle<String>>,
    directory: PathBuf,
}

/// A job that has ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// `instanton run` with these arguments and nothing on its standard input.
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    Job::start(arguments, Stdio::null()).finish()
}

/// `instanton run -n RANKS sh -c SCRIPT`
pub fn script(ranks: u32, script: &str) -> Ended {
    run(["-n", &ranks.to_string(), "sh", "-c", script])
}

/// One of the example programs.
pub fn example(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_instanton")).with_file_name("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo build --examples makes it", path.display());
    path
}

impl Job {
    pub fn start<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>, stdin: Stdio) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
        command.arg("run").args(arguments).stdin(stdin);
        Self::spawn(command)
    }

    /// A shell's script in which `"$0"` is the command, with nothing on its standard input.
    pub fn in_shell(script: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_instanton")]).stdin(Stdio::null());
        Self::spawn(command)
    }

    /// Starts a command that runs a job, in its own temporary directory.
    pub fn spawn(command: Command) -> Self {
        Self::spawn_in(command, |_| ())
    }

    /// Runs it so, after something was done to that directory.
    pub fn spawn_in(mut command: Command, prepare: impl FnOnce(&Path)) -> Self {
        // Short, because a socket's path must be.
        let unique = u32::from_le_bytes(instanton::internal::sys::random::bytes().unwrap());
        let directory = std::env::temp_dir().join(format!("instanton-test-{unique:08x}"));
        fs::create_dir_all(&directory).unwrap();
        prepare(&directory);
        let mut child =
            command.env("TMPDIR", &directory).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (lines, stdout) = mpsc::channel();
        thread::spawn(move || {
            loop {
                let mut line = Vec::new();
                if output.read_until(b'\n', &mut line).unwrap() == 0 || lines.send(line).is_err() {
                    return;
                }
            }
        });
        let mut errors = child.stderr.take().unwrap();
        let stderr = thread::spawn(move || {
            let mut text = Vec::new();
            errors.read_to_end(&mut text).unwrap();
            String::from_utf8_lossy(&text).into_owned()
        });
        Self { child, stdout, stderr: Some(stderr), directory }
    }

    /// Its temporary directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The process that the user knows.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    pub fn send(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// The next line of output, without its end.
    pub fn line(&mut self) -> String {
        let line = self.stdout.recv_timeout(DEADLINE).expect("another line of output");
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    pub fn write(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Waits for the end of the process that the user knows, and makes sure that no file is left.
    pub fn finish(mut self) -> Ended {
        let ended = self.wait();
        self.assert_no_litter();
        ended
    }

    /// Waits for its end, without a look at what is left.
    pub fn wait(&mut self) -> Ended {
        drop(self.child.stdin.take());
        let mut bytes = Vec::new();
        let over = loop {
            match self.stdout.recv_timeout(DEADLINE) {
                Ok(mut line) => bytes.append(&mut line),
                Err(reason) => break reason == RecvTimeoutError::Disconnected,
            }
        };
        let stdout = String::from_utf8_lossy(&bytes).into_owned();
        if !over || !ends(self.pid()) {
            let _ = self.child.kill();
            panic!("the job hangs; so far it printed {stdout:?}");
        }
        let status = self.child.wait().unwrap();
        let stderr = self.stderr.take().unwrap().join().unwrap();
        Ended { code: status.code(), signal: status.signal(), stdout, stderr }
    }

    /// Runs another job in the same temporary directory, to a good end.
    pub fn run_again<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_instanton"));
        command.arg("run").args(arguments).env("TMPDIR", &self.directory).stdin(Stdio::null());
        assert!(command.status().unwrap().success());
    }

    /// Everything in its temporary directory.
    pub fn litter(&self) -> Vec<PathBuf> {
        let mut left: Vec<_> = fs::read_dir(&self.directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        left.sort();
        left
    }

    pub fn assert_no_litter(&self) {
        let left = self.litter();
        assert!(left.is_empty(), "left over: {left:?}");
        fs::remove_dir(&self.directory).unwrap();
    }
}

impl Drop for Job {
    /// A test that has failed leaves a job, which its launcher then ends.
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// Waits for the end of any process; whether it came.
pub fn ends(pid: Pid) -> bool {
    // One that is not there has ended.
    let Ok(process) = instanton::internal::sys::process::watch(pid.as_raw()) else { return true };
    let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    poll(&mut polled, PollTimeout::try_from(DEADLINE).unwrap()).unwrap() > 0
}

/// The numbers in a line.
pub fn numbers(line: &str) -> Vec<Pid> {
    line.split(' ').map(|word| Pid::from_raw(word.parse().unwrap_or_else(|_| panic!("no numbers: {line:?}")))).collect()
}
