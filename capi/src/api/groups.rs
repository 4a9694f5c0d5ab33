//! Groups of processes.
use instanton::data::constants::group_opt::{GROUP_ACCEPT, GROUP_DECLINE};
use instanton::data::{Info, Nspace, Proc, Status};
use libc::{c_char, c_void};

use super::services::{Results, wait_infos};
use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::callbacks::{self, InfoFn, OpFn};
use crate::convert::{many, one};
use crate::session::{self, told};
use crate::types::*;

/// A group's name.
unsafe fn group(name: *const c_char) -> Result<Nspace, Status> {
    // SAFETY: NULL, a C string or a fixed array, the contract with C.
    Nspace::new(unsafe { alloc::name(name, NSPACE_SIZE) }?).map_err(|_| Status::ERR_BAD_PARAM)
}

/// Members of a group to be made. A process that waits to be added to it has no list; a list of none is a mistake.
unsafe fn members(procs: *const pmix_proc_t, nprocs: usize) -> Result<Vec<Proc>, Status> {
    if !procs.is_null() && nprocs == 0 {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: NULL or an array, the contract with C.
    unsafe { many(procs, nprocs) }
}

/// Returns whether an invitation is accepted.
fn accepts(opt: u32) -> Result<bool, Status> {
    match i64::from(opt) {
        GROUP_ACCEPT => Ok(true),
        GROUP_DECLINE => Ok(false),
        _ => Err(Status::ERR_BAD_PARAM),
    }
}

/// The leader that has invited; NULL stands for any.
unsafe fn leader(proc: *const pmix_proc_t) -> Result<Option<Proc>, Status> {
    // SAFETY: NULL or a process, the contract with C.
    if proc.is_null() { Ok(None) } else { unsafe { one(proc) }.map(Some) }
}

export! {
    for_server;

    /// Makes a group of processes, which all call this with the same list, and waits for them; the caller frees the results.
    fn PMIx_Group_construct(
        grp: *const c_char, procs: *const pmix_proc_t, nprocs: usize, directives: *const pmix_info_t, ndirs: usize,
        results: *mut *mut pmix_info_t, nresults: *mut usize,
    ) -> Outcome {
        let places = Results::none(results, nresults);
        let (group, procs) = (group(grp)?, members(procs, nprocs)?);
        let info: Vec<Info> = many(directives, ndirs)?;
        wait_infos(session::client()?.group_construct(&group, &procs, &info), places)
    }

    /// Nonblocking form of `PMIx_Group_construct`.
    fn PMIx_Group_construct_nb(
        grp: *const c_char, procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize,
        cbfunc: Option<InfoFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (group, procs) = (group(grp)?, members(procs, nprocs)?);
        let info: Vec<Info> = many(info, ninfo)?;
        told(session::client()?.group_construct(&group, &procs, &info).then(callbacks::info(cbfunc, cbdata)))
    }

    /// Ends a group, and waits for all its members.
    fn PMIx_Group_destruct(grp: *const c_char, info: *const pmix_info_t, ninfo: usize) -> Outcome {
        let (group, info) = (group(grp)?, many::<_, Info>(info, ninfo)?);
        told(session::client()?.group_destruct(&group, &info).wait())
    }

    /// Nonblocking form of `PMIx_Group_destruct`.
    fn PMIx_Group_destruct_nb(
        grp: *const c_char, info: *const pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (group, info) = (group(grp)?, many::<_, Info>(info, ninfo)?);
        told(session::client()?.group_destruct(&group, &info).then(callbacks::op(cbfunc, cbdata)))
    }

    /// Invites processes into a group that this one leads, and waits for their answers; the caller frees the results.
    fn PMIx_Group_invite(
        grp: *const c_char, procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize,
        results: *mut *mut pmix_info_t, nresult: *mut usize,
    ) -> Outcome {
        let places = Results::none(results, nresult);
        let (group, procs) = (group(grp)?, many::<_, Proc>(procs, nprocs)?);
        let info: Vec<Info> = many(info, ninfo)?;
        wait_infos(session::client()?.group_invite(&group, &procs, &info), places)
    }

    /// Nonblocking form of `PMIx_Group_invite`.
    fn PMIx_Group_invite_nb(
        grp: *const c_char, procs: *const pmix_proc_t, nprocs: usize, info: *const pmix_info_t, ninfo: usize,
        cbfunc: Option<InfoFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (group, procs) = (group(grp)?, many::<_, Proc>(procs, nprocs)?);
        let info: Vec<Info> = many(info, ninfo)?;
        told(session::client()?.group_invite(&group, &procs, &info).then(callbacks::info(cbfunc, cbdata)))
    }

    /// Answers an invitation, and waits for the group when it is accepted; the caller frees the results.
    fn PMIx_Group_join(
        grp: *const c_char, leader: *const pmix_proc_t, opt: u32, info: *const pmix_info_t, ninfo: usize,
        results: *mut *mut pmix_info_t, nresult: *mut usize,
    ) -> Outcome {
        let places = Results::none(results, nresult);
        let (group, leader, accept) = (group(grp)?, self::leader(leader)?, accepts(opt)?);
        let info: Vec<Info> = many(info, ninfo)?;
        wait_infos(session::client()?.group_join(&group, leader.as_ref(), accept, &info), places)
    }

    /// Nonblocking form of `PMIx_Group_join`.
    fn PMIx_Group_join_nb(
        grp: *const c_char, leader: *const pmix_proc_t, opt: u32, info: *const pmix_info_t, ninfo: usize,
        cbfunc: Option<InfoFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (group, leader, accept) = (group(grp)?, self::leader(leader)?, accepts(opt)?);
        let info: Vec<Info> = many(info, ninfo)?;
        let joined = session::client()?.group_join(&group, leader.as_ref(), accept, &info);
        told(joined.then(callbacks::info(cbfunc, cbdata)))
    }

    /// Leaves a group; returns when the others' event is on its way.
    fn PMIx_Group_leave(grp: *const c_char, info: *const pmix_info_t, ninfo: usize) -> Outcome {
        let (group, info) = (group(grp)?, many::<_, Info>(info, ninfo)?);
        told(session::client()?.group_leave(&group, &info).wait())
    }

    /// Nonblocking form of `PMIx_Group_leave`.
    fn PMIx_Group_leave_nb(
        grp: *const c_char, info: *const pmix_info_t, ninfo: usize, cbfunc: Option<OpFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let (group, info) = (group(grp)?, many::<_, Info>(info, ninfo)?);
        told(session::client()?.group_leave(&group, &info).then(callbacks::op(cbfunc, cbdata)))
    }
}
