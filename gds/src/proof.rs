//! Objects of the host: what is looked up in them, and the proof that it is what it is taken for.
//!
//! An object counts if it names its class where the layout says, and its class is the host's. A server proves the
//! rest before the first word of a job is written ([`of_server`]): it has its own name in three places, which are
//! reached by different ways. A peer that comes later is proved by its own three names ([`peer`]). Nothing is read
//! where the kernel cannot, so that a wrong offset is an error.
use std::io;

use instanton::data::{Nspace, Proc, Rank};
use instanton::internal::upstream::node;

use crate::abi::{self, Answers};
use crate::host::Host;
use crate::memory::{number, pointer, read, text};

/// Most bytes of a message of the host.
const LARGEST: usize = 256 << 20;

/// Most participants of a fence that are looked at.
const MOST_PARTICIPANTS: usize = 1 << 20;

/// A process that asks for information.
pub struct Peer {
    pub proc: Proc,
    /// The user that it was registered with.
    pub user: u32,
    /// True if the process is on this project's library, and looks into segments. All others are told by the host as
    /// ever: a server before 7.0 asks the module of who came last in the job, whoever it is that is to be told.
    pub is_ours: bool,
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} is something else"))
}

fn object(host: &Host, address: usize, class: usize, what: &str) -> io::Result<usize> {
    match pointer(address.wrapping_add(host.layout.object_class))? == class {
        true => Ok(address),
        false => Err(wrong(what)),
    }
}

/// The name of a process, which its namespace's object and its own agree about.
fn name(host: &Host, peer: usize) -> io::Result<(Proc, usize, usize)> {
    let layout = host.layout;
    let peer = object(host, peer, host.peer, "a peer")?;
    let nspace = object(host, pointer(peer + layout.peer_namespace)?, host.namespace, "a peer's namespace")?;
    let rank = object(host, pointer(peer + layout.peer_rank)?, host.rank, "a peer's rank")?;
    let named = text(pointer(nspace + layout.namespace_name)?)?;
    if text(pointer(rank + layout.rank_name)?)? != named {
        return Err(wrong("a peer's name"));
    }
    let number = number(rank + layout.rank_name + 8)?;
    let named = Nspace::new(named).map_err(|_| wrong("a namespace's name"))?;
    Ok((Proc::new(named, Rank(number)), nspace, rank))
}

/// Proves that the server is what it is taken for, and that its own information is in the module that everything is
/// passed on to. Returns its name.
///
/// # Errors
/// Says what is not; nothing may be kept then.
pub fn of_server(host: &Host, plug_in: usize) -> io::Result<Proc> {
    let layout = host.layout;
    let peer = pointer(host.globals + layout.globals_peer)?;
    let (found, nspace, _) = name(host, peer)?;
    let mut own = [0; size_of::<abi::Proc>()];
    read(host.globals + layout.globals_name, &mut own)?;
    let (nspace_of, rank) = own.split_at(256);
    let len = nspace_of.iter().position(|byte| *byte == 0).ok_or_else(|| wrong("the server's name"))?;
    let is = nspace_of[..len] == *found.nspace.as_bytes() && rank == found.rank.0.to_le_bytes();
    if !is || len == 0 {
        return Err(wrong("the server's name"));
    }
    let own = layout.peer_module.map_or(Ok(0), |at| pointer(peer + at))?;
    let of_nspace = pointer(nspace + layout.namespace_module)?;
    match [host.module, plug_in].contains(&of_nspace) && (own == 0 || own == host.module) {
        true => Ok(found),
        false => Err(wrong("the server's own module")),
    }
}

/// Returns whether the library has no module of its own yet: the one that it asks for now is that.
pub fn has_no_module(host: &Host) -> bool {
    let of_nspace = |peer: usize| {
        let nspace = pointer(object(host, peer, host.peer, "a peer")? + host.layout.peer_namespace)?;
        pointer(object(host, nspace, host.namespace, "a peer's namespace")? + host.layout.namespace_module)
    };
    pointer(host.globals + host.layout.globals_peer).and_then(of_nspace).is_ok_and(|module| module == 0)
}

/// The name of a namespace's object.
///
/// # Errors
/// Says what it is not.
pub fn namespace(host: &Host, address: usize) -> io::Result<Nspace> {
    let nspace = object(host, address, host.namespace, "a namespace")?;
    Nspace::new(text(pointer(nspace + host.layout.namespace_name)?)?).map_err(|_| wrong("a namespace's name"))
}

