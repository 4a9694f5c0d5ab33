//! A small PMIx program, for trying a launcher: `instanton run -n 4 rank WHAT ...`
//!
//! ```text
//! rank place               print where it may run, and how many of the others may run in the same package
//! rank say                 print what it knows of itself, meet the others, finalize
//! rank abort RANK STATUS   that rank asks for the job's end; the others wait for ever
//! rank abort-and HOW       ask for the job's end, and do not wait: kill oneself, or exit
//! rank leave CODE          exit with that code after Init, without Finalize
//! rank reborn TIMES        rank 1 dies so many times, and all meet once it comes to stay
//! rank alone WHAT          rank 3 of 4 is gone before it comes to what the others do
//! rank led HOW              rank 2 of 3 is gone before a construct that rank 1 leads, and gives up or does not
//! rank miss                meet processes that there are not, in a job of no name, and in the next job
//! rank tied TOOL            connect with that tool, and hear that it has left without a word
//! rank greet                connect and fence with the tool that publishes "visitor", and read what it has posted
//! rank forsaken             wait for that tool in every way there is, until it is killed
//! rank late                 rank 1 comes to what rank 0 has waited for long enough; then both meet
//! rank require             ask for what nobody knows wherever ranks meet, and of their output
//! rank quit WHAT           rank 3 of 4 leaves a group while the others do something with it
//! rank abort-one RANK      rank 0 has that rank ended; the others meet without it
//! rank abort-self RANK     that rank has itself alone ended; the others meet without it
//! rank outlive             say which node is the first to go down, and finalize
//! rank offer KEY RANGE      publish 17 for the session or the namespace, and wait for a line of input
//! rank find KEY             say what is published
//! rank put KEY VALUE        post a text for all, one for other nodes, and wait for ever
//! rank litter FILE         register FILE for clean-up, create it, and wait for ever
//! ```
use std::error::Error;
use std::io::Write;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use instanton::client::{Chain, Client, Handler, Notice};
use instanton::data::{App, Channels, DataRange, Info, InfoList, Proc, Rank, Scope, Status, Text, Value, keys};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let client = Client::init(&[])?;
    let me = client.proc().clone();
    let job = Proc::new(me.nspace.clone(), Rank::WILDCARD);
    match words[..] {
        ["say"] => {
            let get = |proc: &Proc, key: &str| client.get(proc, key, &[]);
            say(&format!(
                "rank {} of {:?}, local rank {:?}, with {:?}, in {:?}",
                me.rank,
                get(&job, keys::JOB_SIZE)?,
                get(&me, keys::LOCAL_RANK)?,
                get(&job, keys::LOCAL_PEERS)?,
                get(&me, keys::PROCDIR)?,
            ))?;
            client.fence(&[], &[]).wait()?;
            client.finalize(&[])?;
            return Ok(());
        }
        ["place"] => {
            let get = |key: &str| match client.get(&me, key, &[]) {
                Ok(value) => value.as_str().map_or_else(|| format!("{value:?}"), str::to_owned),
                Err(error) => error.status().to_string(),
            };
            let [cpuset, place, rank] = [keys::CPUSET, keys::LOCALITY_STRING, keys::PACKAGE_RANK].map(get);
            say(&format!("{} {cpuset} {place} {rank}", me.rank))?;
            client.finalize(&[])?;
            return Ok(());
        }
        ["abort", rank, status] if me.rank.0 == rank.parse::<u32>()? => {
            client.fence(&[], &[]).wait()?;
            client.abort(status.parse()?, Some(b"no more"), &[]).wait()?;
        }
        ["abort-and", how] => {
            client.abort(7, Some(b"no more"), &[]).then(|_| ())?;
            match how {
                "kill" => nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL)?,
                _ => std::process::exit(3),
            }
        }
        ["abort", ..] => client.fence(&[], &[]).wait()?,
        ["reborn", times] => return reborn(&client, times.parse()?),
        ["offer", key, range] => return offer(&client, key, range),
        ["find", key] => return find(&client, key),
        ["outlive"] => return outlive(&client),
        ["alone", what] => return alone(&client, what),
        ["led", how] => return led(&client, how),
        ["bind"] => return bind(&client),
        ["bound", how, to] => return bound(&client, how, to),
        ["tied", to] => return tied(&client, to),
        ["miss"] => return miss(&client),
        ["greet"] => return greet(&client),
        ["forsaken"] => return forsaken(&client),
        ["late"] => return late(&client),
        ["require"] => return require(&client),
        ["quit", what] => return quit(&client, what),
        ["abort-one", rank] => return abort_one(&client, Rank(0), Rank(rank.parse()?)),
        ["abort-self", rank] => return abort_one(&client, Rank(rank.parse()?), Rank(rank.parse()?)),
        ["leave", code] => std::process::exit(code.parse()?),
        ["put", key, value] => {
            client.put(Scope::GLOBAL, key, Value::string(format!("{value} {}", me.rank)))?;
            client.put(Scope::REMOTE, "elsewhere", Value::from(me.rank.0))?;
            client.commit()?;
            client.fence(&[], &[]).wait()?;
            say(&std::process::id().to_string())?;
        }
        ["litter", file] => {
            let file = format!("{file}.{}", me.rank);
            let cleanup = Info::new(keys::REGISTER_CLEANUP, Value::string(&file));
            client.job_control(std::slice::from_ref(&me), &[cleanup]).wait()?;
            std::fs::write(&file, "litter")?;
            say(&format!("{} {}", std::process::id(), std::os::unix::process::parent_id()))?;
        }
        _ => return Err("rank say | abort RANK STATUS | leave CODE | litter FILE".into()),
    }
    loop {
        std::thread::park();
    }
}

