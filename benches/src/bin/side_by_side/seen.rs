//! Time that `instanton ps` takes, and what `instanton top` costs the server that it looks into. The server is in this
//! process; its ranks are registered on its node, and none is attached.
use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;

use instanton::data::{Nspace, Proc, Rank, Status};
use instanton::server::{NoHost, Server, ServerConfig, ToolSupport};
use instanton_benches::jobs::Blocks;
use instanton_benches::samples::Samples;
use instanton_benches::up::timed;

/// Ranks of the job that `ps` shows.
pub const LISTED: u32 = 10_000;
/// Ranks of the job that `top` looks at.
pub const WATCHED: u32 = 1024;
/// Looks of one `top`: the first one comes with the connection.
const LOOKS: u32 = 20;

/// Measures both with this command.
pub fn measure(command: &str, divisor: u32, samples: &mut Samples) -> io::Result<()> {
    let pid = std::process::id().to_string();
    let in_vain = |status: Status| io::Error::other(format!("no server: {status}"));
    let server = server(LISTED).map_err(in_vain)?;
    for _ in 0..(50 / divisor).max(1) {
        for (row, words) in [("seen/ps", &["ps", "--in", &pid][..]), ("seen/ps waiting", &["ps", "-w", "--in", &pid])] {
            samples.push(row, timed(Command::new(command).args(words).stdout(Stdio::null()))?, 0);
        }
    }
    drop(server);
    let server = self::server(WATCHED).map_err(in_vain)?;
    let count = LOOKS.to_string();
    for _ in 0..(10 / divisor).max(1) {
        let words = ["top", "--json", "--interval", "0.1", "--count", &count, "--in", &pid];
        let before = processor_time()?;
        timed(Command::new(command).args(words).stdout(Stdio::null()))?;
        samples.push("seen/top", (processor_time()? - before) / f64::from(LOOKS), 0);
    }
    drop(server);
    Ok(())
}

fn server(ranks: u32) -> Result<Server, Status> {
    let config = ServerConfig { tools: Some(ToolSupport::default()), ..ServerConfig::default() };
    let server = Server::start(config, Arc::new(NoHost)).map_err(|_| Status::ERROR)?;
    let nspace = Nspace::new("seen@1").map_err(|_| Status::ERROR)?;
    let (uid, gid) = (own("Uid:"), own("Gid:"));
    for rank in 0..ranks {
        server.register_client(&Proc::new(nspace.clone(), Rank(rank)), uid, gid).wait()?;
    }
    server.register_nspace(&nspace, ranks as usize, &Blocks { ranks, per_node: ranks }.keys()).wait()?;
    Ok(server)
}

/// The number of this process's user or group.
fn own(name: &str) -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|ids| ids.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Processor time of all threads of this process that run, in microseconds.
fn processor_time() -> io::Result<f64> {
    let mut nanoseconds = 0.0;
    for thread in fs::read_dir("/proc/self/task")? {
        let times = fs::read_to_string(thread?.path().join("schedstat"))?;
        nanoseconds += times.split(' ').next().and_then(|time| time.parse::<f64>().ok()).unwrap_or(0.0);
    }
    Ok(nanoseconds / 1e3)
}
