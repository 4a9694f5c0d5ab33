//! Tables that the host library and its plug-ins share, and where things lie in the host's objects.
//!
//! All numbers were measured: sizes and offsets by `sizeof` and `offsetof` in a program that was compiled against the
//! development package of the release, sizes of symbols in the symbol table of its library. Nothing here is believed
//! before it has been held against the library that is there ([`proof`](crate::proof)).
use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

use instanton::internal::stock::SERVED;

/// Status of the reference implementation: all is well.
pub const SUCCESS: c_int = 0;
/// Something has failed.
pub const ERROR: c_int = -1;
/// There is none.
pub const NOT_FOUND: c_int = -46;
/// Another module may do it.
pub const TAKE_NEXT: c_int = -1366;
/// This is not for me.
pub const NOT_SUPPORTED: c_int = -47;

/// Version of the interface of modules that the plug-in says it has: what the latest release asks for, while those
/// before 7.0 ask nothing.
pub const INTERFACE: c_int = 2;

/// A process, in the public ABI.
#[repr(C)]
pub struct Proc {
    pub nspace: [u8; 256],
    pub rank: u32,
}

/// An attribute, in the public ABI.
#[repr(C)]
pub struct Info {
    pub key: [u8; 512],
    pub flags: u32,
    pub value: Value,
}

/// A value, in the public ABI.
#[repr(C)]
pub struct Value {
    pub data_type: u16,
    pub data: [*mut c_void; 3],
}

/// A buffer for `PMIx_Data_pack`, in the public ABI.
#[repr(C)]
pub struct DataBuffer {
    pub base: *mut u8,
    pub pack: *mut u8,
    pub unpack: *mut u8,
    pub allocated: usize,
    pub used: usize,
}

const _: () = {
    assert!(size_of::<Proc>() == 260 && offset_of!(Proc, rank) == 256);
    assert!(size_of::<Value>() == 32 && offset_of!(Value, data) == 8);
    assert!(size_of::<Info>() == 552 && offset_of!(Info, value) == 520);
    assert!(size_of::<DataBuffer>() == 40 && offset_of!(DataBuffer, used) == 32);
};

/// A function of a module, whatever it takes.
pub type Function = unsafe extern "C" fn();
/// Function that is only handed on.
pub type Any = Option<Function>;
/// A host's object that is only handed on.
pub type Object = *mut c_void;

/// Functions of a store ("module"). Those that this plug-in takes part in have the same place and type in all releases;
/// the others are handed on, whatever they are.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Module {
    pub name: *const c_char,
    pub is_threadsafe: bool,
    pub init: Option<unsafe extern "C" fn(*const Info, usize) -> c_int>,
    pub finalize: Option<unsafe extern "C" fn()>,
    pub assign_module: Option<unsafe extern "C" fn(*const Info, usize, *mut c_int) -> c_int>,
    pub cache_job_info: Any,
    pub register_job_info: Option<unsafe extern "C" fn(Object, Object) -> c_int>,
    pub store_job_info: Any,
    pub store: Option<unsafe extern "C" fn(*const Proc, u8, Object) -> c_int>,
    pub store_modex: Option<StoreModex>,
    pub fetch: Any,
    pub setup_fork: Option<unsafe extern "C" fn(*const Proc, *mut *mut *mut c_char) -> c_int>,
    pub add_nspace: Option<unsafe extern "C" fn(*const c_char, u32, *const Info, usize) -> c_int>,
    pub del_nspace: Option<unsafe extern "C" fn(*const c_char) -> c_int>,
    /// As many as the release has: three in 4.2, five in 5.0, eleven in 7.0. No others are looked at.
    pub rest: [Any; 11],
}

const _: () = {
    assert!(size_of::<Module>() == 200);
    assert!(offset_of!(Module, name) == 0 && offset_of!(Module, is_threadsafe) == 8);
    assert!(offset_of!(Module, init) == 16 && offset_of!(Module, finalize) == 24);
    assert!(offset_of!(Module, assign_module) == 32 && offset_of!(Module, cache_job_info) == 40);
    assert!(offset_of!(Module, register_job_info) == 48 && offset_of!(Module, store_job_info) == 56);
    assert!(offset_of!(Module, store) == 64 && offset_of!(Module, store_modex) == 72);
    assert!(offset_of!(Module, fetch) == 80 && offset_of!(Module, setup_fork) == 88);
    assert!(offset_of!(Module, add_nspace) == 96 && offset_of!(Module, del_nspace) == 104);
    assert!(offset_of!(Module, rest) == 112);
};

// SAFETY: what it points to are functions and a text, which last.
unsafe impl Sync for Module {}
// SAFETY: as above.
unsafe impl Send for Module {}

