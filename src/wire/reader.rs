//! Going through bytes of anybody.
use super::records::{self, Wire};
use super::{COUNT, Form, POINTERS, WireError, flex, tag};
use crate::data::{DataType, Value, archive::MAX_DEPTH};

/// Most addresses of a reader: they take no bytes each, so that nothing else limits how many are claimed.
const MAX_ADDRESSES: usize = 1 << 16;

/// Bytes that have not been unpacked yet.
///
/// [`unpack`](Self::unpack) makes values. A caller that wants elements in another shape takes them piece by piece, in
/// [`all_or_nothing`](Self::all_or_nothing): `records` says what a structure is made of.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// True if integers have the width of their type, as the last head of a pack said.
    is_fixed: bool,
    depth: usize,
    /// Bytes that the elements behind those under way take at least: nothing nested can claim them.
    owed: usize,
    /// Addresses that may still come.
    addresses: usize,
    /// Bytes that elements may still take here.
    room: usize,
}

/// Elements of a pack.
#[derive(Debug, Clone, PartialEq)]
pub struct Unpacked<T> {
    /// As many as were wanted, or as there are.
    pub items: T,
    /// Number of elements beyond those. The reader stands behind the last that was wanted: nobody can find the next
    /// pack from there.
    pub missed: usize,
}

