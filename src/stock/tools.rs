//! Tools on a stock library: what they claim, and how they are greeted.
//!
//! A tool is let in by the same rules as a native one: by its user, as the kernel tells it, and by the host. It reads
//! its own name where it has none, then the server's. A tool that is a process of a job as well is held against the
//! registration like any other process of it.
use std::io::{self, Read};

use super::ack::{Ack, Kind};
use crate::data::{Info, InfoList, Nspace, Proc, Rank, Status, Value, keys};
use crate::message::door::Claim;

/// Bytes of a namespace, with what fills it up.
const NSPACE: usize = 256;
/// Index that every client is given: an answer is paired by its tag.
const INDEX: u32 = 0;

/// Returns whom a peer claims to be.
pub fn claim(ack: &Ack) -> Claim {
    match ack.kind {
        Kind::Client | Kind::ToolOfJob => Claim::Process { proc: ack.proc.clone(), token: None },
        Kind::NamedTool => Claim::Tool { proc: Some(ack.proc.clone()), server: None },
        Kind::Tool => Claim::Tool { proc: None, server: None },
    }
}

/// Returns the process that a tool says it is; 0 where it does not. That is information, and no more.
pub fn pid(info: &[Info]) -> i32 {
    match info.find(keys::PROC_PID).map(|info| &info.value) {
        Some(Value::Pid(pid)) => *pid,
        _ => 0,
    }
}

/// Returns the bytes that a peer of this kind reads when it is let in as `proc` by `server`.
pub fn welcome(kind: Kind, proc: &Proc, server: &Proc) -> Vec<u8> {
    let success = Status::SUCCESS.0.to_be_bytes();
    let mut bytes = success.to_vec();
    if kind == Kind::Client {
        bytes.extend(INDEX.to_be_bytes());
        return bytes;
    }
    if kind == Kind::Tool {
        name(&mut bytes, proc);
    }
    name(&mut bytes, server);
    // The status of the credential, which counts for nothing here.
    bytes.extend(success);
    bytes
}

/// Words of a server to a peer that it lets in, or the status with which it does not.
#[derive(Debug, PartialEq)]
pub struct Welcome {
    pub status: Status,
    /// Name that the peer is given, where it had none.
    pub proc: Option<Proc>,
    /// Name of the server, where it says it.
    pub server: Option<Proc>,
    /// Number of a client.
    pub index: u32,
}

/// Reads what a server says to a peer of this kind.
///
/// # Errors
/// Those of the stream, and `InvalidData` for a name that is none.
pub fn read_welcome(kind: Kind, stream: &mut impl Read) -> io::Result<Welcome> {
    let status = Status(number(stream)? as i32);
    let mut welcome = Welcome { status, proc: None, server: None, index: 0 };
    if welcome.status != Status::SUCCESS {
        return Ok(welcome);
    }
    if kind == Kind::Client {
        welcome.index = number(stream)?;
        return Ok(welcome);
    }
    if kind == Kind::Tool {
        welcome.proc = Some(read_name(stream)?);
    }
    welcome.server = Some(read_name(stream)?);
    welcome.status = Status(number(stream)? as i32);
    Ok(welcome)
}

fn number(stream: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

fn read_name(stream: &mut impl Read) -> io::Result<Proc> {
    let mut bytes = [0; NSPACE];
    stream.read_exact(&mut bytes)?;
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let nspace = Nspace::new(name).ok().filter(|nspace| !nspace.is_empty());
    let nspace = nspace.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a name that is none"))?;
    Ok(Proc::new(nspace, Rank(number(stream)?)))
}

fn name(bytes: &mut Vec<u8>, Proc { nspace, rank }: &Proc) {
    let end = bytes.len() + NSPACE;
    bytes.extend(nspace.as_bytes());
    bytes.resize(end, 0);
    bytes.extend(rank.0.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Nspace, Rank};

    #[test]
    fn a_welcome_is_read_as_it_is_written() {
        let proc = |name: &str, rank| Proc::new(Nspace::new(name).unwrap(), Rank(rank));
        let (tool, server) = (proc("tool", 1), proc(&"s".repeat(255), 2));
        for kind in [Kind::Client, Kind::ToolOfJob, Kind::NamedTool, Kind::Tool] {
            let bytes = welcome(kind, &tool, &server);
            let found = read_welcome(kind, &mut &bytes[..]).unwrap();
            let is_named = kind == Kind::Tool;
            let server = Some(server.clone()).filter(|_| kind != Kind::Client);
            let proc = Some(tool.clone()).filter(|_| is_named);
            let expected = Welcome { status: Status::SUCCESS, proc, server, index: 0 };
            assert_eq!(found, expected);
            for cut in 0..bytes.len() {
                assert!(read_welcome(kind, &mut &bytes[..cut]).is_err(), "{cut}");
            }
        }
        let refused = read_welcome(Kind::Tool, &mut &Status::ERR_NOT_SUPPORTED.0.to_be_bytes()[..]).unwrap();
        assert_eq!(refused.status, Status::ERR_NOT_SUPPORTED);
        assert!(read_welcome(Kind::Tool, &mut &[0; 528][..]).is_err(), "a tool without a name");
    }

    #[test]
    fn a_tool_reads_its_own_name_where_it_has_none() {
        let proc = |name: &str, rank| Proc::new(Nspace::new(name).unwrap(), Rank(rank));
        let (tool, server) = (proc("tool", 1), proc("server", 2));
        assert_eq!(welcome(Kind::Client, &tool, &server), [0; 8]);
        let named = welcome(Kind::NamedTool, &tool, &server);
        assert_eq!((named.len(), &named[4..10], &named[260..264]), (268, &b"server"[..], &[0, 0, 0, 2][..]));
        assert_eq!(welcome(Kind::ToolOfJob, &tool, &server), named);
        let unnamed = welcome(Kind::Tool, &tool, &server);
        assert_eq!((unnamed.len(), &unnamed[4..8], &unnamed[260..264]), (528, &b"tool"[..], &[0, 0, 0, 1][..]));
        assert_eq!(unnamed[264..], named[4..]);
        // No name is longer than what it fills.
        assert_eq!(welcome(Kind::NamedTool, &tool, &proc(&"n".repeat(255), 2)).len(), 268);
    }
}