/// The host stores what a collecting fence has brought. Up to 5.0 it is called with the namespace, the buffer, and the
/// tracker of the fence; in 6.0 and 6.1 with the buffer and the tracker, so that the third is nothing; then with the
/// buffer, a name and the tracker.
pub type StoreModex = unsafe extern "C" fn(Object, Object, Object) -> c_int;

/// Functions of 7.0: a client is told of a job, a key is looked up, a key of a process is gone, and the host has more
/// to say of a job that it has registered.
pub type StoreJobInfo = unsafe extern "C" fn(*const c_char, Object) -> c_int;
pub type Fetch =
    unsafe extern "C" fn(Object, *const Proc, u8, bool, *const c_char, *const Info, usize, u32, Object) -> c_int;
pub type DeleteKey = unsafe extern "C" fn(*const Proc, *const c_char) -> c_int;
pub type AddJobData = unsafe extern "C" fn(*const c_char, *const Info, usize) -> c_int;

/// Asks a plug-in for its module, and how much it wants to be taken.
pub type Query = unsafe extern "C" fn(*mut *const Module, *mut c_int) -> c_int;

/// A plug-in ("component"), as the host finds it by its symbol: the same in all releases since 4.2, which had 40 bytes
/// more behind it.
#[repr(C)]
pub struct Component {
    pub mca_version: [c_int; 3],
    pub project: [u8; 16],
    pub project_version: [c_int; 3],
    pub framework: [u8; 32],
    pub framework_version: [c_int; 3],
    pub name: [u8; 64],
    pub version: [c_int; 3],
    pub open: Any,
    pub close: Any,
    pub query: Option<Query>,
    pub register: Any,
    pub reserved: [u8; 32],
    /// The first number says that there is nothing to say of checkpoints.
    pub data: [u32; 9],
    pub unused: u32,
}

const _: () = {
    assert!(size_of::<Component>() == 264);
    assert!(offset_of!(Component, project) == 12 && offset_of!(Component, project_version) == 28);
    assert!(offset_of!(Component, framework) == 40 && offset_of!(Component, framework_version) == 72);
    assert!(offset_of!(Component, name) == 84 && offset_of!(Component, version) == 148);
    assert!(offset_of!(Component, open) == 160 && offset_of!(Component, close) == 168);
    assert!(offset_of!(Component, query) == 176 && offset_of!(Component, register) == 184);
    assert!(offset_of!(Component, reserved) == 192 && offset_of!(Component, data) == 224);
};

// SAFETY: it is a constant, and what it points to are functions and texts.
unsafe impl Sync for Component {}

/// A class of objects: its exported description, and the number of bytes that an object has.
#[derive(Clone, Copy)]
pub struct Class {
    pub symbol: &'static str,
    pub size: usize,
}

/// Size of objects that was not measured: the names in them prove them.
pub const UNMEASURED: usize = 0;

/// Lists of entries by which a module answers.
#[derive(Clone, Copy)]
pub struct Answers {
    pub list: Class,
    /// Offset in a list of the entry that is none, which follows the last one and comes before the first.
    pub sentinel: usize,
    /// Offset in a list of the number of its entries.
    pub count: usize,
    /// Offsets in an entry of those beside it.
    pub next: usize,
    pub previous: usize,
    /// Offset in an object of the number of its owners.
    pub references: usize,
    /// Offsets in the description of a class of its functions that make and unmake an object, NULL behind the last.
    pub construct: usize,
    pub destruct: usize,
}

/// How a release exchanges posted data when a fence collects.
#[derive(Clone, Copy)]
pub enum Exchange {
    /// Processes are named by their places among the participants, of which the tracker of the fence has an array.
    ByPlace {
        /// Offset in the tracker of the array of participants, and of their number behind it.
        participants: usize,
    },
    /// Processes are named.
    ByName,
}

