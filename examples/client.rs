//! A rank of a job: posts a value, meets the others and reads the value of its neighbour.
//!
//! Every PMIx launcher can start it: the `server` example, `instanton run`, a resource manager.
use std::error::Error;

use instanton::client::Client;
use instanton::data::{Proc, Rank, Scope, Value, keys};

fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::init(&[])?;
    let me = client.proc().clone();

    // Job information is under the wildcard rank.
    let job = Proc::new(me.nspace.clone(), Rank::WILDCARD);
    let size = client.get(&job, keys::JOB_SIZE, &[])?.as_u32().ok_or("the job has no size")?;

    client.put(Scope::GLOBAL, "example.card", Value::from(format!("the card of rank {}", me.rank)))?;
    client.commit()?;
    // With their data: after this fence every Get finds what was committed before it.
    client.fence_all(true)?;

    // A memory read: no message, no lock.
    let neighbour = Proc::new(me.nspace.clone(), Rank((me.rank.0 + 1) % size));
    let card = client.get(&neighbour, "example.card", &[])?;
    println!("rank {} of {size} has read {card}", me.rank);

    client.finalize(&[])?;
    Ok(())
}
