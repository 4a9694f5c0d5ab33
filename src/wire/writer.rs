//! Appending packs to bytes.
use super::records::{self, Wire};
use super::{COUNT, Form, POINTERS, WireError, flex, tag};
use crate::data::{DataType, Key, Value, archive::MAX_DEPTH};

/// Sink of packs.
pub trait Sink {
    /// Returns the number of bytes.
    fn len(&self) -> usize;

    /// Returns whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes; not so where there is no memory for them.
    fn append(&mut self, bytes: &[u8]) -> bool;

    /// Takes the last bytes away.
    fn truncate(&mut self, len: usize);
}

impl Sink for Vec<u8> {
    fn len(&self) -> usize {
        self.len()
    }

    fn append(&mut self, bytes: &[u8]) -> bool {
        self.extend_from_slice(bytes);
        true
    }

    fn truncate(&mut self, len: usize) {
        self.truncate(len);
    }
}

/// Writer that appends packs to a [`Sink`].
///
/// [`pack`](Self::pack) takes values. A caller that has elements in another shape appends them piece by piece, in
/// [`all_or_nothing`](Self::all_or_nothing): `records` says what a structure is made of.
pub struct Writer<'a> {
    sink: &'a mut dyn Sink,
    /// True if integers have the width of their type, as the last head of a pack said.
    is_fixed: bool,
    depth: usize,
    is_full: bool,
}

impl<'a> Writer<'a> {
    /// Appends to what is there.
    pub fn new(sink: &'a mut dyn Sink) -> Self {
        Self { sink, is_fixed: false, depth: 0, is_full: false }
    }

    /// Appends a pack of elements that are all of type `ty`. When it fails, nothing is appended.
    ///
    /// # Errors
    /// [`WireError::UnknownType`] for types that are never packed, [`WireError::Unfit`] for what is too deep or too
    /// long, [`WireError::NoMemory`].
    pub fn pack(&mut self, form: Form, ty: DataType, items: &[Value]) -> Result<(), WireError> {
        self.all_or_nothing(|to| {
            to.head(form, ty, items.len())?;
            to.list(ty, items)
        })
    }

    /// Runs `f`, and takes what it appended away again when it fails.
    ///
    /// # Errors
    /// That of `f`, and [`WireError::NoMemory`].
    pub fn all_or_nothing<E: From<WireError>>(&mut self, f: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        let before = self.sink.len();
        let full = |this: &Self| if this.is_full { Err(WireError::NoMemory.into()) } else { Ok(()) };
        f(self).and_then(|()| full(self)).inspect_err(|_| {
            self.sink.truncate(before);
            (self.depth, self.is_full) = (0, false);
        })
    }

    /// Packs one key with its value, as stock libraries pack what they store. There is no way to get it back but to
    /// read both.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    pub fn pack_entry(&mut self, form: Form, key: &Key, value: &Value) -> Result<(), WireError> {
        self.all_or_nothing(|to| {
            to.head(form, DataType::KVAL, 1)?;
            key.put(to)?;
            value.put(to)
        })
    }

    /// Writes the head of a pack of so many elements.
    ///
    /// # Errors
    /// [`WireError::Unfit`] where they are too many.
    pub fn head(&mut self, form: Form, ty: DataType, count: usize) -> Result<(), WireError> {
        let count = i32::try_from(count).map_err(|_| WireError::Unfit("too many elements"))?;
        self.is_fixed = form.is_fixed();
        if form.is_described() {
            COUNT.put(self)?;
        }
        count.put(self)?;
        if form.is_described() {
            ty.put(self)?;
        }
        Ok(())
    }

    /// One element without the head of its pack, which is of that form.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    #[cfg(feature = "server")]
    pub fn element<T: Wire>(&mut self, form: Form, element: &T) -> Result<(), WireError> {
        self.is_fixed = form.is_fixed();
        element.put(self)
    }

    /// Elements without their number.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    pub fn list(&mut self, ty: DataType, items: &[Value]) -> Result<(), WireError> {
        self.tag(ty)?;
        match ty {
            DataType::POINTER => {
                self.raw(&[POINTERS]);
                return Ok(());
            }
            _ if !records::is_known(ty) => return Err(WireError::UnknownType(ty)),
            _ => {}
        }
        items.iter().try_for_each(|item| records::put(item, self))
    }

    /// The type in front of elements of a type, where one stands there.
    ///
    /// # Errors
    /// None.
    pub fn tag(&mut self, ty: DataType) -> Result<(), WireError> {
        tag(self.is_fixed, ty).map_or(Ok(()), |tag| tag.put(self))
    }

    /// An integer of so many bytes without a sign.
    pub fn unsigned(&mut self, number: u64, width: usize) {
        if self.is_fixed { self.raw(&number.to_be_bytes()[8 - width..]) } else { self.number(number) }
    }

    /// An integer of so many bytes with a sign.
    pub fn signed(&mut self, number: i64, width: usize) {
        if self.is_fixed { self.raw(&number.to_be_bytes()[8 - width..]) } else { self.number(flex::fold(number)) }
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.is_full |= !self.sink.append(bytes);
    }

    /// An integer of varying length without a sign.
    pub fn number(&mut self, number: u64) {
        let mut room = [0; flex::MAX];
        let len = flex::put(&mut room, number);
        self.raw(&room[..len]);
    }

    /// Many integers of varying length, those with a sign [folded](flex::fold).
    pub fn numbers(&mut self, numbers: impl Iterator<Item = u64>) {
        /// Bytes that are appended together.
        const TOGETHER: usize = 256;
        let (mut room, mut len) = ([0; TOGETHER], 0);
        for number in numbers {
            if len > TOGETHER - flex::MAX {
                self.raw(&room[..len]);
                len = 0;
            }
            let place = room[len..].first_chunk_mut().expect("room for a number");
            len += flex::put(place, number);
        }
        self.raw(&room[..len]);
    }

    /// A text, or a NULL.
    ///
    /// # Errors
    /// [`WireError::Unfit`] where it is too long.
    pub fn text(&mut self, bytes: Option<&[u8]>) -> Result<(), WireError> {
        let len = bytes.map_or(0, |bytes| bytes.len() + 1);
        i32::try_from(len).map_err(|_| WireError::Unfit("a text of 2 GiB"))?.put(self)?;
        if let Some(bytes) = bytes {
            self.raw(bytes);
            self.raw(&[0]);
        }
        Ok(())
    }

    /// Packs something that may hold others of its kind.
    ///
    /// # Errors
    /// [`WireError::Unfit`] where too many are above, and that of `f`.
    pub fn nested<E: From<WireError>>(&mut self, f: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<(), E> {
        if self.depth == MAX_DEPTH {
            return Err(WireError::Unfit("nested too deeply").into());
        }
        self.depth += 1;
        f(self)?;
        self.depth -= 1;
        Ok(())
    }
}