/// Offsets in the objects of a release.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Size of the description of a class, and where it has the size of an object.
    pub class: (usize, usize),
    /// Offset of an object's class.
    pub object_class: usize,
    pub value_entry: Class,
    pub value_entry_key: usize,
    pub value_entry_value: usize,
    pub buffer: Class,
    pub buffer_base: usize,
    pub buffer_used: usize,
    pub namespace: Class,
    pub namespace_name: usize,
    /// Offset of a namespace's module, in its table of modules.
    pub namespace_module: usize,
    pub peer: Class,
    pub peer_namespace: usize,
    pub peer_rank: usize,
    pub rank: Class,
    /// The name of a process: a pointer to the namespace's, and a rank behind it.
    pub rank_name: usize,
    pub rank_user: usize,
    /// The library's own variables.
    pub globals: usize,
    pub globals_name: usize,
    pub globals_peer: usize,
    /// Offset of the module that a peer has instead of its namespace's, where the release knows that.
    pub peer_module: Option<usize>,
    /// Version of the interface of modules, which the release's own say they have.
    pub interface: c_int,
    /// Places in a module's [`rest`](Module::rest) of what later releases have: the deletion of a key, more information
    /// of a job, and what else they call in all of their modules and not only in a peer's.
    pub delete_key: Option<usize>,
    pub add_job_data: Option<usize>,
    pub for_all: &'static [usize],
    /// Offset in a peer of the three numbers of its release, a byte each.
    pub peer_release: usize,
    pub exchange: Exchange,
    /// True if data that a fence has collected is told to the host's own module, whatever those of its clients are.
    pub exchange_of_own: bool,
    /// How a module answers on the thread that asks, where the release lets it.
    pub answers: Option<Answers>,
    /// Sizes of the component and of the module that plug-ins of the release have.
    pub component: usize,
    pub module: usize,
}

/// Release 4.2.2, as Debian 12 has it.
const V4_2: Layout = Layout {
    class: (64, 56),
    object_class: 40,
    value_entry: Class { symbol: "pmix_kval_t_class", size: 152 },
    value_entry_key: 136,
    value_entry_value: 144,
    buffer: Class { symbol: "pmix_buffer_t_class", size: 160 },
    buffer_base: 120,
    buffer_used: 152,
    namespace: Class { symbol: "pmix_namespace_t_class", size: 1808 },
    namespace_name: 136,
    namespace_module: 456 + 24,
    peer: Class { symbol: "pmix_peer_t_class", size: 1488 },
    peer_namespace: 112,
    peer_rank: 120,
    rank: Class { symbol: "pmix_rank_info_t_class", size: 184 },
    rank_name: 144,
    rank_user: 160,
    globals: 2944,
    globals_name: 4,
    globals_peer: 328,
    peer_module: None,
    interface: 1,
    delete_key: None,
    add_job_data: None,
    for_all: &[],
    peer_release: 128 + 4,
    exchange: Exchange::ByPlace { participants: 552 },
    exchange_of_own: false,
    answers: None,
    component: 264,
    module: 136,
};

/// Releases 5.0.7, as Debian 13 has it, and 5.0.8.
const V5_0_7: Layout = Layout {
    value_entry: Class { symbol: "pmix_kval_t_class", size: 160 },
    value_entry_key: 144,
    value_entry_value: 152,
    buffer: Class { symbol: "pmix_buffer_t_class", size: 168 },
    buffer_base: 128,
    buffer_used: 160,
    namespace: Class { symbol: "pmix_namespace_t_class", size: 1912 },
    namespace_name: 144,
    namespace_module: 480 + 24,
    peer: Class { symbol: "pmix_peer_t_class", size: 1560 },
    peer_namespace: 120,
    peer_rank: 128,
    rank: Class { symbol: "pmix_rank_info_t_class", size: 192 },
    rank_name: 152,
    rank_user: 168,
    globals: 3064,
    peer_release: 136 + 4,
    exchange: Exchange::ByPlace { participants: 560 },
    exchange_of_own: true,
    component: 224,
    module: 152,
    ..V4_2
};

/// Release 5.0.9: a process has more users.
const V5_0_9: Layout =
    Layout { rank: Class { symbol: "pmix_rank_info_t_class", size: 208 }, rank_user: 176, globals: 3080, ..V5_0_7 };

/// Releases 5.0.10 and 5.0.11.
const V5_0_10: Layout =
    Layout { namespace: Class { symbol: "pmix_namespace_t_class", size: 1904 }, namespace_module: 472 + 24, ..V5_0_9 };

/// Releases 6.0 and 6.1, whose servers name the processes of a collecting fence. Never run here: measured elsewhere, but
/// for the processes, which are taken to be those of 5.0.11.
const V6_1: Layout = Layout {
    peer: Class { symbol: "pmix_peer_t_class", size: 1576 },
    globals: 3088,
    globals_name: 8,
    globals_peer: 336,
    exchange: Exchange::ByName,
    ..V5_0_10
};