/// Rank 1 dies as often as it is to; then all meet in a fence and in a group.
fn reborn(client: &Client, times: u32) -> Result<(), Box<dyn Error>> {
    let me = client.proc().clone();
    let victim = Proc::new(me.nspace.clone(), Rank(1));
    let lives =
        |client: &Client| client.get(&victim, keys::REINCARNATION, &[]).map(|value| value.as_u32().unwrap_or(99));
    let life = lives(client)?;
    let ends = ends(client)?;
    if me != victim || life == 0 {
        client.fence(&[], &[]).wait()?;
    }
    if me == victim && life < times {
        std::process::exit(9);
    }
    if me != victim {
        (0..times).try_for_each(|_| ends.recv().map(drop))?;
    }
    client.fence(&[], &[]).wait()?;
    let all: Vec<Proc> = (0..3).map(|rank| Proc::new(me.nspace.clone(), Rank(rank))).collect();
    client.group_construct(&instanton::data::Nspace::new("again")?, &all, &[]).wait()?;
    say(&format!("rank {} met rank 1 in its life {}", me.rank, lives(client)?))?;
    client.finalize(&[])?;
    Ok(())
}

/// The last rank dies, alone on its node, before it comes to what the others do.
fn alone(client: &Client, what: &str) -> Result<(), Box<dyn Error>> {
    let me = client.proc().clone();
    let all: Vec<Proc> = (0..4).map(|rank| Proc::new(me.nspace.clone(), Rank(rank))).collect();
    let (group, last) = (instanton::data::Nspace::new("g")?, all[3].clone());
    let others = &all[..3];
    let set = |key| Info::new(key, true);
    let is_destruct = what.starts_with("destruct");
    let notify = set(keys::GROUP_NOTIFY_TERMINATION);
    let ends = ends_by(client, Status::GROUP_MEMBER_FAILED)?;
    client.fence(&[], &[]).wait()?;
    if is_destruct {
        client
            .group_construct(&group, &all, if what == "destruct-notify" { std::slice::from_ref(&notify) } else { &[] })
            .wait()?;
    }
    if me == last {
        match what {
            "finalize" => client.finalize(&[])?,
            _ => std::process::exit(9),
        }
        std::process::exit(0);
    }
    let members = |infos: &[Info]| {
        infos.find(keys::GROUP_MEMBERSHIP).and_then(|info| info.value.as_procs()).map_or(0, |members| members.len())
    };
    let construct = |info: &[Info]| match client.group_construct(&group, &all, info).wait() {
        Ok((status, infos)) => format!("{status} with {}", members(&infos)),
        Err(error) => error.status().to_string(),
    };
    let plain = |result: Result<(), instanton::client::Error>| match result {
        Ok(()) => Status::SUCCESS.to_string(),
        Err(error) => error.status().to_string(),
    };
    let told = match what {
        "fence" | "finalize" => plain(client.fence(&all, &[]).wait()),
        "connect" => plain(client.connect_to(&all, &[]).wait()),
        "construct" => construct(&[]),
        "optional" => construct(&[set(keys::GROUP_OPTIONAL)]),
        "notify" => format!("{}, of {}", construct(&[notify]), ends.recv()?.rank),
        "destruct" => {
            let first = plain(client.group_destruct(&group, &[]).wait());
            format!("{first}, then {}", plain(client.group_destruct(&group, &[]).wait()))
        }
        "destruct-notify" => plain(client.group_destruct(&group, &[]).wait()),
        _ => return Err("what is done alone?".into()),
    };
    say(&told)?;
    client.fence(others, &[]).wait()?;
    client.finalize(&[])?;
    Ok(())
}

