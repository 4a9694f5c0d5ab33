//! Jobs that a tool starts under `instanton run`: what their programs are called, how long they may take, and what is
//! told of their ends.
mod common;

use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use common::{Job, example, run};
use instanton::client::{Client, Handler, Notice};
use instanton::data::{App, Info, InfoList, Proc, Rank, Status, Text, Value, keys};
use instanton::tool::Tool;

/// No process that is to say something is silent for so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// A run that lasts until it reads a line, and a tool that is attached to it.
fn attached() -> (Job, Tool) {
    let mut job = Job::start(["-n", "1", "sh", "-c", "echo ready; read line"], Stdio::piped());
    assert_eq!(job.line(), "ready");
    let tool = Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(job.pid().as_raw()))]).unwrap();
    (job, tool)
}

fn app(cmd: &str, words: &[&str], ranks: i32) -> App {
    let text = |word: &str| Text::new(word).unwrap();
    let argv = words.iter().map(|word| text(word)).collect();
    App { cmd: Some(text(cmd)), argv, env: vec![], cwd: None, maxprocs: ranks, info: vec![] }
}

fn hear(client: &Client, codes: &[Status]) -> Receiver<Notice> {
    hear_of(client, codes, &[])
}

fn hear_of(client: &Client, codes: &[Status], infos: &[Info]) -> Receiver<Notice> {
    let (heard, events) = channel();
    let handler: Handler = Arc::new(move |notice, chain| {
        let _ = heard.send(notice);
        chain.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    });
    client.register_event_handler(codes, infos, handler).wait().unwrap();
    events
}

fn affected(notice: &Notice) -> &Proc {
    notice.info.find(keys::EVENT_AFFECTED_PROC).unwrap().value.as_proc().unwrap()
}

#[test]
fn a_program_is_called_as_its_words_say() {
    let (mut job, tool) = attached();
    let client = tool.primary();
    let mut says = |cmd: &str, words: &[&str], infos: &[Info]| {
        client.spawn(infos, &[app(cmd, words, 2)]).wait().unwrap();
        let mut names = [job.line(), job.line()];
        names.sort();
        names
    };
    let numbered = [Info::new(keys::INDEX_ARGV, true).required()];
    assert_eq!(says("/bin/sh", &["sh", "-c", "echo $0"], &[]), ["sh"; 2]);
    assert_eq!(says("/bin/sh", &["/bin/sh", "-c", "echo $0"], &[]), ["/bin/sh"; 2]);
    assert_eq!(says("/bin/sh", &["sh", "-c", "echo $0"], &numbered), ["sh-0", "sh-1"]);
    // An agent finds the program by that word.
    let agent = Info::new(keys::FORKEXEC_AGENT, "env");
    assert_eq!(says("/bin/sh", &["sh", "-c", "echo $0"], &[numbered[0].clone(), agent]), ["/bin/sh"; 2]);
    job.write("\n");
    assert_eq!(job.finish().code, Some(0));
}

#[test]
fn a_job_that_wants_slots_of_its_own_is_not_started_without() {
    let (mut job, tool) = attached();
    let client = tool.primary();
    let spawn = |ranks: i32, info: Info| {
        let spawned = client.spawn(&[info.required()], &[app("true", &["true"], ranks)]).wait();
        spawned.err().map(|error| error.status())
    };
    let too_many = Some(Status::ERR_JOB_INSUFFICIENT_RESOURCES);
    assert_eq!(spawn(1 << 14, Info::new(keys::NO_OVERSUBSCRIBE, true)), too_many);
    assert_eq!(spawn(1 << 14, Info::new(keys::MAPBY, ":nooversubscribe")), too_many);
    assert_eq!(spawn(2, Info::new(keys::PPR, "1:node")), Some(Status::ERR_JOB_FAILED_TO_MAP));
    assert_eq!(
        [spawn(1, Info::new(keys::PPR, "1:node")), spawn(2, Info::new(keys::NO_OVERSUBSCRIBE, false))],
        [None; 2]
    );
    job.write("\n");
    assert_eq!(job.finish().code, Some(0));
}

