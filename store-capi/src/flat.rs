//! Values as `pmix_value_t` in one piece of memory: the value first, and behind it all that it points to, so that libc's
//! `free` alone releases it.
use std::mem::MaybeUninit;
use std::ptr;

use instanton::data::{DataType, Status, Value};
use instanton::store::RawValue;
use libc::c_void;

use crate::boundary::{Code, fail};
use crate::layout::{InC, VALUE};

/// Everything begins where any of it may.
const ALIGNMENT: usize = 16;

/// A piece of memory of libc's, until C has it.
pub struct Block(*mut u8);

impl Block {
    fn new(bytes: usize) -> Result<Self, Code> {
        // SAFETY: malloc takes any size.
        let place = unsafe { libc::malloc(bytes.max(VALUE)) }.cast::<u8>();
        if place.is_null() {
            return Err(fail(Status::ERR_OUT_OF_RESOURCE, format_args!("{bytes} bytes for a value cannot be had")));
        }
        Ok(Self(place))
    }

    /// Hands it to C.
    pub fn give(self) -> *mut c_void {
        let place = self.0;
        std::mem::forget(self);
        place.cast()
    }

    pub fn as_ptr(&self) -> *const c_void {
        self.0.cast()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: made by malloc here, and nobody else has it.
        unsafe { libc::free(self.0.cast()) };
    }
}

/// A value in the making: its size is counted first, with nowhere to write.
pub struct Writer {
    base: *mut u8,
    len: usize,
}

impl Writer {
    /// Takes the next bytes.
    fn take(&mut self, bytes: usize) -> usize {
        let at = self.len.next_multiple_of(ALIGNMENT);
        self.len = at + bytes;
        at
    }

    pub fn bytes(&self, at: usize, bytes: &[u8]) {
        if !self.base.is_null() {
            // SAFETY: the same calls have counted the memory before, and taken it with room for all of them.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at), bytes.len()) };
        }
    }

    pub fn word(&self, at: usize, word: u64) {
        self.bytes(at, &word.to_le_bytes());
    }

    /// The address of what lies there.
    pub fn address(&self, at: usize) -> u64 {
        self.base.wrapping_add(at) as u64
    }

    /// Takes bytes that are zero.
    pub fn zeros(&mut self, bytes: usize) -> usize {
        let at = self.take(bytes);
        if !self.base.is_null() {
            // SAFETY: as above.
            unsafe { ptr::write_bytes(self.base.add(at), 0, bytes) };
        }
        at
    }

    /// Bytes behind it all, with a NUL or without. Answers their address.
    pub fn append(&mut self, bytes: &[u8], nul: bool) -> u64 {
        let at = self.take(bytes.len() + usize::from(nul));
        self.bytes(at, bytes);
        if nul {
            self.bytes(at + bytes.len(), &[0]);
        }
        self.address(at)
    }
}

/// A value in memory of its own.
pub fn of_value(value: &Value) -> Result<Block, Code> {
    let mut writer = Writer { base: ptr::null_mut(), len: 0 };
    let at = writer.zeros(VALUE);
    value.write(&mut writer, at)?;
    let block = Block::new(writer.len)?;
    let mut writer = Writer { base: block.0, len: 0 };
    let at = writer.zeros(VALUE);
    value.write(&mut writer, at)?;
    Ok(block)
}

/// A value from where it lies; `None` for one that has to be taken apart. It may be replaced meanwhile: then anything may
/// be copied, and the copy is thrown away.
pub fn of_raw(raw: &RawValue<'_>) -> Result<Option<Block>, Code> {
    let (ty, bits) = (raw.data_type(), raw.scalar());
    let is_text = ty == DataType::STRING;
    let is_plain = !raw.is_archive() && raw.len() > 0;
    let words = match bits {
        Some(bits) => [bits, 0, 0],
        None if is_plain && (is_text || ty == DataType::BYTE_OBJECT) => {
            let len = raw.len();
            let block = Block::new(VALUE + len)?;
            // SAFETY: fresh memory with so many bytes behind the value, which need not be initialised.
            let room = unsafe { std::slice::from_raw_parts_mut(block.0.add(VALUE).cast::<MaybeUninit<u8>>(), len) };
            let filled = raw.copy_to(room).min(len);
            room[filled..].fill(MaybeUninit::new(0));
            if is_text {
                room[len - 1] = MaybeUninit::new(0);
            }
            let address = block.0.wrapping_add(VALUE) as u64;
            head(&block, ty, [address, if is_text { 0 } else { len as u64 }, 0]);
            return Ok(Some(block));
        }
        None => return Ok(None),
    };
    let block = Block::new(VALUE)?;
    head(&block, ty, words);
    Ok(Some(block))
}