/// Proves that all participants of a fence are of one job. Its tracker has an array of them, and behind that their
/// number; the names in it prove that it is one.
///
/// # Errors
/// Says what it is not.
pub fn are_all_of(nspace: &Nspace, tracker: usize, participants: usize) -> io::Result<()> {
    let (array, count) = (pointer(tracker + participants)?, pointer(tracker + participants + 8)?);
    if !(1..=MOST_PARTICIPANTS).contains(&count) {
        return Err(wrong("the number of participants"));
    }
    let name = nspace.as_bytes();
    let mut start = [0; 256];
    for at in 0..count {
        let start = &mut start[..name.len() + 1];
        read(array + at * size_of::<abi::Proc>(), start)?;
        if start.split_last() != Some((&0, name)) {
            return Err(wrong("a participant"));
        }
    }
    Ok(())
}

/// The process that a peer's object stands for.
///
/// # Errors
/// Says what it is not.
pub fn peer(host: &Host, peer: usize) -> io::Result<Peer> {
    let (proc, _, rank) = name(host, peer)?;
    let mut release = [0; 3];
    read(peer + host.layout.peer_release, &mut release)?;
    Ok(Peer { proc, user: number(rank + host.layout.rank_user)?, is_ours: release == node::RELEASE })
}

/// The bytes in a buffer.
///
/// # Errors
/// Says what is wrong.
pub fn bytes(host: &Host, buffer: usize) -> io::Result<Vec<u8>> {
    let buffer = object(host, buffer, host.buffer, "a buffer")?;
    let len = pointer(buffer + host.layout.buffer_used)?;
    if len > LARGEST {
        return Err(wrong("a buffer's length"));
    }
    let base = pointer(buffer + host.layout.buffer_base)?;
    let mut bytes = vec![0; len];
    read(base, &mut bytes)?;
    Ok(bytes)
}

/// Has the host make an empty list of memory that is zeros, and proves that it is one.
///
/// # Errors
/// Says what it is not.
pub fn list(host: &Host, answers: &Answers, list: usize) -> io::Result<()> {
    // SAFETY: as much memory as an object of the class has.
    unsafe { host.construct(host.list, list) }?;
    let end = list + answers.sentinel;
    let links = [end + answers.next, end + answers.previous, list + answers.count];
    match links.into_iter().map(pointer).collect::<io::Result<Vec<_>>>()? == [end, end, 0] {
        true => Ok(()),
        false => Err(wrong("an empty list")),
    }
}

/// Proves that an answer of the host is a list with one entry, for a key: after that, others can be made like it. Returns
/// the entry.
///
/// # Errors
/// Says what it is not.
pub fn answer(host: &Host, answers: &Answers, list: usize, key: &[u8]) -> io::Result<usize> {
    let end = list + answers.sentinel;
    let only = pointer(end + answers.next)?;
    let (named, _) = entry(host, only)?;
    let links = [end + answers.previous, only + answers.next, only + answers.previous];
    let links = links.into_iter().map(pointer).collect::<io::Result<Vec<_>>>()?;
    if pointer(list + answers.count)? != 1 || links != [only, end, end] || named != key {
        return Err(wrong("a list of one entry"));
    }
    // An entry that has one owner, and lies where libc has allocated it.
    let mut head = vec![0; answers.next];
    read(only, &mut head)?;
    let mut expected = vec![0; answers.next];
    expected[host.layout.object_class..][..8].copy_from_slice(&host.value_entry.to_le_bytes());
    expected[answers.references] = 1;
    match head == expected {
        true => Ok(only),
        false => Err(wrong("the head of an entry")),
    }
}

/// The key and the address of the value of an entry.
///
/// # Errors
/// Says what is wrong.
pub fn entry(host: &Host, entry: usize) -> io::Result<(Vec<u8>, usize)> {
    let key = key(host, entry)?;
    let value = pointer(entry + host.layout.value_entry_value)?;
    read(value, &mut [0; size_of::<abi::Value>()])?;
    Ok((key, value))
}

/// The key of an entry, which need not have a value.
///
/// # Errors
/// Says what is wrong.
pub fn key(host: &Host, entry: usize) -> io::Result<Vec<u8>> {
    let entry = object(host, entry, host.value_entry, "an entry")?;
    text(pointer(entry + host.layout.value_entry_key)?)
}
