//! `pmix_server_module_t`: the functions that a C host gives its server.
//!
//! The structure has grown at its end and, once, in the middle, without a size or a version in it. Only the first 28
//! slots are the same in every release, and every caller has at least those. Slots behind them are read where it is
//! proved which release the caller was compiled for ([`evidence`]), and a slot counts only when it leads to code.
#![allow(non_camel_case_types, reason = "the headers' names")]
use instanton::data::Status;
use libc::{c_char, c_int, c_void};

use crate::callbacks::{CredentialFn, InfoFn, LookupFn, OpFn, ReleaseFn, SpawnFn, ValidationFn};
use crate::evidence::{self, Release};
use crate::types::*;

/// `pmix_modex_cbfunc_t`.
pub type ModexFn = unsafe extern "C" fn(c_int, *const c_char, usize, *mut c_void, Option<ReleaseFn>, *mut c_void);
/// `pmix_tool_connection_cbfunc_t`.
pub type ToolFn = unsafe extern "C" fn(c_int, *mut pmix_proc_t, *mut c_void);

type Proc = *const pmix_proc_t;
type Info = *const pmix_info_t;
type Data = *mut c_void;

macro_rules! slots {
    ($(#[$doc:meta])* $struct:ident: $($name:ident: fn($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $struct {
            $(pub $name: Option<unsafe extern "C" fn($($arg),*) $(-> $ret)?>,)*
        }
    };
}
slots! {
    /// The slots that every release has.
    pmix_server_module_t:
    client_connected: fn(Proc, Data, Option<OpFn>, Data) -> c_int;
    client_finalized: fn(Proc, Data, Option<OpFn>, Data) -> c_int;
    abort: fn(Proc, Data, c_int, *const c_char, *mut pmix_proc_t, usize, Option<OpFn>, Data) -> c_int;
    fence_nb: fn(Proc, usize, Info, usize, *mut c_char, usize, Option<ModexFn>, Data) -> c_int;
    direct_modex: fn(Proc, Info, usize, Option<ModexFn>, Data) -> c_int;
    publish: fn(Proc, Info, usize, Option<OpFn>, Data) -> c_int;
    lookup: fn(Proc, *mut *mut c_char, Info, usize, Option<LookupFn>, Data) -> c_int;
    unpublish: fn(Proc, *mut *mut c_char, Info, usize, Option<OpFn>, Data) -> c_int;
    spawn: fn(Proc, Info, usize, *const pmix_app_t, usize, Option<SpawnFn>, Data) -> c_int;
    connect: fn(Proc, usize, Info, usize, Option<OpFn>, Data) -> c_int;
    disconnect: fn(Proc, usize, Info, usize, Option<OpFn>, Data) -> c_int;
    register_events: fn(*mut c_int, usize, Info, usize, Option<OpFn>, Data) -> c_int;
    deregister_events: fn(*mut c_int, usize, Option<OpFn>, Data) -> c_int;
    listener: fn(c_int, Option<unsafe extern "C" fn(c_int, Data)>, Data) -> c_int;
    notify_event: fn(c_int, Proc, u8, *mut pmix_info_t, usize, Option<OpFn>, Data) -> c_int;
    query: fn(*mut pmix_proc_t, *mut pmix_query_t, usize, Option<InfoFn>, Data) -> c_int;
    tool_connected: fn(*mut pmix_info_t, usize, Option<ToolFn>, Data);
    log: fn(Proc, Info, usize, Info, usize, Option<OpFn>, Data);
    allocate: fn(Proc, u8, Info, usize, Option<InfoFn>, Data) -> c_int;
    job_control: fn(Proc, Proc, usize, Info, usize, Option<InfoFn>, Data) -> c_int;
    monitor: fn(Proc, Info, c_int, Info, usize, Option<InfoFn>, Data) -> c_int;
    get_credential: fn(Proc, Info, usize, Option<CredentialFn>, Data) -> c_int;
    validate_credential: fn(Proc, *const pmix_byte_object_t, Info, usize, Option<ValidationFn>, Data) -> c_int;
    iof_pull: fn(Proc, usize, Info, usize, u16, Option<OpFn>, Data) -> c_int;
    push_stdin: fn(Proc, Proc, usize, Info, usize, *const pmix_byte_object_t, Option<OpFn>, Data) -> c_int;
    group: fn(c_int, *mut c_char, Proc, usize, Info, usize, Option<InfoFn>, Data) -> c_int;
    fabric: fn(Proc, c_int, Info, usize, Option<InfoFn>, Data) -> c_int;
    client_connected2: fn(Proc, Data, *mut pmix_info_t, usize, Option<OpFn>, Data) -> c_int;
}

const _: () = assert!(size_of::<pmix_server_module_t>() == 224);

slots! {
    /// The slots that only some releases have, in the order of 6.1.
    Tail:
    tool_connected2: fn(*mut pmix_info_t, usize, Option<ToolFn>, Data) -> c_int;
    log2: fn(Proc, Info, usize, Info, usize, Option<OpFn>, Data) -> c_int;
    session_control: fn(Proc, u32, Info, usize, Option<InfoFn>, Data) -> c_int;
    resource_block: fn(
        Proc, u8, *const c_char, *const pmix_resource_unit_t, usize, Info, usize, Option<OpFn>, Data
    ) -> c_int;
}

/// Module that a host gave.
#[derive(Clone, Copy)]
pub struct Module {
    pub common: pmix_server_module_t,
    pub tail: Tail,
}

/// A slot behind the common ones, as it lies there.
type Word = *const c_void;

impl Module {
    /// Without functions.
    pub fn empty() -> Module {
        // SAFETY: empty slots are NULL.
        unsafe { std::mem::zeroed() }
    }

    /// Reads a module; NULL has no functions. `said` is the release that the host says it was compiled for.
    ///
    /// # Safety
    /// `module` is NULL, or a module of the release that the host says or its object's imports prove, or of any other.
    pub unsafe fn read(module: *const pmix_server_module_t, said: Option<Release>) -> Module {
        let mut read = Module::empty();
        if module.is_null() {
            return read;
        }
        // SAFETY: every release has these slots. Seen as words they are functions or NULL.
        let words: [Word; 28] = unsafe {
            read.common = module.read();
            module.cast::<[Word; 28]>().read()
        };
        let proof = || evidence::release_of(*words.iter().find(|word| !word.is_null())?);
        let places: &[usize] = match said.or_else(proof) {
            None => &[],
            Some(Release::V5_0) => &[2],
            Some(Release::V6_0) => &[2, 3],
            Some(Release::V6_1) => &[0, 1, 2, 3],
        };
        let mut tail: [Word; 4] = [std::ptr::null(); 4];
        for (i, place) in places.iter().enumerate() {
            // SAFETY: the release has that slot.
            let word = unsafe { module.cast::<Word>().add(28 + i).read() };
            if evidence::is_code(word) {
                tail[*place] = word;
            }
        }
        // SAFETY: each is NULL or leads to code, and stands where 6.1 has the function that its release has there.
        read.tail = unsafe { std::mem::transmute::<[Word; 4], Tail>(tail) };
        read
    }
}

/// The function in a slot.
///
/// # Errors
/// `ERR_NOT_SUPPORTED` for an empty one.
pub fn slot<F>(slot: Option<F>) -> Result<F, Status> {
    slot.ok_or(Status::ERR_NOT_SUPPORTED)
}
