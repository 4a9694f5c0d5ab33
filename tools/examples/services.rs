//! A PMIx program that asks its launcher for everything it does besides starting ranks: `instanton run -n 2 services
//! WHAT ...`
//!
//! ```text
//! services publish               the last rank publishes, rank 0 waits for it, finds it, and finds it gone afterwards
//! services spawn PROGRAM ARGS    rank 0 starts two more processes, waits for the end of their job, and says how it ended
//! services leave PROGRAM ARGS    the same without waiting
//! services fail PROGRAM          rank 0 starts what cannot be started, then something else, and says whose end it has heard of first
//! services kill                  rank 0 starts a job that would run for ever, and has it killed
//! services signal                rank 0 has a signal sent to a shell that it has started, and says what that makes of it
//! services pull PROGRAM ARGS     rank 0 starts two more processes, and says what each of them has printed
//! services child                 what a process that was started by `spawn` says: whose it is
//! services cancel                rank 0 asks for the end of a job that does not listen, and cancels that
//! services end                   rank 0 has its own job killed
//! services token                 the last rank says whose the token is that rank 0 was given
//! services munge                 the same of a credential of munge
//! services sets                  each rank says what process sets it is in, and meets the others of each
//! services resources             rank 0 asks for more than there is, and controls the session
//! services checkpoint            rank 0 asks its job for a checkpoint, and hears what it is asked for
//! services usage                 rank 0 says what it is told of its job's use of the machine
//! services query                 rank 0 says what it is told of its job
//! services log TEXT              rank 0 logs a text to both outputs
//! ```
use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use instanton::client::{Chain, Client, Notice, Output};
use instanton::data::constants::alloc_directive::{ALLOC_NEW, ALLOC_RELEASE};
use instanton::data::{
    App, Channels, DataArray, Info, InfoList, Nspace, Proc, Query, Rank, Scope, Status, Text, Value, keys,
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let client = Client::init(&[])?;
    let me = client.proc().clone();
    // All have come before anybody is told of them.
    client.fence(&[], &[]).wait()?;
    match words[..] {
        ["publish"] => publish(&client)?,
        ["child"] => child(&client)?,
        ["token"] => token(&client)?,
        ["munge"] => munge(&client)?,
        ["sets"] => sets(&client)?,
        _ if me.rank != Rank(0) => client.fence(&[], &[]).wait()?,
        _ => {
            match words[..] {
                ["spawn", ref command @ ..] => {
                    let ends = ends_of_jobs(&client)?;
                    let nspace = spawn(&client, command)?;
                    let (ended, status) = ends.recv()?;
                    say(&format!("job {} ended: {status}", number(&nspace)))?;
                    assert_eq!(ended, nspace);
                }
                ["pull", ref command @ ..] => pull(&client, command)?,
                ["leave", ref command @ ..] => drop(spawn(&client, command)?),
                ["fail", program] => {
                    let ends = ends_of_jobs(&client)?;
                    let refused = start(&client, &[program])?.unwrap_err();
                    let nspace = spawn(&client, &["true"])?;
                    let (ended, status) = ends.recv()?;
                    say(&format!("{}, then {status} of the next: {}", refused.status(), ended == nspace))?;
                }
                ["kill"] => {
                    let ends = ends_of_jobs(&client)?;
                    let nspace = spawn(&client, &["sleep", "1000"])?;
                    control(&client, &nspace, Info::new(keys::JOB_CTRL_KILL, true))?;
                    say(&ends.recv()?.1.to_string())?;
                }
                ["signal"] => {
                    let ends = ends_of_jobs(&client)?;
                    // Ready is a file in the run's own directory. The shell starts nothing, since it tells of a child that a
                    // signal has killed.
                    let script = "trap 'exit 0' USR1; : > $PMIX_SERVER_TMPDIR/ready.$PMIX_RANK; while :; do :; done";
                    let nspace = spawn(&client, &["sh", "-c", script])?;
                    let directory = std::env::var("PMIX_SERVER_TMPDIR")?;
                    for rank in 0..2 {
                        while !std::path::Path::new(&format!("{directory}/ready.{rank}")).exists() {
                            std::thread::yield_now();
                        }
                    }
                    control(&client, &nspace, Info::new(keys::JOB_CTRL_SIGNAL, 10))?;
                    say(&ends.recv()?.1.to_string())?;
                }
                ["cancel"] => cancel(&client)?,
                ["end"] => {
                    control(&client, &me.nspace, Info::new(keys::JOB_CTRL_KILL, true))?;
                    // Nothing of it is left to go on.
                    loop {
                        std::thread::park();
                    }
                }
                ["usage"] => usage(&client)?,
                ["resources"] => resources(&client)?,
                ["checkpoint"] => checkpoint(&client)?,
                ["query"] => query(&client)?,
                ["log", text] => {
                    let item = |key| Info::new(key, format!("{text}\n").as_str());
                    client.log(&[item(keys::LOG_STDOUT), item(keys::LOG_STDERR)], &[]).wait()?;
                    let refused = client.log(&[Info::new(keys::LOG_EMAIL_MSG, text)], &[]).wait();
                    say(&format!("email: {}", refused.unwrap_err().status()))?;
                    let number = Info::new(keys::LOG_STDOUT, 5).required();
                    let refused = client.log(&[number, item(keys::LOG_STDERR)], &[]).wait();
                    say(&format!("no text: {}", refused.unwrap_err().status()))?;
                }
                _ => return Err("see the head of this program".into()),
            }
            client.fence(&[], &[]).wait()?;
        }
    }
    client.finalize(&[])?;
    Ok(())
}

