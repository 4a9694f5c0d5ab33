//! Job information out of C.
//!
//! Most of what a host registers it says of processes: an array of attributes of 552 bytes each, for every process of
//! the job. Such arrays go from where they lie straight into the columns that they become; everything else becomes
//! attributes of the data model.
use instanton::data::maps::Limits;
use instanton::data::{BadBytes, DataArray, DataType, Info, Status, Value, keys};
use instanton::internal::wire::zlib;
use instanton::store::{BadJobInfo, Datum, JobInfoBuilder, KeySlot, ProcWriter};

use crate::alloc;
use crate::convert::Mirror;
use crate::types::*;

/// Takes in the attributes that a host gives at registration.
///
/// # Errors
/// A status when it cannot be read; within, why it makes no sense.
///
/// # Safety
/// `info` is NULL or has `ninfo` elements, which point to what the headers say.
pub unsafe fn job_info(
    mut job: JobInfoBuilder,
    info: *const pmix_info_t,
    ninfo: usize,
) -> Result<Result<JobInfoBuilder, BadJobInfo>, Status> {
    // SAFETY: as promised by the caller.
    let infos = unsafe { alloc::slice(info, ninfo) }?;
    let (mut others, mut maps): (Vec<Info>, Vec<_>) = (Vec::new(), Vec::new());
    let mut processes = Vec::new();
    processes.try_reserve(infos.len()).map_err(|_| Status::ERR_NOMEM)?;
    for (nth, info) in infos.iter().enumerate() {
        fetch_soon(infos.get(nth + 2 * AHEAD));
        // SAFETY: as promised by the caller.
        unsafe {
            fetch_array_soon(infos.get(nth + AHEAD));
            if let Some(process) = process(info)? {
                processes.push(process);
            } else if let Some(map) = process_map(info)? {
                maps.push(map);
            } else {
                others.push(info.to_rust(0)?);
            }
        }
    }
    let mut most = Limits::TEXT;
    others.iter_mut().try_for_each(|info| prepare(info, &mut most))?;
    let mut taken = job.owned_infos(others);
    for (data_type, map) in maps {
        taken = taken.and_then(|()| job.process_map(data_type, map));
    }
    for (nth, process) in processes.iter().enumerate() {
        let next = [1, 2].map(|after| processes.get(nth + after).copied().unwrap_or_default());
        // SAFETY: as promised by the caller.
        let written = taken.map_err(Trouble::Job).and_then(|()| unsafe { write_proc(&mut job, process, next) });
        taken = match written {
            Err(Trouble::Unreadable(status)) => return Err(status),
            Err(Trouble::Job(error)) => return Ok(Err(error)),
            Ok(()) => Ok(()),
        };
    }
    Ok(taken.map(|()| job))
}

/// The reason why the values of a process cannot be taken in.
enum Trouble {
    Unreadable(Status),
    Job(BadJobInfo),
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        Trouble::Unreadable(status)
    }
}

impl From<BadBytes> for Trouble {
    fn from(error: BadBytes) -> Self {
        Trouble::Job(error.into())
    }
}

/// Takes in the attributes of a process, and meanwhile fetches those of the next but one, and what those of the next
/// one point to.
///
/// # Safety
/// They point to what the headers say.
unsafe fn write_proc(
    job: &mut JobInfoBuilder,
    process: &[pmix_info_t],
    next: [&[pmix_info_t]; 2],
) -> Result<(), Trouble> {
    let key = keys::RANK.as_bytes();
    let mut unreadable = None;
    let ranks = process.iter().filter(|info| is_named(info, key)).map_while(|info| {
        // SAFETY: as promised by the caller.
        let value = unsafe { datum(&info.value) };
        value.map_err(|status| unreadable = Some(status)).ok().map(|value| (key, value))
    });
    let rank = JobInfoBuilder::rank_in(ranks);
    if let Some(status) = unreadable {
        return Err(status.into());
    }
    let rank = rank.map_err(Trouble::Job)?;
    let Some(mut proc) = job.proc_writer(rank).map_err(Trouble::Job)? else { return Ok(()) };
    let [mut texts, mut infos] = next.map(<[_]>::iter);
    for info in process {
        fetch_soon(infos.next());
        // SAFETY: as promised by the caller.
        unsafe {
            fetch_text_soon(texts.next());
            let slot = match proc.expected() {
                Some((slot, key)) if is_named(info, key) => slot,
                _ => proc.slot(alloc::name(info.key.as_ptr(), KEY_SIZE)?)?,
            };
            write_value(&mut proc, slot, &info.value)?;
        }
    }
    Ok(())
}

