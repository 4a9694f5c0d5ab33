//! A process of a job on the host's own library: its Gets are answered from the node's segments, on the thread that
//! asks.
//!
//! A release that lets a module answer there ([`Answers`]) asks it first, and goes to its own thread with what it has no
//! answer to. So this module answers what the segments say of one key, and nothing else; the host's own thread passes
//! everything on to the module `hash`, which has the job's information as well, what other jobs post, what other nodes
//! post and no fence has collected, and what the process itself has put and not committed.
//!
//! An answer is an entry in a list of the host. Nobody is given one before an answer of the host itself, to a question
//! of this module, has been found to be what it is taken for ([`prove`]).
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::{PoisonError, RwLock};

use instanton::data::{DataType, Proc, Rank, Scope, keys};
use instanton::internal::upstream::node;
use instanton::store::{JobReader, Miss, Question, RawValue};
use instanton::trace;
use instanton_layout::sync::{AtomicBool, AtomicUsize, Ordering};

use crate::abi::{self, Answers, Info, Value};
use crate::host::Host;
use crate::{environment, memory, proof};

/// The realm of what is known of a job or of one of its processes.
const JOB_REALM: u32 = 1;
/// Scopes of a Get that what is committed on this node belongs to.
const SCOPES: [Scope; 3] = [Scope::UNDEF, Scope::LOCAL, Scope::GLOBAL];
/// Attributes of a Get that do not change what is found.
const IDLE: [&str; 3] = [keys::OPTIONAL, keys::IMMEDIATE, keys::TIMEOUT];

/// Most processes of a job whose information a process keeps beside the segments. Larger ones are left to the module of
/// the host that shares it.
const MOST_PROCESSES: u32 = 1024;

/// The segments of this process's job, while it has them.
static OWN: RwLock<Option<Own>> = RwLock::new(None);
/// The host's own thread, by a number that no other living one has; 0 before it has shown itself.
static THREAD: AtomicUsize = AtomicUsize::new(0);
/// An answer of the host has been proved.
static IS_PROVED: AtomicBool = AtomicBool::new(false);

struct Own {
    proc: Proc,
    reader: JobReader,
    /// Maps what the server has added; whether that was possible.
    refresh: Box<dyn Fn(&JobReader) -> bool + Send + Sync>,
}

/// A question, as the host puts it.
pub struct Asked {
    pub proc: *const abi::Proc,
    pub scope: u8,
    pub key: *const c_char,
    pub info: *const Info,
    pub count: usize,
    pub realm: u32,
    /// The list that wants the answer.
    pub list: usize,
}

thread_local! {
    static HERE: u8 = const { 0 };
}