/// The last of three is dead when the others make a group, of whom one leads and decides once both have come.
fn led(client: &Client, how: &str) -> Result<(), Box<dyn Error>> {
    let me = client.proc().clone();
    let all: Vec<Proc> = (0..3).map(|rank| Proc::new(me.nspace.clone(), Rank(rank))).collect();
    let group = instanton::data::Nspace::new("g")?;
    let set = |key| Info::new(key, true);
    let (ask, asked) = channel();
    // The first to finalize leaves the group that was made without a word, of which the other hears.
    let last = all[2].clone();
    let handler: Handler = Arc::new(move |notice: Notice, chain: Chain| {
        if notice.source == last {
            _ = ask.send(chain);
        }
    });
    client.register_event_handler(&[Status::GROUP_MEMBER_FAILED], &[], handler).wait()?;
    client.fence(&[], &[]).wait()?;
    if me.rank.0 == 2 {
        std::process::exit(9);
    }
    let (tell, made) = channel();
    let construct = |info: &[Info]| {
        client.group_construct(&group, &all, info).then(move |result| {
            _ = tell.send(result.map_or_else(|error| error.status(), |(status, _)| status));
        })
    };
    // A value that a rank publishes goes behind what it has asked for before.
    let passes = |key: &str| client.publish(&[Info::new(key, true)]).wait();
    let waits = |key: &str| client.lookup(&[key], &[Info::new(keys::WAIT, 1)]).wait();
    let heard = match me.rank.0 {
        1 => {
            construct(&[set(keys::GROUP_NOTIFY_TERMINATION), set(keys::GROUP_LEADER)])?;
            passes("led")?;
            let chain = asked.recv()?;
            waits("come")?;
            match how {
                "given-up" => {
                    let abort = Value::Status(Status::GROUP_CONSTRUCT_ABORT);
                    chain.complete(Status::SUCCESS, vec![Info::new("decision", abort)]);
                }
                _ => chain.complete(Status::SUCCESS, Vec::new()),
            }
            "was asked"
        }
        _ => {
            waits("led")?;
            construct(&[set(keys::GROUP_NOTIFY_TERMINATION)])?;
            passes("come")?;
            "was not"
        }
    };
    let made = made.recv()?;
    client.fence(&all[..2], &[]).wait()?;
    let heard = if asked.try_recv().is_ok() { "was asked for nothing" } else { heard };
    say(&format!("rank {} {heard}: {made}", me.rank))?;
    client.finalize(&[])?;
    Ok(())
}

/// Starts jobs apart, connects with them, and hears which of them finalize without having disconnected.
fn bind(client: &Client) -> Result<(), Box<dyn Error>> {
    let own = &client.proc().nspace;
    let heard = ends_by(client, Status::ERR_INVALID_TERMINATION)?;
    let program = std::env::current_exe()?;
    let program = program.to_str().ok_or("a name that is text")?;
    for how in ["disconnects", "finalizes", "disconnects", "finalizes"] {
        let name = own.to_string();
        let argv = [program, "bound", how, &name].map(Text::new).into_iter().collect::<Result<_, _>>()?;
        let app = App { cmd: None, argv, env: vec![], cwd: None, maxprocs: 1, info: vec![] };
        let child = client.spawn(&[Info::new(keys::COSPAWN_APP, true)], &[app]).wait()?;
        let both = [own, &child].map(|nspace| Proc::new(nspace.clone(), Rank::WILDCARD));
        client.connect_to(&both, &[]).wait()?;
        match how {
            "disconnects" => client.disconnect_from(&both, &[]).wait()?,
            _ => say(&format!("{how}: {}", heard.recv()?.nspace == child))?,
        }
    }
    client.finalize(&[])?;
    Ok(())
}