#[test]
fn a_job_is_ended_when_its_time_is_over() {
    let (mut job, tool) = attached();
    let client = tool.primary();
    let ends = hear(&client, &[Status::EVENT_JOB_END]);
    let limits = [keys::JOB_TIMEOUT, keys::SPAWN_TIMEOUT, keys::TIMEOUT];
    let mut infos: Vec<Info> = limits.iter().map(|key| Info::new(key, 1).required()).collect();
    infos.push(Info::new(keys::NOTIFY_COMPLETION, true));
    // One hears the signal, the other one does not.
    let apps = [app("sleep", &["sleep", "1000"], 1), app("sh", &["sh", "-c", "trap '' TERM; sleep 1000"], 1)];
    let nspace = client.spawn(&infos, &apps).wait().unwrap();
    let end = ends.recv_timeout(PATIENCE).unwrap();
    assert_eq!(affected(&end), &Proc::new(nspace, Rank::WILDCARD));
    assert_eq!(end.info.find(keys::JOB_TERM_STATUS).unwrap().value, Value::Status(Status::ERR_TIMEOUT));
    let bad = client.spawn(&[Info::new(keys::JOB_TIMEOUT, "soon")], &apps).wait().unwrap_err();
    assert_eq!(bad.status(), Status::ERR_BAD_PARAM);
    job.write("\n");
    assert_eq!(job.finish().code, Some(0), "that was asked for, and is no failure");
}

#[test]
fn a_parent_hears_what_it_asks_for() {
    let (mut job, tool) = attached();
    let client = tool.primary();
    let codes =
        [Status::EVENT_JOB_START, Status::LAUNCH_COMPLETE, Status::EVENT_PROC_TERMINATED, Status::EVENT_JOB_END];
    let events = hear(&client, &codes);
    let apps = [app("true", &["true"], 1), app("sh", &["sh", "-c", "exit 5"], 1)];
    let set = |keys: &[&str]| keys.iter().map(|key| Info::new(key, true).required()).collect::<Vec<_>>();
    let all =
        set(&[keys::NOTIFY_JOB_EVENTS, keys::NOTIFY_PROC_TERMINATION, keys::JOB_RECOVERABLE, keys::SPAWN_CHILD_SEP]);
    let nspace = client.spawn(&all, &apps).wait().unwrap();
    let mut heard: Vec<Notice> = (0..5).map(|_| events.recv_timeout(PATIENCE).unwrap()).collect();
    let order: Vec<Status> = heard.iter().map(|notice| notice.status).collect();
    let ended = Status::EVENT_PROC_TERMINATED;
    assert_eq!(order, [codes[0], codes[1], ended, ended, codes[3]]);
    assert!(heard.iter().all(|notice| notice.info.find(keys::EVENT_TIMESTAMP).is_some()));
    assert!(heard.iter().all(|notice| (notice.source.nspace.as_bytes(), notice.source.rank) == (b"", Rank::UNDEF)));
    let name = |notice: &Notice| notice.info.find(keys::NSPACE).unwrap().value.clone();
    assert!([0, 1, 4].iter().all(|at| name(&heard[*at]) == Value::string(nspace.to_string())));
    let survived = heard.pop().unwrap();
    assert_eq!(survived.info.find(keys::JOB_TERM_STATUS).unwrap().value, Value::Status(Status::SUCCESS));
    assert_eq!(survived.info.find(keys::EXIT_CODE).unwrap().value, 0.into());
    heard.sort_by_key(|notice| affected(notice).rank);
    let of =
        |rank: u32| heard.iter().find(|notice| *affected(notice) == Proc::new(nspace.clone(), Rank(rank))).unwrap();
    let said = |rank: u32, key: &str| of(rank).info.find(key).unwrap().value.clone();
    assert_eq!((said(0, keys::PROC_TERM_STATUS), said(0, keys::EXIT_CODE)), (Status::SUCCESS.into(), 0.into()));
    assert_eq!(said(1, keys::PROC_TERM_STATUS), Status::ERR_EXIT_NONZERO_TERM.into());
    assert_eq!(said(1, keys::EXIT_CODE), 5.into());
    // Of those that end well nothing is said where failures alone are asked for.
    let failures = set(&[keys::NOTIFY_PROC_ABNORMAL_TERMINATION, keys::NOTIFY_COMPLETION]);
    client.spawn(&failures, &apps[..1]).wait().unwrap();
    assert_eq!(events.recv_timeout(PATIENCE).unwrap().status, Status::EVENT_JOB_END);
    // Of a silent job failures alone are told, and its start.
    for (tells, count) in [(keys::NOTIFY_COMPLETION, 1), (keys::NOTIFY_JOB_EVENTS, 5)] {
        let silent = set(&[tells, keys::EVENT_SILENT_TERMINATION, keys::SPAWN_CHILD_SEP]);
        client.spawn(&silent, &apps[..1]).wait().unwrap();
        client.spawn(&silent, &apps[1..]).wait().unwrap();
        let heard: Vec<Notice> = (0..count).map(|_| events.recv_timeout(PATIENCE).unwrap()).collect();
        let ends: Vec<_> = heard.iter().filter(|notice| notice.status == Status::EVENT_JOB_END).collect();
        let [end] = ends[..] else { panic!("{ends:?}") };
        let failed = Value::Status(Status::ERR_JOB_NON_ZERO_TERM);
        assert_eq!(end.info.find(keys::JOB_TERM_STATUS).unwrap().value, failed);
        assert_eq!(end.info.find(keys::EXIT_CODE).unwrap().value, 5.into());
    }
    job.write("\n");
    assert_eq!(job.finish().code, Some(5), "that of the silent ones that have failed");
}

