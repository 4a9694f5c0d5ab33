//! Signals of the user, and the end of one, two, three or all four processes of the command by signal 9.
mod common;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Job, ends, numbers};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Ranks that say `ready` and then do what `traps` says.
fn waiting(ranks: u32, traps: &str) -> Job {
    let script = format!("{traps}\necho ready; while :; do sleep 1000 & wait; done");
    let mut job = Job::start(["-n", &ranks.to_string(), "sh", "-c", &script], Stdio::null());
    for _ in 0..ranks {
        assert_eq!(job.line(), "ready");
    }
    job
}

/// Returns whether this process ignores it, and with it whatever it starts: a shell cannot trap that.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal as i32 - 1) & 1 == 1
}

#[test]
fn signals_reach_every_rank() {
    for (signal, name) in [
        (Signal::SIGUSR1, "USR1"),
        (Signal::SIGUSR2, "USR2"),
        (Signal::SIGHUP, "HUP"),
        (Signal::SIGTERM, "TERM"),
        (Signal::SIGABRT, "ABRT"),
        (Signal::SIGALRM, "ALRM"),
    ] {
        if is_ignored(signal) {
            println!("SKIPPED signals_reach_every_rank for SIG{name}: it is ignored here, as under nohup");
            continue;
        }
        // No child: a signal that finds one between fork and exec is lost to it, and it would outlive its shell.
        let job = waiting(2, &format!("trap 'echo got {name}; exit 0' {name}; echo ready; while :; do :; done"));
        job.send(signal);
        let ended = job.finish();
        assert_eq!(ended.stdout, format!("got {name}\n").repeat(2), "{ended:?}");
        assert_eq!(ended.code, Some(0));
    }
}

#[test]
fn signals_that_the_user_names_are_passed_on_too() {
    let script = "trap 'echo got WINCH; exit 0' WINCH; echo ready; while :; do sleep 1000 & wait; done";
    let mut job = Job::start(["--forward-signals", "WINCH,URG", "-n", "1", "sh", "-c", script], Stdio::null());
    assert_eq!(job.line(), "ready");
    job.send(Signal::SIGWINCH);
    let ended = job.finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "got WINCH\n"), "{ended:?}");
}

#[test]
fn a_request_to_end_ends_also_who_does_not_listen() {
    let job = waiting(2, "trap 'echo no' TERM");
    job.send(Signal::SIGTERM);
    let ended = job.finish();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(143), "no\nno\n"), "{ended:?}");
    assert!(ended.stderr.contains("SIGTERM"), "{ended:?}");
}

/// The first rank sends the signal to the guardian as soon as it runs.
#[test]
fn a_request_to_end_does_not_wait_until_many_ranks_are_started() {
    // Between them are reaper and watcher.
    let first = "p=$PPID; for i in 1 2 3; do read a b c p e < /proc/$p/stat; done; kill -TERM $p; exec sleep 1000";
    let other = "echo started; exec sleep 1000";
    let job = Job::start(["-n", "1", "sh", "-c", first, ":", "-n", "1500", "sh", "-c", other], Stdio::null());
    let ended = job.finish();
    assert_eq!(ended.code, Some(143), "{}", ended.stderr);
    assert!(ended.stdout.lines().count() < 1500 && ended.stderr.contains("SIGTERM"), "{}", ended.stderr);
}

/// As service managers do. A launcher that died of it would take the ranks with it.
#[test]
fn a_signal_to_each_process_of_a_run_leaves_the_ranks_their_time() {
    for (signal, name) in [(Signal::SIGTERM, "TERM"), (Signal::SIGINT, "INT")] {
        let script =
            format!("trap 'ended=1' {name}; echo $$ $PPID; until [ \"$ended\" ]; do :; done; echo ended; exit 5");
        let mut job = Job::start(["sh", "-c", &script], Stdio::null());
        let line = numbers(&job.line());
        let [guardian, others @ ..] = four(&job, line[1]);
        others.into_iter().chain([guardian, line[0]]).for_each(|pid| kill(pid, signal).unwrap());
        let ended = job.finish();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(5), "ended\n"), "{ended:?}");
    }
}

#[test]
fn a_signal_that_ends_the_ranks_is_the_jobs_status() {
    let job = waiting(2, "");
    job.send(Signal::SIGINT);
    let ended = job.finish();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.stderr.contains("SIGINT"), "{ended:?}");
}