/// One of those jobs.
fn bound(client: &Client, how: &str, to: &str) -> Result<(), Box<dyn Error>> {
    let own = client.proc().nspace.clone();
    let both = [instanton::data::Nspace::new(to)?, own].map(|nspace| Proc::new(nspace, Rank::WILDCARD));
    client.connect_to(&both, &[]).wait()?;
    if how == "disconnects" {
        client.disconnect_from(&both, &[]).wait()?;
    }
    client.finalize(&[])?;
    Ok(())
}

/// Connects with processes that there are not, and never were.
fn miss(client: &Client) -> Result<(), Box<dyn Error>> {
    let own = Proc::new(client.proc().nspace.clone(), Rank::WILDCARD);
    let next = own.nspace.to_string().replace("@1", "@2");
    for name in ["nobody", &next] {
        let nobody = Proc::new(instanton::data::Nspace::new(name)?, Rank(0));
        let met = client.connect_to(&[own.clone(), nobody.clone()], &[]).wait();
        let got = client.get(&nobody, keys::JOB_SIZE, &[Info::new(keys::IMMEDIATE, true)]);
        let status = |failed: Option<instanton::client::Error>| failed.map_or(Status::SUCCESS, |error| error.status());
        let fenced = client.fence(&[own.clone(), nobody], &[]).wait();
        say(&format!("{}, {}, {}", status(met.err()), status(got.err()), status(fenced.err())))?;
    }
    client.fence(&[], &[]).wait()?;
    client.finalize(&[])?;
    Ok(())
}

/// Its job, and the tool that publishes "visitor".
fn with_visitor(client: &Client) -> Result<[Proc; 2], Box<dyn Error>> {
    let own = Proc::new(client.proc().nspace.clone(), Rank::WILDCARD);
    let (_, found) = client.lookup(&["visitor"], &[Info::new(keys::WAIT, 1)]).wait()?;
    Ok([own, found[0].proc.clone()])
}

/// Connects with a tool, which leaves without having disconnected.
fn tied(client: &Client, to: &str) -> Result<(), Box<dyn Error>> {
    let heard = ends_by(client, Status::ERR_INVALID_TERMINATION)?;
    let tool = instanton::data::Nspace::new(to)?;
    let both = [&tool, &client.proc().nspace].map(|nspace| Proc::new(nspace.clone(), Rank::WILDCARD));
    client.connect_to(&both, &[]).wait()?;
    say(&format!("told of the tool: {}", heard.recv()?.nspace == tool))?;
    client.finalize(&[])?;
    Ok(())
}

/// Connects its job with a tool, and meets it in fences; the last rank asks for what it has posted before that.
fn greet(client: &Client) -> Result<(), Box<dyn Error>> {
    let both = with_visitor(client)?;
    let gift = || client.get(&both[1], "gift", &[]);
    if client.proc().rank == Rank(2) {
        gift()?;
    }
    client.connect_to(&both, &[]).wait()?;
    client.disconnect_from(&both, &[]).wait()?;
    client.fence(&both, &[]).wait()?;
    client.fence(&both, &[Info::new(keys::COLLECT_DATA, true)]).wait()?;
    let group = instanton::data::Nspace::new("g")?;
    client.group_construct(&group, &both, &[]).wait()?;
    // The tool leaves behind the last fence, and takes with it what it has posted.
    let gift = gift()?;
    client.fence(&[Proc::new(group, Rank::WILDCARD)], &[]).wait()?;
    say(&format!("greeted, with {gift:?}"))?;
    client.finalize(&[])?;
    Ok(())
}

