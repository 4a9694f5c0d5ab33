//! Stacks of processes: by a debugger where there is one, else the place in the kernel that each thread waits at.
//!
//! A debugger stops the process while it looks and lets it go on. It is given a time limit, because a process in the
//! middle of a system call that cannot be interrupted stops for nobody.
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use instanton::internal::sys::birth;
use nix::unistd::Pid;

use crate::threads::start_thread;

/// Most processes that are looked at.
const MOST: usize = 64;
/// Most lines about one process.
const MOST_LINES: usize = 200;
/// Time for all of them.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time for one of them.
const PATIENCE_FOR_ONE: Duration = Duration::from_secs(10);

/// A program that shows stacks.
struct Debugger {
    program: PathBuf,
    arguments: &'static [&'static str],
}

/// Lines of stacks for each of these processes, which have titles.
pub fn all(processes: &[(String, Pid)]) -> Vec<String> {
    let debugger = find_debugger();
    let end = Instant::now() + PATIENCE;
    let mut lines = Vec::new();
    for (title, pid) in processes.iter().take(MOST) {
        let name = read(&format!("/proc/{pid}/comm"));
        lines.push(format!("{title} (pid {pid}, {}):", name.trim_end()));
        let left = end.saturating_duration_since(Instant::now()).min(PATIENCE_FOR_ONE);
        let seen = debugger.as_ref().and_then(|debugger| debugger.look(*pid, left));
        let stack = seen.unwrap_or_else(|| of_kernel(*pid));
        lines.extend(stack.into_iter().take(MOST_LINES).map(|line| format!("  {line}")));
    }
    if processes.len() > MOST {
        lines.push(format!("and {} more processes", processes.len() - MOST));
    }
    lines
}

/// The processes of a group, which a rank's number names: its program may be below a script.
pub fn group(leader: Pid) -> Vec<Pid> {
    let of = |name: &str| {
        let pid: i32 = name.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // Behind the name, which may have anything in it: state, parent, group.
        let group: i32 = stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()?;
        (group == leader.as_raw()).then_some(Pid::from_raw(pid))
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut found: Vec<Pid> = entries.filter_map(|entry| of(entry.file_name().to_str()?)).collect();
    found.sort_unstable_by_key(|pid| pid.as_raw());
    found
}

fn find_debugger() -> Option<Debugger> {
    const KNOWN: [(&str, &[&str]); 2] = [
        ("eu-stack", &["-n", "40", "-p"]),
        ("gdb", &["-nx", "-batch", "-ex", "set pagination off", "-ex", "thread apply all bt 40", "-p"]),
    ];
    KNOWN.iter().find_map(|(name, arguments)| {
        let path = std::env::var_os("PATH")?;
        let program = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))?;
        Some(Debugger { program, arguments })
    })
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && nix::unistd::access(file, nix::unistd::AccessFlags::X_OK).is_ok()
}

impl Debugger {
    /// Returns the stacks of a process; none where it may not look, or takes too long.
    fn look(&self, pid: Pid, patience: Duration) -> Option<Vec<String>> {
        let mut command = Command::new(&self.program);
        command.args(self.arguments).arg(pid.to_string()).env("DEBUGINFOD_URLS", "");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        birth::die_with_this_thread(&mut command);
        let mut child = command.spawn().ok()?;
        let mut output = child.stdout.take()?;
        let (done, is_done) = mpsc::channel();
        let read = move || {
            let mut bytes = Vec::new();
            let _ = output.read_to_end(&mut bytes);
            let _ = done.send(String::from_utf8_lossy(&bytes).into_owned());
        };
        let text = start_thread("stacks", read).ok().and_then(|()| is_done.recv_timeout(patience).ok());
        if text.is_none() {
            let _ = child.kill();
        }
        // It may have been taken by who takes all children.
        let _ = child.wait();
        let text = text?;
        let is_stack = |line: &&str| ["#", "Thread ", "TID "].iter().any(|begin| line.starts_with(begin));
        let lines: Vec<String> = text.lines().filter(is_stack).map(str::to_owned).collect();
        lines.iter().any(|line| line.starts_with('#')).then_some(lines)
    }
}

/// Returns where in the kernel each thread of a process waits.
pub fn of_kernel(pid: Pid) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let line = |task: fs::DirEntry| {
        let path = task.path();
        let of = |name: &str| read(&path.join(name).to_string_lossy());
        let (name, channel, call) = (of("comm"), of("wchan"), of("syscall"));
        let channel = match channel.trim() {
            "" | "0" => "nowhere, or where the kernel does not say",
            channel => channel,
        };
        let call = call.split_whitespace().next().filter(|call| call.parse::<u32>().is_ok());
        let call = call.map_or_else(String::new, |call| format!(", in system call {call}"));
        let at = format!("thread {} ({}) waits at {channel}{call}", task.file_name().display(), name.trim());
        // Its stack in the kernel is root's to see.
        let stack = of("stack");
        std::iter::once(at).chain(stack.lines().map(|frame| format!("  {frame}")).collect::<Vec<_>>())
    };
    let lines: Vec<String> = tasks.flat_map(line).collect();
    if lines.is_empty() { vec!["has ended".into()] } else { lines }
}

fn read(path: &str) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_place_in_the_kernel_and_a_group() {
        let own = nix::unistd::getpid();
        assert!(of_kernel(own).iter().any(|line| line.contains(" waits at ")));
        assert!(group(nix::unistd::getpgrp()).contains(&own));
        assert_eq!(of_kernel(Pid::from_raw(i32::MAX)), ["has ended"]);
    }
}
