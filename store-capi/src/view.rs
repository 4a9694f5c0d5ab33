//! The readers' side.
use std::ffi::{CString, OsStr};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use instanton::data::{DataType, Rank, Status};
use instanton::handover::{LinkError, OpenError, RemoteMiss, RemoteReader, VARIABLE, Waited};
use instanton::store::named::{NameError, Owner};
use instanton::store::{
    AttachError, Directives, Guard, Have, JobReader, MapError, MappedSegment, Miss, PinError, Question, RawValue,
    ReaderPage,
};
use libc::{c_char, c_int, c_void};

use crate::boundary::{Code, Outcome, bad, export, fail, guard, not_found};
use crate::flat::{self, Block};
use crate::types::*;

/// A reader of a job.
pub enum instanton_view_t {
    /// Asks its writer for what is added, or finds it by its name.
    Opened(RemoteReader),
    /// Is given what is added; whether descriptors come from an owner who is trusted.
    Imported(JobReader, bool),
    /// The writer is dead: nothing is added.
    Left(JobReader),
}

/// A guard of the thread that has taken it.
pub struct instanton_guard_t {
    guard: Guard<'static>,
    /// Guards that were taken since, for what its view has mapped since.
    later: Vec<Guard<'static>>,
    /// Outlives its guards, as the caller has promised.
    view: &'static instanton_view_t,
    thread: usize,
    /// Texts that lie nowhere, written for a look.
    texts: Vec<Vec<u8>>,
}

thread_local! {
    static HERE: u8 = const { 0 };
}

/// A number that no other living thread has.
fn here() -> usize {
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

impl instanton_view_t {
    fn reader(&self) -> &JobReader {
        match self {
            Self::Opened(remote) => remote.reader(),
            Self::Imported(reader, _) | Self::Left(reader) => reader,
        }
    }

    fn read(&self, question: &Question<'_>, f: &mut dyn FnMut(&RawValue<'_>)) -> Result<(), Code> {
        match self {
            Self::Opened(remote) => remote.read(question, f).map_err(remote_miss),
            Self::Imported(reader, _) | Self::Left(reader) => reader.read(question, f).map_err(Code::from),
        }
    }

    fn get(&self, question: &Question<'_>) -> Result<*mut c_void, Code> {
        let value = || match self {
            Self::Opened(remote) => remote.get(question).map_err(remote_miss),
            Self::Imported(reader, _) | Self::Left(reader) => reader.get(question).map_err(Code::from),
        };
        copied(|f| self.read(question, f), value)
    }
}

impl From<Miss> for Code {
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::NotFound => not_found(),
            Miss::Unmapped(_) => fail(Code::UNMAPPED, miss),
            Miss::Busy => fail(Status::ERR_WOULD_BLOCK, miss),
            Miss::Corrupt(_) => fail(Status::ERROR, miss),
        }
    }
}

fn remote_miss(miss: RemoteMiss) -> Code {
    match miss {
        RemoteMiss::Miss(miss) => miss.into(),
        RemoteMiss::Link(error) => link(error),
    }
}

/// An error about a name.
pub fn named(error: NameError) -> Code {
    let status = match &error {
        NameError::Path { .. } | NameError::Occupied { .. } => Status::ERR_BAD_PARAM,
        NameError::Absent { .. } | NameError::Dead { .. } => Status::ERR_LOST_CONNECTION,
        NameError::Alive { .. } => Status::ERR_RESOURCE_BUSY,
        NameError::Foreign { .. } | NameError::Writable { .. } | NameError::Kind { .. } => Status::ERR_NO_PERMISSIONS,
        NameError::System { error, .. } => of_system(error),
        NameError::Attach { error, .. } => of_attach(error),
        _ => Status::ERROR,
    };
    fail(status, error)
}

/// The path that is a name.
///
/// # Safety
/// NULL, or a text that ends with a NUL.
pub unsafe fn path_of<'a>(path: *const c_char) -> Result<&'a Path, Code> {
    // SAFETY: as promised by the caller.
    let path = unsafe { text(path) }.filter(|path| !path.is_empty()).ok_or_else(|| bad("the path is NULL or empty"))?;
    Ok(Path::new(OsStr::from_bytes(path)))
}