fn publish(client: &Client) -> Outcome {
    let key = ["port"];
    let size = client.get(&Proc::new(client.proc().nspace.clone(), Rank::WILDCARD), "pmix.job.size", &[])?;
    let last = Some(client.proc().rank.0 + 1) == size.as_u32();
    client.fence(&[], &[]).wait()?;
    if last {
        client.publish(&[Info::new("port", "17")]).wait()?;
        let again = client.publish(&[Info::new("port", "18")]).wait().unwrap_err();
        client.fence(&[], &[]).wait()?;
        client.unpublish(&key, &[]).wait()?;
        client.fence(&[], &[]).wait()?;
        say(&format!("again: {}", again.status()))?;
    } else {
        let (_, found) = client.lookup(&key, &[Info::new(keys::WAIT, 0)]).wait()?;
        client.fence(&[], &[]).wait()?;
        client.fence(&[], &[]).wait()?;
        let gone = client.lookup(&key, &[]).wait().unwrap_err();
        let late = client.lookup(&key, &[Info::new(keys::WAIT, 0), Info::new(keys::TIMEOUT, 1)]).wait().unwrap_err();
        let found: Vec<_> = found.iter().map(|data| (data.proc.rank.0, data.value.as_str())).collect();
        say(&format!("found {found:?}, then {}, then {}", gone.status(), late.status()))?;
    }
    Ok(())
}

fn munge(client: &Client) -> Outcome {
    let first = Proc::new(client.proc().nspace.clone(), Rank(0));
    let of_munge = [Info::new(keys::CRED_TYPE, "munge")];
    if client.proc().rank == Rank(0) {
        let made = client.get_credential(&of_munge).wait();
        let (made, _) = made.unwrap_or_else(|error| (error.status().to_string().into_bytes(), Vec::new()));
        client.put(Scope::GLOBAL, "munge", Value::string(made))?;
        client.commit()?;
    }
    client.fence(&[], &[Info::new(keys::COLLECT_DATA, true)]).wait()?;
    if client.proc().rank != Rank(0) {
        let made = client.get(&first, "munge", &[])?;
        let made = made.as_bytes().ok_or("no text")?;
        let judge = || match client.validate_credential(made, &[]).wait() {
            Ok((_, whose)) => format!("{:?}", whose.find(keys::USERID).and_then(|info| info.value.as_u32())),
            Err(error) => error.status().to_string(),
        };
        say(&format!(
            "{}: of user {}, then {}",
            String::from_utf8_lossy(&made[..made.len().min(6)]),
            judge(),
            judge()
        ))?;
    }
    Ok(())
}