/// Writes a value, borrowed where that is cheaper. Common types have the fastest way.
///
/// # Safety
/// It holds or points to what its type says.
#[inline(always)]
unsafe fn write_value(proc: &mut ProcWriter<'_>, slot: KeySlot, value: &pmix_value_t) -> Result<(), Status> {
    let (ty, data) = (DataType(value.ty), &raw const value.data);
    // SAFETY: the member of the union that the type selects, as promised by the caller.
    let bits = unsafe {
        match ty {
            DataType::UINT16 => data.cast::<u16>().read().into(),
            DataType::UINT32 | DataType::PROC_RANK => data.cast::<u32>().read().into(),
            DataType::STRING => {
                proc.text(slot, alloc::c_bytes(value.data.string));
                return Ok(());
            }
            _ => return write_rare_value(proc, slot, value),
        }
    };
    proc.scalar(slot, ty, bits);
    Ok(())
}

/// Writes a value of any other type.
///
/// # Safety
/// As for [`write_value`].
#[inline(never)]
unsafe fn write_rare_value(proc: &mut ProcWriter<'_>, slot: KeySlot, value: &pmix_value_t) -> Result<(), Status> {
    // SAFETY: as promised by the caller.
    proc.datum(slot, unsafe { datum(value) }?).map_err(|error| error.status())
}

/// Returns whether an attribute has that key.
#[inline(always)]
fn is_named(info: &pmix_info_t, key: &[u8]) -> bool {
    if info.key.get(key.len()) != Some(&0) {
        return false;
    }
    // SAFETY: so many bytes were just seen to be there, and every C character is a byte.
    let name = unsafe { std::slice::from_raw_parts(info.key.as_ptr().cast::<u8>(), key.len()) };
    // Most keys of the Standard have 8 to 16 bytes: two words that may overlap, which is less than a call that compares
    // them.
    match (name.first_chunk(), name.last_chunk(), key.first_chunk(), key.last_chunk()) {
        (Some(a), Some(b), Some(first), Some(last)) if key.len() <= 16 => {
            u64::from_le_bytes(*a) == u64::from_le_bytes(*first) && u64::from_le_bytes(*b) == u64::from_le_bytes(*last)
        }
        _ => name == key,
    }
}

/// Turns a compressed map, of the job or in an array about it, into the list that it stands for. Nothing
/// is stored without a name. All lists together have at most so many bytes.
fn prepare(info: &mut Info, most: &mut usize) -> Result<(), Status> {
    let is_map = info.key == keys::NODE_MAP || info.key == keys::PROC_MAP;
    match &mut info.value {
        _ if info.key.is_empty() => return Err(Status::ERR_BAD_PARAM),
        Value::Regex(bytes) if is_map && bytes.starts_with(b"blob:\0") => {
            *bytes = zlib::expression(bytes, *most).ok_or(Status::ERR_NOT_SUPPORTED)?;
            *most -= bytes.len();
        }
        Value::DataArray(array) if array.data_type() == DataType::INFO => {
            let mut items = std::mem::replace(array, DataArray::of_info(Vec::new())).into_items();
            for item in &mut items {
                if let Value::Info(inner) = item {
                    prepare(inner, most)?;
                }
            }
            *array = DataArray::new(DataType::INFO, items)?;
        }
        _ => {}
    }
    Ok(())
}

/// So many attributes before it is looked at, one is fetched; what it points to, when it has come.
const AHEAD: usize = 8;

/// Begins to fetch an attribute from memory. They lie 552 bytes apart, and little of each is looked at: without this
/// the time goes by waiting for one after the other.
#[inline(always)]
fn fetch_soon(info: Option<&pmix_info_t>) {
    if let Some(info) = info {
        fetch(info.key.as_ptr().cast());
        fetch((&raw const info.value).cast());
    }
}

/// Begins to fetch the array that an attribute has.
///
/// # Safety
/// It holds what its type says.
#[inline(always)]
unsafe fn fetch_array_soon(info: Option<&pmix_info_t>) {
    if let Some(info) = info.filter(|info| DataType(info.value.ty) == DataType::DATA_ARRAY) {
        // SAFETY: the member of the union that the type selects.
        fetch(unsafe { info.value.data.darray }.cast());
    }
}

/// Begins to fetch the text that an attribute has.
///
/// # Safety
/// It holds what its type says.
#[inline(always)]
unsafe fn fetch_text_soon(info: Option<&pmix_info_t>) {
    if let Some(info) = info.filter(|info| DataType(info.value.ty) == DataType::STRING) {
        // SAFETY: the member of the union that the type selects.
        fetch(unsafe { info.value.data.string }.cast());
    }
}

