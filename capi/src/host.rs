//! A host that is a C program: every request becomes a call of its server module.
//!
//! Data that a call lends to the host is C memory that lives until the host answers, until it says at once that it is
//! done or will not do it, or until it ends its server; the data of a fence become the host's. The answer comes back
//! through a number, see [`handles`](crate::handles).
use std::ptr;

use instanton::data::{App, Channels, DataRange, Info, Nspace, Proc, Query, ResourceUnit, Status, Text};
use instanton::internal::sys::signals::spawn_without_signals;
use instanton::server::{Accepted, Answer, Completion, Credential, Host, Infos, Published};
use libc::{c_char, c_int, c_void};

use crate::alloc;
use crate::arena::Arena;
use crate::callbacks::{CbData, ReleaseFn};
use crate::convert::{many, one};
use crate::handles::Handles;
use crate::module::{Module, slot};
use crate::objects;
use crate::running::{launcher, server};
use crate::session;
use crate::types::*;

/// A C host.
pub struct CHost(pub Module);

/// Requests that the host has taken over and not answered.
static REQUESTS: Handles = Handles::new();

/// Frees what a host was shown that has ended its server, and has not answered and will not.
pub fn forget_requests() {
    REQUESTS.clear();
}

/// A request that the host has taken over.
struct Waiting<T> {
    done: Completion<T>,
    _shown: Arena,
}

/// Calls the host; `call` is given what the host is to bring back.
fn ask<T: 'static>(done: Completion<T>, shown: Arena, call: impl FnOnce(*mut c_void) -> c_int) -> Accepted {
    let handle = REQUESTS.keep(Waiting { done, _shown: shown });
    match Status(call(handle)) {
        Status::SUCCESS => Ok(Answer::Later),
        answer => {
            drop(REQUESTS.take::<Waiting<T>>(handle));
            if answer == Status::OPERATION_SUCCEEDED { Ok(Answer::Done) } else { Err(answer) }
        }
    }
}

/// A status that a host answers with. One that says it has succeeded in the words of a return value has succeeded.
fn said(status: c_int) -> Status {
    match Status(status) {
        Status::OPERATION_SUCCEEDED => Status::SUCCESS,
        other => other,
    }
}

/// Gives the host's answer to the request that waits for it.
fn answer<T: 'static>(handle: *mut c_void, status: c_int, what: impl FnOnce() -> Result<T, Status>) {
    if let Some(waiting) = REQUESTS.take::<Waiting<T>>(handle) {
        let status = said(status);
        waiting.done.complete(if status == Status::SUCCESS { what() } else { Err(status) });
    }
}

/// The host's data have been read, which it is told when this is dropped.
struct Release(ReleaseFn, CbData);

impl Drop for Release {
    fn drop(&mut self) {
        // SAFETY: the host's own function and data.
        unsafe { (self.0)(self.1.get()) };
    }
}

/// Tells the host that its data have been read. It may have given them with a lock held that its release function
/// takes, too, as Slurm does: that function is never called before the one that gave them has returned. The server's
/// thread calls it; where there is no server any more, a thread of its own.
fn release_later(release: Option<ReleaseFn>, data: *mut c_void) {
    let Some(release) = release.map(|release| Release(release, CbData::new(data))) else { return };
    match server() {
        // A server that ends meanwhile drops what it does not come to.
        Ok(server) => _ = server.call_later(move || drop(release)),
        Err(_) => _ = spawn_without_signals("instanton-release", move || drop(release)),
    }
}

unsafe extern "C" fn op_done(status: c_int, handle: *mut c_void) {
    answer(handle, status, || Ok(()));
}

unsafe extern "C" fn modex_done(
    status: c_int,
    data: *const c_char,
    n: usize,
    handle: *mut c_void,
    release: Option<ReleaseFn>,
    release_data: *mut c_void,
) {
    // SAFETY: the host's bytes, the contract with C.
    answer(handle, status, || unsafe { alloc::slice(data.cast::<u8>(), n) }.map(<[u8]>::to_vec));
    release_later(release, release_data);
}

unsafe extern "C" fn info_done(
    status: c_int,
    info: *mut pmix_info_t,
    n: usize,
    handle: *mut c_void,
    release: Option<ReleaseFn>,
    release_data: *mut c_void,
) {
    if let Some(waiting) = REQUESTS.take::<Waiting<Infos>>(handle) {
        // Attributes come with bad news as well.
        // SAFETY: the host's attributes, the contract with C.
        waiting.done.complete(unsafe { many(info, n) }.map(|info| (said(status), info)));
    }
    release_later(release, release_data);
}

