//! Libraries of the system that are loaded when they are asked for and never linked: a machine may not have them.
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use nix::libc;

/// A library that stays loaded, because nobody knows what state it keeps.
#[derive(Clone, Copy)]
pub(super) struct Loaded(NonNull<c_void>);

impl Loaded {
    /// Loads a library, if it is installed.
    ///
    /// # Safety
    /// The library's constructors may run at any time on any thread.
    pub(super) unsafe fn load(name: &CStr) -> Option<Loaded> {
        // SAFETY:
        // - `name` is NUL-terminated.
        // - The caller answers for the constructors.
        NonNull::new(unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }).map(Loaded)
    }

    /// Returns one of its functions, if it is there.
    ///
    /// # Safety
    /// `F` is the type of pointers to functions, and that of the function that the library has under this name.
    pub(super) unsafe fn function<F: Copy>(self, name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a function pointer is as wide as a data pointer") };
        // SAFETY:
        // - The handle is one that dlopen has given and that nobody closes.
        // - `name` is NUL-terminated.
        let address = NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })?;
        // SAFETY:
        // - Both types are equally wide.
        // - The address is of a function, of this signature: the caller answers for it.
        Some(unsafe { std::mem::transmute_copy::<NonNull<c_void>, F>(&address) })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_int;

    use super::*;

    #[test]
    fn what_is_not_there_is_not_found() {
        // SAFETY: there is no such library, and the constructors of libc have run.
        let (missing, libc) = unsafe { (Loaded::load(c"libinstanton-has-none.so.1"), Loaded::load(c"libc.so.6")) };
        assert!(missing.is_none());
        let libc = libc.expect("the library of every process");
        // SAFETY: abs has this signature, and nobody calls the other.
        let (abs, none) = unsafe {
            let abs = libc.function::<unsafe extern "C" fn(c_int) -> c_int>(c"abs");
            (abs.expect("abs"), libc.function::<unsafe extern "C" fn()>(c"instanton_has_none"))
        };
        assert!(none.is_none());
        // SAFETY: it takes any number but the least.
        assert_eq!(unsafe { abs(-7) }, 7);
    }
}
