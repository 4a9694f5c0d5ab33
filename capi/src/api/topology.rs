//! The node's hardware and where processes are in it. The objects are those of the machine's libhwloc, which is loaded
//! when the first of these functions needs it; without it they answer `PMIX_ERR_NOT_SUPPORTED`.
use std::sync::{Mutex, PoisonError};

use instanton::data::constants::device_type::*;
use instanton::data::{self, DeviceDistance, Info, InfoList, Status, Text, Value, keys, locality};
use instanton::internal::sys::hwloc::{self, Bitmap, Topology};
use libc::{c_char, c_int, c_void};

use crate::alloc;
use crate::arena::Arena;
use crate::boundary::{Outcome, export};
use crate::callbacks::{CbData, ReleaseFn};
use crate::convert::{made_array, many};
use crate::foreign::{self, Foreign};
use crate::handles;
use crate::owned::Owned;
use crate::session;
use crate::types::*;

/// `pmix_device_dist_cbfunc_t`.
type DistancesFn =
    unsafe extern "C" fn(c_int, *mut pmix_device_distance_t, usize, *mut c_void, Option<ReleaseFn>, *mut c_void);

/// Devices that are looked for when nobody says which.
const DEVICES: u64 = DEVTYPE_GPU | DEVTYPE_NETWORK | DEVTYPE_OPENFABRICS | DEVTYPE_COPROC;

/// Does something with this node's topology, which is found out once.
fn here<T>(f: impl FnOnce(&Topology) -> Option<T>) -> Result<T, Status> {
    static HERE: Mutex<Option<Topology>> = Mutex::new(None);
    let mut here = HERE.lock().unwrap_or_else(PoisonError::into_inner);
    if here.is_none() {
        *here = Topology::discover();
    }
    here.as_ref().and_then(f).ok_or(Status::ERR_NOT_SUPPORTED)
}

/// This node's topology as a value, for a Get of `PMIX_TOPOLOGY2` where nobody has given one.
pub(super) fn as_value() -> Option<Value> {
    let (xml, support) = here(|topology| Some((topology.xml()?, topology.support()))).ok()?;
    let source = Text::new(foreign::METHOD).ok();
    Some(Value::Topo(Box::new(data::Topology { source, xml: Some(Text::new(xml).ok()?), support })))
}

fn initialized() -> Outcome {
    if session::is_initialized() { Ok(()) } else { Err(Status::ERR_INIT) }
}

/// Fills a set, whatever was in it.
unsafe fn fill(place: *mut pmix_cpuset_t, set: Bitmap) -> Outcome {
    // SAFETY: NULL or a set, the contract with C.
    let place = unsafe { place.as_mut() }.ok_or(Status::ERR_BAD_PARAM)?;
    *place = pmix_cpuset_t { source: alloc::text(foreign::METHOD)?, bitmap: set.into_raw() };
    Ok(())
}

