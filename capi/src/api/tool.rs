//! Tools: finding servers, and turning from one to another.
use std::ptr;

use instanton::data::{Info, InfoList, Proc, Status, keys};

use super::server;
use crate::boundary::{Outcome, export};
use crate::convert::{made, made_array, many, one};
use crate::module::pmix_server_module_t;
use crate::session::{self, Shown};
use crate::types::*;

/// Attaches to one more server, and returns the names of the tool and of the server.
unsafe fn attach(proc: *mut pmix_proc_t, server: *mut pmix_proc_t, info: &[Info]) -> Outcome {
    let (own, found) = session::attach(info)?;
    // SAFETY: NULL or writable, the contract with C.
    unsafe {
        if let Some(proc) = proc.as_mut() {
            *proc = made(&own)?;
        }
        if let Some(server) = server.as_mut() {
            *server = made(&found)?;
        }
    }
    Ok(())
}

export! {
    /// Looks for a server and attaches to it, or takes part in what this process has already. With PMIX_LAUNCHER, the
    /// tool is a server as well. Every init has its finalize.
    fn PMIx_tool_init(proc: *mut pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) -> Outcome {
        let info: Vec<Info> = many(info, ninfo)?;
        let client = session::enter_as_tool(&info)?;
        if info.is_set(keys::LAUNCHER)
            && let Err(status) = server::launch(&client, &info)
        {
            let _ = session::leave(&[]);
            return Err(status);
        }
        session::show_output(if info.is_set(keys::IOF_LOCAL_OUTPUT) { Shown::All } else { Shown::Forwarded });
        if let Some(proc) = proc.as_mut() {
            *proc = made(client.proc())?;
        }
        Ok(())
    }

    /// Ends what one init began; the last call ends every connection. Without an init there is nothing to do.
    fn PMIx_tool_finalize() -> Outcome {
        if !session::is_initialized() {
            return Ok(());
        }
        let left = session::leave(&[]);
        if !session::is_initialized() {
            session::hide_output();
            server::end_with_tool();
        }
        left
    }

    /// Returns whether there is a primary server, and requests reach it.
    fn PMIx_tool_is_connected() -> bool {
        session::with(|_, client| client.is_connected()).unwrap_or(false)
    }
}

export! {
    after_init;

    /// Attaches to one more server, which the attributes must name; with PMIX_PRIMARY_SERVER it becomes the primary
    /// one.
    fn PMIx_tool_attach_to_server(
        proc: *mut pmix_proc_t, server: *mut pmix_proc_t, info: *mut pmix_info_t, ninfo: usize,
    ) -> Outcome {
        attach(proc, server, &many::<_, Info>(info, ninfo)?)
    }

    /// The older form: the server becomes the primary one.
    fn PMIx_tool_connect_to_server(proc: *mut pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) -> Outcome {
        let mut info: Vec<Info> = many(info, ninfo)?;
        info.push(Info::new(keys::PRIMARY_SERVER, true));
        attach(proc, ptr::null_mut(), &info)
    }

    /// Ends the connection to a server; the library stays initialised.
    fn PMIx_tool_disconnect(server: *const pmix_proc_t) -> Outcome {
        session::disconnect(&one::<_, Proc>(server)?)
    }

    /// The servers that this process is attached to, the primary one first. The array is the caller's to free.
    fn PMIx_tool_get_servers(servers: *mut *mut pmix_proc_t, nservers: *mut usize) -> Outcome {
        let (Some(servers), Some(nservers)) = (servers.as_mut(), nservers.as_mut()) else {
            return Err(Status::ERR_BAD_PARAM);
        };
        (*servers, *nservers) = (ptr::null_mut(), 0);
        let found = session::servers()?;
        (*servers, *nservers) = (made_array(&found)?, found.len());
        Ok(())
    }

    /// Makes a server the primary one.
    fn PMIx_tool_set_server(server: *const pmix_proc_t, info: *mut pmix_info_t, ninfo: usize) -> Outcome {
        session::set_server(&one::<_, Proc>(server)?, &many::<_, Info>(info, ninfo)?)
    }

    /// Makes this tool a server as well, with these functions; once, and not where a server has functions already.
    fn PMIx_tool_set_server_module(module: *mut pmix_server_module_t) -> Outcome {
        server::install(module)
    }
}
