//! Appending packs to bytes.
use super::records::{self, Wire};
use super::{COUNT, Form, PID, POINTERS, WireError, flex, is_byte};
use crate::data::{DataType, Key, Value, archive::MAX_DEPTH};

/// Bytes under construction.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    depth: usize,
}

impl Writer {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a pack of elements that are all of type `ty`. When it fails, nothing is appended.
    ///
    /// # Errors
    /// [`WireError::UnknownType`] for types that are never packed, [`WireError::Unfit`] for what is too deep or too
    /// long.
    pub fn pack(&mut self, form: Form, ty: DataType, items: &[Value]) -> Result<(), WireError> {
        let before = self.bytes.len();
        let packed = self.head(form, ty, items.len()).and_then(|()| self.list(ty, items));
        if packed.is_err() {
            self.bytes.truncate(before);
            self.depth = 0;
        }
        packed
    }

    /// The same of bytes, for types whose elements are bytes.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    pub fn pack_bytes(&mut self, form: Form, ty: DataType, bytes: &[u8]) -> Result<(), WireError> {
        if !is_byte(ty) {
            return Err(WireError::UnknownType(ty));
        }
        self.head(form, ty, bytes.len())?;
        self.raw(bytes);
        Ok(())
    }

    /// The same of one key with its value, as stock libraries pack what they store. There is no way to get it back but to read both.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    pub fn pack_entry(&mut self, form: Form, key: &Key, value: &Value) -> Result<(), WireError> {
        let before = self.bytes.len();
        let entry = |writer: &mut Self| {
            writer.head(form, DataType::KVAL, 1)?;
            key.put(writer)?;
            value.put(writer)
        };
        let packed = entry(self);
        if packed.is_err() {
            self.bytes.truncate(before);
            self.depth = 0;
        }
        packed
    }

    /// What has been packed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What has been packed, given away.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn head(&mut self, form: Form, ty: DataType, count: usize) -> Result<(), WireError> {
        let count = i32::try_from(count).map_err(|_| WireError::Unfit("too many elements"))?;
        if form == Form::Described {
            COUNT.put(self)?;
        }
        count.put(self)?;
        if form == Form::Described {
            ty.put(self)?;
        }
        Ok(())
    }

    /// Elements without a count.
    pub(super) fn list(&mut self, ty: DataType, items: &[Value]) -> Result<(), WireError> {
        match ty {
            DataType::PID => PID.put(self)?,
            DataType::POINTER => {
                self.raw(&[POINTERS]);
                return Ok(());
            }
            _ if !records::is_known(ty) => return Err(WireError::UnknownType(ty)),
            _ => {}
        }
        items.iter().try_for_each(|item| records::put(item, self))
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn number(&mut self, number: u64) {
        flex::put(&mut self.bytes, number);
    }

    /// Packs something that may hold others of its kind.
    pub(super) fn nested(&mut self, f: impl FnOnce(&mut Self) -> Result<(), WireError>) -> Result<(), WireError> {
        if self.depth == MAX_DEPTH {
            return Err(WireError::Unfit("nested too deeply"));
        }
        self.depth += 1;
        f(self)?;
        self.depth -= 1;
        Ok(())
    }
}
