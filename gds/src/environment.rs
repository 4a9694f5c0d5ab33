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

/// The name that this process was started with.
pub fn process() -> Option<Proc> {
    let nspace = std::env::var("PMIX_NAMESPACE").ok().and_then(|name| Nspace::new(name).ok())?;
    let rank = std::env::var("PMIX_RANK").ok()?.parse().ok()?;
    Some(Proc::new(nspace, Rank(rank))).filter(|proc| proc.rank.is_process())
}

unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Adds the address of a job's segments, beside that of the server. Returns whether it is there now.
///
/// # Safety
/// `environment` points to NULL, or to an array of texts that ends with NULL, both allocated by libc, or is `environ`.
pub unsafe fn add(environment: *mut *mut *mut c_char, address: &str) -> bool {
    // SAFETY: as promised by the caller.
    let (texts, is_own) = unsafe { (*environment, *environment == environ) };
    if texts.is_null() {
        return false;
    }
    let (mut len, mut server, mut known) = (0, None, None);
    let name = format!("{}=", node::VARIABLE);
    loop {
        // SAFETY: as promised by the caller; the last one is NULL.
        let text = unsafe { *texts.add(len) };
        if text.is_null() {
            break;
        }
        // SAFETY: a text, as promised.
        let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
        if let Some(found) = bytes.strip_prefix(SERVER) {
            server = Some(String::from_utf8_lossy(found).into_owned());
        } else if bytes.starts_with(name.as_bytes()) {
            known = Some(len);
        }
        len += 1;
    }
    // Without it nobody could tell whose the segments are.
    let Some(server) = server else { return false };
    let Ok(value) = CString::new(node::variable(address, &server)) else { return false };
    let Ok(whole) = CString::new([name.as_bytes(), value.to_bytes()].concat()) else { return false };
    if is_own {
        let name = CString::new(node::VARIABLE).unwrap_or_default();
        // SAFETY: both are texts; the host has its own environment changed in this call.
        return unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) } == 0;
    }
    // SAFETY: as promised by the caller: the array and its texts are libc's, and belong to whoever holds the array.
    unsafe {
        let copy = libc::strdup(whole.as_ptr());
        if copy.is_null() {
            return false;
        }
        if let Some(at) = known {
            libc::free((*texts.add(at)).cast());
            *texts.add(at) = copy;
            return true;
        }
        let longer = libc::realloc(texts.cast(), (len + 2) * size_of::<*mut c_char>()).cast::<*mut c_char>();
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
    fn added(texts: &[&str]) -> (bool, Vec<String>) {
        // SAFETY: all of it is libc's.
        unsafe {
            let mut array = libc::calloc(texts.len() + 1, size_of::<*mut c_char>()).cast::<*mut c_char>();
            for (at, text) in texts.iter().enumerate() {
                let text = CString::new(*text).unwrap();
                *array.add(at) = libc::strdup(text.as_ptr());
            }
            let is_there = add(&raw mut array, "address");
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
        assert_eq!(added(&["A=1", server]), (true, vec!["A=1".into(), server.into(), variable.into()]));
        // That of an outer launcher goes.
        let left = "INSTANTON_NODE_STORE=other;y.0;tcp4://127.0.0.1:1";
        assert_eq!(added(&[left, server]), (true, vec![variable.into(), server.into()]));
    }

    #[test]
    fn without_a_server_nothing_is_added() {
        assert_eq!(added(&["A=1"]), (false, vec!["A=1".into()]));
        assert_eq!(added(&[]), (false, vec![]));
    }
}