/// Begins to fetch what is at an address, if there is anything.
#[inline(always)]
fn fetch(address: *const i8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every processor of this architecture has the instruction, and it does nothing but fetch.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A process map of the job as a whole that can be read where it lies.
///
/// # Safety
/// It points to what the headers say, for `'a`.
unsafe fn process_map(info: &pmix_info_t) -> Result<Option<(DataType, &[u8])>, Status> {
    let data_type = DataType(info.value.ty);
    // SAFETY: as promised by the caller; the member of the union that the type selects.
    unsafe {
        if alloc::name(info.key.as_ptr(), KEY_SIZE)? != keys::PROC_MAP.as_bytes() {
            return Ok(None);
        }
        let map = match data_type {
            DataType::STRING => alloc::c_bytes(info.value.data.string),
            DataType::REGEX => {
                let object = info.value.data.bo;
                let bytes: &[u8] = alloc::slice(object.bytes.cast(), object.size)?;
                Some(bytes.strip_suffix(&[0]).filter(|text| !text.contains(&0)).unwrap_or(bytes))
            }
            _ => None,
        };
        Ok(map.filter(|map| !map.starts_with(b"blob:")).map(|map| (data_type, map)))
    }
}

/// The attributes of a process, if an attribute is about one.
///
/// # Safety
/// It points to what the headers say, for `'a`.
unsafe fn process<'a>(info: &'a pmix_info_t) -> Result<Option<&'a [pmix_info_t]>, Status> {
    // SAFETY: as promised by the caller.
    unsafe {
        if alloc::name(info.key.as_ptr(), KEY_SIZE)? != keys::PROC_INFO_ARRAY.as_bytes()
            || DataType(info.value.ty) != DataType::DATA_ARRAY
        {
            return Ok(None);
        }
        let array = info.value.data.darray.as_ref::<'a>().ok_or(Status::ERR_BAD_PARAM)?;
        match DataType(array.ty) {
            DataType::INFO => alloc::slice(array.array.cast(), array.size).map(Some),
            _ => Ok(None),
        }
    }
}

/// A value, borrowed where that is cheaper.
///
/// # Safety
/// It holds or points to what its type says, for `'a`.
unsafe fn datum<'a>(value: &'a pmix_value_t) -> Result<Datum<'a>, Status> {
    let (ty, place) = (DataType(value.ty), &raw const value.data);
    // SAFETY: the member of the union that the type selects, as promised by the caller.
    Ok(unsafe {
        match ty {
            DataType::STRING => Datum::Text(alloc::c_bytes(value.data.string)),
            DataType::UINT16 => Datum::Scalar(ty, place.cast::<u16>().read().into()),
            DataType::UINT32 | DataType::UINT | DataType::PROC_RANK => {
                Datum::Scalar(ty, place.cast::<u32>().read().into())
            }
            DataType::INT32 | DataType::INT | DataType::PID => Datum::Scalar(ty, place.cast::<u32>().read().into()),
            DataType::UINT64 | DataType::SIZE => Datum::Scalar(ty, place.cast::<u64>().read()),
            _ => Mirror::<Value>::to_rust(value, 0)?.into(),
        }
    })
}

#[cfg(test)]
mod tests {
    use instanton::data::Key;

    use super::*;

    #[test]
    fn a_compressed_map_is_read_wherever_it_stands() {
        let list = (0..2000).map(|n| format!("host{n}")).collect::<Vec<_>>().join(",").into_bytes();
        let small = zlib::compress(&list).expect("worth it");
        let blob = [format!("blob:\0component=zlib:\0size={}:\0", small.len()).as_bytes(), &small].concat();
        let mut map = Info::new(keys::NODE_MAP, Value::Regex(blob));
        let mut array = Info::new(keys::JOB_INFO_ARRAY, Value::infos(vec![map.clone()]));
        let prepare = |info: &mut Info| super::prepare(info, &mut { Limits::TEXT });
        // The limit is on all of them together.
        let three = || Info::new(keys::JOB_INFO_ARRAY, Value::infos(vec![map.clone(); 3]));
        assert_eq!(super::prepare(&mut three(), &mut (3 * list.len() - 1)), Err(Status::ERR_NOT_SUPPORTED));
        assert_eq!(super::prepare(&mut three(), &mut (3 * list.len() + 1)), Ok(()));
        assert_eq!(prepare(&mut map), Ok(()));
        assert_eq!(map.value, Value::Regex(list));
        assert_eq!(prepare(&mut array), Ok(()));
        assert_eq!(array.value, Value::infos(vec![map.clone()]));
        map.key = Key::new("").expect("no name");
        assert_eq!(prepare(&mut Info::new(keys::NODE_INFO_ARRAY, Value::infos(vec![map]))), Err(Status::ERR_BAD_PARAM));
        let mut other = Info::new(keys::PROC_MAP, Value::Regex(b"blob:\0component=other:\0size=1:\0x".to_vec()));
        assert_eq!(prepare(&mut other), Err(Status::ERR_NOT_SUPPORTED));
    }
}
