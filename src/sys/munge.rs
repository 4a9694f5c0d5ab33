//! libmunge, where that library is installed: credentials that a service of the machine makes and takes apart, which
//! says for sure which user has asked for each.
//!
//! The library is loaded when it is asked for and never linked. A call talks to the service and waits for it, so no
//! thread may make one that others wait for.
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use nix::libc;

use super::loaded::Loaded;

/// The name of every libmunge of major version 2.
const LIBRARY: &CStr = c"libmunge.so.2";
/// `EMUNGE_SUCCESS`.
const SUCCESS: c_int = 0;

/// User and group of whoever has had a credential made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// `munge_encode`.
type Encode = unsafe extern "C" fn(*mut *mut c_char, *mut c_void, *const c_void, c_int) -> c_int;
/// `munge_decode`.
type Decode =
    unsafe extern "C" fn(*const c_char, *mut c_void, *mut *mut c_void, *mut c_int, *mut u32, *mut u32) -> c_int;

struct Munge {
    encode: Encode,
    decode: Decode,
}

/// The library; none where it is not installed.
fn library() -> Option<&'static Munge> {
    static MUNGE: OnceLock<Option<Munge>> = OnceLock::new();
    MUNGE.get_or_init(load).as_ref()
}

fn load() -> Option<Munge> {
    // SAFETY:
    // - The constructors of libmunge are trusted to run at any time on any thread.
    // - libmunge.so.2 is trusted to keep the signatures that munge(3) gives these names.
    unsafe {
        let library = Loaded::load(LIBRARY)?;
        let (encode, decode) = (library.function(c"munge_encode")?, library.function(c"munge_decode")?);
        Some(Munge { encode, decode })
    }
}

/// Makes a credential of this process's user; none without the library, or where the service does not answer.
pub fn make() -> Option<Vec<u8>> {
    let munge = library()?;
    let mut made: *mut c_char = ptr::null_mut();
    // SAFETY:
    // - No context means the defaults, and no payload needs no bytes: munge(3) allows both.
    // - `made` is where the result goes.
    let status = unsafe { (munge.encode)(&raw mut made, ptr::null_mut(), ptr::null(), 0) };
    if made.is_null() {
        return None;
    }
    // SAFETY: a credential is NUL-terminated text from malloc, which is ours.
    let text = unsafe { CStr::from_ptr(made) }.to_bytes().to_vec();
    // SAFETY: as above; nobody looks at it any more.
    unsafe { libc::free(made.cast()) };
    (status == SUCCESS).then_some(text)
}

/// Returns the owner of a credential; none for one that is forged, too old or was judged before, and where the service
/// does not answer.
pub fn judge(credential: &[u8]) -> Option<Owner> {
    let munge = library()?;
    let credential = CString::new(credential).ok()?;
    let (mut payload, mut length): (*mut c_void, c_int) = (ptr::null_mut(), 0);
    let mut owner = Owner { uid: u32::MAX, gid: u32::MAX };
    // SAFETY:
    // - `credential` is NUL-terminated; no context means the defaults.
    // - The others are where results go; a user's and a group's number have 32 bits here.
    let status = unsafe {
        (munge.decode)(
            credential.as_ptr(),
            ptr::null_mut(),
            &raw mut payload,
            &raw mut length,
            &raw mut owner.uid,
            &raw mut owner.gid,
        )
    };
    // SAFETY: it is null or from malloc, and ours.
    unsafe { libc::free(payload) };
    (status == SUCCESS).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_credential_has_no_owner() {
        for bad in [&b""[..], b"instanton:0", b"MUNGE:AAAA:", b"a\0b"] {
            assert_eq!(judge(bad), None);
        }
    }
}
