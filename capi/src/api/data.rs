//! Putting, committing and getting data.
//!
//! A Get of something at hand takes the short way: no lock, no system call, one allocation for the value that C gets
//! and one more where that holds a text or bytes. A value that is not at hand is asked for on the long way, which may
//! wait.

use std::mem::ManuallyDrop;
use std::ptr;

use instanton::client::{Directives, Error, Found, Question};
use instanton::data::{DataType, Info, InfoList, Key, Nspace, Proc, Rank, Scope, Status, Value, keys};
use instanton::internal::client::peek;
use libc::{c_char, c_void};

use crate::alloc;
use crate::api::topology;
use crate::boundary::{Outcome, export};
use crate::callbacks::{self, ValueFn};
use crate::convert::{self, Mirror, many, one};
use crate::kept;
use crate::kind::Kind;
use crate::owned::Owned;
use crate::running;
use crate::session::{self, told};
use crate::types::*;

const TOPOLOGY: &[u8] = keys::TOPOLOGY2.as_bytes();

/// Both values of an attribute that is a flag, as most are.
static BOOLS: [Value; 2] = [Value::Bool(false), Value::Bool(true)];

/// The attributes of a Get that has one of them, which is true, and is known beforehand.
unsafe fn lone(info: *const pmix_info_t, ninfo: usize) -> Result<Option<&'static Directives>, Status> {
    // SAFETY: NULL or an array, the contract with C.
    match unsafe { alloc::slice(info, ninfo) }? {
        // SAFETY: of a BOOL, that member of the union.
        [one] if DataType(one.value.ty) == DataType::BOOL && unsafe { one.value.data.flag } != 0 => {
            // SAFETY: a fixed array, the contract with C.
            Ok(Directives::lone(unsafe { alloc::name(one.key.as_ptr(), KEY_SIZE) }?))
        }
        _ => Ok(None),
    }
}

/// Reads the attributes of a Get where they lie.
unsafe fn take(directives: &mut Directives, info: *const pmix_info_t, ninfo: usize) -> Result<(), Status> {
    // SAFETY: NULL or an array, the contract with C.
    for info in unsafe { alloc::slice(info, ninfo) }? {
        // SAFETY: as above; of a BOOL, that member of the union.
        unsafe {
            let key = alloc::name(info.key.as_ptr(), KEY_SIZE)?;
            match DataType(info.value.ty) {
                // Most are: a value that may be anything costs more to make and drop than to read.
                DataType::BOOL => directives.take(key, info.flags, &BOOLS[usize::from(info.value.data.flag != 0)])?,
                _ => directives.take(key, info.flags, &info.value.to_rust(0)?)?,
            }
        }
    }
    Ok(())
}

/// The namespace and rank that are asked about. Without a process, the key is one that only one process of the own
/// namespace has.
unsafe fn target<'a>(proc: *const pmix_proc_t) -> Result<(&'a [u8], Rank), Status> {
    // SAFETY: NULL or a process, the contract with C.
    match unsafe { proc.as_ref() } {
        None => Ok((&[], Rank::UNDEF)),
        // SAFETY: a fixed array, the contract with C.
        Some(proc) => Ok((unsafe { alloc::name(proc.nspace.as_ptr(), NSPACE_SIZE) }?, Rank(proc.rank))),
    }
}

/// The place for the value of a Get: the caller's, or a new one, which is made when there is a value for it.
///
/// The members are written one by one and straight to where they stay: a structure that is put together elsewhere and
/// then copied costs as much as the look-up, because a processor cannot load in one piece what it has stored in others.
struct Target {
    place: *mut pmix_value_t,
    /// The caller's: never freed.
    given: bool,
    /// True if the place holds a value.
    filled: bool,
}

impl Target {
    /// A new place.
    fn new() -> Self {
        Self { place: ptr::null_mut(), given: false, filled: false }
    }

    /// The caller's place. Its contents are not looked at.
    fn caller(place: *mut pmix_value_t) -> Self {
        Self { place, given: true, filled: false }
    }

