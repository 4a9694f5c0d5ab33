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
/// `EMUNGE_SNAFU`, `EMUNGE_NO_MEMORY`, `EMUNGE_SOCKET` and `EMUNGE_TIMEOUT`: the service has judged nothing.
const OF_SERVICE: [c_int; 4] = [1, 5, 6, 7];

/// User and group of whoever has had a credential made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Reason why nobody is known to be the owner of a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unjudged {
    /// The machine has no libmunge.
    #[error("libmunge.so.2 is not installed here")]
    NoLibrary,
    /// The service does not answer.
    #[error("munged does not judge here: {0}")]
    NoService(String),
    /// The credential is forged, too old, made with another key, or was judged before.
    #[error("munged refuses the credential: {0}")]
    Refused(String),
}

/// `munge_strerror`.
type Reason = unsafe extern "C" fn(c_int) -> *const c_char;
/// `munge_encode`.
type Encode = unsafe extern "C" fn(*mut *mut c_char, *mut c_void, *const c_void, c_int) -> c_int;
/// `munge_decode`.
type Decode =
    unsafe extern "C" fn(*const c_char, *mut c_void, *mut *mut c_void, *mut c_int, *mut u32, *mut u32) -> c_int;

struct Munge {
    encode: Encode,
    decode: Decode,
    reason: Reason,
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
        let reason = library.function(c"munge_strerror")?;
        Some(Munge { encode, decode, reason })
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

/// Returns the owner of a credential.
///
/// # Errors
/// [`Unjudged`] for one that is forged, too old or was judged before, and where nothing judges it.
pub fn judge(credential: &[u8]) -> Result<Owner, Unjudged> {
    let munge = library().ok_or(Unjudged::NoLibrary)?;
    let credential = CString::new(credential).map_err(|_| Unjudged::Refused("it is no text".to_owned()))?;
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
    if status == SUCCESS {
        return Ok(owner);
    }
    // SAFETY: it takes any number, and gives NUL-terminated text that stays for ever, or null.
    let reason = unsafe { (munge.reason)(status) };
    let reason = match reason.is_null() {
        true => format!("error {status}"),
        // SAFETY: as above.
        false => unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned(),
    };
    Err(if OF_SERVICE.contains(&status) { Unjudged::NoService(reason) } else { Unjudged::Refused(reason) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_credential_has_no_owner() {
        for bad in [&b""[..], b"instanton:0", b"MUNGE:AAAA:", b"a\0b"] {
            assert!(judge(bad).is_err(), "{bad:?}");
        }
    }
}