fn token(client: &Client) -> Outcome {
    let first = Proc::new(client.proc().nspace.clone(), Rank(0));
    if client.proc().rank == Rank(0) {
        let (token, _) = client.get_credential(&[]).wait()?;
        client.put(Scope::GLOBAL, "token", Value::string(token))?;
        client.commit()?;
    }
    client.fence(&[], &[Info::new(keys::COLLECT_DATA, true)]).wait()?;
    if client.proc().rank != Rank(0) {
        let token = client.get(&first, "token", &[])?;
        let token = token.as_bytes().ok_or("no text")?;
        let (status, whose) = client.validate_credential(token, &[]).wait()?;
        let whose = whose.find(keys::PROCID).and_then(|info| info.value.as_proc()).map(|proc| proc.rank);
        let forged = client.validate_credential(b"forged", &[]).wait().unwrap_err();
        say(&format!("{status}: of rank {whose:?}; forged: {}", forged.status()))?;
    }
    client.fence(&[], &[]).wait()?;
    Ok(())
}

fn resources(client: &Client) -> Outcome {
    let told = |result: Result<_, instanton::client::Error>| match result {
        Ok((status, _)) => status,
        Err(error) => error.status(),
    };
    let all = client.get(&Proc::new(client.proc().nspace.clone(), Rank::WILDCARD), keys::UNIV_SIZE, &[])?;
    let slots = Info::new(keys::ALLOC_NUM_CPUS, u64::from(all.as_u32().ok_or("no number")?));
    // Ranks hold some of them.
    say(&format!("all slots: {}", told(client.allocation_request(ALLOC_NEW, &[slots]).wait())))?;
    let nobodys = Info::new(keys::ALLOC_ID, "nobody's");
    say(&format!("nobody's: {}", told(client.allocation_request(ALLOC_RELEASE, &[nobodys]).wait())))?;
    let control = |session, key| told(client.session_control(session, &[Info::new(key, true)]).wait());
    say(&format!("session: {}", control(1, keys::SESSION_RESUME)))?;
    say(&format!("another session: {}", control(7, keys::SESSION_RESUME)))?;
    say(&format!("more time: {}", control(1, keys::SESSION_EXTEND)))
}

fn usage(client: &Client) -> Outcome {
    let wanted = DataArray::of_info(vec![Info::new(keys::PROC_RSS, true)]);
    let monitor = Info::new(keys::MONITOR_PROC_RESOURCE_USAGE, wanted);
    let (status, infos) = client.process_monitor(&monitor, Status::SUCCESS, &[]).wait()?;
    for info in &infos {
        let keys: Vec<String> =
            info.value.as_array().ok_or("no array")?.infos().map(|info| info.key.to_string()).collect();
        say(&format!("{status} {}: {}", info.key, keys.join(" ")))?;
    }
    let node = Info::new(keys::MONITOR_NODE_RESOURCE_USAGE, true);
    let (_, infos) = client.process_monitor(&node, Status::SUCCESS, &[]).wait()?;
    say(&format!("node: {}", infos[0].value.as_array().ok_or("no array")?.items().len() > 2))?;
    let often = [Info::new(keys::MONITOR_RESOURCE_RATE, 1u32)];
    let refused = client.process_monitor(&node, Status::SUCCESS, &often).wait().unwrap_err();
    say(&format!("often: {}", refused.status()))
}

/// The job ends by itself once it has heard of the request, and that has been cancelled.
fn cancel(client: &Client) -> Outcome {
    let ends = ends_of_jobs(client)?;
    let [heard, go] = ["heard", "go"].map(|file| format!("$PMIX_SERVER_TMPDIR/{file}"));
    let script =
        format!("trap ': > {heard}.$PMIX_RANK' TERM; : > {go}.$PMIX_RANK; while [ -e {go}.$PMIX_RANK ]; do :; done");
    let nspace = spawn(client, &["sh", "-c", &script])?;
    let directory = std::env::var("PMIX_SERVER_TMPDIR")?;
    let is_there = |file: &str| (0..2).all(|rank| std::path::Path::new(&format!("{directory}/{file}.{rank}")).exists());
    while !is_there("go") {
        std::thread::yield_now();
    }
    let all = [Proc::new(nspace, Rank::WILDCARD)];
    let named = [Info::new(keys::JOB_CTRL_ID, "end"), Info::new(keys::JOB_CTRL_TERMINATE, true)];
    client.job_control(&all, &named).wait()?;
    while !is_there("heard") {
        std::thread::yield_now();
    }
    let cancel = || client.job_control(&all, &[Info::new(keys::JOB_CTRL_CANCEL, "end")]).wait();
    cancel()?;
    let again = cancel().unwrap_err();
    (0..2).try_for_each(|rank| std::fs::remove_file(format!("{directory}/go.{rank}")))?;
    say(&format!("again: {}, then {}", again.status(), ends.recv()?.1))
}

