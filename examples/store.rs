//! The store alone, between two processes: one writes the data of a job, the other reads it in place.
//!
//! Started without arguments it is the writer, and starts the reader itself. The reader asks for everything over a Unix
//! socket: a line says what the writer is to do and which segments the reader has, and the answer brings the
//! descriptors that it lacks.
use std::error::Error;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use instanton::data::{Info, Key, Nspace, Posted, Rank, Scope, Value, keys};
use instanton::fd_passing;
use instanton::store::{Have, JobInfo, JobReader, JobWriter, Limits, MappedSegment, Miss, Question, ReaderPage};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const CARD: &str = "example.card";
const BLOCK: &str = "example.block";
const TITLE: &str = "example.title";

fn main() -> Outcome {
    let is_reader = std::env::args().nth(1).is_some_and(|word| word == "reader");
    if is_reader { read(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?)) } else { write() }
}

/// The writer: the place of a node's server.
fn write() -> Outcome {
    let (socket, theirs) = UnixStream::pair()?;
    let mut child = Command::new(std::env::current_exe()?).arg("reader").stdin(OwnedFd::from(theirs)).spawn()?;

    let nspace = Nspace::new("example@1")?;
    let job = |title: &str| {
        JobInfo::from_infos(&nspace, 1, &[Info::new(keys::JOB_SIZE, 2u32), Info::new(TITLE, title)], "localhost")
    };
    let post = |writer: &mut JobWriter, key, value| -> Outcome<Vec<_>> {
        writer.update(Rank(0), &[Posted { scope: Scope::GLOBAL, key: Key::new(key)?, value }])?;
        Ok(vec![])
    };
    let mut writer = JobWriter::create(&nspace, job("first")?, &Limits::default())?;
    post(&mut writer, CARD, Value::from("one"))?;
    // A page of its own lets the reader take guards.
    let page = writer.make_reader_page()?;

    for line in BufReader::new(socket.try_clone()?).lines() {
        let line = line?;
        let [wish, info, modex] = line.split(' ').collect::<Vec<_>>()[..] else { return Err("not three words".into()) };
        let descriptors = match wish {
            "page" => vec![page.as_fd()],
            "segments" => {
                let have = Have { job: info != "0", info: info.parse()?, modex: modex.parse()? };
                writer.segments(&have).into_iter().map(|(_, descriptor)| descriptor).collect()
            }
            // More than the first segment holds: the store adds one.
            "grow" => post(&mut writer, BLOCK, Value::from(vec![7u8; 1 << 20]))?,
            // A value that a guard holds stays in place, the new one lies elsewhere.
            "post" => post(&mut writer, CARD, Value::from("two"))?,
            "replace" => writer.replace_info(job("second")?).map(|()| vec![])?,
            _ => break,
        };
        fd_passing::send(&socket, &descriptors)?;
    }
    // The segments are anonymous memory: they end with the last process that maps them.
    drop(writer);
    fd_passing::send(&socket, &[])?;
    if child.wait()?.success() { Ok(()) } else { Err("the reader has failed".into()) }
}

/// Has the writer do something and returns the descriptors that it sends.
fn ask(socket: &mut UnixStream, wish: &str, have: Have) -> Outcome<Vec<OwnedFd>> {
    socket.write_all(format!("{wish} {} {}\n", have.info, have.modex).as_bytes())?;
    Ok(fd_passing::receive(socket)?)
}

/// Maps the segments that the reader lacks.
fn map_news(socket: &mut UnixStream, reader: &JobReader) -> Outcome {
    for descriptor in ask(socket, "segments", reader.have())? {
        reader.add(MappedSegment::map(descriptor.as_fd())?)?;
    }
    Ok(())
}

/// The reader: the place of a rank.
fn read(mut socket: UnixStream) -> Outcome {
    let nothing = Have::default();
    let page = ReaderPage::map(ask(&mut socket, "page", nothing)?.first().ok_or("no page")?.as_fd())?;
    let segments = ask(&mut socket, "segments", nothing)?;
    let segments =
        segments.iter().map(|descriptor| MappedSegment::map(descriptor.as_fd())).collect::<Result<_, _>>()?;
    let reader = JobReader::attach(segments, Some(page))?;
    let [card, block] = [CARD, BLOCK].map(|key| Question::new(Rank(0), key));
    let title = Question::new(Rank::WILDCARD, TITLE);
    println!("attached: {} job, card {}", reader.get(&title)?, reader.get(&card)?);

    // A segment that is not mapped yet is never "not found".
    ask(&mut socket, "grow", nothing)?;
    let Err(Miss::Unmapped(_)) = reader.get(&block) else { return Err("the block lies in a new segment".into()) };
    map_news(&mut socket, &reader)?;
    println!("grown: a block of {} bytes", reader.get(&block)?.as_bytes().map_or(0, <[u8]>::len));

    // A guard keeps values where they are, whatever the writer does meanwhile.
    let guard = reader.pin()?;
    let held = guard.get(&card)?;
    ask(&mut socket, "post", nothing)?;
    println!("guarded: {}, posted: {}", held.to_value()?, reader.get(&card)?);
    drop(guard);

    // Job information is replaced as a whole; the old one answers until the new one is mapped.
    ask(&mut socket, "replace", nothing)?;
    print!("replaced: {} job", reader.get(&title)?);
    map_news(&mut socket, &reader)?;
    println!(", then {} job", reader.get(&title)?);

    ask(&mut socket, "destroy", nothing)?;
    println!("destroyed: card {} as long as it is mapped", reader.get(&card)?);
    Ok(())
}