    /// Copies a value from where it lies. In shared memory it may be replaced at the same time: what is copied then may
    /// be anything, so nothing here is believed that C could stumble over, and the copy is made anew.
    #[inline]
    fn fill(&mut self, found: Found<'_>) -> Result<(), Status> {
        self.clear();
        if self.place.is_null() {
            self.place = alloc::room()?;
        }
        let raw = match found {
            Found::Own(own) => return self.convert(own),
            Found::Shared(raw) => raw,
            other => return self.convert(&told(other.to_value().map_err(Error::from))?),
        };
        let ty = raw.data_type();
        let data = match (ty, raw.scalar()) {
            // The members of the union begin at its first byte, as the number does in its bits.
            (_, Some(bits)) if Kind::of(ty).is_some_and(|kind| kind.is_number()) => {
                pmix_data_t { words: [bits.to_le(), 0, 0] }
            }
            (DataType::STRING, None) if !raw.is_null() && !raw.is_archive() && raw.len() > 0 => {
                let string = alloc::bytes_with(raw.len(), |place| raw.copy_to(place))?;
                // SAFETY: the last of at least one byte of the new text.
                unsafe { string.add(raw.len() - 1).write(0) };
                pmix_data_t { string }
            }
            (DataType::BYTE_OBJECT, None) if !raw.is_archive() && raw.len() > 0 => {
                let bytes = alloc::bytes_with(raw.len(), |place| raw.copy_to(place))?;
                pmix_data_t { bo: pmix_byte_object_t { bytes, size: raw.len() } }
            }
            _ => return self.convert(&told(raw.to_value().map_err(Error::from))?),
        };
        // SAFETY: room for a value: allocated above, or the caller's, the contract with C.
        unsafe {
            (&raw mut (*self.place).ty).write(ty.0);
            (&raw mut (*self.place).data).write(data);
        }
        self.filled = true;
        Ok(())
    }

    /// Copies a value that is hard to copy from where it lies, by way of a value of Rust's.
    #[cold]
    fn convert(&mut self, from: &Value) -> Result<(), Status> {
        // SAFETY: as in `fill`.
        let place = unsafe {
            self.place.write(pmix_value_t::EMPTY);
            &mut *self.place
        };
        self.filled = true;
        place.fill(from)
    }

    /// Frees the value that was filled in.
    #[inline]
    fn clear(&mut self) {
        if std::mem::take(&mut self.filled) {
            // SAFETY: it is a value, and nobody else's yet.
            unsafe { (*self.place).clear() };
        }
    }

    /// The place with its value, which is C's from now on.
    #[inline]
    fn give(self) -> *mut pmix_value_t {
        ManuallyDrop::new(self).place
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.clear();
        if !self.given {
            // SAFETY: NULL, or made here and not given to C.
            unsafe { alloc::release(self.place) };
        }
    }
}

/// Callback that receives a borrowed value. Rare callers take this type, and not one of their own: the short way stays
/// short.
type Sink<'a> = &'a mut dyn FnMut(Found<'_>) -> Result<(), Status>;

/// The answer, as far as it is at hand.
enum AtHand {
    Shown,
    Nothing(Status),
    /// A server's program is nobody's client, and reads what its own server has.
    OfOwnServer,
    /// The client has to ask.
    Elsewhere,
}

/// A process that asks for the topology of its node finds it out itself where nobody has given it one, once.
#[cold]
fn find_topology(nspace: &[u8], rank: Rank) {
    let Ok(client) = session::client() else { return };
    let (me, optional) = (client.proc(), [Info::new(keys::OPTIONAL, true)]);
    let is_me = rank == me.rank && (nspace.is_empty() || nspace == me.nspace.as_bytes());
    if is_me && client.get(me, TOPOLOGY, &optional).is_err() {
        let stored = topology::as_value().map(|found| client.store_internal(me, TOPOLOGY, found));
        if let Some(Err(error)) = stored {
            instanton::trace!("the node's topology cannot be kept: {error}");
        }
    }
}

/// The process whose values are all asked for. All values of a job can be refreshed, but not asked for.
unsafe fn whole(proc: *const pmix_proc_t, info: &[Info]) -> Result<Proc, Status> {
    // SAFETY: NULL or a process, the contract with C.
    let proc: Proc = unsafe { one(proc) }?;
    if proc.rank == Rank::WILDCARD && !info.is_set(keys::GET_REFRESH_CACHE) {
        return Err(Status::ERR_BAD_PARAM);
    }
    Ok(proc)
}

/// Looks up everything known of a process.
#[cold]
unsafe fn all(proc: *const pmix_proc_t, info: *const pmix_info_t, ninfo: usize) -> Result<*mut pmix_value_t, Status> {
    // SAFETY: NULL or an array, NULL or a process, the contract with C.
    let info: Vec<Info> = unsafe { many(info, ninfo) }?;
    // SAFETY: as above.
    let proc = unsafe { whole(proc, &info) }?;
    let all = told(session::client()?.get_all(&proc, &info).wait())?;
    // SAFETY: of what was just made.
    alloc::boxed(convert::made(&all)?)
}

/// Looks the value up, and calls `sink` on it.
#[inline]
fn answer(question: Question<'_>, mut sink: impl FnMut(Found<'_>) -> Result<(), Status>) -> Result<(), Status> {
    match look(question, &mut sink) {
        Err(Status::ERR_NOT_FOUND) if question.key() == TOPOLOGY => answer_topology(question, &mut sink),
        answered => answered,
    }
}