fn owner(user: u32) -> Owner {
    if user == u32::MAX { Owner::OwnOrRoot } else { Owner::User(user) }
}

fn link(error: LinkError) -> Code {
    match error {
        // A writer that ends takes its files away.
        LinkError::Named(NameError::System { path, error }) if error.kind() == ErrorKind::NotFound => {
            let reason = format_args!("the writer is gone, and {} with it", path.display());
            fail(Status::ERR_LOST_CONNECTION, reason)
        }
        LinkError::Named(error) => named(error),
        LinkError::Refused => fail(Status::ERR_NO_PERMISSIONS, error),
        LinkError::NoRoom | LinkError::NoDescriptors => fail(Status::ERR_OUT_OF_RESOURCE, error),
        LinkError::Lost(ref late) if late.kind() == ErrorKind::TimedOut => fail(Status::ERR_TIMEOUT, error),
        LinkError::Attach(error) => attached(error),
        _ => fail(Status::ERR_LOST_CONNECTION, error),
    }
}

fn attached(error: AttachError) -> Code {
    match error {
        AttachError::Map(MapError::Unsealed { .. }) => fail(
            Status::ERR_NO_PERMISSIONS,
            "a segment is not sealed, and trust_owner does not say that its owner is trusted",
        ),
        error => fail(of_attach(&error), error),
    }
}

fn of_attach(error: &AttachError) -> Status {
    match error {
        AttachError::Map(MapError::System { error, .. }) => of_system(error),
        AttachError::Memory(_) => Status::ERR_OUT_OF_RESOURCE,
        _ => Status::ERROR,
    }
}

/// Refusal of the kernel, in the words of the header.
fn of_system(error: &std::io::Error) -> Status {
    match error.raw_os_error() {
        Some(libc::ENOMEM | libc::EMFILE | libc::ENFILE | libc::ENOSPC | libc::EDQUOT) => Status::ERR_OUT_OF_RESOURCE,
        Some(libc::EACCES | libc::EPERM) => Status::ERR_NO_PERMISSIONS,
        Some(libc::EBADF) => Status::ERR_BAD_PARAM,
        _ => Status::ERROR,
    }
}