fn here() -> usize {
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

/// The address of the segments, where this is a process that a server with the plug-in has started.
fn offered() -> Option<String> {
    node::offered(&environment::server()?, |name| std::env::var_os(name))
}

/// Returns whether this process would have the plug-in for its server's. Where its job is known to be too large, it says
/// so before it is told of the job, which would be told twice.
pub fn is_offered() -> bool {
    let size = std::env::var(node::SIZE_VARIABLE).ok().and_then(|size| size.parse::<u32>().ok());
    environment::process().is_some() && size.is_none_or(|size| size <= MOST_PROCESSES) && offered().is_some()
}

/// The host has been told of a job, on its own thread. Returns whether it can go on with this module: not where the job
/// is its own, and is large or has no segments here.
pub fn told(nspace: &[u8]) -> bool {
    THREAD.store(here(), Ordering::Relaxed);
    let Some(proc) = environment::process().filter(|proc| proc.nspace.as_bytes() == nspace) else { return true };
    let opened = offered().and_then(|address| node::open(&address, &proc, None));
    let opened = opened.filter(|(reader, _)| reader.job_size() <= MOST_PROCESSES);
    let own = opened.map(|(reader, source)| {
        let refresh = Box::new(move |reader: &JobReader| source.refresh(reader).is_ok());
        Own { proc, reader, refresh }
    });
    let is_there = own.is_some();
    *OWN.write().unwrap_or_else(PoisonError::into_inner) = own;
    is_there
}

/// The host finalizes.
pub fn end() {
    let last = OWN.write().unwrap_or_else(PoisonError::into_inner).take();
    drop(last);
    THREAD.store(0, Ordering::Relaxed);
}

/// Returns whether the module `hash` may be asked: on the host's own thread, or where there is no client.
pub fn may_pass_on() -> bool {
    [0, here()].contains(&THREAD.load(Ordering::Relaxed))
}

/// Has the host answer a question, and looks at the answer: on its own thread, once it has been told of the job.
///
/// # Safety
/// The function is the host's.
pub unsafe fn prove(host: &Host, answers: &Answers, fetch: abi::Fetch, nspace: &[u8]) {
    let is_needed = !IS_PROVED.load(Ordering::Relaxed) && OWN.try_read().is_ok_and(|own| own.is_some());
    if !is_needed || nspace.len() >= size_of::<abi::Proc>() - 4 {
        return;
    }
    let mut proc = abi::Proc { nspace: [0; 256], rank: Rank::WILDCARD.0 };
    proc.nspace[..nspace.len()].copy_from_slice(nspace);
    let key = c"pmix.job.size";
    // Memory for a list, which the host itself makes one.
    let mut memory = vec![0u64; answers.list.size.div_ceil(8)];
    let list = memory.as_mut_ptr() as usize;
    let proved = proof::list(host, answers, list).and_then(|()| {
        let peer = memory::pointer(host.globals + host.layout.globals_peer)?;
        let nothing = std::ptr::null();
        // SAFETY: the host asks in the same way, and the list is proved to be an empty one.
        let status = unsafe {
            fetch(
                peer as abi::Object,
                &raw const proc,
                0,
                true,
                key.as_ptr(),
                nothing,
                0,
                JOB_REALM,
                list as abi::Object,
            )
        };
        memory::forget();
        match status {
            abi::SUCCESS => proof::answer(host, answers, list, key.to_bytes()),
            status => Err(std::io::Error::other(format!("it is not there ({status})"))),
        }
    });
    match proved {
        Ok(entry) => {
            IS_PROVED.store(true, Ordering::Relaxed);
            // SAFETY: the entry is one of the host's, with this as its owner.
            unsafe { host.release(entry) };
        }
        Err(error) => trace!("the host goes on answering itself, whose answer is not understood: {error}"),
    }
}

/// Answers a question from the segments. Returns whether it is answered.
///
/// # Safety
/// The question is the host's, whole, and its list is empty.
pub unsafe fn answer(host: &Host, answers: &Answers, asked: &Asked) -> bool {
    if !IS_PROVED.load(Ordering::Relaxed) || asked.key.is_null() || asked.realm != JOB_REALM {
        return false;
    }
    // A forked child finds it locked for ever, if another thread had it.
    let Ok(own) = OWN.try_read() else { return false };
    let Some(own) = &*own else { return false };
    // SAFETY: as promised by the caller.
    let (proc, key) = unsafe { (&*asked.proc, std::ffi::CStr::from_ptr(asked.key)) };
    let nspace = own.proc.nspace.as_bytes();
    let is_own = proc.nspace.starts_with(nspace) && proc.nspace.get(nspace.len()) == Some(&0);
    let rank = Rank(proc.rank);
    // SAFETY: as promised by the caller.
    let is_plain = is_own && SCOPES.contains(&Scope(asked.scope)) && unsafe { are_idle(asked.info, asked.count) };
    if !is_plain || !(rank.is_process() || rank == Rank::WILDCARD) {
        return false;
    }
    match own.look(&Question::new(rank, key.to_bytes()), Scope(asked.scope) == Scope::LOCAL) {
        // SAFETY: the list is the host's, and it is proved what its lists are.
        Ok(Some(found)) => unsafe { found.append(host, answers, asked.list, key) },
        Ok(None) | Err(_) => false,
    }
}

/// # Safety
/// So many attributes.
unsafe fn are_idle(info: *const Info, count: usize) -> bool {
    (0..count).all(|at| {
        // SAFETY: as promised by the caller.
        let key = unsafe { &(*info.add(at)).key };
        let len = key.iter().position(|byte| *byte == 0).unwrap_or(key.len());
        IDLE.iter().any(|idle| idle.as_bytes() == &key[..len])
    })
}

impl Own {
    /// Copies a value; none of a kind that has to be taken apart, or that the process itself has put: there may be a
    /// later one that it has not committed. With `of_node` what other nodes have posted does not count.
    fn look(&self, question: &Question<'_>, of_node: bool) -> Result<Option<Found>, Miss> {
        let (is_own, is_elsewhere) = (question.rank() == self.proc.rank, !self.reader.is_local(question.rank()));
        let copy = |raw: &RawValue<'_>| match raw.scope() != Scope::UNDEF && (is_own || is_elsewhere && of_node) {
            true => None,
            false => Found::copy(raw),
        };
        match self.reader.read(question, copy) {
            Err(Miss::Unmapped(_)) if (self.refresh)(&self.reader) => self.reader.read(question, copy),
            found => found,
        }
    }
}

