//! Release that a host was compiled for: the only clue to the length of its server module.
//!
//! The module has no size and no version in it. The program that made it gives the release away: the object that the
//! module's functions lie in imports functions of this library, and each release has added some. Two kinds of imports
//! together are proof: the newest release's, or an older release's beside functions that the newest has dropped.
//! Without proof, the host can say it ([`VARIABLE`]); otherwise the module ends where the shortest one ends.
use std::ffi::{CStr, c_char, c_int, c_void};

use libc::{Elf64_Phdr, Elf64_Sym, dl_phdr_info};

/// The variable of a host's environment that names the release (`5.0`, `6.0` or `6.1`) that its server module is of.
pub const VARIABLE: &str = "INSTANTON_SERVER_MODULE";

/// The releases whose modules are longer than the shortest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    V5_0,
    V6_0,
    V6_1,
}

/// Functions that a release was the first to have. The modules of 6.1 and 7.0 are the same.
const SINCE_6_1: [&CStr; 22] = [
    c"PMIx_Alloc_inheritance_string",
    c"PMIx_Check_nspace_strict",
    c"PMIx_Check_procid_strict",
    c"PMIx_Heartbeat",
    c"PMIx_Node_pid_construct",
    c"PMIx_Node_pid_create",
    c"PMIx_Node_pid_destruct",
    c"PMIx_Node_pid_free",
    c"PMIx_Pdata_load",
    c"PMIx_Pdata_xfer",
    c"PMIx_Progress_thread_stop",
    c"PMIx_Rank_valid",
    c"PMIx_Regex2_construct",
    c"PMIx_Regex2_create",
    c"PMIx_Regex2_destruct",
    c"PMIx_Regex2_free",
    c"PMIx_Value_get_number",
    c"PMIx_generate_regex2",
    c"PMIx_parse_regex2",
    c"PMIx_server_IOF_flow_control",
    c"PMIx_server_deregister_session",
    c"PMIx_server_register_session",
];
const SINCE_6_0: [&CStr; 16] = [
    c"PMIx_Device_construct",
    c"PMIx_Device_create",
    c"PMIx_Device_destruct",
    c"PMIx_Device_free",
    c"PMIx_Group_operation_string",
    c"PMIx_Info_list_get_size",
    c"PMIx_Resource_block",
    c"PMIx_Resource_block_directive_string",
    c"PMIx_Resource_block_nb",
    c"PMIx_Resource_unit_construct",
    c"PMIx_Resource_unit_create",
    c"PMIx_Resource_unit_destruct",
    c"PMIx_Resource_unit_free",
    c"PMIx_Resource_unit_string",
    c"PMIx_server_collect_job_info",
    c"PMIx_server_generate_cpuset",
];
const SINCE_5_0: [&CStr; 6] = [
    c"PMIx_Info_list_add_unique",
    c"PMIx_Info_list_add_value",
    c"PMIx_Info_list_add_value_unique",
    c"PMIx_Info_list_xfer_unique",
    c"PMIx_Proc_string",
    c"PMIx_Session_control",
];

/// Returns whether 6.1 dropped a function: those of the statistics.
fn dropped_by_6_1(name: &[u8]) -> bool {
    name.starts_with(b"PMIx_") && name.windows(7).any(|part| part == b"_stats_")
}

/// Returns the release that a host names itself.
pub fn said(name: &[u8]) -> Option<Release> {
    match name {
        b"5.0" => Some(Release::V5_0),
        b"6.0" => Some(Release::V6_0),
        b"6.1" => Some(Release::V6_1),
        _ => None,
    }
}

/// Returns the release that these imports prove.
fn proved<'a>(imports: impl Iterator<Item = &'a CStr>) -> Option<Release> {
    let (mut v5_0, mut v6_0, mut v6_1, mut stats) = (false, false, false, false);
    for name in imports {
        v5_0 |= SINCE_5_0.contains(&name);
        v6_0 |= SINCE_6_0.contains(&name);
        v6_1 |= SINCE_6_1.contains(&name);
        stats |= dropped_by_6_1(name.to_bytes());
    }
    match (v6_1, stats) {
        // One that imports both was not made by any release's headers alone.
        (true, true) | (false, false) => None,
        (true, false) => Some(Release::V6_1),
        (false, true) if v6_0 => Some(Release::V6_0),
        (false, true) if v5_0 => Some(Release::V5_0),
        (false, true) => None,
    }
}

/// The release that the object was compiled for which `function` lies in, if its imports prove one.
pub fn release_of(function: *const c_void) -> Option<Release> {
    let mut release = None;
    with_object_of(function, |object| release = object.imports().and_then(|imports| proved(imports.into_iter())));
    release
}

/// Returns whether an address lies in the code of a loaded object, or in constants that its linker has put beside the
/// code.
pub fn is_code(address: *const c_void) -> bool {
    let mut code = false;
    with_object_of(address, |object| code = object.is_code(address.addr()));
    code
}

/// A loaded object.
struct Object<'a> {
    base: usize,
    headers: &'a [Elf64_Phdr],
}

/// An entry of the dynamic section.
#[repr(C)]
#[derive(Clone, Copy)]
struct Dynamic {
    tag: i64,
    value: usize,
}

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;

