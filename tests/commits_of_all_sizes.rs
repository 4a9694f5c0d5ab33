//! Ranks that post values of all sizes again and again, from bytes to most of a megabyte, and read one another's after
//! each fence: large commits that threads compose, beside records that move to new segments and others' small commits.
//!
//! The data that each rank posts in a round follows from its number, so that every reader knows what it has to find.
//! `INSTANTON_TEST_ROUNDS` makes the runs longer.
mod processes;

use std::sync::Arc;

use instanton::client::Client;
use instanton::data::{Info, Proc, Rank, Scope, Value, keys};
use instanton::server::{NoHost, Server, ServerConfig};
use processes::{Job, rounds, server};

/// Ranks of the job.
const RANKS: u32 = 4;
/// Keys of a rank. A third of them get a new value in a round.
const KEYS: u32 = 12;
/// Bytes that a value has at most, by turns that no one sees a pattern in.
const SIZES: [u32; 7] = [8, 100, 3_000, 20_000, 70_000, 300_000, 900_000];
/// Rounds of a run.
const ROUNDS: u64 = 250;
/// Values that a rank reads in a round.
const READ: u32 = 6;

#[test]
fn process() {
    match processes::role().as_deref() {
        None => {}
        Some("rank") => rank(),
        Some(other) => panic!("no such role: {other}"),
    }
}

/// A number that follows from these, and looks like none of its neighbours.
fn mixed(rank: u32, key: u32, round: u64) -> u32 {
    let sum = u64::from(rank) << 40 ^ u64::from(key) << 32 ^ round;
    let once = (sum ^ sum >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (once ^ once >> 32).wrapping_mul(0x94d0_49bb_1331_11eb) as u32
}

/// The latest round up to this one in which a rank has posted a key.
fn posted(rank: u32, key: u32, round: u64) -> u64 {
    (1..=round).rev().find(|round| mixed(rank, key, *round).is_multiple_of(3)).unwrap_or(0)
}

/// The value of a rank's key since a round.
fn value(rank: u32, key: u32, round: u64) -> Value {
    let number = mixed(rank, key, round) / 3;
    let most = SIZES[number as usize % SIZES.len()];
    Value::ByteObject(vec![(number >> 8) as u8; 1 + (mixed(rank, key + KEYS, round) % most) as usize])
}

fn rank() {
    let client = Client::init(&[]).unwrap();
    let me = client.proc().clone();
    let collect = [Info::new(keys::COLLECT_DATA, true)];
    for round in 0..rounds(ROUNDS) {
        let new = (0..KEYS).filter(|key| posted(me.rank.0, *key, round) == round);
        for key in new {
            client.put(Scope::GLOBAL, &*format!("key{key}"), value(me.rank.0, key, round)).unwrap();
            // Some go together, others one by one.
            if mixed(me.rank.0, key, round).is_multiple_of(2) {
                client.commit().unwrap();
            }
        }
        client.commit().unwrap();
        client.fence(&[], &collect).wait().unwrap_or_else(|error| panic!("a fence in round {round}: {error}"));
        for read in 0..READ {
            let chosen = mixed(me.rank.0, 100 + read, round);
            let (other, key) = (chosen % RANKS, chosen / RANKS % KEYS);
            let peer = Proc::new(me.nspace.clone(), Rank(other));
            let found = client.get(&peer, &*format!("key{key}"), &[]);
            let found = found.unwrap_or_else(|error| panic!("key{key} of {other} in round {round}: {error}"));
            assert!(found == value(other, key, posted(other, key, round)), "key{key} of {other} in round {round}");
        }
        client.fence(&[], &[]).wait().unwrap();
    }
    client.finalize(&[]).unwrap();
}

/// Segments that were replaced are given up in time: some 5 to 8 MB are alive.
#[test]
fn values_of_all_sizes_are_replaced_in_80_mib() {
    let config = ServerConfig { job_memory: 80 << 20, ..ServerConfig::default() };
    let server = Server::start(config, Arc::new(NoHost)).unwrap();
    let job = Job::register(&server, "small", RANKS);
    job.run("rank", true);
    server.deregister_nspace(&job.nspace).wait().unwrap();
}

#[test]
fn what_ranks_post_is_there_after_the_next_fence_whatever_moves() {
    let server = server();
    for shared in [true, false] {
        let job = Job::register(&server, if shared { "shared" } else { "asking" }, RANKS);
        job.run("rank", shared);
        server.deregister_nspace(&job.nspace).wait().unwrap();
    }
}