unsafe extern "C" fn lookup_done(status: c_int, data: *mut pmix_pdata_t, n: usize, handle: *mut c_void) {
    if let Some(waiting) = REQUESTS.take::<Waiting<Published>>(handle) {
        // Some of the data may be missing, which the status says.
        // SAFETY: the host's data, the contract with C.
        waiting.done.complete(unsafe { many(data, n) }.map(|data| (said(status), data)));
    }
}

unsafe extern "C" fn spawn_done(status: c_int, nspace: *mut c_char, handle: *mut c_void) {
    answer(handle, status, || {
        // SAFETY: the host's namespace, the contract with C.
        Nspace::new(unsafe { alloc::name(nspace, NSPACE_SIZE) }?).map_err(|_| Status::ERR_BAD_PARAM)
    });
}

unsafe extern "C" fn tool_done(status: c_int, proc: *mut pmix_proc_t, handle: *mut c_void) {
    // SAFETY: the host's process, the contract with C.
    answer::<Proc>(handle, status, || unsafe { one(proc) });
}

unsafe extern "C" fn credential_done(
    status: c_int,
    credential: *mut pmix_byte_object_t,
    info: *mut pmix_info_t,
    n: usize,
    handle: *mut c_void,
) {
    // SAFETY: the host's bytes and attributes, the contract with C.
    answer::<Credential>(handle, status, || unsafe { Ok((one(credential)?, many(info, n)?)) });
}

unsafe extern "C" fn validation_done(status: c_int, info: *mut pmix_info_t, n: usize, handle: *mut c_void) {
    if let Some(waiting) = REQUESTS.take::<Waiting<Infos>>(handle) {
        // SAFETY: the host's attributes, the contract with C.
        waiting.done.complete(unsafe { many(info, n) }.map(|info| (said(status), info)));
    }
}

fn numbers(codes: &[Status]) -> Vec<i32> {
    codes.iter().map(|code| code.0).collect()
}

/// A call without an answer to wait for: the host has said all there is when it returns.
fn at_once(status: c_int) -> Accepted {
    match Status(status) {
        Status::SUCCESS | Status::OPERATION_SUCCEEDED => Ok(Answer::Done),
        error => Err(error),
    }
}

/// Result of a slot. Two of them return nothing: they have taken the request over.
trait SlotResult {
    fn code(self) -> c_int;
}

impl SlotResult for c_int {
    fn code(self) -> c_int {
        self
    }
}

impl SlotResult for () {
    fn code(self) -> c_int {
        Status::SUCCESS.0
    }
}

/// Methods that make C arguments and call a slot. The arguments are named on the left and made on the right; the last
/// two of the C function are the answer's function and number.
macro_rules! upcall {
    ($self:ident.$part:ident.$slot:ident($done:ident => $answer:ident) $shown:ident { $($let:stmt;)* } ($($arg:expr),* $(,)?)) => {{
        let function = slot($self.0.$part.$slot)?;
        #[allow(unused_mut, reason = "some show nothing")]
        let mut $shown = Arena::default();
        $($let)*
        // SAFETY: the host's own function with the arguments of its prototype, which live until it answers.
        ask($done, $shown, |handle| unsafe { function($($arg,)* Some($answer), handle).code() })
    }};
}

impl Host for CHost {
    // Without a function to answer through, as every release before 5.0.8 did: some hosts never call it.
    fn client_connected(&self, proc: &Proc, _done: Completion<()>) -> Accepted {
        let (mut shown, object) = (Arena::default(), objects::of(proc));
        let proc = shown.one::<pmix_proc_t, _>(proc)?;
        let function = slot(self.0.common.client_connected)?;
        // SAFETY: the host's own function; the arguments live until it returns.
        at_once(unsafe { function(proc, object, None, ptr::null_mut()) })
    }

    fn client_connected2(&self, proc: &Proc, info: &[Info], done: Completion<()>) -> Accepted {
        session::look_again();
        if self.0.common.client_connected2.is_none() {
            return self.client_connected(proc, done);
        }
        upcall!(self.common.client_connected2(done => op_done) shown {
            let object = objects::of(proc);
            let (proc, (info, n)) = (shown.one::<pmix_proc_t, _>(proc)?, shown.array(info)?);
        } (proc, object, info, n))
    }

