//! The one way in: every exported function goes through [`export!`].
//!
//! **The contract with C.** The body of an exported function is `unsafe` as a whole, for the one reason that holds for
//! all of them: its caller keeps the promises of the prototype. A pointer is NULL or points to what the header says,
//! arrays have the number of elements that goes with them, strings end with a NUL (names in fixed arrays need not),
//! and what the header calls constructed is constructed. Everything else (NULLs, type numbers, lengths, contents) is
//! checked.
//!
//! **Panics.** None is expected. One that happens nevertheless ends here, as `PMIX_ERROR` or the nearest thing the
//! function can return, because unwinding into C is undefined.
use std::panic::{AssertUnwindSafe, catch_unwind};

use instanton::data::Status;
use libc::c_int;

/// Result of a body, and its form in C.
pub trait Answer {
    /// The C type.
    type C;
    /// Result in C when the body has panicked.
    const PANICKED: Self::C;
    /// Turns it into the C type.
    fn into_c(self) -> Self::C;
}

/// Result of a function whose prototype says `pmix_status_t`.
pub type Outcome = Result<(), Status>;

impl Answer for Outcome {
    type C = c_int;
    const PANICKED: c_int = Status::ERROR.0;
    fn into_c(self) -> c_int {
        match self {
            Ok(()) => Status::SUCCESS.0,
            Err(status) => status.0,
        }
    }
}

macro_rules! plain {
    ($($ty:ty, $panicked:expr $(, $t:ident)?;)*) => {$(
        impl$(<$t>)? Answer for $ty {
            type C = $ty;
            const PANICKED: $ty = $panicked;
            fn into_c(self) -> $ty {
                self
            }
        }
    )*};
}
plain! {
    (), ();
    bool, false;
    c_int, 0;
    u32, 0;
    usize, 0;
    *mut T, std::ptr::null_mut(), T;
    *const T, std::ptr::null(), T;
}

/// Runs a body and keeps its panic in.
pub fn guard<A: Answer>(body: impl FnOnce() -> A) -> A::C {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(answer) => answer.into_c(),
        Err(panic) => {
            // The payload's own destructor may panic too.
            std::mem::forget(panic);
            A::PANICKED
        }
    }
}

/// Runs a body that, where it fails, may fail for another reason than its own.
#[inline]
pub fn failing(reason: fn(Status) -> Status, body: impl FnOnce() -> Outcome) -> Outcome {
    body().map_err(reason)
}

/// Defines exported functions. The body returns an [`Answer`]. Behind `after_init;` stand functions that a program may
/// call only after an Init: before it they answer `ERR_INIT`, whatever else is wrong. Functions behind `for_server;`
/// need a server besides, and answer `ERR_UNREACH` without one.
macro_rules! export {
    (after_init; $($functions:tt)*) => {
        export!(@after or_uninitialized $($functions)*);
    };
    (for_server; $($functions:tt)*) => {
        export!(@after or_alone $($functions)*);
    };
    (@after $reason:ident $($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> Outcome $body:block)*) => {$(
        export!(@one [$(#[$meta])*] $name ($($arg: $ty),*) [Outcome] {
            $crate::boundary::failing($crate::session::$reason, || -> Outcome { $body })
        });
    )*};
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block)*) => {$(
        export!(@one [$(#[$meta])*] $name ($($arg: $ty),*) [$($ret)?] $body);
    )*};
    (@one $meta:tt $name:ident $args:tt [] $body:block) => {
        export!(@fn $meta $name $args [()] $body);
    };
    (@one $meta:tt $name:ident $args:tt [$ret:ty] $body:block) => {
        export!(@fn $meta $name $args [$ret] $body);
    };
    (@fn [$(#[$meta:meta])*] $name:ident ($($arg:ident: $ty:ty),*) [$ret:ty] $body:block) => {
        $(#[$meta])*
        #[unsafe(no_mangle)]
        // A section of its own, the one that it has anyway: LLVM makes functions of equal code aliases of one another
        // unless their sections differ, and then a breakpoint on one stops in the others. `scripts/linker` keeps them
        // apart after that.
        #[unsafe(link_section = concat!(".text.", stringify!($name)))]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> <$ret as $crate::boundary::Answer>::C {
            $crate::boundary::guard(|| -> $ret {
                // SAFETY: the caller keeps the promises of the prototype (the contract with C, `boundary`).
                #[allow(unused_unsafe)]
                unsafe { $body }
            })
        }
    };
}
pub(crate) use export;