/// Release 7.0.0rc1, as Debian's testing suite has it.
const V7_0: Layout = Layout {
    object_class: 0,
    value_entry: Class { symbol: "pmix_kval_t_class", size: 104 },
    value_entry_key: 88,
    value_entry_value: 96,
    buffer: Class { symbol: "pmix_buffer_t_class", size: 120 },
    buffer_base: 80,
    buffer_used: 112,
    namespace: Class { symbol: "pmix_namespace_t_class", size: 1400 },
    namespace_name: 88,
    namespace_module: 488 + 24,
    peer: Class { symbol: "pmix_peer_t_class", size: 1120 },
    peer_namespace: 72,
    peer_rank: 88,
    peer_module: Some(80),
    rank: Class { symbol: "pmix_rank_info_t_class", size: 504 },
    rank_name: 96,
    rank_user: 120,
    globals: 2584,
    globals_name: 8,
    globals_peer: 336,
    interface: 2,
    delete_key: Some(0),
    add_job_data: Some(10),
    // Sessions that come and go.
    for_all: &[6, 7],
    peer_release: 96 + 4,
    exchange: Exchange::ByName,
    exchange_of_own: false,
    answers: Some(Answers {
        list: Class { symbol: "pmix_list_t_class", size: 168 },
        sentinel: 72,
        count: 160,
        next: 72,
        previous: 80,
        references: 8,
        construct: 40,
        destruct: 48,
    }),
    component: 224,
    module: 200,
    ..V4_2
};

/// Layout before 7.0.0rc1, as it was in August 2026. Never run here: measured elsewhere, but for the processes. How its
/// modules answer on the thread that asks is not known, so its stock clients are told by the host.
const V7_0_EARLY: Layout = Layout {
    rank: Class { symbol: "pmix_rank_info_t_class", size: UNMEASURED },
    globals: 2560,
    interface: 1,
    add_job_data: None,
    for_all: &[],
    answers: None,
    module: 160,
    ..V7_0
};

/// The layouts of the releases that are [`SERVED`], by their names.
static LAYOUTS: [(&str, Layout); SERVED.len()] = [
    ("4.2.2rc2", V4_2),
    ("5.0.7a1", V5_0_7),
    ("5.0.8a1", V5_0_7),
    ("5.0.8", V5_0_7),
    ("5.0.9a1", V5_0_9),
    ("5.0.9", V5_0_9),
    ("5.0.10", V5_0_10),
    ("5.0.11rc1", V5_0_10),
    ("5.0.11", V5_0_10),
    ("6.0.0", V6_1),
    ("6.1.0", V6_1),
    ("6.1.1rc2", V6_1),
    ("6.1.1", V6_1),
    ("7.0.0a1", V7_0_EARLY),
    ("7.0.0rc1", V7_0),
];

const _: () = {
    let mut at = 0;
    while at < LAYOUTS.len() {
        let (_, layout) = &LAYOUTS[at];
        assert!(layout.component <= size_of::<Component>() && layout.module <= size_of::<Module>());
        at += 1;
    }
};

/// The layout of a release, if it is served: its whole name counts, up to what it says of the Standard. All others are
/// declined.
pub fn layout_of(version: &str) -> Option<&'static Layout> {
    let name = version.split(" (").next()?.strip_prefix("OpenPMIx ")?;
    LAYOUTS.iter().find(|(served, _)| *served == name).map(|(_, layout)| layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_served_by_its_exact_name() {
        let module = |version| layout_of(version).map(|layout| layout.module);
        let of_4_2 = "OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2, Stable ABI: 0.0, Provisional ABI: 0.0)";
        let of_5_0 = "OpenPMIx 5.0.7a1 (PMIx Standard: 5.1, Stable ABI: 5.0, Provisional ABI: 5.0)";
        let of_7_0 = "OpenPMIx 7.0.0rc1 (PMIx Standard: 4.1, Stable ABI: 0.0, Provisional ABI: 0.0)";
        assert_eq!((module(of_4_2), module(of_5_0), module(of_7_0)), (Some(136), Some(152), Some(200)));
        let globals = |release: &str| layout_of(&format!("OpenPMIx {release} (x)")).map(|layout| layout.globals);
        let of_5 = ["5.0.8a1", "5.0.8", "5.0.9a1", "5.0.9", "5.0.10", "5.0.11rc1", "5.0.11"].map(globals);
        assert_eq!(of_5, [3064, 3064, 3080, 3080, 3080, 3080, 3080].map(Some));
        assert_eq!(
            ["6.0.0", "6.1.0", "6.1.1rc2", "6.1.1", "7.0.0a1"].map(globals),
            [3088, 3088, 3088, 3088, 2560].map(Some)
        );
        assert!(LAYOUTS.iter().map(|(name, _)| format!("OpenPMIx {name}")).eq(SERVED));
        for other in
            ["", "OpenPMIx 4.2.2", "OpenPMIx 4.2.20rc2", "OpenPMIx 5.0.7 (x)", "OpenPMIx 7.0.0rc2 (x)", "4.2.2rc2"]
        {
            assert!(layout_of(other).is_none(), "{other:?}");
        }
    }
}
