//! Bodies of messages: packs one behind the other, in the form of the connection.
use crate::data::{DataType, Info, Key, Pdata, Value};
use crate::trace;
use crate::wire::{Form, Reader, Record, WireError, Writer};

/// Byte in front of a buffer that says in which form its packs are.
pub const PLAIN: u8 = 1;
pub const DESCRIBED: u8 = 2;

/// A body that is read.
#[derive(Clone)]
pub struct Body<'a> {
    pub reader: Reader<'a>,
    form: Form,
}

impl<'a> Body<'a> {
    pub fn new(bytes: &'a [u8], form: Form) -> Self {
        Body { reader: Reader::new(bytes), form }
    }

    /// Lets all elements take so many bytes here at the most.
    #[must_use]
    pub fn with_room(self, room: usize) -> Self {
        Body { reader: self.reader.with_room(room), ..self }
    }

    /// Returns whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.reader.rest().is_empty()
    }

    /// Form of its packs.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The head of a pack: the number of its elements.
    pub fn head(&mut self, ty: DataType) -> Result<usize, WireError> {
        self.reader.head(self.form, ty)
    }

    /// One thing in a pack of its own.
    pub fn one<T: Record>(&mut self, ty: DataType) -> Result<T, WireError> {
        match self.head(ty)? {
            1 => T::get(&mut self.reader),
            _ => Err(WireError::Malformed("pack of one element")),
        }
    }

    /// A size in a pack of its own.
    pub fn size(&mut self) -> Result<u64, WireError> {
        self.one::<usize>(DataType::SIZE).map(|size| size as u64)
    }

    /// So many things, in one pack or in several.
    pub fn many<T: Record>(&mut self, ty: DataType, count: usize) -> Result<Vec<T>, WireError> {
        self.reader.may_have(ty, count)?;
        self.reader.take_room(ty, count)?;
        let mut items = Vec::new();
        while items.len() < count {
            let here = self.head(ty)?;
            if here == 0 || here > count - items.len() {
                return Err(WireError::Malformed("count"));
            }
            for _ in 0..here {
                items.push(T::get(&mut self.reader)?);
            }
        }
        Ok(items)
    }

    /// A list: its length, and where that is not 0 its elements. Behind a length of 0, releases to 5.0 may write a pack of
    /// no elements, with which no other begins.
    pub fn list<T: Record>(&mut self, ty: DataType) -> Result<Vec<T>, WireError> {
        let count = self.one::<usize>(DataType::SIZE)?;
        let mut behind = self.clone();
        if count == 0 && behind.head(ty) == Ok(0) {
            *self = behind;
        }
        self.many(ty, count)
    }

    /// Attributes.
    pub fn infos(&mut self) -> Result<Vec<Info>, WireError> {
        self.list(DataType::INFO)
    }

    /// A key and its value.
    pub fn entry(&mut self) -> Result<(Key, Value), WireError> {
        self.reader.take_room(DataType::KVAL, 1)?;
        match self.head(DataType::KVAL)? {
            1 => Ok((Record::get(&mut self.reader)?, Record::get(&mut self.reader)?)),
            _ => Err(WireError::Malformed("pack of one element")),
        }
    }
}

/// A body that is written.
pub struct Bodies {
    pub bytes: Vec<u8>,
    form: Form,
}

impl Bodies {
    pub fn new(form: Form) -> Self {
        Bodies { bytes: Vec::new(), form }
    }

    /// One thing in a pack of its own.
    pub fn one<T: Record>(&mut self, ty: DataType, item: &T) -> Result<&mut Self, WireError> {
        self.many(ty, std::slice::from_ref(item))
    }

    /// A size in a pack of its own.
    pub fn size(&mut self, size: u64) -> Result<&mut Self, WireError> {
        let size = usize::try_from(size).map_err(|_| WireError::Unfit("a size beyond this machine's"))?;
        self.one(DataType::SIZE, &size)
    }

    /// Things in one pack.
    pub fn many<T: Record>(&mut self, ty: DataType, items: &[T]) -> Result<&mut Self, WireError> {
        let form = self.form;
        Writer::new(&mut self.bytes).all_or_nothing(|to| {
            to.head(form, ty, items.len())?;
            items.iter().try_for_each(|item| item.put(to))
        })?;
        Ok(self)
    }

    /// A list: its length, and where that is not 0 its elements.
    pub fn list<T: Record>(&mut self, ty: DataType, items: &[T]) -> Result<&mut Self, WireError> {
        self.one(DataType::SIZE, &items.len())?;
        if !items.is_empty() {
            self.many(ty, items)?;
        }
        Ok(self)
    }

    /// A buffer in a pack of its own, with what was packed in the same form.
    pub fn buffer(&mut self, packed: &[u8]) -> Result<&mut Self, WireError> {
        let form = self.form;
        Writer::new(&mut self.bytes).all_or_nothing(|to| {
            to.head(form, DataType::BUFFER, 1)?;
            to.raw(&[if form.is_described() { DESCRIBED } else { PLAIN }]);
            packed.len().put(to)?;
            to.raw(packed);
            Ok::<(), WireError>(())
        })?;
        Ok(self)
    }

    /// A key and its value, unless that [is not for](is_for) stock libraries, or cannot be packed.
    pub fn entry(&mut self, key: &Key, value: &Value) -> Result<&mut Self, WireError> {
        if is_for(self.form, key, value) {
            let packed = Writer::new(&mut self.bytes).pack_entry(self.form, key, value);
            is_packed(key, packed)?;
        }
        Ok(self)
    }

