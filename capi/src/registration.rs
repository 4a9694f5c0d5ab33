//! Job information out of C.
//!
//! Most of what a host registers it says of processes: an array of attributes of 552 bytes each, for every process of the job. Those
//! go from where they lie straight into the columns that they become; everything else becomes attributes of the data model.
use instanton::data::{DataArray, DataType, Info, Status, Value, keys};
use instanton::store::{BadJobInfo, Datum, JobInfoBuilder};
use instanton::wire::zlib;

use crate::alloc;
use crate::convert::Mirror;
use crate::types::*;

/// Takes in what a host gives at registration.
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
    let mut others: Vec<Info> = Vec::new();
    let mut processes = Vec::new();
    for (nth, info) in infos.iter().enumerate() {
        fetch_soon(infos.get(nth + AHEAD));
        // SAFETY: as promised by the caller.
        match unsafe { process(info) }? {
            Some(process) => processes.push(process),
            // SAFETY: as promised by the caller.
            None => others.push(unsafe { info.to_rust(0) }?),
        }
    }
    others.iter_mut().try_for_each(prepare)?;
    if let Err(error) = job.owned_infos(others) {
        return Ok(Err(error));
    }
    let mut values = Vec::new();
    for (nth, process) in processes.iter().enumerate() {
        values.clear();
        let mut soon = processes.get(nth + 1).map_or(&[][..], |process| process).iter();
        for info in *process {
            fetch_soon(soon.next());
            // SAFETY: as promised by the caller.
            values.push(unsafe { (alloc::name(info.key.as_ptr(), KEY_SIZE)?, datum(&info.value)?) });
        }
        let taken = JobInfoBuilder::rank_in(values.iter().cloned());
        if let Err(error) = taken.and_then(|rank| job.process(rank, values.drain(..))) {
            return Ok(Err(error));
        }
    }
    Ok(Ok(job))
}

/// Turns a compressed map, of the job or in an array about it, into the list that it stands for. Nothing is stored without a
/// name.
fn prepare(info: &mut Info) -> Result<(), Status> {
    let is_map = info.key == keys::NODE_MAP || info.key == keys::PROC_MAP;
    match &mut info.value {
        _ if info.key.is_empty() => return Err(Status::ERR_BAD_PARAM),
        Value::Regex(bytes) if is_map && bytes.starts_with(b"blob:\0") => {
            *bytes = zlib::expression(bytes).ok_or(Status::ERR_NOT_SUPPORTED)?;
        }
        Value::DataArray(array) if array.data_type() == DataType::INFO => {
            let mut items = std::mem::replace(array, DataArray::of_info(Vec::new())).into_items();
            for item in &mut items {
                if let Value::Info(inner) = item {
                    prepare(inner)?;
                }
            }
            *array = DataArray::new(DataType::INFO, items)?;
        }
        _ => {}
    }
    Ok(())
}

/// So many attributes before it is looked at, one is fetched.
const AHEAD: usize = 8;

/// Begins to fetch an attribute from memory. They lie 552 bytes apart, and little of each is looked at: without this the
/// time goes by waiting for one after the other.
#[inline]
fn fetch_soon(info: Option<&pmix_info_t>) {
    let Some(info) = info else { return };
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every processor of this architecture has the instruction, and it does nothing but fetch.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(info.key.as_ptr());
            _mm_prefetch::<_MM_HINT_T0>((&raw const info.value).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = info;
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

/// A value, borrowed where that is cheaper. Common types of numbers have the fastest way.
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
        assert_eq!(prepare(&mut map), Ok(()));
        assert_eq!(map.value, Value::Regex(list));
        assert_eq!(prepare(&mut array), Ok(()));
        assert_eq!(array.value, Value::infos(vec![map.clone()]));
        map.key = Key::of_attribute("").expect("no name");
        assert_eq!(prepare(&mut Info::new(keys::NODE_INFO_ARRAY, Value::infos(vec![map]))), Err(Status::ERR_BAD_PARAM));
        let mut other = Info::new(keys::PROC_MAP, Value::Regex(b"blob:\0component=other:\0size=1:\0x".to_vec()));
        assert_eq!(prepare(&mut other), Err(Status::ERR_NOT_SUPPORTED));
    }
}
