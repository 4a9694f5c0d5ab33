//! A server that runs the ranks of one job on this machine: `server RANKS PROGRAM [ARGUMENTS]`
//!
//! It prints the address that tools attach to, starts the ranks and waits for their ends.
use std::error::Error;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, ExitCode};
use std::sync::Arc;

use instanton::data::{Info, Nspace, Proc, Rank, Status, keys};
use instanton::server::{Accepted, Answer, Completion, Host, Server, ServerConfig, ToolSupport};

/// The host that answers the server's requests. One that it does not implement is answered with "not supported".
struct Launcher;

impl Host for Launcher {
    fn client_connected(&self, proc: &Proc, _: Completion<()>) -> Accepted {
        println!("{proc} has called Init");
        Ok(Answer::Done)
    }

    fn client_finalized(&self, proc: &Proc, _: Completion<()>) -> Accepted {
        println!("{proc} has called Finalize");
        Ok(Answer::Done)
    }

    fn client_lost(&self, proc: &Proc, status: Status) {
        println!("{proc} has gone without a Finalize: {status}");
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [ranks, program, arguments @ ..] = &words[..] else {
        return Err("usage: server RANKS PROGRAM [ARGUMENTS]".into());
    };
    let ranks: u32 = ranks.parse()?;

    let config = ServerConfig { tools: Some(ToolSupport::default()), ..ServerConfig::default() };
    let server = Server::start(config, Arc::new(Launcher))?;
    if let Some(uri) = server.uri() {
        println!("server at {uri}");
    }

    // The job: all of its ranks on this node.
    let nspace = Nspace::new("example@1")?;
    let all: Vec<String> = (0..ranks).map(|rank| rank.to_string()).collect();
    let info = [
        Info::new(keys::JOB_SIZE, ranks),
        Info::new(keys::UNIV_SIZE, ranks),
        Info::new(keys::NODE_MAP, server.hostname().clone()),
        Info::new(keys::PROC_MAP, all.join(",")),
    ];
    server.register_nspace(&nspace, ranks as usize, &info).wait()?;

    // Only processes of this user are taken for its ranks.
    let own = std::fs::metadata("/proc/self")?;
    let start = |rank| -> Result<Child, Box<dyn Error>> {
        let proc = Proc::new(nspace.clone(), Rank(rank));
        server.register_client(&proc, own.uid(), own.gid()).wait()?;
        let mut command = Command::new(program);
        server.setup_fork(&proc, command.args(arguments))?;
        Ok(command.spawn()?)
    };
    let processes = (0..ranks).map(start).collect::<Result<Vec<_>, _>>()?;

    let mut all_well = true;
    for mut process in processes {
        all_well &= process.wait()?.success();
    }
    server.deregister_nspace(&nspace).wait()?;
    server.finalize();
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
