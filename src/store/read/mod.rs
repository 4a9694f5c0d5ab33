//! Look-ups in the segments of a job.
//!
//! A [`Question`](question) goes to a [`JobReader`], which looks first into job information ([`view`], [`levels`]) and
//! then into what ranks have posted. A [`Guard`] reads in place what the reader would copy, and
//! [`JobValues`] give whoever maps nothing all of the job information.
mod computed;
mod directives;
mod guard;
mod key_plan;
mod levels;
mod lookup_cache;
mod question;
mod raw_value;
mod reader;
mod reader_page;
mod values;
mod view;

pub use directives::{Directives, InfoLevel};
pub use guard::{Guard, Lasting, ValueRef};
pub use question::Question;
pub use raw_value::RawValue;
pub use reader::{JobReader, Origin};
pub use reader_page::ReaderPage;
pub use values::JobValues;

#[cfg(test)]
mod tests;