    fn client_finalized(&self, proc: &Proc, done: Completion<()>) -> Accepted {
        upcall!(self.common.client_finalized(done => op_done) shown {
            let (object, proc) = (objects::of(proc), shown.one::<pmix_proc_t, _>(proc)?);
        } (proc, object))
    }

    fn client_lost(&self, proc: &Proc, _status: Status) {
        session::lost_connection(proc);
    }

    fn abort(
        &self,
        proc: &Proc,
        status: i32,
        message: Option<&[u8]>,
        procs: &[Proc],
        done: Completion<()>,
    ) -> Accepted {
        upcall!(self.common.abort(done => op_done) shown {
            let (object, proc) = (objects::of(proc), shown.one::<pmix_proc_t, _>(proc)?);
            let message = message.map_or(Ok(ptr::null_mut()), |text| shown.text(text))?;
            let (procs, n) = shown.array(procs)?;
        } (proc, object, status, message, procs, n))
    }

    fn fence_nb(&self, procs: &[Proc], info: &[Info], data: Vec<u8>, done: Completion<Vec<u8>>) -> Accepted {
        upcall!(self.common.fence_nb(done => modex_done) shown {
            let ((procs, n), (info, ninfo)) = (shown.array::<pmix_proc_t, _>(procs)?, shown.array::<pmix_info_t, _>(info)?);
            // These are the host's own from here on, to keep and to free.
            let bytes = alloc::bytes(&data)?;
        } (procs, n, info, ninfo, bytes, data.len()))
    }

    fn direct_modex(&self, proc: &Proc, info: &[Info], done: Completion<Vec<u8>>) -> Accepted {
        upcall!(self.common.direct_modex(done => modex_done) shown {
            let (proc, (info, n)) = (shown.one::<pmix_proc_t, _>(proc)?, shown.array::<pmix_info_t, _>(info)?);
        } (proc, info, n))
    }

    fn publish(&self, proc: &Proc, info: &[Info], done: Completion<()>) -> Accepted {
        upcall!(self.common.publish(done => op_done) shown {
            let (proc, (info, n)) = (shown.one::<pmix_proc_t, _>(proc)?, shown.array::<pmix_info_t, _>(info)?);
        } (proc, info, n))
    }

    fn lookup(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<Published>) -> Accepted {
        upcall!(self.common.lookup(done => lookup_done) shown {
            let (proc, (info, n)) = (shown.one::<pmix_proc_t, _>(proc)?, shown.array::<pmix_info_t, _>(info)?);
            let keys = shown.argv(keys.iter().map(Text::as_bytes))?;
        } (proc, keys, info, n))
    }

    fn unpublish(&self, proc: &Proc, keys: &[Text], info: &[Info], done: Completion<()>) -> Accepted {
        upcall!(self.common.unpublish(done => op_done) shown {
            let (proc, (info, n)) = (shown.one::<pmix_proc_t, _>(proc)?, shown.array::<pmix_info_t, _>(info)?);
            let all = keys.is_empty();
            let keys = if all { ptr::null_mut() } else { shown.argv(keys.iter().map(Text::as_bytes))? };
        } (proc, keys, info, n))
    }

    fn spawn(&self, proc: &Proc, job_info: &[Info], apps: &[App], done: Completion<Nspace>) -> Accepted {
        upcall!(self.common.spawn(done => spawn_done) shown {
            let (proc, (info, n)) = (shown.one::<pmix_proc_t, _>(proc)?, shown.array::<pmix_info_t, _>(job_info)?);
            let (apps, napps) = shown.array::<pmix_app_t, _>(apps)?;
        } (proc, info, n, apps, napps))
    }