#[cold]
fn answer_topology(question: Question<'_>, sink: Sink<'_>) -> Result<(), Status> {
    find_topology(question.nspace(), question.rank());
    look(question, sink)
}

/// A value at hand is looked at in the epoch. Nobody waits in one, or nothing could be freed meanwhile.
#[inline(always)]
fn look(question: Question<'_>, mut sink: impl FnMut(Found<'_>) -> Result<(), Status>) -> Result<(), Status> {
    let mut sunk = Err(Status::ERR_NOT_FOUND);
    let f = |found: Found<'_>| sunk = sink(found);
    let at_hand = session::with(|epoch, client| match peek(client, epoch, question, f) {
        Some(Ok(())) => AtHand::Shown,
        Some(Err(Error::Status(Status::ERR_NOT_FOUND))) if client.server().is_none() => AtHand::OfOwnServer,
        Some(Err(error)) => AtHand::Nothing(error.status()),
        None => AtHand::Elsewhere,
    })?;
    match at_hand {
        AtHand::Shown => sunk,
        AtHand::Nothing(status) => Err(status),
        AtHand::OfOwnServer => ask_own_server(question, &mut sink),
        AtHand::Elsewhere => ask(question, &mut sink),
    }
}

/// The client asks its server, and waits.
#[cold]
fn ask(question: Question<'_>, sink: Sink<'_>) -> Result<(), Status> {
    told(session::client()?.get_with(question, sink))?
}

/// Never waits: the thread that asks may be the one on which the host would fetch the answer, as in ORTE.
#[cold]
fn ask_own_server(question: Question<'_>, sink: Sink<'_>) -> Result<(), Status> {
    let server = running::server().map_err(|_| Status::ERR_NOT_FOUND)?;
    let me = server.proc();
    let nspace = match &question.directives().nspace {
        Some(named) => named.clone(),
        None if question.nspace().is_empty() => me.nspace.clone(),
        None => Nspace::new(question.nspace()).map_err(|_| Status::ERR_BAD_PARAM)?,
    };
    let proc = Proc::new(nspace, question.rank());
    let key = std::str::from_utf8(question.key()).map_err(|_| Status::ERR_NOT_FOUND)?;
    let directives = Directives { optional: true, ..question.directives().clone() }.to_infos();
    let found = match server.get(&proc, key, &directives).wait() {
        // A Get that names no process means the caller.
        Err(Status::ERR_NOT_FOUND) if proc.rank == Rank::UNDEF && proc.nspace == me.nspace => {
            server.get(&me, key, &directives).wait()?
        }
        found => found?,
    };
    sink(Found::Own(&found))
}

/// A value that stays where it is until the last Finalize.
#[cold]
fn show(question: Question<'_>) -> Result<*mut pmix_value_t, Status> {
    let (nspace, rank, key) = (question.nspace(), question.rank(), question.key());
    let mut shown = None;
    let mut keep = |found: Found<'_>| {
        shown = kept::find(nspace, rank, key, found);
        Ok(())
    };
    answer(question, &mut keep as Sink<'_>)?;
    if let Some(shown) = shown {
        return Ok(shown);
    }
    // The first look at this value.
    let mut value = Value::Undef;
    let mut copy = |found: Found<'_>| {
        value = told(found.to_value().map_err(Error::from))?;
        Ok(())
    };
    answer(question, &mut copy as Sink<'_>)?;
    kept::show(nspace, rank, key, value)
}

