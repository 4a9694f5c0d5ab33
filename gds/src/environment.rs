//! The environment of a process that the host is about to start: a C array of texts, which the host grows by `realloc`.
use std::ffi::{CStr, CString, c_char};

use instanton::data::{Nspace, Proc, Rank};
use instanton::internal::upstream::node;

/// The host's variable with its own address, in the encoding that every process of ours speaks.
const SERVER: &[u8] = b"PMIX_SERVER_URI41=";

/// The address of this process's server, if it was started by one.
pub fn server() -> Option<String> {
    let name = std::str::from_utf8(SERVER.strip_suffix(b"=").unwrap_or(SERVER)).ok()?;
    std::env::var(name).ok()
}

/// Returns whether the user of this process lets its library have a module.
pub fn admits(module: &str) -> bool {
    std::env::var("PMIX_MCA_gds").map_or(true, |list| is_in(&list, module))
}

/// Returns whether a list of the library's parameters, of names or behind `^` of those left out, lets it have a module.
fn is_in(list: &str, module: &str) -> bool {
    let names = |list: &str| list.split(',').any(|name| name.trim() == module);
    match list.strip_prefix('^') {
        Some(left_out) => !names(left_out),
        None => list.is_empty() || names(list),
    }
}

/// The name that this process was started with.
pub fn process() -> Option<Proc> {
    let nspace = std::env::var("PMIX_NAMESPACE").ok().and_then(|name| Nspace::new(name).ok())?;
    let rank = std::env::var("PMIX_RANK").ok()?.parse().ok()?;
    Some(Proc::new(nspace, Rank(rank))).filter(|proc| proc.rank.is_process())
}

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Adds the address of a job's segments, beside that of the server, and the number of its processes where that is
/// known. Returns whether they are there now.
///
/// # Safety
/// `environment` points to NULL, or to an array of texts that ends with NULL, both allocated by libc, or is `environ`.
pub unsafe fn add(environment: *mut *mut *mut c_char, address: &str, size: Option<u32>) -> bool {
    // SAFETY: as promised by the caller.
    let server = unsafe { texts(*environment) }.find_map(|text| text.to_bytes().strip_prefix(SERVER));
    // Without it nobody could tell whose the segments are.
    let Some(server) = server.map(|server| String::from_utf8_lossy(server).into_owned()) else { return false };
    let address = (node::VARIABLE, node::variable(address, &server));
    let size = size.map(|size| (node::SIZE_VARIABLE, size.to_string()));
    // SAFETY: as promised by the caller.
    std::iter::once(address).chain(size).all(|(name, value)| unsafe { set(environment, name, &value) })
}

/// The texts of an array.
///
/// # Safety
/// It is NULL, or an array of texts that ends with NULL and stays as it is.
unsafe fn texts<'a>(array: *mut *mut c_char) -> impl Iterator<Item = &'a CStr> {
    let places = (0..).take_while(move |_| !array.is_null());
    // SAFETY: as promised by the caller: none behind the last one is looked at.
    let texts = places.map(move |at| unsafe { *array.add(at) }).take_while(|text| !text.is_null());
    // SAFETY: as promised by the caller.
    texts.map(|text| unsafe { CStr::from_ptr(text) })
}

/// Sets a variable. Returns whether it is there now.
///
/// # Safety
/// As for [`add`].
unsafe fn set(environment: *mut *mut *mut c_char, name: &str, value: &str) -> bool {
    let (Ok(whole), Ok(key)) = (CString::new(format!("{name}={value}")), CString::new(name)) else { return false };
    // SAFETY: as promised by the caller.
    let (array, is_own) = unsafe { (*environment, *environment == environ) };
    if is_own {
        let value = &whole.as_c_str()[name.len() + 1..];
        // SAFETY: both are texts; the host has its own environment changed in this call.
        return unsafe { libc::setenv(key.as_ptr(), value.as_ptr(), 1) } == 0;
    }
    let is_it = |text: &CStr| text.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="));
    // SAFETY: as promised by the caller.
    let (known, len) = unsafe { (texts(array).position(is_it), texts(array).count()) };
    // SAFETY: as promised by the caller: the array and its texts are libc's, and belong to whoever holds the array.
    unsafe {
        let copy = libc::strdup(whole.as_ptr());
        if copy.is_null() {
            return false;
        }
        if let Some(at) = known {
            libc::free((*array.add(at)).cast());
            *array.add(at) = copy;
            return true;
        }
        let longer = libc::realloc(array.cast(), (len + 2) * size_of::<*mut c_char>()).cast::<*mut c_char>();
        if longer.is_null() {
            libc::free(copy.cast());
            return false;
        }
        *longer.add(len) = copy;
        *longer.add(len + 1) = std::ptr::null_mut();
        *environment = longer;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds an address to an environment, and shows what it is then.
    fn added(texts: &[&str], size: Option<u32>) -> (bool, Vec<String>) {
        // SAFETY: all of it is libc's.
        unsafe {
            let mut array = libc::calloc(texts.len() + 1, size_of::<*mut c_char>()).cast::<*mut c_char>();
            for (at, text) in texts.iter().enumerate() {
                let text = CString::new(*text).unwrap();
                *array.add(at) = libc::strdup(text.as_ptr());
            }
            let is_there = add(&raw mut array, "address", size);
            let mut found = Vec::new();
            while let Some(text) = (*array.add(found.len())).as_ref() {
                found.push(CStr::from_ptr(text).to_str().unwrap().to_owned());
            }
            found.iter().enumerate().for_each(|(at, _)| libc::free((*array.add(at)).cast()));
            libc::free(array.cast());
            (is_there, found)
        }
    }

    #[test]
    fn the_address_stands_beside_that_of_the_server() {
        let server = "PMIX_SERVER_URI41=x.0;tcp4://127.0.0.1:1";
        let variable = "INSTANTON_NODE_STORE=address;x.0;tcp4://127.0.0.1:1";
        assert_eq!(added(&["A=1", server], None), (true, vec!["A=1".into(), server.into(), variable.into()]));
        let size = "INSTANTON_NODE_STORE_SIZE=2000";
        let sized = vec![server.into(), variable.into(), size.into()];
        assert_eq!(added(&[server, "INSTANTON_NODE_STORE=x"], Some(2000)), (true, sized));
        // That of an outer launcher goes.
        let left = "INSTANTON_NODE_STORE=other;y.0;tcp4://127.0.0.1:1";
        assert_eq!(added(&[left, server], None), (true, vec![variable.into(), server.into()]));
    }

    #[test]
    fn a_list_says_which_modules_there_are() {
        let lists = ["", "hash", "instanton, hash", "^instanton", "^hash2", "instanton", "ds21", "^ds21,hash"];
        assert_eq!(lists.map(|list| is_in(list, "hash")), [true, true, true, true, true, false, false, false]);
    }

    #[test]
    fn without_a_server_nothing_is_added() {
        assert_eq!(added(&["A=1"], Some(2)), (false, vec!["A=1".into()]));
        assert_eq!(added(&[], None), (false, vec![]));
    }
}
