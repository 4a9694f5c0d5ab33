//! Fabrics: the host knows them, and a program's structure is filled with what it says.
use instanton::client::{Error, Infos};
use instanton::data::constants::fabric_operation::{FABRIC_REQUEST_INFO, FABRIC_UPDATE_INFO};
use instanton::data::{Info, InfoList, Status, Value, keys};
use libc::c_void;

use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::callbacks::{CbData, OpFn};
use crate::convert::{made_array, many};
use crate::owned::release_array;
use crate::session::{self, told};
use crate::types::*;

/// The program's structure, which stays where it is until the callback.
struct Fabric(CbData);

impl Fabric {
    fn new(fabric: *mut pmix_fabric_t) -> Result<Self, Status> {
        if fabric.is_null() { Err(Status::ERR_BAD_PARAM) } else { Ok(Self(CbData::new(fabric.cast()))) }
    }

    /// Puts in what the host says, in place of what it said before.
    fn fill(&self, answer: Result<Infos, Error>) -> Result<(), Status> {
        let (status, infos) = told(answer)?;
        status.ok()?;
        let info = made_array(&infos)?;
        // SAFETY: the caller keeps the structure until the callback, the contract with C.
        let fabric = unsafe { &mut *self.0.get().cast::<pmix_fabric_t>() };
        if let Some(name) = infos.find(keys::FABRIC_IDENTIFIER).and_then(|info| info.value.as_text())
            && fabric.name.is_null()
        {
            fabric.name = alloc::text(name.as_bytes())?;
        }
        if let Some(index) = infos.find(keys::FABRIC_INDEX).and_then(|info| info.value.as_u32()) {
            fabric.index = index as usize;
        }
        // SAFETY: made here, or by nobody.
        unsafe { release_array(fabric.info, fabric.ninfo) };
        (fabric.info, fabric.ninfo) = (info, infos.len());
        Ok(())
    }
}

/// Returns the index of a fabric, for a host that gave it one at registration.
unsafe fn which(fabric: *const pmix_fabric_t) -> Result<Info, Status> {
    // SAFETY: NULL or the program's structure, the contract with C.
    let fabric = unsafe { fabric.as_ref() }.ok_or(Status::ERR_BAD_PARAM)?;
    Ok(Info::new(keys::FABRIC_INDEX, Value::Size(fabric.index as u64)))
}

/// Asks the host; without `cbfunc` the call waits.
unsafe fn ask(
    fabric: *mut pmix_fabric_t,
    operation: i64,
    directives: &[Info],
    cbfunc: Option<OpFn>,
    cbdata: *mut c_void,
) -> Outcome {
    let fabric = Fabric::new(fabric)?;
    let asked = session::client()?.fabric(operation, directives);
    let Some(cbfunc) = cbfunc else { return fabric.fill(asked.wait()) };
    let data = CbData::new(cbdata);
    told(asked.then(move |answer| {
        let status = fabric.fill(answer).err().unwrap_or(Status::SUCCESS);
        // SAFETY: the program's own function and data.
        unsafe { cbfunc(status.0, data.get()) };
    }))
}

export! {
    after_init;

    /// Asks for access to information about a fabric.
    fn PMIx_Fabric_register(fabric: *mut pmix_fabric_t, directives: *const pmix_info_t, ndirs: usize) -> Outcome {
        ask(fabric, FABRIC_REQUEST_INFO, &many::<_, Info>(directives, ndirs)?, None, std::ptr::null_mut())
    }

    /// Nonblocking form of `PMIx_Fabric_register`; `cbfunc` is called when it is done.
    fn PMIx_Fabric_register_nb(
        fabric: *mut pmix_fabric_t, directives: *const pmix_info_t, ndirs: usize, cbfunc: Option<OpFn>,
        cbdata: *mut c_void,
    ) -> Outcome {
        ask(fabric, FABRIC_REQUEST_INFO, &many::<_, Info>(directives, ndirs)?, cbfunc, cbdata)
    }

    /// Brings the information about a fabric up to date.
    fn PMIx_Fabric_update(fabric: *mut pmix_fabric_t) -> Outcome {
        ask(fabric, FABRIC_UPDATE_INFO, &[which(fabric)?], None, std::ptr::null_mut())
    }

    /// Nonblocking form of `PMIx_Fabric_update`; `cbfunc` is called when it is done.
    fn PMIx_Fabric_update_nb(fabric: *mut pmix_fabric_t, cbfunc: Option<OpFn>, cbdata: *mut c_void) -> Outcome {
        ask(fabric, FABRIC_UPDATE_INFO, &[which(fabric)?], cbfunc, cbdata)
    }

    /// Forgets a fabric: what was filled in is freed.
    fn PMIx_Fabric_deregister(fabric: *mut pmix_fabric_t) -> Outcome {
        session::client()?;
        let fabric = fabric.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        release_array(fabric.info, fabric.ninfo);
        (fabric.info, fabric.ninfo) = (std::ptr::null_mut(), 0);
        Ok(())
    }

    /// Form of `PMIx_Fabric_deregister` with a callback. It is done when this returns: `cbfunc` is not called.
    fn PMIx_Fabric_deregister_nb(
        fabric: *mut pmix_fabric_t, _cbfunc: Option<OpFn>, _cbdata: *mut c_void,
    ) -> Outcome {
        session::client()?;
        let fabric = fabric.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        release_array(fabric.info, fabric.ninfo);
        (fabric.info, fabric.ninfo) = (std::ptr::null_mut(), 0);
        Err(Status::OPERATION_SUCCEEDED)
    }
}
