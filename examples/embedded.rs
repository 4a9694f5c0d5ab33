//! The store in a server that is not ours: four nodes of eight ranks each, on this machine.
//!
//! Started without arguments it is the host, and starts a server for each node, which starts its ranks. Ranks post by a
//! line to their server; what they read they read in its memory, which they find by their environment. The host carries
//! what the fence exchanges.
use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};

use instanton::data::{DataType, Info, Key, Nspace, Proc, Rank, Scope, Value, keys};
use instanton::handover::{Listener, RemoteReader, VARIABLE};
use instanton::store::exchange::Sender;
use instanton::store::{Datum, Entry, JobInfoBuilder, JobWriter, Limits, Question};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const NODES: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
const RANKS: u32 = 8;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => host(),
        ["node", number] => node(number.parse()?),
        ["rank", number] => rank(number.parse()?),
        _ => Err("started in an unknown role".into()),
    }
}

/// Starts this program again, connected by its standard input.
fn start(role: &str, number: usize, address: Option<&str>) -> Outcome<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args([role, &number.to_string()]).stdin(OwnedFd::from(theirs));
    command.envs(address.map(|address| (VARIABLE, address)));
    Ok((command.spawn()?, ours))
}

fn send(mut to: &UnixStream, blob: &[u8]) -> io::Result<()> {
    to.write_all(&(blob.len() as u64).to_le_bytes())?;
    to.write_all(blob)
}

fn receive(mut from: &UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let mut blob = vec![0; u64::from_le_bytes(length) as usize];
    from.read_exact(&mut blob)?;
    Ok(blob)
}

/// Carries each node's part of the fence to all nodes.
fn host() -> Outcome {
    let nodes = (0..NODES.len()).map(|node| start("node", node, None)).collect::<Outcome<Vec<_>>>()?;
    let parts = nodes.iter().map(|(_, node)| receive(node)).collect::<io::Result<Vec<_>>>()?;
    nodes.iter().try_for_each(|(_, node)| send(node, &parts.concat()))?;
    nodes.into_iter().try_for_each(|(child, _)| ended_well(child))
}

fn ended_well(mut child: Child) -> Outcome {
    if child.wait()?.success() { Ok(()) } else { Err("a process has failed".into()) }
}

/// A node's server.
fn node(number: usize) -> Outcome {
    let host = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let own = (0..RANKS).map(|rank| rank + RANKS * number as u32);

    // Job information that is known before the processes start.
    let nspace = Nspace::new("embedded@1")?;
    let mut job = JobInfoBuilder::new(&nspace, RANKS, NODES[number]);
    let map = (0..NODES.len() as u32).map(|node| format!("{}-{}", node * RANKS, node * RANKS + RANKS - 1));
    let map = map.collect::<Vec<_>>().join(";");
    job.infos(&[Info::new(keys::NODE_MAP, NODES.join(",")), Info::new(keys::PROC_MAP, map)])?;
    for rank in 0..RANKS * NODES.len() as u32 {
        job.process(rank, [("example.port".as_bytes(), Datum::Scalar(DataType::UINT16, 5000 + u64::from(rank)))])?;
    }
    let info = job.build()?;
    if !info.contradictions().is_empty() {
        return Err(format!("{:?}", info.contradictions()).into());
    }
    let mut writer = JobWriter::create(&nspace, info, &Limits::default())?;
    let mut listener = Listener::open()?;

    // Ranks start, and post.
    let address = listener.address().to_owned();
    let ranks = own.clone().map(|rank| start("rank", rank as usize, Some(&address))).collect::<Outcome<Vec<_>>>()?;
    let card = Key::new("example.card")?;
    for (rank, (_, from)) in own.clone().zip(&ranks) {
        let mut line = String::new();
        BufReader::new(from).read_line(&mut line)?;
        let value = Datum::Text(Some(line.trim_end().as_bytes()));
        writer.post(Rank(rank), &[Entry { scope: Scope::GLOBAL, key: &card, value }])?;
        writer.release();
    }

    // A fence that collects: out, over, in.
    let server = Proc::new(Nspace::new("servers")?, Rank(number as u32));
    let sender = Sender { server, identity: number as u64 };
    send(&host, &writer.outbound(&sender, own.map(Rank))?)?;
    let inbound = writer.inbound(&sender, &receive(&host)?)?;
    writer.release();

    // Readers come and go.
    let mut ranks: Vec<Child> = ranks.into_iter().map(|(child, _)| child).collect();
    while !ranks.is_empty() {
        poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], PollTimeout::from(20u8))?;
        listener.serve(&mut writer)?;
        for mut child in std::mem::take(&mut ranks) {
            match child.try_wait()? {
                None => ranks.push(child),
                Some(_) => ended_well(child)?,
            }
        }
    }
    println!("{}: {RANKS} ranks have read what {} of other nodes posted", NODES[number], inbound.ranks.len());
    Ok(())
}

/// A rank: a process of a program that has never heard of us, but for the reader.
fn rank(own: u32) -> Outcome {
    let mut server = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    writeln!(server, "the card of rank {own}")?;

    let reader = RemoteReader::open(&std::env::var(VARIABLE)?)?;
    for peer in 0..RANKS * NODES.len() as u32 {
        let get = |key| reader.get(&Question::new(Rank(peer), key));
        let card = reader.get_when_there(&Question::new(Rank(peer), "example.card"), None)?;
        let is_as_expected = card == Value::from(format!("the card of rank {peer}").as_str())
            && get(keys::HOSTNAME)? == Value::from(NODES[(peer / RANKS) as usize])
            && get("example.port")? == Value::Uint16(5000 + peer as u16);
        if !is_as_expected {
            return Err(format!("rank {own} has read nonsense of rank {peer}").into());
        }
    }
    Ok(())
}
