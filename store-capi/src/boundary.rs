//! The one way in: every exported function goes through [`export!`].
//!
//! **The contract with C.** The body of an exported function is `unsafe` as a whole, for the one reason that holds for
//! all of them: its caller keeps the promises of the header. A pointer is NULL or points to what the header says, arrays
//! have the number of elements that goes with them, texts end with a NUL, a handle is one that was given out and not
//! given back. Everything else (NULLs, sizes, versions, numbers, contents) is checked.
//!
//! **Panics.** None is expected. One that happens nevertheless ends here, as `INSTANTON_ERROR`.
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use instanton::data::Status;
use libc::{c_char, c_int};

/// The number of a status, in C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub c_int);

impl Code {
    pub const UNMAPPED: Code = Code(-3001);
}

impl From<Status> for Code {
    fn from(status: Status) -> Self {
        Code(status.0)
    }
}

/// The end of a call: nothing, or a status, whose reason is kept for the thread.
pub type Outcome = Result<(), Code>;

thread_local! {
    static MESSAGE: RefCell<Cow<'static, CStr>> = const { RefCell::new(Cow::Borrowed(c"")) };
}

/// Keeps the reason of a failure for [`message`].
pub fn fail(code: impl Into<Code>, reason: impl Display) -> Code {
    keep_reason(&reason);
    code.into()
}

/// There is one of it for all reasons.
#[inline(never)]
fn keep_reason(reason: &dyn Display) {
    let mut text = reason.to_string().into_bytes();
    text.retain(|byte| *byte != 0);
    keep(Cow::Owned(CString::new(text).unwrap_or_default()));
}

fn keep(text: Cow<'static, CStr>) {
    let _ = MESSAGE.try_with(|message| *message.borrow_mut() = text);
}

/// The most frequent failure, which costs next to nothing.
pub fn not_found() -> Code {
    keep(Cow::Borrowed(c"nobody has stored it"));
    Status::ERR_NOT_FOUND.into()
}

/// A parameter that makes no sense.
pub fn bad(reason: impl Display) -> Code {
    fail(Status::ERR_BAD_PARAM, reason)
}

/// The reason of the thread's last failure.
pub fn message() -> *const c_char {
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Runs a body and keeps its panic in.
pub fn guard<T>(panicked: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        // The payload's own destructor may panic too.
        std::mem::forget(panic);
        let _ = fail(Status::ERROR, "a bug of the library");
        panicked
    })
}

pub fn code(outcome: Outcome) -> c_int {
    match outcome {
        Ok(()) => Status::SUCCESS.0,
        Err(Code(code)) => code,
    }
}

/// Defines exported functions that answer a status.
macro_rules! export {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        /// As the header says.
        ///
        /// # Safety
        /// The caller keeps the promises of the header.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> libc::c_int {
            $crate::boundary::guard(instanton::data::Status::ERROR.0, || {
                // SAFETY: the caller keeps the promises of the header (the contract with C, `boundary`).
                #[allow(unused_unsafe)]
                $crate::boundary::code(unsafe { (|| -> $crate::boundary::Outcome { $body })() })
            })
        }
    )*};
}
pub(crate) use export;