/// A shell without job control starts what it puts into the background with SIGINT ignored.
#[test]
fn an_interrupt_ends_a_job_in_the_background_of_a_script() {
    let mut job = Job::in_shell("trap '' INT QUIT; exec \"$0\" run -n 2 sh -c 'echo ready; exec sleep 1000'");
    assert_eq!([job.line(), job.line()], ["ready", "ready"]);
    job.send(Signal::SIGINT);
    let ended = job.finish();
    assert_eq!(ended.code, Some(130), "{ended:?}");
}

/// Some daemons ignore the ends of their children, and whatever they start does then.
#[test]
fn a_run_hears_of_its_ranks_ends_though_its_caller_ignores_those_of_its_own() {
    let ended = Job::in_shell("trap '' CHLD; exec \"$0\" run -n 2 sh -c 'exit 3'").finish();
    assert_eq!(ended.code, Some(3), "{ended:?}");
}

#[test]
fn the_second_interrupt_kills() {
    let mut job = waiting(1, "trap 'echo no' INT");
    job.send(Signal::SIGINT);
    assert_eq!(job.line(), "no");
    // By another process: from one and the same, two that come at once are one.
    assert!(Command::new("kill").args(["-INT", &job.pid().to_string()]).status().unwrap().success());
    let ended = job.finish();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.stderr.contains("killed"), "{ended:?}");
}

#[test]
fn a_stopped_job_goes_on() {
    let mut job = waiting(2, "trap 'echo stopping' TSTP; trap 'echo going on' CONT");
    job.send(Signal::SIGTSTP);
    assert_eq!([job.line(), job.line()], ["stopping", "stopping"]);
    // As a shell would see it.
    let status = waitpid(job.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
    assert_eq!(status, WaitStatus::Stopped(job.pid(), Signal::SIGSTOP));
    job.send(Signal::SIGCONT);
    assert_eq!([job.line(), job.line()], ["going on", "going on"]);
    job.send(Signal::SIGTERM);
    assert_eq!(job.finish().code, Some(143));
}

/// A job whose ranks and their daemons have printed their names: the launcher, and all of them.
fn family() -> (Job, Pid, Vec<Pid>) {
    let script = "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM HUP INT; echo $$ $1; exec sleep 1000' sh $PPID & \
                  echo $$ $PPID; touch $PMIX_SERVER_TMPDIR/1/$PMIX_RANK/file; wait";
    let mut job = Job::start(["-n", "2", "sh", "-c", script], Stdio::null());
    let lines: Vec<Vec<Pid>> = (0..4).map(|_| numbers(&job.line())).collect();
    let launcher = lines[0][1];
    assert!(lines.iter().all(|line| line[1] == launcher), "{lines:?}");
    let members = lines.iter().map(|line| line[0]).collect();
    (job, launcher, members)
}

#[test]
fn nothing_outlives_the_process_that_the_user_knows() {
    let (mut job, launcher, members) = family();
    job.send(Signal::SIGKILL);
    assert_eq!(job.wait().signal, Some(9));
    assert!(members.into_iter().all(ends));
    assert!(ends(launcher));
    job.assert_no_litter();
}

#[test]
fn nothing_outlives_the_launcher() {
    let (job, launcher, members) = family();
    kill(launcher, Signal::SIGKILL).unwrap();
    let ended = job.finish();
    assert_eq!(ended.code, Some(137), "{ended:?}");
    assert!(ended.stderr.contains("the launcher was killed by signal 9"), "{ended:?}");
    // Not a moment later: the guardian has waited for them.
    for pid in members {
        assert!(kill(pid, None).is_err(), "{pid} lives");
    }
}

/// State and parent of a process or a thread, given its folder in /proc.
fn state(folder: &Path) -> (char, Pid) {
    let stat = std::fs::read_to_string(folder.join("stat")).unwrap();
    let mut fields = stat.rsplit(')').next().unwrap().split_ascii_whitespace();
    let state = fields.next().unwrap().parse().unwrap();
    (state, Pid::from_raw(fields.next().unwrap().parse().unwrap()))
}

/// The parent of a process.
fn parent(pid: Pid) -> Pid {
    state(Path::new(&format!("/proc/{pid}"))).1
}

/// Stops a process, with all of its threads.
fn stop(pid: Pid) {
    kill(pid, Signal::SIGSTOP).unwrap();
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|thread| thread.unwrap().path());
    while !threads().all(|thread| state(&thread).0 == 'T') {
        std::thread::yield_now();
    }
}