    fn connect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        upcall!(self.common.connect(done => op_done) shown {
            let ((procs, n), (info, ninfo)) = (shown.array::<pmix_proc_t, _>(procs)?, shown.array::<pmix_info_t, _>(info)?);
        } (procs, n, info, ninfo))
    }

    fn disconnect(&self, procs: &[Proc], info: &[Info], done: Completion<()>) -> Accepted {
        upcall!(self.common.disconnect(done => op_done) shown {
            let ((procs, n), (info, ninfo)) = (shown.array::<pmix_proc_t, _>(procs)?, shown.array::<pmix_info_t, _>(info)?);
        } (procs, n, info, ninfo))
    }

    fn register_events(&self, codes: &[Status], info: &[Info], done: Completion<()>) -> Accepted {
        upcall!(self.common.register_events(done => op_done) shown {
            let ((codes, n), (info, ninfo)) = (shown.array::<c_int, i32>(&numbers(codes))?, shown.array::<pmix_info_t, _>(info)?);
        } (codes, n, info, ninfo))
    }

    fn deregister_events(&self, codes: &[Status], done: Completion<()>) -> Accepted {
        upcall!(self.common.deregister_events(done => op_done) shown { let (codes, n) = shown.array::<c_int, i32>(&numbers(codes))?; }
            (codes, n))
    }

    fn notify_event(
        &self,
        status: Status,
        source: &Proc,
        range: DataRange,
        info: &[Info],
        done: Completion<()>,
    ) -> Accepted {
        upcall!(self.common.notify_event(done => op_done) shown {
            let (source, (info, n)) = (shown.one::<pmix_proc_t, _>(source)?, shown.array(info)?);
        } (status.0, source, range.0, info, n))
    }

    fn query(&self, proc: &Proc, queries: &[Query], done: Completion<Infos>) -> Accepted {
        upcall!(self.common.query(done => info_done) shown {
            let (proc, (queries, n)) = (shown.one(proc)?, shown.array(queries)?);
        } (proc, queries, n))
    }

    fn tool_connected(&self, info: &[Info], done: Completion<Proc>) -> Accepted {
        session::look_again();
        upcall!(self.common.tool_connected(done => tool_done) shown { let (info, n) = shown.array(info)?; } (info, n))
    }

    fn log(&self, client: &Proc, data: &[Info], directives: &[Info], done: Completion<()>) -> Accepted {
        upcall!(self.common.log(done => op_done) shown {
            let (client, (data, n)) = (shown.one::<pmix_proc_t, _>(client)?, shown.array::<pmix_info_t, _>(data)?);
            let (directives, ndirs) = shown.array::<pmix_info_t, _>(directives)?;
        } (client, data, n, directives, ndirs))
    }

    fn allocate(&self, client: &Proc, directive: u8, data: &[Info], done: Completion<Infos>) -> Accepted {
        upcall!(self.common.allocate(done => info_done) shown {
            let (client, (data, n)) = (shown.one::<pmix_proc_t, _>(client)?, shown.array::<pmix_info_t, _>(data)?);
        } (client, directive, data, n))
    }

    fn job_control(
        &self,
        requestor: &Proc,
        targets: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        upcall!(self.common.job_control(done => info_done) shown {
            let (requestor, (targets, n)) = (shown.one::<pmix_proc_t, _>(requestor)?, shown.array::<pmix_proc_t, _>(targets)?);
            let (directives, ndirs) = shown.array::<pmix_info_t, _>(directives)?;
        } (requestor, targets, n, directives, ndirs))
    }

    fn monitor(
        &self,
        requestor: &Proc,
        monitor: &Info,
        error: Status,
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        upcall!(self.common.monitor(done => info_done) shown {
            let (requestor, monitor) = (shown.one::<pmix_proc_t, _>(requestor)?, shown.one::<pmix_info_t, _>(monitor)?);
            let (directives, ndirs) = shown.array::<pmix_info_t, _>(directives)?;
        } (requestor, monitor, error.0, directives, ndirs))
    }

    fn get_credential(&self, proc: &Proc, directives: &[Info], done: Completion<Credential>) -> Accepted {
        upcall!(self.common.get_credential(done => credential_done) shown {
            let (proc, (directives, n)) = (shown.one::<pmix_proc_t, _>(proc)?, shown.array::<pmix_info_t, _>(directives)?);
        } (proc, directives, n))
    }

    fn validate_credential(
        &self,
        proc: &Proc,
        credential: &[u8],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        upcall!(self.common.validate_credential(done => validation_done) shown {
            let (proc, (directives, n)) = (shown.one::<pmix_proc_t, _>(proc)?, shown.array::<pmix_info_t, _>(directives)?);
            let credential = shown.one::<pmix_byte_object_t, Vec<u8>>(&credential.to_vec())?;
        } (proc, credential, directives, n))
    }

    fn iof_pull(&self, procs: &[Proc], directives: &[Info], channels: Channels, done: Completion<()>) -> Accepted {
        // A launcher hands on what its processes print, whoever wants it.
        if self.0.common.iof_pull.is_none() && launcher().is_some() {
            return Ok(Answer::Done);
        }
        upcall!(self.common.iof_pull(done => op_done) shown {
            let ((procs, n), (info, ninfo)) =
                (shown.array::<pmix_proc_t, _>(procs)?, shown.array::<pmix_info_t, _>(directives)?);
        } (procs, n, info, ninfo, channels.0))
    }

    fn push_stdin(
        &self,
        source: &Proc,
        targets: &[Proc],
        directives: &[Info],
        bytes: &[u8],
        done: Completion<()>,
    ) -> Accepted {
        upcall!(self.common.push_stdin(done => op_done) shown {
            let (source, (targets, n)) = (shown.one::<pmix_proc_t, _>(source)?, shown.array::<pmix_proc_t, _>(targets)?);
            let (directives, ndirs) = shown.array::<pmix_info_t, _>(directives)?;
            let bytes = shown.one::<pmix_byte_object_t, Vec<u8>>(&bytes.to_vec())?;
        } (source, targets, n, directives, ndirs, bytes))
    }

    fn group(
        &self,
        operation: i64,
        group: &Nspace,
        procs: &[Proc],
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        let operation = c_int::try_from(operation).map_err(|_| Status::ERR_BAD_PARAM)?;
        upcall!(self.common.group(done => info_done) shown {
            let (group, (procs, n)) = (shown.text(group.as_bytes())?, shown.array::<pmix_proc_t, _>(procs)?);
            let (directives, ndirs) = shown.array::<pmix_info_t, _>(directives)?;
        } (operation, group, procs, n, directives, ndirs))
    }

    fn fabric(&self, requestor: &Proc, operation: i64, directives: &[Info], done: Completion<Infos>) -> Accepted {
        let operation = c_int::try_from(operation).map_err(|_| Status::ERR_BAD_PARAM)?;
        upcall!(self.common.fabric(done => info_done) shown {
            let requestor = shown.one::<pmix_proc_t, _>(requestor)?;
            let (directives, n) = shown.array::<pmix_info_t, _>(directives)?;
        } (requestor, operation, directives, n))
    }

    fn tool_connected2(&self, info: &[Info], done: Completion<Proc>) -> Accepted {
        if self.0.tail.tool_connected2.is_none() {
            return self.tool_connected(info, done);
        }
        upcall!(self.tail.tool_connected2(done => tool_done) shown { let (info, n) = shown.array(info)?; } (info, n))
    }

    fn log2(&self, client: &Proc, data: &[Info], directives: &[Info], done: Completion<()>) -> Accepted {
        if self.0.tail.log2.is_none() {
            return self.log(client, data, directives, done);
        }
        upcall!(self.tail.log2(done => op_done) shown {
            let (client, (data, n)) = (shown.one::<pmix_proc_t, _>(client)?, shown.array::<pmix_info_t, _>(data)?);
            let (directives, ndirs) = shown.array::<pmix_info_t, _>(directives)?;
        } (client, data, n, directives, ndirs))
    }

    fn session_control(
        &self,
        requestor: &Proc,
        session: u32,
        directives: &[Info],
        done: Completion<Infos>,
    ) -> Accepted {
        upcall!(self.tail.session_control(done => info_done) shown {
            let requestor = shown.one::<pmix_proc_t, _>(requestor)?;
            let (directives, n) = shown.array::<pmix_info_t, _>(directives)?;
        } (requestor, session, directives, n))
    }

    fn resource_block(
        &self,
        requestor: &Proc,
        directive: u8,
        block: &Text,
        units: &[ResourceUnit],
        info: &[Info],
        done: Completion<()>,
    ) -> Accepted {
        upcall!(self.tail.resource_block(done => op_done) shown {
            let (requestor, block) = (shown.one::<pmix_proc_t, _>(requestor)?, shown.text(block.as_bytes())?);
            let (units, n) = shown.array::<pmix_resource_unit_t, _>(units)?;
            let (info, ninfo) = shown.array::<pmix_info_t, _>(info)?;
        } (requestor, directive, block, units, n, info, ninfo))
    }
}
