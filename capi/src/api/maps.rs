//! Node and process maps as a few bytes. Every library reads what is written here.
use instanton::data::maps::{Form, NodeMap, ProcMap};
use instanton::data::{Regex2, Status, Text};
use libc::c_char;

use crate::alloc;
use crate::boundary::{Outcome, export};
use crate::convert::{made, one};
use crate::session;
use crate::types::*;

/// An empty place for an expression, and the list to be shortened.
unsafe fn wanted<'a>(list: *const c_char, place: *mut *mut c_char) -> Result<(&'a mut *mut c_char, &'a [u8]), Status> {
    // SAFETY: NULL or a place, NULL or a C string, the contract with C.
    let (place, list) = unsafe { (place.as_mut(), alloc::c_bytes(list)) };
    let place = place.map(|place| {
        *place = std::ptr::null_mut();
        place
    });
    session::with(|_, _| ())?;
    place.zip(list).ok_or(Status::ERR_BAD_PARAM)
}

export! {
    /// A short expression for a list of node names with commas between them, after an Init. It is the caller's to free.
    fn PMIx_generate_regex(input: *const c_char, regex: *mut *mut c_char) -> Outcome {
        let (regex, names) = wanted(input, regex)?;
        // Hosts end a list with a comma now and then.
        let names = names.strip_suffix(b",").unwrap_or(names);
        let short = NodeMap::shortened(names, Form::Bracket).map_err(|error| error.status())?;
        *regex = alloc::text(&short)?;
        Ok(())
    }

    /// A short expression for lists of ranks, one a node, with semicolons between them, after an Init. It is the
    /// caller's to free.
    fn PMIx_generate_ppn(input: *const c_char, ppn: *mut *mut c_char) -> Outcome {
        let (ppn, ranks) = wanted(input, ppn)?;
        let map = ProcMap::parse(ranks).map_err(|error| error.status())?;
        let short = map.to_text(Form::Bracket);
        // A text that gets no shorter stays as it is.
        *ppn = match short.len() > ranks.len() {
            true => alloc::text(&[b"raw:", ranks].concat())?,
            false => alloc::text(&short)?,
        };
        Ok(())
    }

    /// A short expression for a list of node names, or for lists of ranks with semicolons between them.
    fn PMIx_generate_regex2(
        input: *const c_char, _info: *mut pmix_info_t, _ninfo: usize, regex: *mut pmix_regex2_t,
    ) -> Outcome {
        let (Some(list), Some(regex)) = (alloc::c_bytes(input), regex.as_mut()) else {
            return Err(Status::ERR_BAD_PARAM);
        };
        *regex = made(&Regex2 { method: Some(method()), bytes: short(list)? })?;
        Ok(())
    }

    /// The list that such an expression stands for. It is the caller's to free.
    fn PMIx_parse_regex2(
        regex: *const pmix_regex2_t, _info: *mut pmix_info_t, _ninfo: usize, output: *mut *mut c_char,
    ) -> Outcome {
        let output = output.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        *output = std::ptr::null_mut();
        let regex: Regex2 = one(regex)?;
        if regex.method != Some(method()) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        *output = alloc::text(&long(&regex.bytes)?)?;
        Ok(())
    }
}

/// Most ranks that are written out.
const MOST_RANKS: u64 = 1 << 24;

/// The method of the expressions that are written here.
fn method() -> Text {
    Text::new("pmix").expect("text without a NUL")
}

/// Returns whether a list is one of ranks.
fn is_ranks(list: &[u8]) -> bool {
    list.contains(&b';')
}

fn short(list: &[u8]) -> Result<Vec<u8>, Status> {
    // The ranks of a single node, or nodes whose names are numbers: as it is, it can be read as either.
    if list.iter().all(|byte| byte.is_ascii_digit() || b",-".contains(byte)) {
        return Ok(list.to_vec());
    }
    let text = match is_ranks(list) {
        true => ProcMap::parse(list).map(|map| map.to_text(Form::Bracket)),
        false => NodeMap::parse(list).map(|map| map.to_text(Form::Bracket)),
    };
    text.map_err(|error| error.status())
}

fn long(expression: &[u8]) -> Result<Vec<u8>, Status> {
    if !is_ranks(expression) {
        let map = NodeMap::parse(expression).map_err(|error| error.status())?;
        return Ok(map.names().collect::<Vec<_>>().join(&b','));
    }
    let map = ProcMap::parse(expression).map_err(|error| error.status())?;
    if map.rank_count() > MOST_RANKS {
        return Err(Status::ERR_OUT_OF_RESOURCE);
    }
    let ranks = |node| map.ranks(node).map(|rank| rank.to_string()).collect::<Vec<_>>().join(",");
    Ok((0..map.len()).map(ranks).collect::<Vec<_>>().join(";").into_bytes())
}
