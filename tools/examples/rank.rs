//! A small PMIx program, for trying a launcher: `instanton run -n 4 rank WHAT ...`
//!
//! ```text
//! rank place               print where it may run, and how many of the others may run in the same package
//! rank say                 print what it knows of itself, meet the others, finalize
//! rank abort RANK STATUS   that rank asks for the job's end; the others wait for ever
//! rank leave CODE          exit with that code after Init, without Finalize
//! rank litter FILE         register FILE for clean-up, create it, and wait for ever
//! ```
use std::error::Error;
use std::io::Write;

use instanton::client::Client;
use instanton::data::{Info, Proc, Rank, Value, keys};

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
        ["abort", ..] => client.fence(&[], &[]).wait()?,
        ["leave", code] => std::process::exit(code.parse()?),
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

/// One line in one piece.
fn say(line: &str) -> std::io::Result<()> {
    std::io::stdout().write_all(format!("{line}\n").as_bytes())
}
