//! The library that has loaded this plug-in, found by the address of the call that came from it.
//!
//! Two copies of the library in one process are common (a program's own, and one within its MPI), so a symbol counts
//! only if it lies in the very object that called. The library that is found is held against the [`Layout`] of the
//! release: names, sizes of symbols, sizes of objects. The rest is proved when there are objects to look at
//! ([`proof`](crate::proof)).
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use crate::abi::{Class, Component, DataBuffer, ERROR, Layout, Module, Query, SUCCESS, UNMEASURED, Value, layout_of};
use crate::memory;

/// Packs values: `PMIx_Data_pack`.
type Pack = unsafe extern "C" fn(*const crate::abi::Proc, *mut DataBuffer, *const c_void, i32, u16) -> c_int;
/// Decompresses what the library has compressed: `PMIx_Data_decompress`.
type Decompress = unsafe extern "C" fn(*const u8, usize, *mut *mut u8, *mut usize) -> bool;
/// Type of a value, in packs.
const VALUE: u16 = 21;
/// Most functions that make an object: one for each class that it is of.
const MOST_FUNCTIONS: usize = 8;
/// Asks for the symbol's entry in the symbol table.
const SYMBOL_ENTRY: c_int = 1;

unsafe extern "C" {
    fn dladdr1(address: *const c_void, info: *mut libc::Dl_info, extra: *mut *mut c_void, flags: c_int) -> c_int;
}

/// A symbol of an ELF object of 64 bits.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// The host library, as far as it is needed.
pub struct Host {
    /// Address at which the library begins.
    base: usize,
    pub layout: &'static Layout,
    /// Address of the description of each class of the layout.
    pub value_entry: usize,
    pub buffer: usize,
    pub namespace: usize,
    pub peer: usize,
    pub rank: usize,
    /// The class of lists, where the layout has any.
    pub list: usize,
    pub globals: usize,
    /// The store to which everything is passed on: where it is, and its functions.
    pub module: usize,
    pub functions: Module,
    pack: Pack,
    decompress: Decompress,
}

/// An object that the loader has mapped.
struct Library {
    handle: *mut c_void,
    base: *mut c_void,
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened once in `of`; whoever has loaded it still holds it.
        unsafe { libc::dlclose(self.handle) };
    }
}

impl Library {
    /// The object that an address lies in.
    fn of(address: *const c_void) -> Result<Self, String> {
        let info = object_of(address).ok_or("the caller is in no library")?;
        // SAFETY: the loader's own text; with this flag nothing is loaded.
        let handle = unsafe { libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        match handle.is_null() {
            true => Err("the caller's library cannot be opened".into()),
            false => Ok(Self { handle, base: info.dli_fbase }),
        }
    }

    /// A symbol of this object, not of one that it needs. Returns its address and size.
    fn symbol(&self, name: &str) -> Result<(usize, usize), String> {
        let missing = || format!("it has no {name}");
        let text = CString::new(name).map_err(|_| missing())?;
        // SAFETY: the object is open, and `text` ends with a NUL.
        let address = unsafe { libc::dlsym(self.handle, text.as_ptr()) };
        let (mut info, mut entry) = (MaybeUninit::<libc::Dl_info>::zeroed(), ptr::null_mut::<c_void>());
        // SAFETY: both are valid for writes.
        let found = unsafe { dladdr1(address, info.as_mut_ptr(), &raw mut entry, SYMBOL_ENTRY) };
        // SAFETY: zeroes are a value of it as well.
        let info = unsafe { info.assume_init() };
        if address.is_null() || found == 0 || info.dli_fbase != self.base || entry.is_null() {
            return Err(missing());
        }
        // SAFETY: the loader's own symbol table, which lasts as long as the object.
        let size = unsafe { (*entry.cast::<Symbol>()).size };
        Ok((address as usize, size as usize))
    }

    fn variable(&self, name: &str, wanted: usize) -> Result<usize, String> {
        match self.symbol(name)? {
            (address, size) if size == wanted => Ok(address),
            (_, size) => Err(format!("its {name} has {size} bytes, and not {wanted}")),
        }
    }

    fn class(&self, layout: &Layout, class: Class) -> Result<usize, String> {
        let (description, size_at) = layout.class;
        let address = self.variable(class.symbol, description)?;
        match memory::pointer(address + size_at) {
            Ok(size) if [size, UNMEASURED].contains(&class.size) => Ok(address),
            Ok(size) => Err(format!("objects of its {} have {size} bytes, and not {}", class.symbol, class.size)),
            Err(error) => Err(format!("its {} cannot be read: {error}", class.symbol)),
        }
    }

    fn is_within(&self, address: usize) -> bool {
        object_of(address as *const c_void).is_some_and(|info| info.dli_fbase == self.base)
    }
}

fn object_of(address: *const c_void) -> Option<libc::Dl_info> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: valid for writes; the address is only compared.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) };
    // SAFETY: zeroes are a value of it as well.
    let info = unsafe { info.assume_init() };
    (found != 0 && !info.dli_fname.is_null()).then_some(info)
}

