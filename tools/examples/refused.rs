//! Executes a program whom the kernel refuses something, and its children with it: `refused FAULT... -- PROGRAM ...`
//!
//! ```text
//! CALL=ERRNO           a call, by its name in `tests/processes/refusals.rs`
//! descriptors=N        more than N descriptors
//! processes=N          more than N processes and threads of its user
//! memory=N             more than N bytes of address space
//! cgroup=FILE          whatever the group refuses whose list of processes this file is
//! ```
use std::error::Error;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};

#[path = "../../tests/processes/refusals.rs"]
#[allow(dead_code, reason = "a test asks whether calls can be refused")]
mod refusals;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (faults, command) = words.split_at(words.iter().position(|word| word == "--").ok_or("no program")?);
    for fault in faults {
        let (what, how) = fault.split_once('=').ok_or("refused FAULT... -- PROGRAM ...")?;
        let limit = |resource| setrlimit(resource, how.parse()?, how.parse()?).map_err(Box::<dyn Error>::from);
        match what {
            "descriptors" => limit(Resource::RLIMIT_NOFILE)?,
            "processes" => limit(Resource::RLIMIT_NPROC)?,
            "memory" => limit(Resource::RLIMIT_AS)?,
            "cgroup" => std::fs::write(how, std::process::id().to_string())?,
            call => refusals::refuse(call, Errno::from_raw(how.parse()?)),
        }
    }
    Err(Command::new(&command[1]).args(&command[2..]).exec().into())
}