/// The processes of a run: guardian, watcher, reaper and launcher.
fn four(job: &Job, launcher: Pid) -> [Pid; 4] {
    let reaper = parent(launcher);
    let watcher = parent(reaper);
    assert_eq!(parent(watcher), job.pid());
    [job.pid(), watcher, reaper, launcher]
}

/// The launcher says so itself: who has killed its reaper or its watcher may be about to kill the others, and the
/// launcher is all that is left.
#[test]
fn a_launcher_without_its_reaper_or_its_watcher_ends_by_itself() {
    for killed in [1, 2] {
        let (job, launcher, members) = family();
        let all = four(&job, launcher);
        kill(all[killed], Signal::SIGKILL).unwrap();
        let ended = job.finish();
        assert_eq!(ended.code, Some(137), "{ended:?}");
        assert!(ended.stderr.contains("the guardian of this job is gone"), "{ended:?}");
        for pid in members.into_iter().chain(all) {
            assert!(kill(pid, None).is_err(), "{pid} lives");
        }
    }
}

/// The parent of each has seen its end before the parent is killed itself.
#[test]
fn nothing_outlives_processes_that_are_killed_after_they_have_seen_others_die() {
    for killed in [[2, 1, 0].as_slice(), &[3, 1, 0], &[2, 1], &[1, 0]] {
        let (mut job, launcher, members) = family();
        let all = four(&job, launcher);
        for at in killed {
            kill(all[*at], Signal::SIGKILL).unwrap();
            let is_unseen = || *at > 0 && kill(all[*at], None).is_ok();
            while is_unseen() {
                std::thread::yield_now();
            }
        }
        job.wait();
        assert!(members.into_iter().chain(all).all(ends), "{killed:?}");
        job.assert_no_litter();
    }
}

/// The launcher cannot see that, and would leave all ranks for as long as it is stopped.
#[test]
fn a_stopped_launcher_without_its_guardian_is_killed_in_time() {
    let (mut job, launcher, members) = family();
    let all = four(&job, launcher);
    kill(launcher, Signal::SIGSTOP).unwrap();
    job.send(Signal::SIGKILL);
    job.wait();
    assert!(members.into_iter().chain(all).all(ends));
    job.assert_no_litter();
}

#[test]
fn a_stopped_launcher_without_its_reaper_or_its_watcher_is_killed_at_the_users_third_signal() {
    for killed in [1, 2] {
        let (job, launcher, members) = family();
        let all = four(&job, launcher);
        kill(launcher, Signal::SIGSTOP).unwrap();
        kill(all[killed], Signal::SIGKILL).unwrap();
        // Two that come at once count as one.
        while kill(launcher, None).is_ok() {
            job.send(Signal::SIGTERM);
            std::thread::yield_now();
        }
        assert_eq!(job.finish().code, Some(137));
        for pid in members {
            assert!(kill(pid, None).is_err(), "{pid} lives");
        }
    }
}

/// Each time at another moment of the job, which has begun at least: from the first rank's birth on. Its daemons have
/// sessions of their own.
#[test]
fn nothing_outlives_two_or_three_of_the_four_processes() {
    let some = (0..16u32).filter(|some| [2, 3].contains(&some.count_ones()));
    for (some, is_upwards) in some.flat_map(|some| [(some, false), (some, true)]) {
        let (mut job, launcher, members) = family();
        let all = four(&job, launcher);
        let mut killed: Vec<Pid> = (0..4).filter(|at| some >> at & 1 == 1).map(|at| all[at]).collect();
        if is_upwards {
            killed.reverse();
        }
        killed.iter().for_each(|pid| kill(*pid, Signal::SIGKILL).unwrap());
        job.wait();
        assert!(members.into_iter().chain(all).all(ends), "{some:04b}, upwards: {is_upwards}");
        job.assert_no_litter();
    }
}

/// A user that kills all that is called as the command is, or has its name among its arguments, kills no reaper and no
/// watcher.
#[test]
fn nothing_outlives_those_that_are_called_as_the_command_is() {
    let (mut job, launcher, members) = family();
    let all = four(&job, launcher);
    let is_named = |pid: &Pid| {
        let read = |file| std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
        let has = |text: Vec<u8>| text.windows(9).any(|part| part == b"instanton");
        has(read("comm")) || has(read("cmdline"))
    };
    let named: Vec<Pid> = all.into_iter().filter(is_named).collect();
    assert_eq!(named, [all[0], all[3]]);
    named.iter().for_each(|pid| kill(*pid, Signal::SIGKILL).unwrap());
    job.wait();
    assert!(members.into_iter().chain(all).all(ends));
    job.assert_no_litter();
}

