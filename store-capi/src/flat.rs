//! Values as `pmix_value_t` in one piece of memory: the value first, and behind it all that it points to, so that libc's
//! `free` alone releases it.
use std::mem::MaybeUninit;
use std::ptr;

use instanton::data::{DataArray, DataType, Info, Proc, Status, Value};
use instanton::store::RawValue;
use libc::c_void;

use crate::boundary::{Code, fail};

/// Bytes of a `pmix_value_t`, and where its union begins.
const VALUE: usize = 32;
const DATA: usize = 8;
/// `PMIX_MAX_NSLEN`, `PMIX_MAX_KEYLEN` and a NUL each.
const NSPACE: usize = 256;
const KEY: usize = 512;
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
struct Writer {
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

    fn bytes(&self, at: usize, bytes: &[u8]) {
        if !self.base.is_null() {
            // SAFETY: the same calls have counted the memory before, and taken it with room for all of them.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at), bytes.len()) };
        }
    }

    fn word(&self, at: usize, word: u64) {
        self.bytes(at, &word.to_le_bytes());
    }

    /// The address of what lies there.
    fn address(&self, at: usize) -> u64 {
        self.base.wrapping_add(at) as u64
    }

    /// Bytes with zeros behind them.
    fn padded(&self, at: usize, bytes: &[u8], room: usize) {
        self.bytes(at, bytes);
        for at in at + bytes.len()..at + room {
            self.bytes(at, &[0]);
        }
    }

    fn append(&mut self, bytes: &[u8], nul: bool) -> u64 {
        let at = self.take(bytes.len() + usize::from(nul));
        self.bytes(at, bytes);
        if nul {
            self.bytes(at + bytes.len(), &[0]);
        }
        self.address(at)
    }

    /// A `pmix_value_t` at its place.
    fn value(&mut self, at: usize, value: &Value) -> Result<(), Code> {
        self.word(at, u64::from(value.data_type().0));
        self.union(at + DATA, value)
    }

    /// The union of a value, of three words.
    fn union(&mut self, at: usize, value: &Value) -> Result<(), Code> {
        let mut words = [0; 3];
        if let Some(bits) = value.to_word() {
            words[0] = bits;
        } else {
            match value {
                Value::Undef | Value::String(None) => {}
                Value::String(Some(text)) => words[0] = self.append(text.as_bytes(), true),
                Value::ByteObject(v)
                | Value::Regex(v)
                | Value::CompressedString(v)
                | Value::CompressedByteObject(v) => {
                    (words[0], words[1]) = (self.append(v, false), v.len() as u64);
                }
                Value::Timeval(time) => (words[0], words[1]) = (time.sec as u64, time.usec as u64),
                Value::ProcNspace(name) => {
                    let place = self.take(NSPACE);
                    self.padded(place, name.as_bytes(), NSPACE);
                    words[0] = self.address(place);
                }
                Value::Proc(proc) => {
                    let place = self.take(NSPACE + 4);
                    self.proc(place, proc);
                    words[0] = self.address(place);
                }
                Value::DataArray(array) => words[0] = self.array(array)?,
                other => return Err(unsupported(other.data_type())),
            }
        }
        words.into_iter().enumerate().for_each(|(n, word)| self.word(at + 8 * n, word));
        Ok(())
    }

    fn proc(&self, at: usize, proc: &Proc) {
        self.padded(at, proc.nspace.as_bytes(), NSPACE);
        self.bytes(at + NSPACE, &proc.rank.0.to_le_bytes());
    }

    /// A `pmix_data_array_t` and its elements. Answers its address.
    fn array(&mut self, array: &DataArray) -> Result<u64, Code> {
        let (ty, n) = (array.data_type(), array.len());
        let head = self.take(24);
        let size = ty.c_size();
        let first = self.take(size * n);
        for (item, at) in array.items().iter().zip((first..).step_by(size.max(1))) {
            match item {
                Value::String(None) => self.word(at, 0),
                Value::String(Some(text)) => {
                    let text = self.append(text.as_bytes(), true);
                    self.word(at, text);
                }
                Value::ByteObject(v) | Value::Regex(v) => {
                    let bytes = self.append(v, false);
                    self.word(at, bytes);
                    self.word(at + 8, v.len() as u64);
                }
                Value::Proc(proc) => self.proc(at, proc),
                Value::Info(info) => self.info(at, info)?,
                Value::Value(value) => self.value(at, value)?,
                Value::ProcNspace(name) => self.padded(at, name.as_bytes(), NSPACE),
                Value::Timeval(time) => {
                    self.word(at, time.sec as u64);
                    self.word(at + 8, time.usec as u64);
                }
                other => match other.to_word() {
                    Some(bits) if size <= 8 => self.bytes(at, &bits.to_le_bytes()[..size]),
                    _ => return Err(unsupported(other.data_type())),
                },
            }
        }
        self.word(head, u64::from(ty.0));
        self.word(head + 8, n as u64);
        self.word(head + 16, if n == 0 { 0 } else { self.address(first) });
        Ok(self.address(head))
    }

    /// A `pmix_info_t`: the key, the flags, the value.
    fn info(&mut self, at: usize, info: &Info) -> Result<(), Code> {
        self.padded(at, info.key.as_bytes(), KEY);
        self.word(at + KEY, info.flags.into());
        self.value(at + KEY + 8, &info.value)
    }
}

fn unsupported(ty: DataType) -> Code {
    fail(Status::ERR_NOT_SUPPORTED, format_args!("a value of type {ty} is not given to C"))
}

/// A value in memory of its own.
pub fn of_value(value: &Value) -> Result<Block, Code> {
    let mut writer = Writer { base: ptr::null_mut(), len: VALUE };
    writer.value(0, value)?;
    let block = Block::new(writer.len)?;
    let mut writer = Writer { base: block.0, len: VALUE };
    writer.value(0, value)?;
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
    use instanton::data::{Nspace, Query, Rank};

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
    fn what_cannot_be_given_is_refused() {
        let query = Value::Query(Box::new(Query { keys: vec![], qualifiers: vec![] }));
        assert_eq!(of_value(&query).err(), Some(Status::ERR_NOT_SUPPORTED.into()));
        let within = DataArray::new(DataType::QUERY, vec![query]).unwrap();
        assert_eq!(of_value(&within.into()).err(), Some(Status::ERR_NOT_SUPPORTED.into()));
    }
}