/// A tool asks for the end of its own job alone, and late, as `prun` does.
#[test]
fn a_tool_hears_of_the_end_of_its_job_though_it_has_said_that_it_wants_no_word_of_it() {
    let (mut job, tool) = attached();
    let client = tool.primary();
    for (words, code) in [(&["sh", "-c", "exit 5"], 5), (&["sh", "-c", "exit 0"], 0)] {
        let infos = [Info::new(keys::NOTIFY_COMPLETION, false), Info::new(keys::SPAWN_CHILD_SEP, true)];
        let nspace = client.spawn(&infos, &[app("sh", words, 1)]).wait().unwrap();
        let all = Proc::new(nspace, Rank::WILDCARD);
        let ends = hear_of(&client, &[Status::EVENT_JOB_END], &[Info::new(keys::EVENT_AFFECTED_PROC, all.clone())]);
        let end = ends.recv_timeout(PATIENCE).unwrap();
        assert_eq!((affected(&end), &end.info.find(keys::EXIT_CODE).unwrap().value), (&all, &code.into()));
    }
    job.write("\n");
    assert_eq!(job.finish().code, Some(5), "that of the one that has failed");
}

#[test]
fn who_finalizes_without_having_disconnected_is_told_of() {
    let rank = example("rank");
    for options in [&[][..], &["--nodes", "2"]] {
        let words = options.iter().copied().chain(["-n", "1", rank.to_str().unwrap(), "bind"]);
        let ended = run(words);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "finalizes: true\nfinalizes: true\n"), "{ended:?}");
    }
}

#[test]
fn tools_and_jobs_that_are_connected_are_told_of_each_other() {
    let (mut job, tool) = attached();
    let client = tool.primary();
    let heard = hear(&client, &[Status::ERR_INVALID_TERMINATION]);
    let other = Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(job.pid().as_raw()))]).unwrap();
    let rank = example("rank");
    // The job leaves, and then the tool.
    for (words, stays) in [(&["bound", "finalizes"][..], true), (&["tied"], false)] {
        let tool = if stays { &client } else { &other.primary() };
        let own = tool.proc().nspace.to_string();
        let words = [&["rank"], words, &[own.as_str()]].concat();
        let nspace = client
            .spawn(&[Info::new(keys::COSPAWN_APP, true)], &[app(rank.to_str().unwrap(), &words, 1)])
            .wait()
            .unwrap();
        let both = [&tool.proc().nspace, &nspace].map(|nspace| Proc::new(nspace.clone(), Rank::WILDCARD));
        tool.connect_to(&both, &[]).wait().unwrap();
        if stays {
            assert_eq!(affected(&heard.recv_timeout(PATIENCE).unwrap()), &Proc::new(nspace, Rank(0)));
        }
    }
    other.finalize(&[]).unwrap();
    assert_eq!(job.line(), "told of the tool: true");
    job.write("\n");
    assert_eq!(job.finish().code, Some(0));
}

#[test]
fn who_ends_without_a_finalize_is_told_of() {
    let (mut job, tool) = attached();
    let client = tool.primary();
    let heard = hear(&client, &[Status::ERR_INVALID_TERMINATION]);
    let rank = example("rank");
    let file = std::env::temp_dir().join(format!("instanton-spawned-{}", std::process::id()));
    let words = ["rank", "litter", file.to_str().unwrap()];
    let nspace = client.spawn(&[], &[app(rank.to_str().unwrap(), &words, 1)]).wait().unwrap();
    // It is through its Init.
    job.line();
    let proc = Proc::new(nspace, Rank(0));
    let kill = [Info::new(keys::JOB_CTRL_KILL, true)];
    client.job_control(std::slice::from_ref(&proc), &kill).wait().unwrap();
    assert_eq!(affected(&heard.recv_timeout(PATIENCE).unwrap()), &proc);
    client.spawn(&[], &[app(rank.to_str().unwrap(), &["rank", "say"], 1)]).wait().unwrap();
    client.spawn(&[], &[app("true", &["true"], 1)]).wait().unwrap();
    job.line();
    // The run is failing when the next one is told of.
    let nspace = client.spawn(&[], &[app(rank.to_str().unwrap(), &["rank", "leave", "0"], 1)]).wait().unwrap();
    assert_eq!(affected(&heard.recv_timeout(PATIENCE).unwrap()), &Proc::new(nspace, Rank(0)));
    assert_eq!(job.finish().code, Some(1));
}