fn head(block: &Block, ty: DataType, [a, b, c]: [u64; 3]) {
    // SAFETY: each block has room for a value, and malloc aligns it for words.
    unsafe { block.0.cast::<[u64; 4]>().write([u64::from(ty.0), a, b, c]) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use instanton::data::{
        Coord, Cpuset, DataArray, DeviceDistance, Envar, Geometry, Info, Nspace, Proc, Query, Rank, Text,
    };

    /// Words and texts where an address leads.
    fn word(at: u64, n: u64) -> u64 {
        // SAFETY: the tests name places within their own blocks.
        unsafe { ((at + 8 * n) as *const u64).read() }
    }

    fn text(at: u64) -> String {
        // SAFETY: as above; every text ends with a NUL.
        unsafe { std::ffi::CStr::from_ptr(at as *const _) }.to_str().unwrap().to_owned()
    }

    fn block(value: &Value) -> (Block, u64) {
        let block = of_value(value).unwrap();
        let at = block.as_ptr() as u64;
        assert_eq!(word(at, 0), u64::from(value.data_type().0));
        (block, at)
    }

    #[test]
    fn structures_lie_in_one_piece() {
        let proc = Proc::new(Nspace::new("job").unwrap(), Rank(7));
        let (_block, at) = block(&Value::Proc(proc.clone()));
        let place = word(at, 1);
        assert_eq!((text(place), word(place, 32) as u32), ("job".to_owned(), 7));

        let infos = vec![Info::new("first", "one"), Info::new("second", DataArray::of([1u16, 2, 3]))];
        let (_block, at) = block(&Value::infos(infos));
        let array = word(at, 1);
        assert_eq!((word(array, 0), word(array, 1)), (u64::from(DataType::INFO.0), 2));
        let (first, second) = (word(array, 2), word(array, 2) + 552);
        assert_eq!((text(first), text(word(first, 66))), ("first".to_owned(), "one".to_owned()));
        let numbers = word(second, 66);
        assert_eq!(text(second), "second");
        assert_eq!((word(numbers, 1), word(word(numbers, 2), 0) & 0xffff_ffff_ffff), (3, 0x0003_0002_0001));

        let (_block, at) = block(&DataArray::of([proc.clone(), proc]).into());
        let items = word(word(at, 1), 2);
        assert_eq!((text(items), text(items + 260)), ("job".to_owned(), "job".to_owned()));
        let (_block, at) = block(&DataArray::of(["one", ""]).into());
        let items = word(word(at, 1), 2);
        assert_eq!((text(word(items, 0)), text(word(items, 1))), ("one".to_owned(), String::new()));
    }

    #[test]
    fn what_is_seldom_stored_lies_in_one_piece_too() {
        let words = |words: &str| Some(Text::new(words).unwrap());
        let (_block, at) = block(&Value::Envar(Envar { name: words("A"), value: words("b"), separator: b':' }));
        assert_eq!((text(word(at, 1)), text(word(at, 2)), word(at, 3) as u8), ("A".into(), "b".into(), b':'));

        let keys = vec![Text::new("one").unwrap(), Text::new("two").unwrap()];
        let query = Query { keys, qualifiers: vec![Info::new("which", 7u32)] };
        let (_block, at) = block(&Value::Query(Box::new(query)));
        let query = word(at, 1);
        let keys = word(query, 0);
        assert_eq!((text(word(keys, 0)), text(word(keys, 1)), word(keys, 2)), ("one".into(), "two".into(), 0));
        let info = word(query, 1);
        assert_eq!((word(query, 2), text(info), word(info, 66)), (1, "which".into(), 7));

        let distance = |uuid, mindist| {
            let distance = DeviceDistance { uuid: words(uuid), osname: None, device_type: 4, mindist, maxdist: 9 };
            Value::DeviceDist(Box::new(distance))
        };
        let array = DataArray::new(DataType::DEVICE_DIST, vec![distance("a", 1), distance("b", 2)]).unwrap();
        let (_block, at) = block(&array.into());
        let (array, first) = (word(at, 1), word(word(at, 1), 2));
        assert_eq!((word(array, 1), text(word(first, 0)), text(word(first, 4))), (2, "a".into(), "b".into()));
        assert_eq!((word(first, 1), word(first, 2), word(first, 7) as u32), (0, 4, 9 << 16 | 2));

        let coord = Coord { view: 1, coord: vec![3, 4] };
        let geometry = Geometry { fabric: 8, uuid: None, osname: words("ib0"), coordinates: vec![coord] };
        let (_block, at) = block(&Value::Geometry(Box::new(geometry)));
        let (geometry, coord) = (word(at, 1), word(word(at, 1), 3));
        assert_eq!((word(geometry, 0), text(word(geometry, 2)), word(geometry, 4)), (8, "ib0".into(), 1));
        assert_eq!((word(coord, 0) as u8, word(coord, 2), word(word(coord, 1), 0)), (1, 2, 4 << 32 | 3));

        let within = DataArray::new(DataType::DATA_ARRAY, vec![DataArray::of([7u64]).into()]).unwrap();
        let (_block, at) = block(&within.into());
        let inner = word(word(at, 1), 2);
        assert_eq!((word(inner, 1), word(word(inner, 2), 0)), (1, 7));
    }

    #[test]
    fn what_cannot_be_given_is_refused() {
        let cpuset = || Value::ProcCpuset(Cpuset { source: None, bitmap: None });
        assert_eq!(of_value(&cpuset()).err(), Some(Status::ERR_NOT_SUPPORTED.into()));
        let within = DataArray::new(DataType::PROC_CPUSET, vec![cpuset()]).unwrap();
        assert_eq!(of_value(&within.into()).err(), Some(Status::ERR_NOT_SUPPORTED.into()));
    }
}