/// A value of the host in the making, which owns what it points to.
struct Found(Value);

impl Drop for Found {
    fn drop(&mut self) {
        if is_pointer(self.0.data_type) {
            // SAFETY: made by malloc in `copy`, and nobody else has it.
            unsafe { libc::free(self.0.data[0]) };
        }
    }
}

fn is_pointer(ty: u16) -> bool {
    let of_bytes =
        [DataType::BYTE_OBJECT, DataType::REGEX, DataType::COMPRESSED_STRING, DataType::COMPRESSED_BYTE_OBJECT];
    ty == DataType::STRING.0 || of_bytes.iter().any(|of_bytes| of_bytes.0 == ty)
}

impl Found {
    fn copy(raw: &RawValue<'_>) -> Option<Found> {
        let (ty, len) = (raw.data_type(), raw.len());
        let nothing = std::ptr::null_mut();
        if let Some(bits) = raw.scalar() {
            return Some(Found(Value { data_type: ty.0, data: [bits as usize as *mut c_void, nothing, nothing] }));
        }
        if raw.is_archive() || len == 0 || !is_pointer(ty.0) {
            return None;
        }
        // SAFETY: malloc takes any size.
        let place = unsafe { libc::malloc(len) };
        if place.is_null() {
            return None;
        }
        let size = if ty == DataType::STRING { 0 } else { len };
        let found = Found(Value { data_type: ty.0, data: [place, size as *mut c_void, nothing] });
        // SAFETY: fresh memory of so many bytes, which need not be initialised.
        let room = unsafe { std::slice::from_raw_parts_mut(place.cast::<MaybeUninit<u8>>(), len) };
        let filled = raw.copy_to(room).min(len);
        room[filled..].fill(MaybeUninit::new(0));
        if ty == DataType::STRING {
            room[len - 1] = MaybeUninit::new(0);
        }
        Some(found)
    }

    /// Appends an entry with this value to a list of the host. Returns whether there was memory for it.
    ///
    /// # Safety
    /// The list and its entries are what the layout says.
    unsafe fn append(self, host: &Host, answers: &Answers, list: usize, key: &std::ffi::CStr) -> bool {
        let layout = host.layout;
        // SAFETY: all of it is fresh memory of the size that is asked for, or lies in the list or its last entry.
        unsafe {
            let entry = libc::calloc(1, layout.value_entry.size);
            let value = libc::calloc(1, size_of::<Value>()).cast::<Value>();
            let name = libc::strdup(key.as_ptr());
            if entry.is_null() || value.is_null() || name.is_null() {
                [entry, value.cast(), name.cast()].into_iter().for_each(|place| libc::free(place));
                return false;
            }
            let entry = entry as usize;
            let put = |at: usize, word: usize| (at as *mut usize).write(word);
            let end = list + answers.sentinel;
            let last = ((end + answers.previous) as *const usize).read();
            let data = self.0.data;
            value.write(Value { data_type: self.0.data_type, data });
            std::mem::forget(self);
            put(entry + layout.object_class, host.value_entry);
            ((entry + answers.references) as *mut u32).write(1);
            put(entry + layout.value_entry_key, name as usize);
            put(entry + layout.value_entry_value, value as usize);
            put(entry + answers.next, end);
            put(entry + answers.previous, last);
            put(last + answers.next, entry);
            put(end + answers.previous, entry);
            let count = (list + answers.count) as *mut usize;
            count.write(count.read() + 1);
        }
        true
    }
}
