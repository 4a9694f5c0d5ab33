//! Going through bytes of anybody.
use super::records::{self, Wire};
use super::{COUNT, Form, PID, POINTERS, WireError, flex, is_byte};
use crate::data::{DataType, Value, archive::MAX_DEPTH};

/// Most addresses in one array: they take no bytes each, so that nothing else limits how many are claimed.
const MAX_ADDRESSES: usize = 1 << 16;

/// What has not been unpacked yet.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    depth: usize,
}

/// Elements of a pack.
#[derive(Debug, Clone, PartialEq)]
pub struct Unpacked<T> {
    /// As many as were wanted, or as there are.
    pub items: T,
    /// How many there are beyond those. The reader stands behind the last that was wanted: nobody can find the next
    /// pack from there.
    pub missed: usize,
}

impl<'a> Reader<'a> {
    /// At the beginning of some bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, depth: 0 }
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Takes the elements of the next pack, `most` of them at the most. When it fails, nothing is taken.
    ///
    /// # Errors
    /// [`WireError`] says what is wrong with the bytes.
    pub fn unpack(&mut self, form: Form, ty: DataType, most: usize) -> Result<Unpacked<Vec<Value>>, WireError> {
        self.all_or_nothing(|this| {
            let count = this.head(form, ty)?;
            let items = this.list(ty, count.min(most))?;
            Ok(Unpacked { items, missed: count.saturating_sub(most) })
        })
    }

    /// The same of a pack of bytes.
    ///
    /// # Errors
    /// As [`unpack`](Self::unpack).
    pub fn unpack_bytes(&mut self, form: Form, ty: DataType, most: usize) -> Result<Unpacked<&'a [u8]>, WireError> {
        self.all_or_nothing(|this| {
            let count = this.head(form, ty)?;
            if !is_byte(ty) {
                return Err(WireError::UnknownType(ty));
            }
            Ok(Unpacked { items: this.raw(count.min(most) as u64)?, missed: count.saturating_sub(most) })
        })
    }

    fn all_or_nothing<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, WireError>) -> Result<T, WireError> {
        let before = self.clone();
        f(self).inspect_err(|_| *self = before)
    }

    fn head(&mut self, form: Form, ty: DataType) -> Result<usize, WireError> {
        if form == Form::Described && DataType::get(self)? != COUNT {
            return Err(WireError::Malformed("described pack"));
        }
        let count = i32::get(self)?;
        let count = usize::try_from(count).map_err(|_| WireError::Malformed("count"))?;
        if form == Form::Described {
            let found = DataType::get(self)?;
            if found != ty {
                return Err(WireError::Mismatch { wanted: ty, found });
            }
        }
        Ok(count)
    }

    /// `count` elements.
    pub(super) fn list(&mut self, ty: DataType, count: usize) -> Result<Vec<Value>, WireError> {
        match ty {
            DataType::PID if DataType::get(self)? != PID => return Err(WireError::Malformed("process id")),
            DataType::POINTER if self.raw(1)? != [POINTERS] || count > MAX_ADDRESSES => {
                return Err(WireError::Malformed("address"));
            }
            DataType::POINTER => return Ok(vec![Value::Pointer(0); count]),
            _ if !records::is_known(ty) => return Err(WireError::UnknownType(ty)),
            // An element has at least one byte.
            _ if count > self.rest.len() => return Err(self.past_end(count as u64)),
            _ => {}
        }
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(records::get(ty, self)?);
        }
        Ok(items)
    }

    pub(super) fn raw(&mut self, len: u64) -> Result<&'a [u8], WireError> {
        let taken = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let (taken, rest) = taken.ok_or_else(|| self.past_end(len))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn number(&mut self) -> Result<u64, WireError> {
        let (number, len) = flex::get(self.rest).ok_or_else(|| self.past_end(1))?;
        self.rest = &self.rest[len..];
        Ok(number)
    }

    /// Takes something that may hold others of its kind.
    pub(super) fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, WireError>) -> Result<T, WireError> {
        if self.depth == MAX_DEPTH {
            return Err(WireError::Malformed("value that is not nested too deeply"));
        }
        self.depth += 1;
        let got = f(self)?;
        self.depth -= 1;
        Ok(got)
    }

    fn past_end(&self, wanted: u64) -> WireError {
        WireError::PastEnd { wanted, left: self.rest.len() }
    }
}
