//! Debuggers: tools that start jobs whose processes wait for them.
mod common;

use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use common::{Job, example};
use instanton::client::{Handler, Notice};
use instanton::data::{App, DataArray, DataRange, Info, InfoList, Proc, Rank, Status, Text, Value, keys};
use instanton::tool::Tool;

/// No process that is to say something is silent for so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// So many ranks that say what they know when they are through Init.
fn app(ranks: i32, info: &[Info]) -> App {
    let argv = vec![Text::new(example("rank").to_str().unwrap()).unwrap(), Text::new("say").unwrap()];
    App { cmd: None, argv, env: vec![], cwd: None, maxprocs: ranks, info: info.to_vec() }
}

#[test]
fn processes_wait_in_init_until_they_are_released() {
    let mut job = Job::start(["-n", "1", "sh", "-c", "echo ready; read line"], Stdio::piped());
    job.line();
    let tool = Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(job.pid().as_raw()))]).unwrap();
    let client = tool.primary();
    let (heard, events) = mpsc::channel::<Notice>();
    let handler: Handler = Arc::new(move |notice, chain| {
        let _ = heard.send(notice);
        chain.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    });
    let codes = [Status::READY_FOR_DEBUG, Status::EVENT_JOB_END];
    client.register_event_handler(&codes, &[], handler).wait().unwrap();

    let stop = Info::new(keys::DEBUG_STOP_IN_INIT, true).required();
    let notify = Info::new(keys::NOTIFY_COMPLETION, true);
    let whole = (vec![stop.clone()], [app(1, &[]), app(1, &[])], vec![0, 1]);
    let one_application = (vec![], [app(1, &[]), app(1, &[stop])], vec![1]);
    for (mut info, apps, stopped) in [whole, one_application] {
        info.push(notify.clone());
        let all = Proc::new(client.spawn(&info, &apps).wait().unwrap(), Rank::WILDCARD);
        let next = || events.recv_timeout(PATIENCE).unwrap();
        let ready = stopped.iter().map(|_| {
            let notice = next();
            assert_eq!(notice.status, Status::READY_FOR_DEBUG);
            assert_eq!(notice.info.find(keys::BREAKPOINT).unwrap().value.as_str(), Some("pmix-init"));
            let proc = notice.info.find(keys::EVENT_AFFECTED_PROC).unwrap().value.as_proc().unwrap();
            assert_eq!(proc.nspace, all.nspace);
            proc.rank.0
        });
        let mut ready: Vec<u32> = ready.collect();
        ready.sort_unstable();
        assert_eq!(ready, stopped);
        let released = Value::DataArray(DataArray::of([all.clone()]));
        let release = [Info::new(keys::EVENT_CUSTOM_RANGE, released), Info::new(keys::EVENT_NON_DEFAULT, true)];
        let raised = client.notify_event(Status::DEBUGGER_RELEASE, client.proc(), DataRange::CUSTOM, &release);
        raised.wait().unwrap();
        let end = next();
        assert_eq!(end.status, Status::EVENT_JOB_END);
        assert_eq!(end.info.find(keys::JOB_TERM_STATUS).unwrap().value, Value::Status(Status::SUCCESS));
    }
    let required = [Info::new(keys::DEBUG_STOP_ON_EXEC, true).required()];
    assert_eq!(client.spawn(&required, &[app(1, &[])]).wait().unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
    job.write("go\n");
    let ended = job.finish();
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 4), "{ended:?}");
    let _ = tool.finalize(&[]);
}
