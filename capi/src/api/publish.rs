//! Publishing data, looking it up and taking it back.
use instanton::Pending;
use instanton::client::Error;
use instanton::data::{Info, Key, Status, Text};
use libc::{c_char, c_void};

use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::callbacks::{self, LookupFn, OpFn};
use crate::convert::{Mirror, made, many};
use crate::session::{self, told};
use crate::types::*;

export! {
    for_server;

    /// Publishes data for others to look up, and waits until they can.
    fn PMIx_Publish(info: *const pmix_info_t, ninfo: usize) -> Outcome {
        let info: Vec<Info> = many(info, ninfo)?;
        told(session::client()?.publish(&info).wait())
    }

    /// Nonblocking form of `PMIx_Publish`; without `cbfunc` nobody would know when the data may change.
    fn PMIx_Publish_nb(info: *const pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void) -> Outcome {
        let info: Vec<Info> = many(info, ninfo)?;
        cbfunc.ok_or(Status::ERR_BAD_PARAM)?;
        told(session::client()?.publish(&info).then(callbacks::op(cbfunc, cbdata)))
    }

    /// Fills in the values published under the keys of `data`, and their publishers. A key that nobody has published
    /// gets no type.
    fn PMIx_Lookup(data: *mut pmix_pdata_t, ndata: usize, info: *const pmix_info_t, ninfo: usize) -> Outcome {
        if data.is_null() || ndata == 0 {
            return Err(Status::ERR_BAD_PARAM);
        }
        let info: Vec<Info> = many(info, ninfo)?;
        // Only the keys are the caller's: the rest may be anything.
        let wanted: Vec<Key> = alloc::slice(data, ndata)?
            .iter()
            .map(|item| Mirror::<Key>::to_rust(&item.key, 0))
            .collect::<Result<_, _>>()?;
        // A place without a key asks for nothing.
        let keys: Vec<&Key> = wanted.iter().filter(|key| !key.is_empty()).collect();
        // A place may still have what was found with it before.
        let answer = told(session::client()?.lookup(&keys, &info).wait());
        let (status, mut found) = answer.unwrap_or_else(|status| (status, Vec::new()));
        for (i, key) in wanted.iter().enumerate() {
            let item = &mut *data.add(i);
            match found.iter().position(|one| one.key == *key) {
                Some(at) => {
                    (item.proc, item.value) = (made(&found[at].proc)?, made(&found[at].value)?);
                    // Under one key there may be several, for as many places. The last one is for all that are left.
                    if found[at + 1..].iter().any(|one| one.key == *key) {
                        found.remove(at);
                    }
                }
                None => item.value = pmix_value_t::EMPTY,
            }
        }
        status.ok()
    }

    /// Nonblocking form of `PMIx_Lookup`; the found data is lent to `cbfunc`, if there is one, until it returns.
    fn PMIx_Lookup_nb(
        keys: *mut *mut c_char, info: *const pmix_info_t, ninfo: usize, cbfunc: Option<LookupFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (keys, info) = (Mirror::<Vec<Text>>::to_rust(&keys, 0)?, many::<_, Info>(info, ninfo)?);
        told(session::client()?.lookup(&keys, &info).then(callbacks::lookup(cbfunc, cbdata)))
    }

    /// Takes back what this process has published under some keys, or all of it for NULL; waits until that is done.
    fn PMIx_Unpublish(keys: *mut *mut c_char, info: *const pmix_info_t, ninfo: usize) -> Outcome {
        told(unpublish(keys, info, ninfo)?.wait())
    }

    /// Nonblocking form of `PMIx_Unpublish`.
    fn PMIx_Unpublish_nb(
        keys: *mut *mut c_char, info: *const pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        told(unpublish(keys, info, ninfo)?.then(callbacks::op(cbfunc, cbdata)))
    }
}

unsafe fn unpublish(
    keys: *mut *mut c_char,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Pending<(), Error>, Status> {
    let takes_all = keys.is_null();
    // SAFETY: NULL or arrays, the contract with C.
    let (keys, info) = unsafe { (Mirror::<Vec<Text>>::to_rust(&keys, 0)?, many::<_, Info>(info, ninfo)?) };
    let client = session::client()?;
    // NULL takes all back, and a list without keys is a mistake.
    Ok(if takes_all { client.unpublish_all(&info) } else { client.unpublish(&keys, &info) })
}