impl<'a> Reader<'a> {
    /// At the beginning of some bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, is_fixed: false, depth: 0, owed: 0, addresses: MAX_ADDRESSES, room: usize::MAX }
    }

    /// Lets all elements take so many bytes here at the most: a boolean has one byte in a message, and forty here.
    #[must_use]
    pub fn with_room(self, room: usize) -> Self {
        Self { room, ..self }
    }

    /// Bytes that elements may still take here.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Takes room for elements of a type.
    ///
    /// # Errors
    /// [`WireError::NoMemory`] where there is not enough.
    pub fn take_room(&mut self, ty: DataType, count: usize) -> Result<(), WireError> {
        self.take_bytes(count.saturating_mul(records::kept(ty)))
    }

    /// Takes so many bytes of the room.
    ///
    /// # Errors
    /// As [`take_room`](Self::take_room).
    pub fn take_bytes(&mut self, bytes: usize) -> Result<(), WireError> {
        self.room = self.room.checked_sub(bytes).ok_or(WireError::NoMemory)?;
        Ok(())
    }

    /// Returns the bytes that are left.
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

    /// Runs `f`, and stands where it stood when that fails.
    ///
    /// # Errors
    /// That of `f`.
    pub fn all_or_nothing<T, E>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let before = self.clone();
        f(self).inspect_err(|_| *self = before)
    }

    /// Reads the head of a pack: the number of its elements.
    ///
    /// # Errors
    /// As [`unpack`](Self::unpack).
    pub fn head(&mut self, form: Form, ty: DataType) -> Result<usize, WireError> {
        self.is_fixed = form.is_fixed();
        if form.is_described() && DataType::get(self)? != COUNT {
            return Err(WireError::Malformed("described pack"));
        }
        let count = i32::get(self)?;
        let count = usize::try_from(count).map_err(|_| WireError::Malformed("count"))?;
        if form.is_described() {
            let found = DataType::get(self)?;
            if found != ty {
                return Err(WireError::Mismatch { wanted: ty, found });
            }
        }
        Ok(count)
    }

    /// `count` elements.
    ///
    /// # Errors
    /// As [`unpack`](Self::unpack), and [`WireError::NoMemory`] where they have no [room](Self::with_room).
    pub fn list(&mut self, ty: DataType, count: usize) -> Result<Vec<Value>, WireError> {
        if ty != DataType::POINTER && !records::is_known(ty) {
            return Err(WireError::UnknownType(ty));
        }
        self.tag(ty)?;
        match ty {
            DataType::POINTER if self.raw(1)? != [POINTERS] => return Err(WireError::Malformed("address")),
            _ => self.may_have(ty, count)?,
        }
        self.take_room(ty, count)?;
        if ty == DataType::POINTER {
            self.addresses -= count;
            return Ok(vec![Value::Pointer(0); count]);
        }
        let mut items = Vec::new();
        self.each(ty, count, |this, _| records::get(ty, this).map(|item| items.push(item)))?;
        Ok(items)
    }

    /// The type in front of elements of a type, where one stands there.
    ///
    /// # Errors
    /// [`WireError::Malformed`] for another one.
    pub fn tag(&mut self, ty: DataType) -> Result<(), WireError> {
        let Some(tag) = tag(self.is_fixed, ty) else { return Ok(()) };
        match DataType::get(self)? {
            found if found == tag || (ty, found) == (DataType::UINT, DataType::UINT32) => Ok(()),
            _ => Err(WireError::Malformed("integer of this width")),
        }
    }

    /// Checks that so many elements can be there at all: each has bytes of its own, which no other has claimed.
    /// Addresses have none: a reader gives out a fixed number of them.
    ///
    /// # Errors
    /// [`WireError::PastEnd`], [`WireError::Malformed`] for too many addresses.
    pub fn may_have(&self, ty: DataType, count: usize) -> Result<(), WireError> {
        let least = count.saturating_mul(records::least(ty));
        match ty {
            DataType::POINTER if count > self.addresses => Err(WireError::Malformed("address")),
            DataType::POINTER => Ok(()),
            _ if least > self.rest.len().saturating_sub(self.owed) => Err(self.past_end(least as u64)),
            _ => Ok(()),
        }
    }

    /// Runs `f` for each of `count` elements, with its place. Meanwhile nothing nested in it can claim the bytes of those
    /// behind it: all that is claimed together is there.
    ///
    /// # Errors
    /// As [`may_have`](Self::may_have), and those of `f`.
    pub fn each<E: From<WireError>>(
        &mut self,
        ty: DataType,
        count: usize,
        mut f: impl FnMut(&mut Self, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        self.may_have(ty, count)?;
        let least = records::least(ty);
        self.owed += count * least;
        (0..count).try_for_each(|at| {
            self.owed -= least;
            f(self, at)
        })
    }

    /// Bytes as they are.
    ///
    /// # Errors
    /// [`WireError::PastEnd`].
    pub fn raw(&mut self, len: u64) -> Result<&'a [u8], WireError> {
        let taken = usize::try_from(len).ok().and_then(|len| self.rest.split_at_checked(len));
        let (taken, rest) = taken.ok_or_else(|| self.past_end(len))?;
        self.rest = rest;
        Ok(taken)
    }

    /// An integer of so many bytes without a sign.
    ///
    /// # Errors
    /// [`WireError::PastEnd`].
    #[inline]
    pub fn unsigned(&mut self, width: usize) -> Result<u64, WireError> {
        if self.is_fixed { self.fixed(width, 0) } else { self.number() }
    }

    /// An integer of so many bytes with a sign.
    ///
    /// # Errors
    /// [`WireError::PastEnd`].
    #[inline]
    pub fn signed(&mut self, width: usize) -> Result<i64, WireError> {
        if !self.is_fixed {
            return Ok(flex::unfold(self.number()?));
        }
        let is_negative = self.rest.first().is_some_and(|byte| byte & 0x80 != 0);
        Ok(self.fixed(width, if is_negative { 0xff } else { 0 })? as i64)
    }

    /// An integer of so many bytes, above which there is nothing but `fill`.
    fn fixed(&mut self, width: usize, fill: u8) -> Result<u64, WireError> {
        let bytes = self.raw(width as u64)?;
        let mut number = [fill; 8];
        number[8 - width..].copy_from_slice(bytes);
        Ok(u64::from_be_bytes(number))
    }

    /// An integer of varying length, one with a sign [folded](flex::fold).
    ///
    /// # Errors
    /// [`WireError::PastEnd`].
    #[inline]
    pub fn number(&mut self) -> Result<u64, WireError> {
        let (number, len) = flex::get(self.rest).ok_or_else(|| self.past_end(1))?;
        self.rest = &self.rest[len..];
        Ok(number)
    }

    /// A text before its NUL; none for NULL.
    ///
    /// # Errors
    /// [`WireError::PastEnd`], [`WireError::Malformed`] where its length is none.
    pub fn text(&mut self) -> Result<Option<&'a [u8]>, WireError> {
        match i32::get(self)? {
            0 => Ok(None),
            len => {
                let bytes = self.raw(u64::try_from(len).map_err(|_| WireError::Malformed("length"))?)?;
                Ok(bytes.split(|byte| *byte == 0).next())
            }
        }
    }

    /// Takes something that may hold others of its kind.
    ///
    /// # Errors
    /// [`WireError::Malformed`] where too many are above, and that of `f`.
    pub fn nested<T, E: From<WireError>>(&mut self, f: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        if self.depth == MAX_DEPTH {
            return Err(WireError::Malformed("value that is not nested too deeply").into());
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