    /// Keys and values.
    pub fn entries(&mut self, entries: &[Info]) -> Result<&mut Self, WireError> {
        entries.iter().try_for_each(|info| self.entry(&info.key, &info.value).map(|_| ()))?;
        Ok(self)
    }

    /// Attributes that [are for](is_for) stock libraries, and can be packed.
    pub fn infos(&mut self, infos: &[Info]) -> Result<&mut Self, WireError> {
        let form = self.form;
        let known = infos.iter().filter(|info| is_for(form, &info.key, &info.value));
        self.named(DataType::INFO, known.map(|info| (&info.key, info)))
    }

    /// Published data that [is for](is_for) stock libraries, and can be packed.
    pub fn published(&mut self, items: &[Pdata]) -> Result<&mut Self, WireError> {
        let form = self.form;
        let known = items.iter().filter(|item| is_for(form, &item.key, &item.value));
        self.named(DataType::PDATA, known.map(|item| (&item.key, item)))
    }

    /// A list of things with their keys, without those that cannot be packed: who has made one of them must not keep
    /// others from what is beside it.
    fn named<'a, T: Record + 'a>(
        &mut self,
        ty: DataType,
        items: impl Iterator<Item = (&'a Key, &'a T)>,
    ) -> Result<&mut Self, WireError> {
        let (form, mut packed, mut count) = (self.form, Vec::new(), 0usize);
        for (key, item) in items {
            let one = Writer::new(&mut packed).all_or_nothing(|to| to.element(form, item));
            count += usize::from(is_packed(key, one)?);
        }
        self.one(DataType::SIZE, &count)?;
        if count > 0 {
            Writer::new(&mut self.bytes).all_or_nothing(|to| {
                to.head(form, ty, count)?;
                to.raw(&packed);
                Ok::<(), WireError>(())
            })?;
        }
        Ok(self)
    }
}

/// Returns whether something was packed, and not left out because the encoding cannot say it: it is nested too deeply, or
/// of a type that is never packed.
fn is_packed(key: &Key, packed: Result<(), WireError>) -> Result<bool, WireError> {
    match packed {
        Ok(()) => Ok(true),
        Err(error @ (WireError::Unfit(_) | WireError::UnknownType(_))) => {
            trace!("{key} is left out for stock libraries: {error}");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Returns whether a value is for the readers of a form: they know the types in it, or would drop everything for that, and
/// it is no map expression of a job. Stock servers give those to no client, and the Init of one of 7.0 fails at the form
/// in which earlier releases write them.
pub(super) fn is_for(form: Form, key: &Key, value: &Value) -> bool {
    is_known(form, value) && !(key.is_reserved() && value.data_type() == DataType::REGEX)
}

/// Returns whether every type in a value is one that the readers of a form know.
fn is_known(form: Form, value: &Value) -> bool {
    match value {
        Value::DataArray(array) => form.has(array.data_type()) && array.items().iter().all(|item| is_known(form, item)),
        Value::Info(info) => is_known(form, &info.value),
        Value::Value(value) => is_known(form, value),
        Value::Pointer(_) => false,
        other => form.has(other.data_type()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::archive::MAX_DEPTH;
    use crate::data::{DataArray, Nspace, Proc, Rank};

    /// Value that a native process may send, and no stock library can read.
    fn deep() -> Value {
        (1..MAX_DEPTH)
            .fold(Value::Uint32(7), |value, _| Value::from(DataArray::of_info(vec![Info::new("deep", value)])))
    }

    #[test]
    fn what_cannot_be_packed_is_left_out_and_all_beside_it_stays() {
        assert!(!deep().is_too_deep());
        let all = [Info::new("a", 1u32), Info::new("deep", deep()), Info::new("b", 2u32)];
        let kept = vec![all[0].clone(), all[2].clone()];
        for form in [Form::Plain, Form::Described, Form::PlainFixed, Form::DescribedFixed] {
            let (mut infos, mut entries, mut published) = (Bodies::new(form), Bodies::new(form), Bodies::new(form));
            infos.infos(&all).unwrap();
            assert_eq!(Body::new(&infos.bytes, form).infos(), Ok(kept.clone()));
            infos.bytes.clear();
            infos.infos(&all[1..2]).unwrap();
            assert_eq!(Body::new(&infos.bytes, form).infos(), Ok(Vec::new()));
            entries.entries(&all).unwrap();
            let mut body = Body::new(&entries.bytes, form);
            assert_eq!([body.entry().unwrap(), body.entry().unwrap()].map(|(key, _)| key), ["a", "b"].map(key));
            assert!(body.is_empty());
            let proc = Proc::new(Nspace::new("job").unwrap(), Rank(0));
            let of = |info: &Info| Pdata { proc: proc.clone(), key: info.key.clone(), value: info.value.clone() };
            published.published(&all.iter().map(of).collect::<Vec<_>>()).unwrap();
            let expected: Vec<Pdata> = kept.iter().map(of).collect();
            assert_eq!(Body::new(&published.bytes, form).list(DataType::PDATA), Ok(expected));
        }
    }

    #[test]
    fn a_pack_of_nothing_behind_a_length_of_nothing_is_passed_over() {
        for form in [Form::Plain, Form::Described, Form::PlainFixed, Form::DescribedFixed] {
            let none: [Proc; 0] = [];
            let mut out = Bodies::new(form);
            out.size(0).unwrap().many(DataType::PROC, &none).unwrap().infos(&[Info::new("a", 1u32)]).unwrap();
            let mut body = Body::new(&out.bytes, form);
            assert_eq!(body.list(DataType::PROC), Ok(none.to_vec()));
            assert_eq!(body.infos(), Ok(vec![Info::new("a", 1u32)]));
            assert!(body.is_empty());
        }
    }

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }
}
