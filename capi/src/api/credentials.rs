//! Credentials: proofs of a process's identity, made and judged by the host.
use instanton::data::{Info, Status};
use libc::c_void;

use super::services::{Results, wait_infos};
use crate::boundary::{Outcome, export};
use crate::callbacks::{self, CredentialFn, ValidationFn};
use crate::convert::{made, many, one};
use crate::session::{self, told};
use crate::types::*;

export! {
    after_init;

    /// A proof of the caller's identity. Its bytes are the caller's to free.
    fn PMIx_Get_credential(
        info: *const pmix_info_t, ninfo: usize, credential: *mut pmix_byte_object_t,
    ) -> Outcome {
        let credential = credential.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        *credential = pmix_byte_object_t { bytes: std::ptr::null_mut(), size: 0 };
        let info: Vec<Info> = many(info, ninfo)?;
        let (bytes, _) = told(session::client()?.get_credential(&info).wait())?;
        *credential = made(&bytes)?;
        Ok(())
    }

    /// Nonblocking form of `PMIx_Get_credential`; the credential is lent to `cbfunc` until it returns.
    fn PMIx_Get_credential_nb(
        info: *const pmix_info_t, ninfo: usize, cbfunc: Option<CredentialFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let info: Vec<Info> = many(info, ninfo)?;
        told(session::client()?.get_credential(&info).then(callbacks::credential(cbfunc, cbdata)))
    }

    /// Asks whether a credential is good, and whose it is.
    fn PMIx_Validate_credential(
        credential: *const pmix_byte_object_t, info: *const pmix_info_t, ninfo: usize,
        results: *mut *mut pmix_info_t, nresults: *mut usize,
    ) -> Outcome {
        let places = Results::none(results, nresults);
        let (credential, info) = (one::<_, Vec<u8>>(credential)?, many::<_, Info>(info, ninfo)?);
        wait_infos(session::client()?.validate_credential(&credential, &info), places)
    }

    /// Nonblocking form of `PMIx_Validate_credential`; the answer is lent to `cbfunc` until it returns.
    fn PMIx_Validate_credential_nb(
        credential: *const pmix_byte_object_t, info: *const pmix_info_t, ninfo: usize, cbfunc: Option<ValidationFn>,
        cbdata: *mut c_void,
    ) -> Outcome {
        let (credential, info) = (one::<_, Vec<u8>>(credential)?, many::<_, Info>(info, ninfo)?);
        let validated = session::client()?.validate_credential(&credential, &info);
        told(validated.then(callbacks::validation(cbfunc, cbdata)))
    }
}
