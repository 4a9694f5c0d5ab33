//! Hand-over: how readers in other processes come by the segments of a writer, ready to use.
//!
//! A [`Listener`] stands beside a [`JobWriter`](crate::store::JobWriter). It opens an abstract Unix socket, whose
//! [address](Listener::address) goes into the environment of the processes that may read, and answers them when its
//! owner's loop calls [`serve`](Listener::serve). A [`RemoteReader`] opens the address. It asks for what the writer has
//! added since when a look-up leads there, so that "not mapped yet" is nothing its user ever sees.
//!
//! A program that has a way of its own to pass descriptors needs none of this: [`fd_passing`](crate::fd_passing),
//! [`JobWriter::segments`](crate::store::JobWriter::segments) and [`Have::to_bytes`](crate::store::Have::to_bytes) are
//! all there is behind it.
//!
//! ```
//! use std::os::fd::AsFd;
//! use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
//! use instanton::data::{Key, Nspace, Posted, Rank, Scope};
//! use instanton::handover::{Listener, RemoteReader};
//! use instanton::store::{JobInfo, JobWriter, Limits, Question};
//!
//! let nspace = Nspace::new("job")?;
//! let info = JobInfo::from_infos(&nspace, 1, &[], "here")?;
//! let mut writer = JobWriter::create(&nspace, info, &Limits::default())?;
//! let mut listener = Listener::open()?;
//!
//! // In another process, as a rule, which has found the address in its environment.
//! let address = listener.address().to_owned();
//! let rank = std::thread::spawn(move || {
//!     let reader = RemoteReader::open(&address).unwrap();
//!     reader.get_when_there(&Question::new(Rank(0), "card"), None).unwrap()
//! });
//!
//! writer.update(Rank(0), &[Posted::new(Scope::GLOBAL, Key::new("card")?, vec![7u8; 1 << 20])])?;
//! writer.release();
//! while !rank.is_finished() {
//!     // A server has this descriptor in its loop, among others.
//!     poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], PollTimeout::from(10u8))?;
//!     listener.serve(&mut writer)?;
//! }
//! assert_eq!(rank.join().unwrap().as_bytes().map(<[u8]>::len), Some(1 << 20));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Permission to read
//!
//! The kernel's word on the other end counts first: processes of the writer's own user and of root, and of users that
//! were [allowed](Listener::allow). They must also know the token in the address. An abstract name ends with its network
//! namespace: a reader in another one is handed an [end](Listener::adopt) of a socket pair.
//!
//! # When something dies
//!
//! A reader's page is forgotten when its connection ends, which is when its process does, or drops its reader. A reader
//! whose writer is gone goes on with what it has mapped; what it has not is [`LinkError`]. One whose writer is late, or
//! that has no descriptors left itself, keeps its connection, and all that its guards hold.
mod link;
mod listener;
mod message;
#[cfg(feature = "named-segments")]
mod named;
mod remote;
#[cfg(test)]
mod tests;

pub use listener::{Listener, Peer};
pub use remote::{LinkError, OpenError, RemoteMiss, RemoteReader, Waited};
#[cfg(feature = "client")]
pub(crate) use remote::{Opened, Source};

/// The environment variable that an address is meant for.
pub const VARIABLE: &str = "INSTANTON_STORE";