/// Waits for a tool that is killed. The last rank comes to a fence with it only then, and would connect with it once more.
fn forsaken(client: &Client) -> Result<(), Box<dyn Error>> {
    let both = with_visitor(client)?;
    let (group, other) = (instanton::data::Nspace::new("g")?, instanton::data::Nspace::new("h")?);
    client.group_construct(&group, &both, &[]).wait()?;
    let (ended, ends) = channel();
    let status = |failed: Option<instanton::client::Error>| failed.map_or(Status::SUCCESS, |error| error.status());
    let report = |what: &'static str| {
        let ended = ended.clone();
        move |failed: Option<instanton::client::Error>| _ = ended.send(format!("{what}: {}", status(failed)))
    };
    let (connect, fence, of_group, construct) =
        (report("connect"), report("fence"), report("fence of the group"), report("construct"));
    client.connect_to(&both, &[]).then(move |met| connect(met.err()))?;
    client.group_construct(&other, &both, &[]).then(move |made| construct(made.err()))?;
    client.fence(&[Proc::new(group, Rank::WILDCARD)], &[]).then(move |met| of_group(met.err()))?;
    let is_late = client.proc().rank == Rank(2);
    if !is_late {
        client.fence(&both, &[]).then(move |met| fence(met.err()))?;
    }
    client.fence(&[], &[]).wait()?;
    say("waits")?;
    for _ in 0..if is_late { 3 } else { 4 } {
        say(&ends.recv()?)?;
    }
    if is_late {
        say(&format!("later: {}", status(client.fence(&both, &[]).wait().err())))?;
        say(&format!("connect later: {}", status(client.connect_to(&both, &[]).wait().err())))?;
    }
    client.finalize(&[])?;
    Ok(())
}

/// Rank 0 waits for a second for rank 1, which comes after that.
fn late(client: &Client) -> Result<(), Box<dyn Error>> {
    let me = client.proc().rank.0;
    let both = [0, 1].map(|rank| Proc::new(client.proc().nspace.clone(), Rank(rank)));
    let limit = if me == 0 { vec![Info::new(keys::TIMEOUT, 1)] } else { Vec::new() };
    let status = |failed: Option<instanton::client::Error>| failed.map_or(Status::SUCCESS, |error| error.status());
    let meet = |what: &str, limit: &[Info]| -> Result<Status, Box<dyn Error>> {
        let group = instanton::data::Nspace::new(what)?;
        Ok(status(match what {
            "fence" => client.fence(&both, limit).wait().err(),
            "connect" => client.connect_to(&both, limit).wait().err(),
            _ => client.group_construct(&group, &both, limit).wait().err(),
        }))
    };
    for what in ["fence", "connect", "construct"] {
        if me == 1 {
            client.lookup(&[what], &[Info::new(keys::WAIT, 1)]).wait()?;
        }
        let first = meet(what, &limit)?;
        if me == 0 {
            client.publish(&[Info::new(what, true)]).wait()?;
        }
        say(&format!("{what}: {first}, then {}", meet(what, &[])?))?;
    }
    client.finalize(&[])?;
    Ok(())
}

/// An attribute that nobody knows is required in each call, which is to say so.
fn require(client: &Client) -> Result<(), Box<dyn Error>> {
    let job = Proc::new(client.proc().nspace.clone(), Rank::WILDCARD);
    let all: Vec<Proc> = (0..3).map(|rank| Proc { rank: Rank(rank), ..job.clone() }).collect();
    let (group, required) = (instanton::data::Nspace::new("g")?, [Info::new("site.unknown", true).required()]);
    let handler = Arc::new(|_: instanton::client::Output| ());
    client.connect_to(&all, &[]).wait()?;
    let plain = |what: &str, result: Result<(), instanton::client::Error>| {
        say(&format!("{what}: {}", result.map_or_else(|error| error.status(), |()| Status::SUCCESS)))
    };
    plain("connect", client.connect_to(&all[..], &required).wait())?;
    plain("disconnect", client.disconnect_from(&all, &required).wait())?;
    plain("fence", client.fence(&all, &required).wait())?;
    plain("group", client.group_construct(&group, &all, &required).wait().map(drop))?;
    plain("pull", client.iof_pull(&[job], Channels::STDOUT, &required, handler).wait().map(drop))?;
    client.finalize(&[])?;
    Ok(())
}