/// Its daemons have no part in it any more, and nobody is left to know them.
#[test]
fn ranks_die_with_all_four_processes_and_the_next_run_clears_the_rest() {
    let (mut job, launcher, members) = family();
    let (daemons, ranks): (Vec<Pid>, Vec<Pid>) = members.into_iter().partition(|pid| parent(*pid) != launcher);
    assert_eq!((daemons.len(), ranks.len()), (2, 2));
    let all = four(&job, launcher);
    // Nobody sees the others' deaths; and stopped children whose parent dies first would be continued.
    all.into_iter().for_each(stop);
    all.iter().rev().for_each(|pid| kill(*pid, Signal::SIGKILL).unwrap());
    assert!(ranks.into_iter().chain(all).all(ends));
    daemons.iter().for_each(|pid| kill(*pid, Signal::SIGKILL).unwrap());
    job.wait();
    assert_eq!(job.litter().len(), 1);
    job.run_again(["true"]);
    job.assert_no_litter();
}

/// Only a directory whose record nobody holds is cleared, and no link is taken for one.
#[test]
fn the_next_run_clears_nothing_that_may_be_in_use() {
    let (mut job, launcher, _) = family();
    let prefix = format!("instanton-{}-", nix::unistd::getuid());
    let place = job.litter().remove(0).parent().unwrap().to_owned();
    let elsewhere = place.join("elsewhere");
    std::fs::create_dir_all(elsewhere.join("1")).unwrap();
    std::fs::write(elsewhere.join("record"), "").unwrap();
    std::os::unix::fs::symlink(&elsewhere, place.join(format!("{prefix}1-link"))).unwrap();
    let unlocked = place.join(format!("{prefix}1-unlocked"));
    std::fs::create_dir(&unlocked).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("record"), unlocked.join("record")).unwrap();
    std::fs::create_dir(place.join(format!("{prefix}1-new"))).unwrap();
    let before = job.litter();
    job.run_again(["true"]);
    assert_eq!(job.litter(), before);
    assert!(elsewhere.join("1").exists() && kill(launcher, None).is_ok());
    [unlocked, elsewhere, place.join(format!("{prefix}1-new"))]
        .iter()
        .for_each(|directory| std::fs::remove_dir_all(directory).unwrap());
    std::fs::remove_file(place.join(format!("{prefix}1-link"))).unwrap();
    job.send(Signal::SIGKILL);
    job.wait();
    assert!(ends(launcher));
    job.assert_no_litter();
}

#[test]
fn nothing_outlives_the_job() {
    let script = "setsid sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' & wait_for=$!; read line < /dev/null; exit 0";
    let mut job = Job::start(["sh", "-c", script], Stdio::null());
    let daemon = numbers(&job.line())[0];
    assert_eq!(job.finish().code, Some(0));
    assert!(kill(daemon, None).is_err());
}

/// A job on a terminal of its own, in the foreground.
fn on_a_terminal(arguments: &[&str]) -> (Job, File) {
    let terminal = nix::pty::openpty(None, None).unwrap();
    let mut command = Command::new("setsid");
    command.args(["--ctty", env!("CARGO_BIN_EXE_instanton"), "run"]).args(arguments).stdin(terminal.slave);
    (Job::spawn(command), terminal.master.into())
}

#[test]
fn a_terminal_is_read_for_the_first_rank() {
    let (mut job, mut keyboard) = on_a_terminal(&["-n", "2", "cat"]);
    keyboard.write_all(b"typed\n").unwrap();
    assert_eq!(job.line(), "typed");
    keyboard.write_all(b"\x04").unwrap();
    assert_eq!(job.finish().code, Some(0));
}

#[test]
fn an_interrupt_of_the_terminal_reaches_the_ranks_once() {
    let script = "trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 1000 & wait; done";
    let (mut job, mut keyboard) = on_a_terminal(&["-n", "1", "sh", "-c", script]);
    assert_eq!(job.line(), "ready");
    keyboard.write_all(b"\x03").unwrap();
    let ended = job.finish();
    assert_eq!((ended.stdout.as_str(), ended.code), ("interrupted\n", Some(4)), "{ended:?}");
}