/// The set that a text says: `hwloc:0-3,8`.
unsafe fn parse(text: *const c_char, place: *mut pmix_cpuset_t) -> Outcome {
    // SAFETY: NULL or a C string, and NULL or a set, the contract with C.
    unsafe {
        if let Some(place) = place.as_mut() {
            *place = Owned::constructed();
        }
        initialized()?;
        let text = alloc::c_bytes(text).ok_or(Status::ERR_BAD_PARAM)?;
        let colon = text.iter().position(|byte| *byte == b':').ok_or(Status::ERR_BAD_PARAM)?;
        if !text[..colon].eq_ignore_ascii_case(foreign::METHOD) || !hwloc::is_present() {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        fill(place, Bitmap::parse(&text[colon + 1..]).ok_or(Status::ERR_BAD_PARAM)?)
    }
}

/// Writes the text of a set into memory of the caller's.
unsafe fn said(
    cpuset: *const pmix_cpuset_t,
    place: *mut *mut c_char,
    say: impl FnOnce(&Bitmap) -> Result<String, Status>,
) -> Outcome {
    // SAFETY: NULL or a set and a place, the contract with C.
    unsafe {
        let place = place.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        *place = std::ptr::null_mut();
        initialized()?;
        let set = cpuset.as_ref().ok_or(Status::ERR_BAD_PARAM)?.object()?.ok_or(Status::ERR_BAD_PARAM)?;
        *place = alloc::text(say(&set)?.as_bytes())?;
    }
    Ok(())
}

/// Returns the distances of devices. Parameters that are not given mean this node, this process, every device.
unsafe fn distances(
    topo: *const pmix_topology_t,
    cpuset: *const pmix_cpuset_t,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Vec<DeviceDistance>, Status> {
    // SAFETY: NULL or such structures, the contract with C.
    let (info, topology, set) = unsafe {
        let info: Vec<Info> = many(info, ninfo)?;
        let topology = topo.as_ref().map(|topo| topo.object()).transpose()?.flatten();
        (info, topology, cpuset.as_ref().map(|set| set.object()).transpose()?.flatten())
    };
    let types = info.find(keys::DEVICE_TYPE).map(|info| match &info.value {
        Value::Devtype(types) => Ok(*types),
        other => other.as_u64().ok_or(Status::ERR_BAD_PARAM),
    });
    let types = types.transpose()?.unwrap_or(DEVICES);
    let measure = |topology: &Topology| match &set {
        Some(set) => Some(topology.distances(set, types)),
        None => Some(topology.distances(&topology.binding(false)?, types)),
    };
    let mut found = match &topology {
        Some(topology) => measure(topology).ok_or(Status::ERR_NOT_SUPPORTED)?,
        None => here(measure)?,
    };
    if let Some(wanted) = info.find(keys::DEVICE_ID).and_then(|info| info.value.as_text()) {
        found.retain(|one| one.uuid.as_ref() == Some(wanted) || one.osname.as_ref() == Some(wanted));
    }
    Ok(found)
}

export! {
    /// The topology of the node. It is the caller's to destruct.
    fn PMIx_Load_topology(topo: *mut pmix_topology_t) -> Outcome {
        initialized()?;
        let topo = topo.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        if !foreign::is_ours(topo.source) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        let copy = here(Topology::duplicate)?;
        let source = copy.source().ok_or(Status::ERR_NOT_SUPPORTED)?;
        *topo = pmix_topology_t { source: alloc::text(source.as_bytes())?, topology: copy.into_raw() };
        Ok(())
    }

    /// The processing units that the calling process or thread is bound to, for a place that is not another library's.
    fn PMIx_Get_cpuset(cpuset: *mut pmix_cpuset_t, envelope: u8) -> Outcome {
        use instanton::data::constants::bind_envelope::{CPUBIND_PROCESS, CPUBIND_THREAD};
        initialized()?;
        let thread = match envelope {
            CPUBIND_PROCESS => false,
            CPUBIND_THREAD => true,
            _ => return Err(Status::ERR_BAD_PARAM),
        };
        if !foreign::is_ours(cpuset.as_ref().ok_or(Status::ERR_BAD_PARAM)?.source) {
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        fill(cpuset, here(|topology| topology.binding(thread))?)
    }

    /// The cpuset that a string describes.
    fn PMIx_Parse_cpuset_string(text: *const c_char, cpuset: *mut pmix_cpuset_t) -> Outcome {
        parse(text, cpuset)
    }

    /// The cpuset that a string describes.
    fn PMIx_server_generate_cpuset(text: *const c_char, cpuset: *mut pmix_cpuset_t) -> Outcome {
        parse(text, cpuset)
    }

    /// The string that describes a cpuset. It is the caller's to free.
    fn PMIx_server_generate_cpuset_string(cpuset: *const pmix_cpuset_t, text: *mut *mut c_char) -> Outcome {
        said(cpuset, text, |set| Ok(format!("hwloc:{}", set.list().ok_or(Status::ERR_BAD_PARAM)?)))
    }

    /// The string that describes where a cpuset is. It is the caller's to free.
    fn PMIx_server_generate_locality_string(cpuset: *const pmix_cpuset_t, text: *mut *mut c_char) -> Outcome {
        said(cpuset, text, |set| here(|topology| topology.locality(set)))
    }

    /// Returns the parts of the node that two processes on it share, from their locality strings.
    fn PMIx_Get_relative_locality(a: *const c_char, b: *const c_char, shared: *mut u16) -> Outcome {
        let shared = shared.as_mut().ok_or(Status::ERR_BAD_PARAM)?;
        *shared = 0;
        initialized()?;
        let (Some(a), Some(b)) = (alloc::c_bytes(a), alloc::c_bytes(b)) else { return Err(Status::ERR_BAD_PARAM) };
        *shared = locality::shared(a, b).ok_or(Status::ERR_BAD_PARAM)?;
        Ok(())
    }

    /// Computes the distances of a topology's devices from a cpuset. The array is the caller's to free.
    fn PMIx_Compute_distances(
        topo: *mut pmix_topology_t, cpuset: *mut pmix_cpuset_t, info: *mut pmix_info_t, ninfo: usize,
        found: *mut *mut pmix_device_distance_t, n: *mut usize,
    ) -> Outcome {
        let (Some(found), Some(n)) = (found.as_mut(), n.as_mut()) else { return Err(Status::ERR_BAD_PARAM) };
        (*found, *n) = (std::ptr::null_mut(), 0);
        initialized()?;
        let distances = distances(topo, cpuset, info, ninfo)?;
        (*found, *n) = (made_array(&distances)?, distances.len());
        Ok(())
    }

    /// Computes the distances of a topology's devices from a cpuset; the answer comes to the callback.
    fn PMIx_Compute_distances_nb(
        topo: *mut pmix_topology_t, cpuset: *mut pmix_cpuset_t, info: *mut pmix_info_t, ninfo: usize,
        cbfunc: Option<DistancesFn>, cbdata: *mut c_void,
    ) -> Outcome {
        let client = session::client()?;
        let cbfunc = cbfunc.ok_or(Status::ERR_BAD_PARAM)?;
        let mut arena = Arena::default();
        let (first, n) = arena.array::<pmix_device_distance_t, _>(&distances(topo, cpuset, info, ninfo)?)?;
        let (first, data, kept) = (CbData::new(first.cast()), CbData::new(cbdata), CbData::new(handles::keep(arena)));
        // The process knows its own rank at once; the answer comes on the library's own thread.
        let answered = client.get_pending(client.proc(), keys::RANK, &[]).then(move |_| {
            // SAFETY: the program's own function and data; the array stays until it is released.
            unsafe { cbfunc(Status::SUCCESS.0, first.get().cast(), n, data.get(), Some(release), kept.get()) }
        });
        session::told(answered).inspect_err(|_| drop(handles::take::<Arena>(kept.get())))
    }
}

unsafe extern "C" fn release(kept: *mut c_void) {
    drop(handles::take::<Arena>(kept));
}
