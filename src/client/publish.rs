//! Publishing data and looking it up: the host keeps it, here it is only carried.
use crate::data::{Info, Status, Text};
use crate::message::{Forward, Published, Reply, Request};
use crate::pending::Pending;

use super::call::nothing;
use super::{Client, Error};

fn found(reply: Reply) -> Option<Published> {
    match reply {
        Reply::Published(status, data) => Some((status, data)),
        _ => None,
    }
}

/// The keys as a request carries them.
///
/// # Errors
/// `ERR_BAD_PARAM` for none, and for one that is none.
fn texts(keys: &[impl AsRef<[u8]>]) -> Result<Vec<Text>, Status> {
    if keys.is_empty() {
        return Err(Status::ERR_BAD_PARAM);
    }
    keys.iter().map(|key| Text::new(key).map_err(|_| Status::ERR_BAD_PARAM)).collect()
}

impl Client {
    /// Publishes data for others to look up (`PMIx_Publish`): every attribute that does not say how to publish is
    /// published.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without data, and what the host answers.
    pub fn publish(&self, info: &[Info]) -> Pending<(), Error> {
        let request = match info {
            [] => Err(Status::ERR_BAD_PARAM),
            info => Ok(Request::Forward(Forward::Publish { info: info.to_vec() })),
        };
        self.prepare_request("PMIx_Publish", request, nothing)
    }

    /// Looks up what others have published (`PMIx_Lookup`). The status says whether all of it was found.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without keys; `ERR_NOT_FOUND` and whatever else the host answers without any data.
    pub fn lookup(&self, keys: &[impl AsRef<[u8]>], info: &[Info]) -> Pending<Published, Error> {
        let request = texts(keys).map(|keys| Request::Forward(Forward::Lookup { keys, info: info.to_vec() }));
        self.prepare_request("PMIx_Lookup", request, found)
    }

    /// Takes back what this process has published under some keys (`PMIx_Unpublish`).
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without keys; what the host answers.
    pub fn unpublish(&self, keys: &[impl AsRef<[u8]>], info: &[Info]) -> Pending<(), Error> {
        self.take_back(texts(keys), info)
    }

    /// Takes back all that this process has published (`PMIx_Unpublish` without keys).
    ///
    /// # Errors
    /// The host's status.
    pub fn unpublish_all(&self, info: &[Info]) -> Pending<(), Error> {
        self.take_back(Ok(Vec::new()), info)
    }

    /// The host takes no keys for all keys.
    fn take_back(&self, keys: Result<Vec<Text>, Status>, info: &[Info]) -> Pending<(), Error> {
        let request = keys.map(|keys| Request::Forward(Forward::Unpublish { keys, info: info.to_vec() }));
        self.prepare_request("PMIx_Unpublish", request, nothing)
    }
}
