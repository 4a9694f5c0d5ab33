//! The functions that the host calls.
//!
//! All of them are those of the host's module `hash`, which everything is passed on to: what a process asks the server
//! is answered as it is without this plug-in. Some are preceded or followed by a look at what they are given. A look
//! that fails, or a panic in it, changes nothing for the host.
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use instanton::data::{DataType, Key, Nspace, Proc, Rank, keys};
use instanton::internal::upstream::{exchange, node, told};
use instanton::store::Datum;
use instanton::trace;

use crate::abi::{
    self, AddJobData, DeleteKey, ERROR, Exchange, Fetch, Function, Info, Layout, Module, NOT_FOUND, NOT_SUPPORTED,
    Object, SUCCESS, StoreJobInfo, TAKE_NEXT, Value,
};
use crate::client::{self, Asked};
use crate::host::Host;
use crate::keeper::Keeper;
use crate::{environment, memory, proof};

/// Priority among modules for peers that name none: last of all.
const PRIORITY: c_int = 1;
/// Priority for a peer that has asked for this one: more than that of a host's module that is named beside it.
const ASKED: c_int = 101;
/// Key by which a peer names its module.
const NAMED: &[u8] = b"pmix.gds.mod";
/// Most bytes of a value that is read where it lies.
const LONG: usize = 64 << 10;
/// Types of a text, of a number of 32 bits and of bytes.
const TEXT: u16 = DataType::STRING.0;
const NUMBER: u16 = DataType::UINT32.0;
const BYTES: u16 = DataType::BYTE_OBJECT.0;

/// The host, once it has asked for the module and is one that is served.
static HOST: OnceLock<(Host, Module)> = OnceLock::new();
/// Jobs that are kept, from the host's init to its finalize.
static KEPT: Mutex<Kept> = Mutex::new(Kept::Nothing);

enum Kept {
    /// The host has registered no job yet.
    Nothing,
    Jobs(Keeper),
    /// The host is not what it seemed, or the system refuses: everything is passed on and nothing kept.
    Never,
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a look, and keeps its panic in.
fn look(body: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| memory::in_one_call(body))) {
        // The payload's own destructor may panic too.
        std::mem::forget(panic);
        let _ = catch_unwind(|| trace!("a bug of the plug-in"));
    }
}

/// Does something with what is kept, if there is anything.
fn with(body: impl FnOnce(&Host, &Keeper)) {
    look(|| {
        let (Some((host, _)), Kept::Jobs(keeper)) = (HOST.get(), &*kept()) else { return };
        body(host, keeper);
    });
}

/// Answers the host's question for the module. A host that is not served is declined with a line, and goes on with its
/// own modules.
///
/// # Safety
/// Both places are NULL or valid for writes, and `caller` lies in the code of who asks.
pub unsafe fn query(module: *mut *const Module, priority: *mut c_int, caller: *const c_void) -> c_int {
    let answer = catch_unwind(|| match HOST.get() {
        Some((host, module)) if host.is_of(caller) => Ok(&raw const *module),
        Some(_) => Err("another one in this process was first".into()),
        // Its functions must not be called then, because the host has not begun with it.
        None if !environment::admits("hash") => Err("PMIX_MCA_gds leaves out hash, to which all is passed on".into()),
        None => Host::of(caller).map(|host| {
            let module = filled(&host.functions, host.layout);
            &raw const HOST.get_or_init(|| (host, module)).1
        }),
    });
    let found = match answer {
        Ok(Ok(found)) => Some(found),
        Ok(Err(reason)) => {
            decline(&reason);
            None
        }
        Err(panic) => {
            std::mem::forget(panic);
            None
        }
    };
    if module.is_null() || priority.is_null() {
        return ERROR;
    }
    // SAFETY: as promised by the caller.
    unsafe {
        *module = found.unwrap_or(std::ptr::null());
        *priority = if found.is_some() { PRIORITY } else { 0 };
    }
    if found.is_some() { SUCCESS } else { ERROR }
}