/// A place that the loader fills in with the address of a symbol.
#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    place: u64,
    info: u64,
    addend: i64,
}

impl Object<'_> {
    fn segments(&self, kind: u32) -> impl Iterator<Item = &Elf64_Phdr> {
        self.headers.iter().filter(move |header| header.p_type == kind)
    }

    fn has(&self, header: &Elf64_Phdr, address: usize) -> bool {
        let start = self.base.wrapping_add(header.p_vaddr as usize);
        (start..start.saturating_add(header.p_memsz as usize)).contains(&address)
    }

    fn is_code(&self, address: usize) -> bool {
        self.segments(libc::PT_LOAD).any(|header| header.p_flags & libc::PF_X != 0 && self.has(header, address))
    }

    /// Returns an entry of the object's dynamic section.
    fn entry(&self, tag: i64) -> Option<usize> {
        let dynamic = self.segments(libc::PT_DYNAMIC).next()?;
        let mut at = std::ptr::with_exposed_provenance::<Dynamic>(self.base.wrapping_add(dynamic.p_vaddr as usize));
        loop {
            // SAFETY: the dynamic section of a loaded object is mapped, and ends with an entry of tag 0.
            let entry = unsafe { *at };
            match entry.tag {
                0 => return None,
                found if found == tag => return Some(entry.value),
                _ => at = at.wrapping_add(1),
            }
        }
    }

    /// A table that the dynamic section leads to.
    fn table<T>(&self, tag: i64) -> Option<*const T> {
        let address = self.entry(tag)?;
        // Most loaders have put the base in already.
        let address = if address < self.base { self.base + address } else { address };
        Some(std::ptr::with_exposed_provenance(address))
    }

    /// The names of what the object takes from others: each has a place that the loader fills in.
    fn imports(&self) -> Option<Vec<&CStr>> {
        let (symbols, names) = (self.table::<Elf64_Sym>(DT_SYMTAB)?, self.table::<c_char>(DT_STRTAB)?);
        let relocations = |table, size| {
            let table = self.table::<Relocation>(table);
            let count = self.entry(size).unwrap_or(0) / size_of::<Relocation>();
            // SAFETY: the dynamic section says where the table is and how long.
            table.map_or(&[][..], |table| unsafe { std::slice::from_raw_parts(table, count) })
        };
        let import = |relocation: &Relocation| {
            // SAFETY: the loader has looked at the same symbol and at its name.
            unsafe {
                let symbol = &*symbols.add((relocation.info >> 32) as usize);
                (symbol.st_shndx == 0).then(|| CStr::from_ptr(names.add(symbol.st_name as usize)))
            }
        };
        let all = relocations(DT_RELA, DT_RELASZ).iter().chain(relocations(DT_JMPREL, DT_PLTRELSZ));
        Some(all.filter_map(import).collect())
    }
}

/// Calls `f` with the object that an address lies in, if there is one.
fn with_object_of(address: *const c_void, mut f: impl FnMut(&Object<'_>)) {
    struct Search<'a> {
        address: usize,
        found: &'a mut dyn FnMut(&Object<'_>),
    }
    unsafe extern "C" fn look(info: *mut dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object, and the search below; both live for the call.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search<'_>>()) };
        // SAFETY: that many headers are there, as the loader says.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let object = Object { base: info.dlpi_addr as usize, headers };
        let here = object.segments(libc::PT_LOAD).any(|header| object.has(header, search.address));
        if here {
            (search.found)(&object);
        }
        c_int::from(here)
    }
    let mut search = Search { address: address.addr(), found: &mut f };
    // SAFETY: `look` takes what it is given here, and does not outlive the call. It cannot panic.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton_layout::sync::AtomicU8;

    #[test]
    fn imports_prove_a_release_or_nothing() {
        let of = |names: &[&'static CStr]| proved(names.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[c"PMIx_Init", c"PMIx_Heartbeat"]), Some(Release::V6_1));
        assert_eq!(of(&[c"PMIx_Init", c"PMIx_Check_procid_strict"]), Some(Release::V6_1));
        assert_eq!(of(&[c"PMIx_Proc_string"]), None, "6.1 has it too, and there the slot is another");
        assert_eq!(of(&[c"PMIx_Disk_stats_construct"]), None, "so has 4.2");
        assert_eq!(of(&[c"PMIx_Proc_string", c"PMIx_Disk_stats_construct"]), Some(Release::V5_0));
        let late = [c"PMIx_Proc_string", c"PMIx_Device_free", c"PMIx_Net_stats_create"];
        assert_eq!(of(&late), Some(Release::V6_0));
        assert_eq!(of(&[c"PMIx_Heartbeat", c"PMIx_Net_stats_create"]), None);
    }

    #[test]
    fn an_object_is_found_with_its_code_and_its_imports() {
        let code = release_of as *const c_void;
        // Data that may change: what may not lies beside the code on some processors.
        static DATA: AtomicU8 = AtomicU8::new(0);
        assert!(is_code(code) && !is_code((&raw const DATA).cast()) && !is_code(std::ptr::null()));
        assert_eq!(release_of(code), None);
        let mut names = 0;
        with_object_of(code, |object| names = object.imports().unwrap().len());
        assert!(names > 10, "this program uses libc");
    }
}
