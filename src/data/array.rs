//! Arrays: many elements of one type.
use std::cell::Cell;

use rkyv::rancor::{Fallible, Source};
use rkyv::{Archive, Deserialize, Serialize};

use super::archive::{MAX_DEPTH, Nested};
use super::{ArchivedValue, DataType, Info, Nspace, Proc, Rank, Status, Value};

/// A `pmix_data_array_t`: elements of one type.
///
/// ```
/// use instanton::data::{DataArray, DataType, Value};
/// let array = DataArray::of([1u32, 2, 3]);
/// assert_eq!(array.data_type(), DataType::UINT32);
/// assert_eq!(array.items()[2].as_u32(), Some(3));
/// assert!(DataArray::new(DataType::INT, vec![Value::Int(1), Value::from("two")]).is_err());
/// ```
#[derive(Archive, Serialize, Clone, Debug, PartialEq, Eq)]
#[rkyv(serialize_bounds(__S: rkyv::ser::Writer + rkyv::ser::Allocator, __S::Error: rkyv::rancor::Source))]
#[rkyv(bytecheck(bounds(__C: rkyv::validation::ArchiveContext, __C::Error: rkyv::rancor::Source)))]
pub struct DataArray {
    ty: DataType,
    #[rkyv(omit_bounds, with = Nested)]
    items: Vec<Value>,
}

impl DataArray {
    /// An array whose elements are all of type `ty`.
    ///
    /// # Errors
    /// `ERR_TYPE_MISMATCH` when an element is of another type.
    pub fn new(ty: DataType, items: Vec<Value>) -> Result<Self, Status> {
        match items.iter().all(|item| item.data_type() == ty) {
            true => Ok(Self { ty, items }),
            false => Err(Status::ERR_TYPE_MISMATCH),
        }
    }

    /// An array of attributes, as the `*_INFO_ARRAY` keys hold them.
    pub fn of_info(items: Vec<Info>) -> Self {
        Self { ty: DataType::INFO, items: items.into_iter().map(|info| Value::Info(Box::new(info))).collect() }
    }

    /// An array of plain things, which all become values of the same type. One of nothing has no type.
    pub fn of<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Self {
        let items: Vec<Value> = items.into_iter().map(Into::into).collect();
        let ty = items.first().map_or(DataType::UNDEF, Value::data_type);
        debug_assert!(items.iter().all(|item| item.data_type() == ty));
        Self { ty, items }
    }

    /// The processes of a job on a node, from the list of their ranks (`PMIX_LOCAL_PEERS`).
    pub(crate) fn of_ranks(nspace: &Nspace, ranks: &str) -> Option<Self> {
        let proc = |rank: &str| Some(Value::Proc(Proc::new(nspace.clone(), Rank(rank.parse().ok()?))));
        Self::new(DataType::PROC, ranks.split(',').map(proc).collect::<Option<_>>()?).ok()
    }

    /// The type of every element.
    pub fn data_type(&self) -> DataType {
        self.ty
    }

    /// The elements.
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// The elements, given away.
    pub fn into_items(mut self) -> Vec<Value> {
        std::mem::take(&mut self.items)
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns whether elements of its type can have others in them.
    pub(super) fn nests(&self) -> bool {
        [DataType::INFO, DataType::DATA_ARRAY, DataType::VALUE, DataType::PDATA, DataType::APP, DataType::QUERY]
            .contains(&self.ty)
    }

    /// The attributes of an array of them; none where it is of another type.
    pub fn infos(&self) -> impl Iterator<Item = &Info> {
        self.items.iter().filter_map(|item| match item {
            Value::Info(info) => Some(&**info),
            _ => None,
        })
    }
}

thread_local! {
    /// Arrays in one another that this thread drops just now.
    static DROPPED: Cell<usize> = const { Cell::new(0) };
}

impl Drop for DataArray {
    /// Drops elements one in the other up to the depth that can be archived, and what is deeper one after the other, so
    /// that no depth exhausts the stack.
    fn drop(&mut self) {
        if !self.nests() {
            return;
        }
        let mut items = std::mem::take(&mut self.items);
        let depth = DROPPED.get();
        if depth < MAX_DEPTH {
            DROPPED.set(depth + 1);
            drop(items);
            return DROPPED.set(depth);
        }
        while let Some(item) = items.pop() {
            match item {
                Value::DataArray(mut array) => items.append(&mut array.items),
                Value::Info(info) => items.push(info.value),
                Value::Value(value) => items.push(*value),
                _ => {}
            }
        }
    }
}

impl ArchivedDataArray {
    /// The elements, where they lie.
    pub fn items(&self) -> &[ArchivedValue] {
        &self.items
    }
}

// By hand, so that the promise of one type holds for arrays that a peer archived, too.
impl<D: Fallible + ?Sized> Deserialize<DataArray, D> for ArchivedDataArray
where
    D::Error: Source,
{
    fn deserialize(&self, deserializer: &mut D) -> Result<DataArray, D::Error> {
        let ty = self.ty.deserialize(deserializer)?;
        let items = self.items.deserialize(deserializer)?;
        DataArray::new(ty, items).map_err(D::Error::new)
    }
}