/// Copies what `read` shows, or where that cannot be copied as it lies, what `get` takes apart.
pub fn copied<E: Into<Code>, F: Into<Code>>(
    read: impl FnOnce(&mut dyn FnMut(&RawValue<'_>)) -> Result<(), E>,
    get: impl FnOnce() -> Result<instanton::data::Value, F>,
) -> Result<*mut c_void, Code> {
    let mut seen: Option<Result<Option<Block>, Code>> = None;
    let mut bytes = 0;
    read(&mut |raw| (seen, bytes) = (Some(flat::of_raw(raw)), raw.len())).map_err(Into::into)?;
    match seen {
        Some(Ok(Some(block))) => Ok(block.give()),
        Some(Err(code)) => Err(code),
        _ => {
            has_room(bytes)?;
            Ok(flat::of_value(&get().map_err(Into::into)?)?.give())
        }
    }
}

/// Segments that a reader says it has; none of a new one.
///
/// # Safety
/// NULL, or so many bytes.
pub unsafe fn have_of(have: *const c_void, length: usize) -> Result<Option<Have>, Code> {
    if have.is_null() {
        return Ok(None);
    }
    // SAFETY: as promised by the caller.
    let bytes = unsafe { array(have.cast::<u8>(), length, "have") }?;
    Have::from_bytes(bytes).map(Some).ok_or_else(|| {
        bad(format_args!("these {length} bytes are not what instanton_view_have writes, which are {}", Have::BYTES))
    })
}

/// # Safety
/// So many descriptors, open or not.
unsafe fn mapped(descriptors: *const c_int, n: usize, trusted: bool) -> Result<Vec<MappedSegment>, Code> {
    let map = if trusted { MappedSegment::map_trusting_owner } else { MappedSegment::map };
    // SAFETY: as promised by the caller.
    let all = unsafe { array(descriptors, n, "descriptors") }?;
    // SAFETY: as promised by the caller.
    all.iter().map(|number| map(unsafe { descriptor(*number) }?).map_err(attached)).collect()
}

/// # Safety
/// Stays as it is during the call: open, or not.
unsafe fn descriptor<'a>(number: c_int) -> Result<BorrowedFd<'a>, Code> {
    if number < 0 {
        return Err(bad(format_args!("{number} is no open descriptor")));
    }
    // SAFETY: not -1; the kernel answers EBADF for one that is not open.
    Ok(unsafe { BorrowedFd::borrow_raw(number) })
}

fn directives(level: c_int, number: u32) -> Result<Directives, Code> {
    match level {
        0 => Ok(Directives::none().clone()),
        1 => Ok(Directives::of_session(number)),
        2 => Ok(Directives::of_app(number)),
        3 => Ok(Directives::of_node(number)),
        _ => Err(no_level(level)),
    }
}

export! {
    fn instanton_view_open(spec: *const instanton_view_spec_t, view: *mut *mut instanton_view_t) {
        let (view, spec) = (there(view, "view")?, instanton_view_spec_t::read(spec)?);
        let address = match text(spec.address) {
            Some(address) => String::from_utf8_lossy(address).into_owned(),
            None => std::env::var(VARIABLE).map_err(|_| {
                fail(Status::ERR_LOST_CONNECTION, format_args!("there is no address in {VARIABLE}"))
            })?,
        };
        let patience = (spec.patience_ms > 0).then(|| Duration::from_millis(spec.patience_ms.into()));
        let opened = match (spec.trust_owner != 0, patience) {
            (false, None) => RemoteReader::open(&address),
            (false, Some(patience)) => RemoteReader::open_within(&address, patience),
            (true, None) => RemoteReader::open_trusting_owner(&address),
            (true, Some(patience)) => RemoteReader::open_trusting_owner_within(&address, patience),
        };
        let opened = opened.map_err(|error| match error {
            OpenError::Link(error) => link(error),
            error @ OpenError::Version(_) => fail(Status::ERR_NOT_SUPPORTED, error),
            error => bad(error),
        })?;
        *view = Box::into_raw(Box::new(instanton_view_t::Opened(opened)));
        Ok(())
    }

    fn instanton_view_import(spec: *const instanton_view_spec_t, view: *mut *mut instanton_view_t) {
        shared(spec, "spec")?;
        let (view, spec) = (there(view, "view")?, instanton_view_spec_t::read(spec)?);
        let trusted = spec.trust_owner != 0;
        let parts = mapped(spec.descriptors, spec.ndescriptors, trusted)?;
        let page = match spec.page {
            ..0 => None,
            page => Some(ReaderPage::map(descriptor(page)?.as_fd()).map_err(attached)?),
        };
        let reader = JobReader::attach(parts, page).map_err(attached)?;
        *view = Box::into_raw(Box::new(instanton_view_t::Imported(reader, trusted)));
        Ok(())
    }

    fn instanton_view_map(path: *const c_char, owner: u32, view: *mut *mut instanton_view_t) {
        let (view, path) = (there(view, "view")?, path_of(path)?);
        let mapped = RemoteReader::map_trusting_owner(path, crate::view::owner(owner)).map_err(named)?;
        *view = Box::into_raw(Box::new(instanton_view_t::Opened(mapped)));
        Ok(())
    }

    fn instanton_view_post_mortem(path: *const c_char, owner: u32, view: *mut *mut instanton_view_t) {
        let (view, path) = (there(view, "view")?, path_of(path)?);
        let left = JobReader::post_mortem(path, crate::view::owner(owner)).map_err(named)?;
        *view = Box::into_raw(Box::new(instanton_view_t::Left(left)));
        Ok(())
    }

    fn instanton_view_process(view: *mut instanton_view_t, rank: u32) {
        let reader = shared::<instanton_view_t>(view, "view")?.reader();
        if rank >= reader.rank_count() {
            return Err(bad(format_args!("a job with room for {} processes has no rank {rank}", reader.rank_count())));
        }
        Ok(reader.populate_own(Rank(rank))?)
    }

    fn instanton_view_add(view: *mut instanton_view_t, descriptors: *const c_int, ndescriptors: usize) {
        let view = shared(view, "view")?;
        let trusted = match view {
            instanton_view_t::Imported(_, trusted) => *trusted,
            instanton_view_t::Opened(_) => false,
            instanton_view_t::Left(_) => return Err(bad("the writer is dead: there is nothing to add")),
        };
        mapped(descriptors, ndescriptors, trusted)?.into_iter().try_for_each(|part| view.reader().add(part).map_err(attached))
    }

    fn instanton_view_have(view: *mut instanton_view_t, have: *mut c_void, room: usize) {
        let (view, have) = (shared(view, "view")?, there(have.cast::<u8>(), "have")?);
        if room < Have::BYTES {
            return Err(bad(format_args!("{} bytes are needed, there is room for {room}", Have::BYTES)));
        }
        std::ptr::from_mut(have).copy_from_nonoverlapping(view.reader().have().to_bytes().as_ptr(), Have::BYTES);
        Ok(())
    }

    fn instanton_view_get(view: *mut instanton_view_t, rank: u32, key: *const c_char, value: *mut *mut c_void) {
        let (view, key, value) = (shared(view, "view")?, key_bytes(key)?, there(value, "value")?);
        *value = view.get(&Question::new(Rank(rank), key))?;
        Ok(())
    }

    fn instanton_view_get_at(
        view: *mut instanton_view_t,
        level: c_int,
        number: u32,
        key: *const c_char,
        value: *mut *mut c_void,
    ) {
        let (view, key, value) = (shared(view, "view")?, key_bytes(key)?, there(value, "value")?);
        let directives = directives(level, number)?;
        *value = view.get(&Question::new(Rank::WILDCARD, key).with(&directives))?;
        Ok(())
    }

    fn instanton_view_pin(view: *mut instanton_view_t, guard: *mut *mut instanton_guard_t) {
        let (view, guard) = (shared::<instanton_view_t>(view, "view")?, there(guard, "guard")?);
        let (held, later) = (pinned(view)?, Vec::new());
        *guard =
            Box::into_raw(Box::new(instanton_guard_t { guard: held, later, view, thread: here(), texts: Vec::new() }));
        Ok(())
    }

    fn instanton_view_peek(
        guard: *mut instanton_guard_t,
        rank: u32,
        key: *const c_char,
        value: *mut instanton_value_t,
    ) {
        let (guard, key, value) = (there(guard, "guard")?, key_bytes(key)?, there(value, "value")?);
        is_whole::<instanton_value_t>(value.size, "instanton_value_t")?;
        is_own(guard)?;
        let question = Question::new(Rank(rank), key);
        let mut repeats = 0;
        let found = loop {
            let found = guard.later.last().unwrap_or(&guard.guard).get(&question);
            let (Err(Miss::Unmapped(_)), instanton_view_t::Opened(remote)) = (&found, guard.view) else { break found? };
            if repeats == REPEATS {
                return Err(Miss::Busy.into());
            }
            repeats += 1;
            remote.refresh().map_err(link)?;
            guard.later.push(pinned(guard.view)?);
        };
        let ty = found.data_type();
        let (mut form, mut bits, mut bytes, mut length) = (SCALAR, 0, std::ptr::null(), 0);
        if let Some(scalar) = found.scalar() {
            bits = scalar;
        } else if found.is_null() {
            form = TEXT;
        } else if found.raw().is_archive() {
            form = ARCHIVE;
        } else {
            let place = match found.bytes() {
                std::borrow::Cow::Borrowed(bytes) => bytes,
                std::borrow::Cow::Owned(text) => {
                    guard.texts.push(text);
                    guard.texts.last().expect("pushed just now")
                }
            };
            let is_text = matches!(ty, DataType::STRING | DataType::PROC_NSPACE);
            form = if is_text { TEXT } else { BYTES };
            (bytes, length) = (place.as_ptr().cast(), place.len() - usize::from(is_text && !place.is_empty()));
        }
        *value = instanton_value_t { size: value.size, ty: ty.0, form, bits, bytes, length };
        Ok(())
    }

    fn instanton_view_unpin(guard: *mut instanton_guard_t) {
        is_own(shared::<instanton_guard_t>(guard, "guard")?)?;
        drop(Box::from_raw(guard));
        Ok(())
    }

    fn instanton_view_wait(view: *mut instanton_view_t, seen: u32, timeout_ms: i64) {
        let view = shared(view, "view")?;
        let limit = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let waited = match view {
            instanton_view_t::Opened(remote) => remote.wait(seen, limit),
            instanton_view_t::Imported(reader, _) if reader.wait_for_release(seen, limit) => Waited::Released,
            instanton_view_t::Imported(..) => Waited::TimedOut,
            instanton_view_t::Left(_) => Waited::WriterGone,
        };
        match waited {
            Waited::Released => Ok(()),
            Waited::TimedOut => Err(fail(Status::ERR_TIMEOUT, "the time is over")),
            Waited::WriterGone => Err(fail(Status::ERR_LOST_CONNECTION, "the writer is gone")),
        }
    }
}

/// Looks under a guard that find again and again that the writer has added something meanwhile.
const REPEATS: u32 = 8;

fn pinned(view: &'static instanton_view_t) -> Result<Guard<'static>, Code> {
    view.reader().pin().map_err(|error| {
        let status = match error {
            PinError::HoldsBack => Status::ERR_WOULD_BLOCK,
            PinError::Foreign => Status::ERR_BAD_PARAM,
            _ => Status::ERR_OUT_OF_RESOURCE,
        };
        fail(status, error)
    })
}

fn is_own(guard: &instanton_guard_t) -> Outcome {
    if guard.thread == here() { Ok(()) } else { Err(bad("the guard is another thread's")) }
}

/// As the header says.
///
/// # Safety
/// NULL, or a view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn instanton_view_releases(view: *mut instanton_view_t) -> u32 {
    // SAFETY: as promised by the caller.
    guard(0, || unsafe { view.as_ref() }.map_or(0, |view| view.reader().releases()))
}

/// Callback of [`instanton_view_each`].
pub type EachFn = Option<unsafe extern "C" fn(*const c_char, u32, *const c_void, *mut c_void) -> c_int>;

/// As the header says.
///
/// # Safety
/// The caller keeps the promises of the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn instanton_view_each(
    view: *mut instanton_view_t,
    rank: u32,
    each: EachFn,
    arg: *mut c_void,
) -> c_int {
    let all = || -> Result<c_int, Code> {
        // SAFETY: as promised by the caller.
        let view = unsafe { shared(view, "view") }?;
        let each = each.ok_or_else(|| bad("each is NULL"))?;
        if let instanton_view_t::Opened(remote) = view {
            remote.refresh().map_err(link)?;
        }
        for (key, scope, value, _) in view.reader().all(Rank(rank))? {
            let Ok(key) = CString::new(key.as_bytes()) else { continue };
            let Ok(block) = flat::of_value(&value) else { continue };
            // SAFETY: the function is the caller's, and what it is given is there for the time of the call.
            let said = unsafe { each(key.as_ptr(), scope.0.into(), block.as_ptr(), arg) };
            if said != 0 {
                return Ok(said);
            }
        }
        Ok(0)
    };
    guard(Status::ERROR.0, || all().unwrap_or_else(|Code(code)| code))
}

/// As the header says.
///
/// # Safety
/// NULL, or a view that nobody uses any more, without guards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn instanton_view_free(view: *mut instanton_view_t) {
    guard((), || {
        if !view.is_null() {
            // SAFETY: made by this library, and given back once.
            drop(unsafe { Box::from_raw(view) });
        }
    });
}
