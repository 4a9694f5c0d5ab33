//! An `instanton up` that jobs are started in.
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// An `instanton up`; it ends with this.
pub struct Up {
    command: PathBuf,
    name: String,
    child: Child,
}

impl Up {
    /// Begins it with this command, and waits until it is there.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` where it does not come up.
    pub fn start(command: impl Into<PathBuf>) -> io::Result<Self> {
        let command = command.into();
        let name = format!("bench-{}", std::process::id());
        let words = ["up", "--slots", "64", "--name", &name];
        let mut child = Command::new(&command).args(words).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let up = Self { command, name, child };
        if line.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(up) }
    }

    /// Runs a job of one program in it, and returns the time in microseconds.
    ///
    /// # Errors
    /// As [`timed`].
    pub fn run(&self, program: &str) -> io::Result<f64> {
        timed(Command::new(&self.command).args(["run", "--in", &self.name, program]))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // One that does not end by that is killed, and its jobs end with it.
        let down = Command::new(&self.command).args(["down", "--in", &self.name]).status();
        if !down.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Runs a command to its end, and returns the time in microseconds.
///
/// # Errors
/// The system's; `Other` where it fails.
pub fn timed(command: &mut Command) -> io::Result<f64> {
    let start = Instant::now();
    let status = command.stdin(Stdio::null()).status()?;
    let took = start.elapsed().as_secs_f64() * 1e6;
    if status.success() { Ok(took) } else { Err(io::Error::other(format!("it ended with {status}"))) }
}