/// The last rank leaves a group in which it is alone on its node, while the others meet in it or end it.
fn quit(client: &Client, what: &str) -> Result<(), Box<dyn Error>> {
    let me = client.proc().clone();
    let group = instanton::data::Nspace::new("g")?;
    let members: Vec<Proc> = [0, 1, 3].map(|rank| Proc::new(me.nspace.clone(), Rank(rank))).to_vec();
    if members.contains(&me) {
        client.group_construct(&group, &members, &[]).wait()?;
    }
    let everybody = [Proc::new(group.clone(), Rank::WILDCARD)];
    let (ended, end) = channel();
    let ended = move |result: Result<(), instanton::client::Error>| {
        let _ = ended.send(result.map_or_else(|error| error.status(), |()| Status::SUCCESS));
    };
    let begins = [Rank(0), Rank(1)].contains(&me.rank);
    match what {
        _ if !begins => {}
        "fence" => client.fence(&everybody, &[]).then(ended)?,
        "tolerant" => client.fence(&everybody, &[Info::new(keys::GROUP_FT_COLLECTIVE, true)]).then(ended)?,
        _ => client.group_destruct(&group, &[]).then(ended)?,
    }
    // The servers have brought that to the launcher by then.
    client.fence(&[], &[]).wait()?;
    if me.rank == Rank(3) {
        client.group_leave(&group, &[]).wait()?;
    }
    if begins {
        say(&end.recv()?.to_string())?;
    }
    client.finalize(&[])?;
    Ok(())
}

/// One rank has another, or itself, ended; the others meet without that.
fn abort_one(client: &Client, by: Rank, of: Rank) -> Result<(), Box<dyn Error>> {
    let me = client.proc().clone();
    client.fence(&[], &[]).wait()?;
    if me.rank == by {
        client.abort(7, Some(b"one is enough"), &[Proc::new(me.nspace.clone(), of)]).wait()?;
    }
    if me.rank == of {
        loop {
            std::thread::park();
        }
    }
    let left: Vec<Proc> =
        (0..3).map(Rank).filter(|left| *left != of).map(|rank| Proc::new(me.nspace.clone(), rank)).collect();
    client.fence(&left, &[]).wait()?;
    say(&format!("rank {} goes on", me.rank))?;
    client.finalize(&[])?;
    Ok(())
}

/// Publishes something, and stays until it reads a line.
fn offer(client: &Client, key: &str, range: &str) -> Result<(), Box<dyn Error>> {
    let range = if range == "session" { DataRange::SESSION } else { DataRange::NAMESPACE };
    client.publish(&[Info::new(key, "17"), Info::new(keys::RANGE, range)]).wait()?;
    say("offered")?;
    std::io::stdin().read_line(&mut String::new())?;
    client.finalize(&[])?;
    Ok(())
}

/// Says what it finds.
fn find(client: &Client, key: &str) -> Result<(), Box<dyn Error>> {
    let found = client.lookup(&[key], &[]).wait();
    say(&match &found {
        Ok((_, found)) => found.iter().filter_map(|data| data.value.as_str()).collect::<Vec<_>>().join(" "),
        Err(error) => error.status().to_string(),
    })?;
    client.finalize(&[])?;
    Ok(())
}

/// The first node that goes down, and that the others live.
fn outlive(client: &Client) -> Result<(), Box<dyn Error>> {
    let (heard, down) = channel();
    let handler: Handler = Arc::new(move |notice: Notice, chain: Chain| {
        let name = notice.info.find(keys::HOSTNAME).and_then(|info| info.value.as_str().map(str::to_owned));
        let _ = name.map(|name| heard.send(name));
        chain.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    });
    client.register_event_handler(&[Status::EVENT_NODE_DOWN], &[], handler).wait()?;
    client.fence(&[], &[]).wait()?;
    say(&format!("{} {}", std::process::id(), std::os::unix::process::parent_id()))?;
    say(&format!("down: {}", down.recv()?))?;
    client.finalize(&[])?;
    Ok(())
}

/// Ends of other processes, as this one hears of them.
fn ends(client: &Client) -> Result<Receiver<Proc>, Box<dyn Error>> {
    ends_by(client, Status::EVENT_PROC_TERMINATED)
}

/// Processes that events of this code are about.
fn ends_by(client: &Client, code: Status) -> Result<Receiver<Proc>, Box<dyn Error>> {
    let (heard, ends) = channel();
    let handler: Handler = Arc::new(move |notice: Notice, chain: Chain| {
        let affected = notice.info.find(keys::EVENT_AFFECTED_PROC).and_then(|info| info.value.as_proc().cloned());
        let _ = affected.map(|proc| heard.send(proc));
        chain.complete(Status::EVENT_ACTION_COMPLETE, Vec::new());
    });
    client.register_event_handler(&[code], &[], handler).wait()?;
    Ok(ends)
}

/// One line in one piece.
fn say(line: &str) -> std::io::Result<()> {
    std::io::stdout().write_all(format!("{line}\n").as_bytes())
}