/// Says why the host is not served: a server to its user, anybody in the trace.
fn decline(reason: &str) {
    trace!("this PMIx library is not served: {reason}");
    // A process that was launched is a client, whose user has been told by the server.
    if std::env::var_os("PMIX_NAMESPACE").is_none() {
        use std::io::Write;
        let line = format!("pmix_mca_gds_instanton: not used with this PMIx library: {reason}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// The host's module, with own functions in some places.
fn filled(theirs: &Module, layout: &Layout) -> Module {
    let mut rest = theirs.rest;
    // Slots that the host calls in all modules, it calls in its own one as well.
    layout.for_all.iter().for_each(|at| rest[*at] = None);
    if let Some(at) = layout.delete_key {
        // SAFETY: the host calls it by the type that it has here, in the place that it has in this release.
        rest[at] = Some(unsafe { std::mem::transmute::<DeleteKey, Function>(delete_key) });
    }
    if let Some(at) = layout.add_job_data {
        // SAFETY: as above.
        rest[at] = Some(unsafe { std::mem::transmute::<AddJobData, Function>(add_job_data) });
    }
    let (mut store_job_info, mut fetch) = (theirs.store_job_info, theirs.fetch);
    if layout.answers.is_some() {
        // SAFETY: as above.
        unsafe {
            store_job_info = store_job_info.map(|_| std::mem::transmute::<StoreJobInfo, Function>(told));
            fetch = fetch.map(|_| std::mem::transmute::<Fetch, Function>(answered));
        }
    }
    Module {
        name: c"instanton".as_ptr(),
        is_threadsafe: layout.answers.is_some(),
        init: Some(init),
        finalize: Some(finalize),
        assign_module: Some(assign_module),
        register_job_info: Some(register_job_info),
        store_job_info,
        store: Some(store),
        store_modex: theirs.store_modex.and(Some(exchanged)),
        fetch,
        setup_fork: Some(setup_fork),
        add_nspace: Some(add_nspace),
        del_nspace: Some(del_nspace),
        rest,
        ..*theirs
    }
}

unsafe extern "C" fn init(_: *const Info, _: usize) -> c_int {
    SUCCESS
}

unsafe extern "C" fn finalize() {
    look(client::end);
    look(|| {
        let last = std::mem::replace(&mut *kept(), Kept::Nothing);
        // The lock is not held while the thread is waited for.
        drop(last);
    });
}

/// A peer that names this module alone gets it; whoever names several, or none, gets one of the host's. So does the
/// server that has started this process, if its Gets can be answered from segments. The server itself gets it in
/// place of `hash` where what other nodes post is seen in no other way.
unsafe extern "C" fn assign_module(info: *const Info, count: usize, priority: *mut c_int) -> c_int {
    let mut is_named = false;
    look(|| {
        let names = (0..count).rev().find_map(|at| named_in(info.wrapping_add(at))).unwrap_or_default();
        let answers = HOST.get().is_some_and(|(host, _)| host.layout.answers.is_some());
        let of_own = HOST.get().is_some_and(|(host, _)| host.layout.exchange_of_own && proof::has_no_module(host));
        let mut listed = names.split(|byte| *byte == b',');
        is_named = names == node::MODULE.as_bytes()
            || of_own && names == b"hash" && environment::process().is_none()
            || answers && listed.any(|name| name == node::MODULE.as_bytes()) && client::is_offered();
    });
    if !is_named || priority.is_null() {
        return NOT_SUPPORTED;
    }
    // SAFETY: the host's place for it.
    unsafe { *priority = ASKED };
    SUCCESS
}

/// The names of modules in an attribute that has such.
fn named_in(info: *const Info) -> Option<Vec<u8>> {
    let value = value_of(info, NAMED, TEXT)?;
    memory::text(u64::from_le_bytes(value) as usize).ok()
}

/// The number of a job's processes in an attribute that has such.
fn size_in(info: *const Info) -> Option<u32> {
    let value = value_of(info, keys::JOB_SIZE.as_bytes(), NUMBER)?;
    value.first_chunk().map(|size| u32::from_le_bytes(*size))
}

/// The first bytes of the value of an attribute with that key and type.
fn value_of(info: *const Info, key: &[u8], kind: u16) -> Option<[u8; 8]> {
    let mut bytes = [0; size_of::<Info>()];
    memory::read(info as usize, &mut bytes).ok()?;
    let is_it = bytes[..key.len()] == *key && bytes[key.len()] == 0;
    let value = &bytes[520..];
    value[8..16].try_into().ok().filter(|_| is_it && value[..2] == kind.to_le_bytes())
}

/// The host registers a job: the first time, it is proved to be what it is taken for.
unsafe extern "C" fn add_nspace(nspace: *const c_char, local: u32, info: *const Info, count: usize) -> c_int {
    look(|| {
        let Some((host, _)) = HOST.get() else { return };
        let mut kept = kept();
        if matches!(*kept, Kept::Nothing) {
            let own = HOST.get().map_or(0, |(_, module)| &raw const *module as usize);
            let began = proof::of_server(host, own).and_then(|server| {
                trace!("the server {server} is served");
                Keeper::new()
            });
            *kept = began.map_or_else(
                |error| {
                    decline(&error.to_string());
                    Kept::Never
                },
                Kept::Jobs,
            );
        }
        let (Kept::Jobs(keeper), Some(nspace)) = (&*kept, named(nspace)) else { return };
        if let Err(error) = keeper.announce(&nspace, local, (0..count).find_map(|at| size_in(info.wrapping_add(at)))) {
            trace!("no segments of {nspace}: {error}");
        }
    });
    SUCCESS
}

fn named(nspace: *const c_char) -> Option<Nspace> {
    memory::text(nspace as usize).ok().and_then(|name| Nspace::new(name).ok())
}

/// A process is about to be started.
unsafe extern "C" fn setup_fork(proc: *const abi::Proc, environment: *mut *mut *mut c_char) -> c_int {
    with(|_, keeper| {
        let Some((address, size)) = process(proc).and_then(|proc| keeper.address(&proc.nspace)) else { return };
        // SAFETY: the host's array, which each of its own modules grows in the same way.
        if environment.is_null() || !unsafe { environment::add(environment, &address, size) } {
            trace!("a process is not told where the segments of its job are");
        }
    });
    SUCCESS
}

fn process(proc: *const abi::Proc) -> Option<Proc> {
    let mut bytes = [0; size_of::<abi::Proc>()];
    memory::read(proc as usize, &mut bytes).ok()?;
    let name = CStr::from_bytes_until_nul(&bytes[..256]).ok()?;
    let rank = u32::from_le_bytes(bytes[256..].try_into().ok()?);
    Some(Proc::new(Nspace::new(name.to_bytes()).ok()?, Rank(rank)))
}

/// A process asks for its job's information. The answer of the host's module is also what the segments are made of;
/// once they are there, a process is told to look there.
unsafe extern "C" fn register_job_info(peer: Object, reply: Object) -> c_int {
    let (mut asker, mut is_kept) = (None, false);
    with(|host, keeper| match proof::peer(host, peer as usize) {
        Ok(found) => {
            is_kept = keeper.is_kept(&found.proc, found.user) && found.is_ours;
            asker = Some(found.proc);
        }
        Err(error) => trace!("a peer is not known: {error}"),
    });
    if is_kept {
        return node::LOOK_THERE.0;
    }
    let Some(pass_on) = HOST.get().and_then(|(host, _)| host.functions.register_job_info) else { return ERROR };
    // SAFETY: what the host has called this one with.
    let status = unsafe { pass_on(peer, reply) };
    if let Some(asker) = asker {
        with(|host, keeper| {
            keeper.tell(&asker, || {
                // A caller that is told an error need not wait for segments to find it.
                if status != SUCCESS {
                    return None;
                }
                let answer = proof::bytes(host, reply as usize);
                answer.map_err(|error| trace!("the answer to {asker} is not read: {error}")).ok()
            });
        });
    }
    status
}

/// A client of the host is told of a job.
unsafe extern "C" fn told(nspace: *const c_char, buffer: Object) -> c_int {
    let mut can_go_on = true;
    look(|| can_go_on = memory::text(nspace as usize).is_ok_and(|nspace| client::told(&nspace)));
    if !can_go_on {
        return TAKE_NEXT;
    }
    let Some((host, _)) = HOST.get() else { return ERROR };
    let Some(pass_on) = host.functions.store_job_info else { return ERROR };
    // SAFETY: the host's function has this type, and is called with what the host has called this one with.
    let status = unsafe { std::mem::transmute::<Function, StoreJobInfo>(pass_on)(nspace, buffer) };
    look(|| {
        let Some((answers, fetch)) = host.layout.answers.as_ref().zip(host.functions.fetch) else { return };
        let Ok(nspace) = memory::text(nspace as usize) else { return };
        // SAFETY: the host's function has this type.
        unsafe { client::prove(host, answers, std::mem::transmute::<Function, Fetch>(fetch), &nspace) };
    });
    status
}

/// A key is looked up: by a client of the host, on any of its threads, or by a server.
unsafe extern "C" fn answered(
    peer: Object,
    proc: *const abi::Proc,
    scope: u8,
    copy: bool,
    key: *const c_char,
    info: *const Info,
    count: usize,
    realm: u32,
    list: Object,
) -> c_int {
    let Some((host, _)) = HOST.get() else { return ERROR };
    let (Some(pass_on), Some(answers)) = (host.functions.fetch, &host.layout.answers) else { return ERROR };
    let asked = Asked { proc, scope, key, info, count, realm, list: list as usize };
    let mut is_answered = false;
    // SAFETY: the host asks.
    look(|| is_answered = unsafe { client::answer(host, answers, &asked) });
    if is_answered {
        return SUCCESS;
    }
    if !client::may_pass_on() {
        return NOT_FOUND;
    }
    // SAFETY: the host's function has this type, and is called with what the host has called this one with.
    let pass_on = unsafe { std::mem::transmute::<Function, Fetch>(pass_on) };
    // SAFETY: as above.
    unsafe { pass_on(peer, proc, scope, copy, key, info, count, realm, list) }
}

/// A value of the host that is a text or bytes, and no long ones: what is most committed, and is read where it lies. All
/// others are packed by the host.
fn plain(value: usize) -> Option<instanton::data::Value> {
    let mut words = [0; size_of::<Value>()];
    memory::read(value, &mut words).ok()?;
    let [kind, first, second, _] = words.as_chunks::<8>().0 else { return None };
    let (at, len) = (usize::from_le_bytes(*first), usize::from_le_bytes(*second));
    match u16::from_le_bytes([kind[0], kind[1]]) {
        TEXT => Datum::Text(Some(&memory::text(at).ok()?)).to_value().ok(),
        BYTES if (1..=LONG).contains(&len) => {
            let mut bytes = vec![0; len];
            memory::read(at, &mut bytes).ok()?;
            Datum::Bytes(DataType::BYTE_OBJECT, &bytes).to_value().ok()
        }
        _ => None,
    }
}

/// A process has committed a value.
unsafe extern "C" fn store(proc: *const abi::Proc, scope: u8, entry: Object) -> c_int {
    with(|host, keeper| {
        // Values for other nodes alone, or for the server itself, are not seen on this one.
        if [REMOTE, INTERNAL, DELETE_REMOTE, DELETE_INTERNAL].contains(&scope) {
            return;
        }
        let Some(proc) = process(proc).filter(|proc| proc.rank.is_process()) else { return };
        if [DELETE_LOCAL, DELETE_GLOBAL].contains(&scope) {
            match proof::key(host, entry as usize).map(Key::new) {
                Ok(key) => key.into_iter().for_each(|key| keeper.commit(&proc, key, None)),
                Err(error) => trace!("what {proc} deletes is not read: {error}"),
            }
            return;
        }
        match proof::entry(host, entry as usize) {
            Ok((key, value)) => {
                let Ok(key) = Key::new(key) else { return };
                // SAFETY: the value of an entry that is proved to be one.
                let packed = || unsafe { host.packed(value as *const Value) };
                keeper.commit(&proc, key, plain(value).or_else(|| told::value(&packed()?)));
            }
            Err(error) => trace!("what {proc} commits is not read: {error}"),
        }
    });
    match HOST.get().and_then(|(host, _)| host.functions.store) {
        // SAFETY: what the host has called this one with.
        Some(pass_on) => unsafe { pass_on(proc, scope, entry) },
        None => ERROR,
    }
}

/// A collecting fence has brought what processes have posted: all participants, or those of this node and another's.
unsafe extern "C" fn exchanged(first: Object, second: Object, tracker: Object) -> c_int {
    with(|host, keeper| {
        for nspace in keeper.exchanging() {
            let read = match host.layout.exchange {
                Exchange::ByPlace { participants } => match proof::namespace(host, first as usize) {
                    Ok(found) if found != nspace => continue,
                    named => named
                        .and_then(|_| proof::are_all_of(&nspace, tracker as usize, participants))
                        .and_then(|()| proof::bytes(host, second as usize))
                        .map(|bytes| exchange::by_place(&bytes)),
                },
                Exchange::ByName => proof::bytes(host, first as usize)
                    .map(|bytes| exchange::by_name(&bytes, &nspace, |part| host.decompressed(part))),
            };
            let found =
                read.map_err(|error| error.to_string()).and_then(|read| read.map_err(|error| error.to_string()));
            let found = found.inspect_err(|error| trace!("what others have posted of {nspace} is not read: {error}"));
            keeper.exchange(&nspace, found.ok());
        }
    });
    match HOST.get().and_then(|(host, _)| host.functions.store_modex) {
        // SAFETY: what the host has called this one with.
        Some(pass_on) => unsafe { pass_on(first, second, tracker) },
        None => ERROR,
    }
}

/// The scope of values that are for other nodes.
const REMOTE: u8 = 2;
/// The scope of what a process keeps to itself.
const INTERNAL: u8 = 4;
/// Scopes of 7.0 by which a process takes keys back, whatever stands beside them.
const DELETE_LOCAL: u8 = 5;
const DELETE_REMOTE: u8 = 6;
const DELETE_GLOBAL: u8 = 7;
const DELETE_INTERNAL: u8 = 8;

/// A key of a process is gone, or one of its job.
unsafe extern "C" fn delete_key(proc: *const abi::Proc, key: *const c_char) -> c_int {
    with(|_, keeper| {
        let key = memory::text(key as usize).ok().and_then(|key| Key::new(key).ok());
        match (process(proc), key) {
            (Some(proc), Some(key)) if proc.rank.is_process() => keeper.commit(&proc, key, None),
            (Some(proc), Some(_)) => keeper.outdate(&proc.nspace),
            _ => trace!("a key that is deleted is not read"),
        }
    });
    SUCCESS
}

/// There is more to say of a job than its segments do.
unsafe extern "C" fn add_job_data(nspace: *const c_char, _: *const Info, _: usize) -> c_int {
    with(|_, keeper| {
        if let Some(nspace) = named(nspace) {
            keeper.outdate(&nspace);
        }
    });
    SUCCESS
}

/// A job is over.
unsafe extern "C" fn del_nspace(nspace: *const c_char) -> c_int {
    with(|_, keeper| {
        if let Some(nspace) = named(nspace) {
            keeper.forget(&nspace);
        }
    });
    SUCCESS
}
