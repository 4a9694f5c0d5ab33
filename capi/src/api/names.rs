//! Keys, namespaces and processes: checks, comparisons and copies. None of these needs an initialised library.
use instanton::data::Rank;
use libc::c_char;

use crate::alloc::{self, bounded, set_name};
use crate::boundary::export;
use crate::owned::Owned;
use crate::print;
use crate::types::*;

/// One that is not given equals every other.
unsafe fn same_nspace(a: *const c_char, b: *const c_char) -> bool {
    // SAFETY: as in `nspace`.
    let (a, b) = unsafe { (nspace(a), nspace(b)) };
    a.is_empty() || b.is_empty() || a == b
}

/// Separator of cluster and namespace in the name of a namespace of another cluster.
const CLUSTER_SEPARATOR: u8 = b':';

/// A namespace as far as it goes; a NULL is an empty one.
unsafe fn nspace<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: a C string or a fixed array, the contract with C.
    unsafe { bounded(text, NSPACE_SIZE - 1) }
}

fn same_rank(a: u32, b: u32) -> bool {
    a == b || a == Rank::WILDCARD.0 || b == Rank::WILDCARD.0
}

export! {
    /// Returns whether two keys are equal.
    fn PMIx_Check_key(key: *const c_char, text: *const c_char) -> bool {
        !key.is_null() && !text.is_null() && libc::strncmp(key, text, KEY_SIZE - 1) == 0
    }

    /// Returns whether a key is one of the Standard's.
    fn PMIx_Check_reserved_key(key: *const c_char) -> bool {
        !key.is_null() && libc::strncmp(key, c"pmix".as_ptr(), 4) == 0
    }

    /// Returns whether two namespaces are equal. One that is not given equals every other.
    fn PMIx_Check_nspace(a: *const c_char, b: *const c_char) -> bool {
        same_nspace(a, b)
    }

    /// Returns whether two namespaces are equal; one that is not given equals none.
    fn PMIx_Check_nspace_strict(a: *const c_char, b: *const c_char) -> bool {
        !nspace(a).is_empty() && nspace(a) == nspace(b)
    }

    /// Returns whether a namespace is not given.
    fn PMIx_Nspace_invalid(text: *const c_char) -> bool {
        nspace(text).is_empty()
    }

    /// Returns whether two ranks are equal, wildcards on either side included.
    fn PMIx_Check_rank(a: u32, b: u32) -> bool {
        same_rank(a, b)
    }

    /// Returns whether two processes are equal, wildcards on either side included.
    fn PMIx_Check_procid(a: *const pmix_proc_t, b: *const pmix_proc_t) -> bool {
        match (a.as_ref(), b.as_ref()) {
            (Some(a), Some(b)) => same_nspace(a.nspace.as_ptr(), b.nspace.as_ptr()) && same_rank(a.rank, b.rank),
            _ => false,
        }
    }

    /// Returns whether two processes have equal names; a wildcard equals itself alone.
    fn PMIx_Check_procid_strict(a: *const pmix_proc_t, b: *const pmix_proc_t) -> bool {
        match (a.as_ref(), b.as_ref()) {
            (Some(a), Some(b)) => PMIx_Check_nspace_strict(a.nspace.as_ptr(), b.nspace.as_ptr()) && a.rank == b.rank,
            _ => false,
        }
    }

    /// Returns whether a process identifier names nobody.
    fn PMIx_Procid_invalid(p: *const pmix_proc_t) -> bool {
        p.as_ref().is_none_or(|p| nspace(p.nspace.as_ptr()).is_empty() || p.rank == Rank::INVALID.0)
    }

    /// Fills a key and the rest of its array with NULs.
    fn PMIx_Load_key(key: *mut c_char, src: *const c_char) {
        if let Some(key) = key.cast::<pmix_key_t>().as_mut() {
            set_name(key, bounded(src, KEY_SIZE - 1));
        }
    }

    /// Fills a namespace and the rest of its array with NULs.
    fn PMIx_Load_nspace(place: *mut c_char, src: *const c_char) {
        if let Some(place) = place.cast::<pmix_nspace_t>().as_mut() {
            set_name(place, nspace(src));
        }
    }

    /// Fills a process.
    fn PMIx_Load_procid(p: *mut pmix_proc_t, name: *const c_char, rank: u32) {
        PMIx_Proc_load(p, name, rank);
    }

    /// Fills a process.
    fn PMIx_Proc_load(p: *mut pmix_proc_t, name: *const c_char, rank: u32) {
        if let Some(p) = p.as_mut() {
            let mut new = pmix_proc_t { rank, ..Owned::constructed() };
            set_name(&mut new.nspace, nspace(name));
            *p = new;
        }
    }

    /// Copies a process.
    fn PMIx_Xfer_procid(dst: *mut pmix_proc_t, src: *const pmix_proc_t) {
        if !dst.is_null() && !src.is_null() {
            std::ptr::copy(src, dst, 1);
        }
    }

    /// Names a namespace of another cluster.
    fn PMIx_Multicluster_nspace_construct(target: *mut c_char, cluster: *mut c_char, name: *mut c_char) {
        if let Some(place) = target.cast::<pmix_nspace_t>().as_mut() {
            let whole = [nspace(cluster), nspace(name)].join(&CLUSTER_SEPARATOR);
            // Half a name would be another namespace's.
            set_name(place, if whole.len() < NSPACE_SIZE { &whole } else { b"" });
        }
    }

    /// The two parts of such a name. One without a separator is a cluster alone.
    fn PMIx_Multicluster_nspace_parse(target: *mut c_char, cluster: *mut c_char, name: *mut c_char) {
        let whole = nspace(target);
        let at = whole.iter().position(|b| *b == CLUSTER_SEPARATOR);
        let (first, second) = at.map_or((whole, &whole[..0]), |at| (&whole[..at], &whole[at + 1..]));
        if let (Some(cluster), Some(name)) =
            (cluster.cast::<pmix_nspace_t>().as_mut(), name.cast::<pmix_nspace_t>().as_mut())
        {
            set_name(cluster, first);
            set_name(name, second);
        }
    }

    /// A text for a process, the caller's to free.
    fn PMIx_Proc_string(p: *const pmix_proc_t) -> *mut c_char {
        let text = match p.as_ref() {
            Some(p) => print::named(p),
            None => alloc::text(b"[NO-NAME]"),
        };
        text.unwrap_or(std::ptr::null_mut())
    }
}
