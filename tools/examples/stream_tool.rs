//! A tool that attaches to `instanton run` by its pid, and deals with streams of processes or meets them:
//! `stream_tool PID WHAT ...`
//!
//! ```text
//! stream_tool PID push PROGRAM ARGS    starts a program and pushes input to it for ever
//! stream_tool PID stare NAMESPACE      pulls the output of a job, and reads none of it
//! stream_tool PID visit NAMESPACE      publishes "visitor", makes a group with a job, and waits for ever
//! ```
use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use instanton::data::{App, Channels, Info, Nspace, Proc, Rank, Text, Value, keys};
use instanton::tool::Tool;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [pid, ref what @ ..] = words[..] else { return Err("stream_tool PID WHAT ...".into()) };
    let tool = Tool::init(&[Info::new(keys::SERVER_PIDINFO, Value::Pid(pid.parse()?))])?;
    let client = tool.primary();
    match *what {
        ["push", ref command @ ..] => {
            let argv = command.iter().map(Text::new).collect::<Result<Vec<_>, _>>()?;
            let cmd = argv.first().cloned();
            let app = App { cmd, argv, env: vec![], cwd: None, maxprocs: 1, info: vec![] };
            let nspace = client.spawn(&[Info::new(keys::FWD_STDIN, true)], &[app]).wait()?;
            let all = Proc::new(nspace, Rank::WILDCARD);
            for number in 0.. {
                client.iof_push(std::slice::from_ref(&all), &[b'x'; 1000], &[]).wait()?;
                if number == 10 {
                    say("pushes")?;
                }
            }
        }
        ["stare", nspace] => {
            let all = Proc::new(Nspace::new(nspace)?, Rank::WILDCARD);
            let stare = Arc::new(|_| {
                loop {
                    std::thread::park();
                }
            });
            client.iof_pull(&[all], Channels::STDOUT, &[], stare).wait()?;
            say("stares")?;
            loop {
                std::thread::park();
            }
        }
        ["visit", nspace] => {
            client.publish(&[Info::new("visitor", true)]).wait()?;
            let both = [Proc::new(Nspace::new(nspace)?, Rank::WILDCARD), client.proc().clone()];
            client.group_construct(&Nspace::new("g")?, &both, &[]).wait()?;
            loop {
                std::thread::park();
            }
        }
        _ => return Err("see the head of this program".into()),
    }
    Ok(())
}

fn say(line: &str) -> std::io::Result<()> {
    std::io::stdout().write_all(format!("{line}\n").as_bytes())
}
