//! Publishing data and looking it up: the host keeps it, here it is only carried.
use crate::data::{Info, Status, Text};
use crate::message::{Forward, Published, Reply, Request};

use super::forward::nothing;
use super::{Client, Error};

fn found(reply: Reply) -> Option<Published> {
    match reply {
        Reply::Published(status, data) => Some((status, data)),
        _ => None,
    }
}

/// The keys as a request carries them.
fn texts(keys: &[impl AsRef<[u8]>]) -> Result<Vec<Text>, Status> {
    keys.iter().map(|key| Text::new(key).map_err(|_| Status::ERR_BAD_PARAM)).collect()
}

impl Client {
    /// Publishes data for others to look up (`PMIx_Publish`): every attribute that does not say how to publish is
    /// published.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without data, and what the host answers.
    pub fn publish(&self, info: &[Info]) -> Result<(), Error> {
        self.wait("PMIx_Publish", |done| self.publish_nb(info, done))
    }

    /// The same without waiting (`PMIx_Publish_nb`).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn publish_nb(
        &self,
        info: &[Info],
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        if info.is_empty() {
            return Err(Status::ERR_BAD_PARAM.into());
        }
        let request = Request::Forward(Forward::Publish { info: info.to_vec() });
        self.inner.ask_for("PMIx_Publish", &request, nothing, done)
    }

    /// Looks up what others have published (`PMIx_Lookup`). The status says whether all of it was found.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without keys; `ERR_NOT_FOUND` and whatever else the host answers without any data.
    pub fn lookup(&self, keys: &[impl AsRef<[u8]>], info: &[Info]) -> Result<Published, Error> {
        self.wait("PMIx_Lookup", |done| self.lookup_nb(keys, info, done))
    }

    /// The same without waiting (`PMIx_Lookup_nb`).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn lookup_nb(
        &self,
        keys: &[impl AsRef<[u8]>],
        info: &[Info],
        done: impl FnOnce(Result<Published, Error>) + Send + 'static,
    ) -> Result<(), Error> {
        if keys.is_empty() {
            return Err(Status::ERR_BAD_PARAM.into());
        }
        let request = Request::Forward(Forward::Lookup { keys: texts(keys)?, info: info.to_vec() });
        self.inner.ask_for("PMIx_Lookup", &request, found, done)
    }

    /// Takes back what this process has published under some keys (`PMIx_Unpublish`).
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without keys; what the host answers.
    pub fn unpublish(&self, keys: &[impl AsRef<[u8]>], info: &[Info]) -> Result<(), Error> {
        self.wait("PMIx_Unpublish", |done| self.unpublish_nb(keys, info, done))
    }

    /// The same without waiting (`PMIx_Unpublish_nb`).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn unpublish_nb(
        &self,
        keys: &[impl AsRef<[u8]>],
        info: &[Info],
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        if keys.is_empty() {
            return Err(Status::ERR_BAD_PARAM.into());
        }
        self.take_back(texts(keys)?, info, done)
    }

    /// Takes back all that this process has published (`PMIx_Unpublish` without keys).
    ///
    /// # Errors
    /// What the host answers.
    pub fn unpublish_all(&self, info: &[Info]) -> Result<(), Error> {
        self.wait("PMIx_Unpublish", |done| self.unpublish_all_nb(info, done))
    }

    /// The same without waiting (`PMIx_Unpublish_nb` without keys).
    ///
    /// # Errors
    /// When `done` will not run.
    pub fn unpublish_all_nb(
        &self,
        info: &[Info],
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.take_back(Vec::new(), info, done)
    }

    /// The host takes no keys for all keys.
    fn take_back(
        &self,
        keys: Vec<Text>,
        info: &[Info],
        done: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        let request = Request::Forward(Forward::Unpublish { keys, info: info.to_vec() });
        self.inner.ask_for("PMIx_Unpublish", &request, nothing, done)
    }
}
