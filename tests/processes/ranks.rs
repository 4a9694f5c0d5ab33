//! Words of ranks of a job that runs through a real server.

use instanton::client::Client;
use instanton::data::{Info, Key, Nspace, Proc, Rank, Value, keys};

/// A key of that name.
pub fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// A rank of the client's own job.
pub fn rank_of(client: &Client, rank: u32) -> Proc {
    Proc::new(client.proc().nspace.clone(), Rank(rank))
}

/// Size of the client's own job.
pub fn size(client: &Client) -> u32 {
    let job = Proc::new(client.proc().nspace.clone(), Rank::WILDCARD);
    client.get(&job, keys::JOB_SIZE, &[]).unwrap().as_u32().unwrap()
}

/// Attributes of a fence that collects data.
pub fn collect() -> Vec<Info> {
    vec![Info::new(keys::COLLECT_DATA, true)]
}

/// Returns the data that a rank posts in a round: all kinds of values, and one that does not fit a page.
pub fn posted(rank: u32, round: u32) -> Vec<(&'static str, Value)> {
    vec![
        ("number", Value::Uint32(rank * 100 + round)),
        ("text", Value::from(format!("rank {rank} round {round}"))),
        ("null", Value::String(None)),
        ("none", Value::Undef),
        ("proc", Value::Proc(Proc::new(Nspace::new("any").unwrap(), Rank(rank)))),
        ("blob", Value::ByteObject(vec![rank as u8; 4096 + round as usize * 20_000])),
    ]
}