fn checkpoint(client: &Client) -> Outcome {
    let (tell, told) = channel();
    let handler = move |notice: Notice, chain: Chain| {
        let name = notice.info.find(keys::JOB_CTRL_CHECKPOINT).and_then(|info| info.value.as_str().map(str::to_owned));
        let _ = tell.send(name);
        chain.complete(Status::SUCCESS, Vec::new());
    };
    client.register_event_handler(&[Status::JCTRL_CHECKPOINT], &[], Arc::new(handler)).wait()?;
    let how = [Info::new(keys::JOB_CTRL_CHECKPOINT, "c1"), Info::new(keys::JOB_CTRL_CHECKPOINT_EVENT, true)];
    client.job_control(&[], &how).wait()?;
    say(&format!("checkpoint {:?}", told.recv()?))
}

fn sets(client: &Client) -> Outcome {
    let names = match client.get(client.proc(), keys::PSET_NAMES, &[]) {
        Ok(names) => names.as_array().ok_or("no names")?.items().to_vec(),
        Err(_) => Vec::new(),
    };
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    for name in &names {
        let qualifiers = vec![Info::new(keys::PSET_NAME, *name)];
        let query = Query { keys: vec![Text::new(keys::QUERY_PSET_MEMBERSHIP)?], qualifiers };
        let (_, infos) = client.query(&[query]).wait()?;
        let members = infos[0].value.as_procs().ok_or("no members")?;
        let all = Proc::new(Nspace::new(name)?, Rank::WILDCARD);
        client.fence(std::slice::from_ref(&all), &[]).wait()?;
        let (_, made) = client.group_construct(&Nspace::new(format!("group of {name}"))?, &[all], &[]).wait()?;
        let made = made.find(keys::GROUP_MEMBERSHIP).and_then(|info| info.value.as_procs()).ok_or("no group")?;
        assert_eq!(members, made);
        // Those that a name stands for are looked at where processes are named.
        let all = Proc::new(Nspace::new(name)?, Rank::WILDCARD);
        let looks = [Info::new(keys::MONITOR_TARGET_PROCS, DataArray::of([all.clone()]))];
        let monitor = Info::new(keys::MONITOR_PROC_RESOURCE_USAGE, Value::Undef);
        let (_, looks) = client.process_monitor(&monitor, Status::SUCCESS, &looks).wait()?;
        let of_all = vec![Info::new(keys::PROCID, all)];
        let query = Query { keys: vec![Text::new(keys::QUERY_MEMORY_USAGE)?], qualifiers: of_all };
        let (_, memory) = client.query(&[query]).wait()?;
        let memory = memory[0].value.as_array().ok_or("no processes")?.len();
        assert_eq!((looks.len(), memory), (members.len(), members.len()));
        client.fence(&[Proc::new(Nspace::new(name)?, Rank::WILDCARD)], &[]).wait()?;
    }
    let ranks = |count: usize| format!("rank {} is in {names:?}, {count} in all", client.proc().rank);
    let query = Query { keys: vec![Text::new(keys::QUERY_NUM_PSETS)?], qualifiers: Vec::new() };
    client.fence(&[], &[]).wait()?;
    let (_, infos) = client.query(&[query]).wait()?;
    say(&ranks(infos[0].value.as_u32().ok_or("no number")? as usize))?;
    client.fence(&[], &[]).wait()?;
    Ok(())
}