/// The blocking Get, but for what it leaves behind where its arguments make no sense.
#[inline(always)]
unsafe fn get(
    proc: *const pmix_proc_t,
    key: *const c_char,
    (info, ninfo): (*const pmix_info_t, usize),
    out: &mut *mut pmix_value_t,
) -> Outcome {
    // SAFETY: the arguments of `PMIx_Get`, as it promises to C.
    unsafe {
        if key.is_null() {
            *out = all(proc, info, ninfo)?;
            return Ok(());
        }
        let (nspace, rank) = target(proc)?;
        let mut key = alloc::name(key, KEY_SIZE)?;
        let (mut given, qualified);
        let at_hand = if ninfo == 0 { Some(Directives::none()) } else { lone(info, ninfo)? };
        let directives = match at_hand {
            Some(directives) => directives,
            None => {
                given = Directives::NONE;
                take(&mut given, info, ninfo)?;
                qualified = given.qualify(key)?;
                key = qualified.as_ref().map_or(key, Key::as_bytes);
                &given
            }
        };
        let question = Question::new(rank, key).in_nspace(nspace).with(directives);
        if !directives.static_values {
            *out = ptr::null_mut();
        }
        if directives.pointer_values {
            *out = show(question)?;
            return Ok(());
        }
        let mut target = match directives.static_values {
            true if out.is_null() => return Err(Status::ERR_BAD_PARAM),
            true => Target::caller(*out),
            false => Target::new(),
        };
        answer(question, |found| target.fill(found))?;
        *out = target.give();
        Ok(())
    }
}

/// A caller that looks at the place of a value instead of the status of a Get finds nothing there; where it has brought
/// the room, that stays its own.
#[cold]
unsafe fn leave_nothing(out: &mut *mut pmix_value_t, info: *const pmix_info_t, ninfo: usize) {
    let mut given = Directives::NONE;
    // SAFETY: the attributes of `PMIx_Get`.
    for info in unsafe { alloc::slice(info, ninfo) }.unwrap_or_default() {
        // One that makes no sense says nothing of the others.
        // SAFETY: one of them.
        let _ = unsafe { take(&mut given, info, 1) };
    }
    if !given.static_values {
        *out = ptr::null_mut();
    }
}

export! {
    after_init;

    /// Keeps a copy of a value for the next Commit.
    fn PMIx_Put(scope: u8, key: *const c_char, value: *mut pmix_value_t) -> Outcome {
        let (scope, key) = (Scope(scope), alloc::name(key, KEY_SIZE)?);
        // A Put that takes a key back has no value.
        let takes_back = (Scope::DEL_LOCAL..=Scope::DEL_INTERNAL).contains(&scope);
        let value = if value.is_null() && takes_back { Value::Undef } else { one(value)? };
        told(session::client()?.put(scope, key, value))
    }

    /// Passes what was put to the server.
    fn PMIx_Commit() -> Outcome {
        told(session::client()?.commit())
    }

    /// Keeps a copy of a value for this process alone.
    fn PMIx_Store_internal(proc: *const pmix_proc_t, key: *const c_char, value: *mut pmix_value_t) -> Outcome {
        let (proc, key, value) = (one::<_, Proc>(proc)?, alloc::name(key, KEY_SIZE)?, one(value)?);
        told(session::client()?.store_internal(&proc, key, value))
    }

    /// Looks up a key; without a key, everything known of a process. The caller frees the value. With
    /// `PMIX_GET_STATIC_VALUES` the value is written into the caller's memory, and the caller frees what it points to.
    /// With `PMIX_GET_POINTER_VALUES` the value belongs to the library, and stays until the last Finalize.
    fn PMIx_Get(
        proc: *const pmix_proc_t, key: *const c_char, info: *const pmix_info_t, ninfo: usize,
        value: *mut *mut pmix_value_t,
    ) -> Outcome {
        let out = value.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        let got = get(proc, key, (info, ninfo), out);
        if got.is_err() && !out.is_null() {
            leave_nothing(out, info, ninfo);
        }
        got
    }

    /// Looks up a key without waiting. The value is `cbfunc`'s until it returns.
    fn PMIx_Get_nb(
        proc: *const pmix_proc_t, key: *const c_char, info: *const pmix_info_t, ninfo: usize,
        cbfunc: Option<ValueFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let cbfunc = cbfunc.ok_or(Status::ERR_BAD_PARAM)?;
        let info: Vec<Info> = many(info, ninfo)?;
        let (key, proc) = match key.is_null() {
            true => (None, whole(proc, &info)?),
            false => {
                let (nspace, rank) = target(proc)?;
                let nspace = Nspace::new(nspace).map_err(|_| Status::ERR_BAD_PARAM)?;
                (Some(alloc::name(key, KEY_SIZE)?), Proc::new(nspace, rank))
            }
        };
        if key == Some(TOPOLOGY) {
            find_topology(proc.nspace.as_bytes(), proc.rank);
        }
        let client = session::client()?;
        let asked = match key {
            Some(key) => client.get_pending(&proc, key, &info),
            None => client.get_all(&proc, &info),
        };
        told(asked.then(callbacks::value(cbfunc, cbdata)))
    }
}