impl Host {
    /// The library that an address of a call lies in.
    ///
    /// # Errors
    /// Says what is not as it should be; nothing of it may be touched then.
    pub fn of(caller: *const c_void) -> Result<Host, String> {
        let library = Library::of(caller)?;
        let (version, _) = library.symbol("PMIx_Get_version")?;
        // SAFETY: a public function, which takes nothing and returns a text that lasts.
        let version = unsafe {
            let version: unsafe extern "C" fn() -> *const c_char = std::mem::transmute(version);
            CStr::from_ptr(version()).to_string_lossy()
        };
        let layout = layout_of(&version).ok_or_else(|| format!("{version:?} is not served"))?;
        let class = |class| library.class(layout, class);
        let (pack, _) = library.symbol("PMIx_Data_pack")?;
        let (decompress, _) = library.symbol("PMIx_Data_decompress")?;
        let (module, functions) = passed_on_to(&library, layout)?;
        Ok(Host {
            base: library.base as usize,
            layout,
            value_entry: class(layout.value_entry)?,
            buffer: class(layout.buffer)?,
            namespace: class(layout.namespace)?,
            peer: class(layout.peer)?,
            rank: class(layout.rank)?,
            list: layout.answers.map_or(Ok(0), |answers| class(answers.list))?,
            globals: library.variable("pmix_globals", layout.globals)?,
            module,
            functions,
            // SAFETY: a public function of this type in every release.
            pack: unsafe { std::mem::transmute::<usize, Pack>(pack) },
            // SAFETY: as above.
            decompress: unsafe { std::mem::transmute::<usize, Decompress>(decompress) },
        })
    }

    /// Returns whether an address of a call lies in this library.
    pub fn is_of(&self, caller: *const c_void) -> bool {
        object_of(caller).is_some_and(|info| info.dli_fbase as usize == self.base)
    }

    /// Makes an object of a class of memory that is zeros.
    ///
    /// # Errors
    /// The class is not what it is taken for; nothing is called then.
    ///
    /// # Safety
    /// The memory is as large as objects of the class are.
    pub unsafe fn construct(&self, class: usize, object: usize) -> io::Result<()> {
        let Some(answers) = self.layout.answers else { return Err(io::ErrorKind::Unsupported.into()) };
        // SAFETY: memory for an object, as promised by the caller.
        unsafe {
            ((object + self.layout.object_class) as *mut usize).write(class);
            ((object + answers.references) as *mut u32).write(1);
            self.call_each(class + answers.construct, object)
        }
    }

    /// Frees an entry of the host that nobody else has.
    ///
    /// # Safety
    /// It is one, in memory of libc's.
    pub unsafe fn release(&self, entry: usize) {
        let Some(answers) = self.layout.answers else { return };
        // SAFETY: as promised by the caller.
        if unsafe { self.call_each(self.value_entry + answers.destruct, entry) }.is_ok() {
            // SAFETY: as promised by the caller.
            unsafe { libc::free(entry as *mut c_void) };
        }
    }