fn pull(client: &Client, command: &[&str]) -> Outcome {
    let ends = ends_of_jobs(client)?;
    let nspace = spawn(client, command)?;
    // By now it has said everything.
    ends.recv()?;
    let (tell, told) = channel();
    let handler = Arc::new(move |output: Output| drop(tell.send(output)));
    let all = Proc::new(nspace, Rank::WILDCARD);
    let channels = Channels::STDOUT | Channels::STDERR;
    client.iof_pull(&[all], channels, &[], handler).wait()?;
    let mut printed = [const { [const { String::new() }; 2] }; 2];
    let mut streams = 4;
    while streams > 0 {
        let output = told.recv()?;
        streams -= u32::from(output.bytes.is_empty());
        let stream = &mut printed[output.source.rank.0 as usize][usize::from(output.channel == Channels::STDERR)];
        stream.push_str(&String::from_utf8(output.bytes)?);
    }
    for (rank, [out, err]) in printed.iter().enumerate() {
        say(&format!("{rank} printed {out:?} and {err:?}"))?;
    }
    Ok(())
}

fn start(client: &Client, command: &[&str]) -> Outcome<Result<Nspace, instanton::client::Error>> {
    let texts = command.iter().map(Text::new).collect::<Result<Vec<_>, _>>()?;
    let app = App {
        cmd: texts.first().cloned(),
        argv: texts,
        env: vec![Text::new("GIVEN=here")?],
        cwd: None,
        maxprocs: 2,
        info: Vec::new(),
    };
    let infos = [keys::NOTIFY_COMPLETION, keys::FWD_STDOUT, keys::FWD_STDERR].map(|key| Info::new(key, true));
    Ok(client.spawn(&infos, &[app]).wait())
}

fn spawn(client: &Client, command: &[&str]) -> Outcome<Nspace> {
    match start(client, command)? {
        Ok(nspace) => Ok(nspace),
        Err(error) => {
            say(&format!("not started: {}", error.status()))?;
            client.fence(&[], &[]).wait()?;
            client.finalize(&[])?;
            std::process::exit(0);
        }
    }
}

/// Jobs that have ended, each with its status.
fn ends_of_jobs(client: &Client) -> Outcome<Receiver<(Nspace, Status)>> {
    let (sender, receiver) = channel();
    let handler = move |notice: Notice, chain: Chain| {
        let job = notice.info.find(keys::EVENT_AFFECTED_PROC).and_then(|info| info.value.as_proc().cloned());
        let status = notice.info.find(keys::JOB_TERM_STATUS).and_then(|info| info.value.as_status());
        let _ = sender.send((job.expect("a job").nspace, status.expect("a status")));
        chain.complete(Status::SUCCESS, Vec::new());
    };
    client.register_event_handler(&[Status::EVENT_JOB_END], &[], Arc::new(handler)).wait()?;
    Ok(receiver)
}

fn control(client: &Client, nspace: &Nspace, what: Info) -> Outcome {
    let all = Proc::new(nspace.clone(), Rank::WILDCARD);
    client.job_control(&[all], &[what]).wait()?;
    Ok(())
}

fn child(client: &Client) -> Outcome {
    let me = client.proc();
    let job = Proc::new(me.nspace.clone(), Rank::WILDCARD);
    let get = |proc: &Proc, key: &str| client.get(proc, key, &[]);
    let Value::Proc(parent) = get(&job, keys::PARENT_ID)? else { return Err("the parent is no process".into()) };
    let parents = get(&Proc::new(parent.nspace.clone(), Rank::WILDCARD), keys::JOB_SIZE)?;
    let spawned = get(&job, keys::SPAWNED)?;
    client.fence(&[], &[]).wait()?;
    say(&format!(
        "rank {} of job {}, child of rank {} of {parents:?}, {spawned:?}, on node {:?}, given {:?}",
        me.rank,
        number(&me.nspace),
        parent.rank,
        get(me, keys::NODE_RANK)?,
        std::env::var("GIVEN").unwrap_or_default(),
    ))
}

