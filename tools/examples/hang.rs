//! Programs that hang on purpose, for trying what explains it: `instanton run -n 4 hang WHAT`
//!
//! Each rank prints a line after Init. The last one never comes, and sleeps.
//!
//! ```text
//! hang fence       a fence that the last rank never joins
//! hang get         a Get of a key that the last rank never puts
//! hang group       a group that the last rank never comes to
//! hang connect     a connect that the last rank never comes to
//! hang look-up     a look-up of what nobody publishes
//! ```
use std::error::Error;
use std::io::Write;

use instanton::client::Client;
use instanton::data::{Info, Nspace, Proc, Rank, keys};

fn main() -> Result<(), Box<dyn Error>> {
    let what = std::env::args().nth(1).unwrap_or_default();
    let client = Client::init(&[])?;
    let me = client.proc().clone();
    let size = client.get(&Proc::new(me.nspace.clone(), Rank::WILDCARD), keys::JOB_SIZE, &[])?.as_u32().unwrap_or(1);
    let last = Proc::new(me.nspace.clone(), Rank(size - 1));
    let all: Vec<Proc> = (0..size).map(|rank| Proc::new(me.nspace.clone(), Rank(rank))).collect();
    let for_ever = Info::new(keys::TIMEOUT, 0u32);
    std::io::stdout().write_all(b"ready\n")?;
    if me != last {
        match what.as_str() {
            "fence" => client.fence(&[], &[]).wait()?,
            "get" => drop(client.get(&last, "never.put", &[for_ever])?),
            "group" => drop(client.group_construct(&Nspace::new("band")?, &all, &[]).wait()?),
            "connect" => client.connect_to(&all, &[]).wait()?,
            "look-up" => {
                let wait = [Info::new(keys::WAIT, 1u32), for_ever];
                drop(client.lookup(&["never.published"], &wait).wait()?);
            }
            _ => return Err("hang fence | get | group | connect | look-up".into()),
        }
    }
    loop {
        std::thread::park();
    }
}
