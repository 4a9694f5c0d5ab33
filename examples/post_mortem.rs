//! A post-mortem reader: a server is killed, and what it knew of its job is read from what it has left.
//!
//! Started without arguments it starts a writer, kills it with SIGKILL, and reads. With the path of a name it reads what
//! a writer of somebody else's has left there.
use std::error::Error;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use instanton::data::{Info, Key, Nspace, Posted, Rank, Scope, keys};
use instanton::handover::RemoteReader;
use instanton::store::named::{Claim, Owner, Readers};
use instanton::store::{JobInfo, JobReader, JobWriter, Limits, Question};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => demonstrate(),
        ["writer", path] => write(path.as_ref()),
        [path] => read(path.as_ref()),
        _ => Err("a path is meant, or nothing".into()),
    }
}

fn demonstrate() -> Outcome {
    // In memory, and for nobody else.
    let folder = Path::new("/dev/shm").join(format!("post-mortem-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let path = folder.join("example@1");
    let program = std::env::current_exe()?;
    let mut writer =
        Command::new(program).arg("writer").arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(writer.stdout.take().ok_or("no output")?).read_line(&mut line)?;

    // Beside the writer: its owner is trusted not to shorten what is mapped.
    let reader = RemoteReader::map_trusting_owner(&path, Owner::OwnOrRoot)?;
    println!("beside the writer: card {}", reader.get(&Question::new(Rank(0), "example.card"))?);
    if let Err(error) = JobReader::post_mortem(&path, Owner::OwnOrRoot) {
        println!("not yet: {}", error.to_string().replace(&*path.to_string_lossy(), "it"));
    }

    writer.kill()?;
    writer.wait()?;
    println!("killed");
    let outcome = read(&path);
    std::fs::remove_dir_all(&folder)?;
    outcome
}

/// The writer: the place of a node's server.
fn write(path: &Path) -> Outcome {
    let nspace = Nspace::new("example@1")?;
    let info = JobInfo::from_infos(&nspace, 2, &[Info::new(keys::JOB_SIZE, 2u32)], "localhost")?;
    let claim = Claim::new(path, Readers::User)?;
    let mut writer = JobWriter::create_named(&nspace, info, &Limits::default(), claim).map_err(|(error, _)| error)?;
    for rank in 0..2 {
        let card = format!("of rank {rank}");
        writer.update(Rank(rank), &[Posted::new(Scope::GLOBAL, Key::new("example.card")?, card.as_str())])?;
    }
    println!("written");
    io::stdin().read_exact(&mut [0])?;
    Ok(())
}

/// Shows what each rank had posted.
fn read(path: &Path) -> Outcome {
    let reader = JobReader::post_mortem(path, Owner::OwnOrRoot)?;
    println!("post mortem: {} of {} processes", reader.nspace()?, reader.job_size());
    for rank in (0..reader.rank_count()).map(Rank) {
        for (key, scope, value, _) in reader.all(rank)?.into_iter().filter(|(_, scope, ..)| *scope != Scope::UNDEF) {
            println!("  rank {rank}: {key} = {value} (scope {})", scope.0);
        }
    }
    Ok(())
}