fn query(client: &Client) -> Outcome {
    for key in [
        keys::QUERY_NAMESPACES,
        keys::QUERY_JOB_STATUS,
        keys::QUERY_SPAWN_SUPPORT,
        keys::JOB_SIZE,
        keys::QUERY_NUM_PSETS,
        keys::QUERY_DEBUG_SUPPORT,
        keys::QUERY_NAMESPACE_INFO,
        keys::QUERY_AVAILABLE_SLOTS,
        keys::QUERY_MEMORY_USAGE,
        keys::RM_NAME,
        keys::PROC_PID,
    ] {
        let me = Info::new(keys::PROCID, client.proc().clone());
        let qualifiers = if key == keys::PROC_PID { vec![me] } else { Vec::new() };
        let query = Query { keys: vec![Text::new(key)?], qualifiers };
        let types = match client.query(&[query]).wait() {
            Ok((status, infos)) => {
                format!("{status} {:?}", infos.iter().map(|i| i.value.data_type()).collect::<Vec<_>>())
            }
            Err(error) => error.status().to_string(),
        };
        say(&format!("{key}: {types}"))?;
    }
    let wish = vec![Info::new("site.wish", true).required()];
    let refused = client.query(&[Query { keys: vec![Text::new(keys::QUERY_JOB_STATUS)?], qualifiers: wish }]).wait();
    say(&format!("a wish that nobody knows: {}", refused.unwrap_err().status()))?;
    // The job, the session and the node that are named are the ones meant, or none is.
    let job = |name: &Nspace| Info::new(keys::JOBID, Value::string(name));
    let nowhere = |key| Info::new(key, "nosuch");
    let session = || Info::new(keys::SESSION_ID, 77u32);
    for (key, qualifier) in [
        (keys::QUERY_JOB_STATUS, job(&client.proc().nspace)),
        (keys::QUERY_JOB_STATUS, nowhere(keys::JOBID)),
        (keys::QUERY_PROC_TABLE, nowhere(keys::JOBID)),
        (keys::QUERY_LOCAL_PROC_TABLE, nowhere(keys::JOBID)),
        (keys::QUERY_NAMESPACE_INFO, nowhere(keys::JOBID)),
        (keys::QUERY_MEMORY_USAGE, nowhere(keys::JOBID)),
        (keys::QUERY_LOCAL_PROC_TABLE, nowhere(keys::HOSTNAME)),
        (keys::QUERY_JOB_STATUS, session()),
        (keys::QUERY_NAMESPACES, session()),
    ] {
        let named = qualifier.key.to_string();
        let query = Query { keys: vec![Text::new(key)?], qualifiers: vec![qualifier] };
        let status = match client.query(&[query]).wait() {
            Ok((status, _)) => status,
            Err(error) => error.status(),
        };
        say(&format!("{key} of {named}: {status}"))?;
    }
    let host = vec![Info::new(keys::HOST_FUNCTIONS, true)];
    let support = Query { keys: vec![Text::new(keys::QUERY_ATTRIBUTE_SUPPORT)?], qualifiers: host };
    let (_, infos) = client.query(&[support]).wait()?;
    say(&format!("the host supports {}", infos[0].value.as_str().unwrap_or_default()))?;
    let query = Query { keys: vec![Text::new(keys::QUERY_NAMESPACE_INFO)?], qualifiers: Vec::new() };
    let (_, infos) = client.query(&[query]).wait()?;
    for value in infos[0].value.as_array().ok_or("no jobs")?.items() {
        let Value::Info(job) = value else { return Err("no job among the jobs".into()) };
        let said = job.value.as_array().ok_or("nothing of a job")?.items().iter().map(|value| match value {
            Value::Info(info) => info.value.as_str().unwrap_or_default(),
            _ => "",
        });
        let said: Vec<_> = said.collect();
        let command = said[1].rsplit('/').next().unwrap_or_default();
        say(&format!("own job {} runs {command}", client.proc().nspace == said[0]))?;
    }
    let query = Query { keys: vec![Text::new(keys::QUERY_PROC_TABLE)?], qualifiers: Vec::new() };
    let (_, infos) = client.query(&[query]).wait()?;
    for value in infos[0].value.as_array().ok_or("no table")?.items() {
        let Value::ProcInfo(info) = value else { return Err("no process in the table".into()) };
        say(&format!(
            "rank {} state {} exit code {} pid {}",
            info.proc.rank,
            info.state,
            info.exit_code,
            info.pid > 0
        ))?;
    }
    Ok(())
}

/// Returns the part of a namespace behind its last `@`.
fn number(nspace: &Nspace) -> String {
    nspace.to_string().rsplit('@').next().unwrap_or_default().to_owned()
}

/// One line in one piece.
fn say(line: &str) -> Outcome {
    Ok(std::io::stdout().write_all(format!("{line}\n").as_bytes())?)
}
