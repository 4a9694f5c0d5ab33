//! Node and process maps as a few bytes. Every library reads what is written here.
use instanton::data::Status;
use instanton::data::maps::{Form, NodeMap, ProcMap};
use libc::c_char;

use crate::alloc;
use crate::boundary::{Outcome, export};

export! {
    /// A short expression for a list of node names with commas between them. It is the caller's to free.
    fn PMIx_generate_regex(input: *const c_char, regex: *mut *mut c_char) -> Outcome {
        let (Some(names), Some(regex)) = (alloc::c_bytes(input), regex.as_mut()) else {
            return Err(Status::ERR_BAD_PARAM);
        };
        let map = NodeMap::parse(names).map_err(|error| error.status())?;
        *regex = alloc::text(&map.to_text(Form::Bracket))?;
        Ok(())
    }

    /// A short expression for lists of ranks, one a node, with semicolons between them. It is the caller's to free.
    fn PMIx_generate_ppn(input: *const c_char, ppn: *mut *mut c_char) -> Outcome {
        let (Some(ranks), Some(ppn)) = (alloc::c_bytes(input), ppn.as_mut()) else {
            return Err(Status::ERR_BAD_PARAM);
        };
        let map = ProcMap::parse(ranks).map_err(|error| error.status())?;
        *ppn = alloc::text(&map.to_text(Form::Bracket))?;
        Ok(())
    }
}