    /// Calls the functions of a list, which ends with NULL, with an object.
    ///
    /// # Safety
    /// The object is one that the host's functions of its class take.
    unsafe fn call_each(&self, list: usize, object: usize) -> io::Result<()> {
        let first = memory::pointer(list)?;
        let all = (0..MOST_FUNCTIONS).map(|at| memory::pointer(first + 8 * at));
        let all = all.take_while(|function| !matches!(function, Ok(0))).collect::<io::Result<Vec<_>>>()?;
        if all.len() == MOST_FUNCTIONS || !all.iter().all(|function| self.is_of(*function as *const c_void)) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a class has functions of others"));
        }
        for function in all {
            // SAFETY: a function of the host's, which takes an object of the class.
            unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(usize)>(function)(object) };
        }
        Ok(())
    }

    /// Packs a value of the host, so that nobody else has to know what it is made of.
    ///
    /// # Safety
    /// The value is the host's own.
    pub unsafe fn packed(&self, value: *const Value) -> Option<Vec<u8>> {
        let nothing = ptr::null_mut();
        let mut buffer = DataBuffer { base: nothing, pack: nothing, unpack: nothing, allocated: 0, used: 0 };
        // SAFETY: as promised by the caller; without a target the library packs in its own way.
        let status = unsafe { (self.pack)(ptr::null(), &raw mut buffer, value.cast(), 1, VALUE) };
        let mut bytes = vec![0; if status == SUCCESS { buffer.used } else { 0 }];
        let read = memory::read(buffer.base as usize, &mut bytes);
        // SAFETY: the library has allocated it for its caller.
        unsafe { libc::free(buffer.base.cast()) };
        memory::forget();
        (status == SUCCESS && read.is_ok()).then_some(bytes)
    }

    /// Decompresses what a library of this release has compressed.
    pub fn decompressed(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let (mut found, mut len) = (ptr::null_mut(), 0);
        // SAFETY: the bytes are there, and the library allocates what it finds.
        let done = unsafe { (self.decompress)(bytes.as_ptr(), bytes.len(), &raw mut found, &raw mut len) };
        if !done || found.is_null() {
            return None;
        }
        let mut bytes = vec![0; len];
        let read = memory::read(found as usize, &mut bytes);
        // SAFETY: the library has allocated it for its caller.
        unsafe { libc::free(found.cast()) };
        memory::forget();
        read.is_ok().then_some(bytes)
    }
}

/// The module `hash` of the host: its address, and what is there.
fn passed_on_to(library: &Library, layout: &Layout) -> Result<(usize, Module), String> {
    // The symbol holds variables of the plug-in as well, behind what all have in common.
    let (address, size) = library.symbol("pmix_mca_gds_hash_component")?;
    let mut bytes = [0; size_of::<Component>()];
    let unreadable = |error| format!("its module hash cannot be read: {error}");
    if size < layout.component {
        return Err(format!("its component hash has {size} bytes"));
    }
    memory::read(address, &mut bytes[..layout.component]).map_err(unreadable)?;
    // SAFETY: any bits are a component; those that were not read are 0.
    let component: Component = unsafe { ptr::read_unaligned(bytes.as_ptr().cast()) };
    let own = &crate::pmix_mca_gds_instanton_component;
    let same = component.mca_version == own.mca_version
        && component.project == own.project
        && component.framework == own.framework
        && component.framework_version == [layout.interface, 0, 0]
        && component.name.starts_with(b"hash\0");
    let query = component.query.filter(|query| same && library.is_within(*query as usize));
    let query = query.ok_or("its component hash is another one")?;
    let module = ask(query).ok_or("its component hash gives no module")?;
    let mut bytes = [0; size_of::<Module>()];
    memory::read(module, &mut bytes[..layout.module]).map_err(unreadable)?;
    // Before they are taken for functions, and the flag for one.
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word) as usize);
    let functions: Vec<usize> = words.skip(2).collect();
    let known = functions.iter().all(|function| *function == 0 || library.is_within(*function));
    // SAFETY: any bits are a module but for the flag, which is held against what it can be.
    let found = (known && bytes[8] <= 1).then(|| unsafe { ptr::read_unaligned(bytes.as_ptr().cast::<Module>()) });
    let found = found.ok_or("its module hash has functions of others")?;
    let name = memory::text(found.name as usize).unwrap_or_default();
    let whole = found.register_job_info.is_some() && found.store.is_some();
    if name != b"hash" || !whole {
        return Err("its module hash is another one".into());
    }
    Ok((module, found))
}

/// Asks a component for its module.
fn ask(query: Query) -> Option<usize> {
    let (mut module, mut priority) = (ptr::null(), ERROR);
    // SAFETY: the host asks in the same way, as often as it likes.
    let status = unsafe { query(&raw mut module, &raw mut priority) };
    (status == SUCCESS && !module.is_null()).then_some(module as usize)
}
