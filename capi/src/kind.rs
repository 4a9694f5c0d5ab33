//! Kinds of C elements by data type: their size, their place in a value, and the memory that they own.
use std::ptr;

use instanton::data::{DataType, Status};
use libc::{c_char, c_void, timeval};

use crate::alloc;
use crate::boundary::Outcome;
use crate::owned::Owned;
use crate::types::*;

/// Place of the element in a value.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// In a word of the union, as a number.
    Word,
    /// In the union, with pointers in it.
    Union,
    /// Behind a pointer in the union.
    Behind,
}

/// Elements of a data type in C.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Bytes of one element.
    pub size: usize,
    place: Place,
    /// [`Owned::IS_PLAIN`].
    pub is_plain: bool,
    /// [`Owned::IS_ZEROS`].
    pub is_zeros: bool,
    /// [`Owned::constructed`] into fresh memory.
    pub construct: unsafe fn(*mut c_void),
    /// [`Owned::let_go`].
    pub let_go: unsafe fn(*mut c_void),
    /// [`Owned::clear`].
    pub clear: unsafe fn(*mut c_void),
    /// [`Owned::dup_to`] fresh memory.
    pub dup: unsafe fn(*const c_void, *mut c_void) -> Result<(), Status>,
}

impl Kind {
    const fn new<T: Owned>(place: Place) -> Option<Self> {
        unsafe fn construct<T: Owned>(element: *mut c_void) {
            // SAFETY: the caller's pointer has room for a `T`.
            unsafe { element.cast::<T>().write(T::constructed()) }
        }
        unsafe fn let_go<T: Owned>(element: *mut c_void) {
            // SAFETY: the caller's pointer is to a `T`.
            unsafe { (*element.cast::<T>()).let_go() }
        }
        unsafe fn clear<T: Owned>(element: *mut c_void) {
            // SAFETY: the caller's pointer is to a `T`.
            unsafe { (*element.cast::<T>()).clear() }
        }
        unsafe fn dup<T: Owned>(from: *const c_void, to: *mut c_void) -> Result<(), Status> {
            // SAFETY: the caller's pointers are to a `T` and to room for one.
            unsafe {
                match T::IS_PLAIN {
                    true => to.cast::<T>().copy_from_nonoverlapping(from.cast(), 1),
                    false => (*from.cast::<T>()).dup_to(to.cast())?,
                }
            }
            Ok(())
        }
        Some(Self {
            size: size_of::<T>(),
            place,
            is_plain: T::IS_PLAIN,
            is_zeros: T::IS_ZEROS,
            construct: construct::<T>,
            let_go: let_go::<T>,
            clear: clear::<T>,
            dup: dup::<T>,
        })
    }

    /// The kind of a data type; none for numbers that are no type or whose elements C cannot see.
    #[inline]
    pub fn of(ty: DataType) -> Option<&'static Self> {
        const NUMBERS: usize = DataType::ALLOC_INHERIT.0 as usize + 1;
        static KINDS: [Option<Kind>; NUMBERS] = {
            let mut kinds = [None; NUMBERS];
            let mut number = 0;
            while number < NUMBERS {
                kinds[number] = Kind::numbered(DataType(number as u16));
                number += 1;
            }
            kinds
        };
        KINDS.get(usize::from(ty.0))?.as_ref()
    }

    #[rustfmt::skip]
    const fn numbered(ty: DataType) -> Option<Self> {
        match ty {
            DataType::BOOL | DataType::BYTE | DataType::INT8 | DataType::UINT8 | DataType::PERSIST | DataType::SCOPE
            | DataType::DATA_RANGE | DataType::COMMAND | DataType::PROC_STATE | DataType::ALLOC_DIRECTIVE
            | DataType::JOB_STATE | DataType::LINK_STATE | DataType::RESBLOCK_DIRECTIVE | DataType::ALLOC_INHERIT
                => Self::new::<u8>(Place::Word),
            DataType::INT16 | DataType::UINT16 | DataType::DATA_TYPE | DataType::IOF_CHANNEL | DataType::LOCTYPE
            | DataType::STOR_ACCESS_TYPE => Self::new::<u16>(Place::Word),
            DataType::INT | DataType::INT32 | DataType::UINT | DataType::UINT32 | DataType::PID | DataType::FLOAT
            | DataType::STATUS | DataType::PROC_RANK | DataType::INFO_DIRECTIVES => Self::new::<u32>(Place::Word),
            DataType::SIZE | DataType::INT64 | DataType::UINT64 | DataType::DOUBLE | DataType::TIME
            | DataType::DEVTYPE | DataType::STOR_MEDIUM | DataType::STOR_ACCESS | DataType::STOR_PERSIST
                => Self::new::<u64>(Place::Word),
            DataType::STRING => Self::new::<*mut c_char>(Place::Union),
            DataType::POINTER => Self::new::<*mut c_void>(Place::Word),
            DataType::TIMEVAL => Self::new::<timeval>(Place::Union),
            DataType::BYTE_OBJECT | DataType::COMPRESSED_STRING | DataType::COMPRESSED_BYTE_OBJECT | DataType::REGEX
                => Self::new::<pmix_byte_object_t>(Place::Union),
            DataType::ENVAR => Self::new::<pmix_envar_t>(Place::Union),
            DataType::PROC => Self::new::<pmix_proc_t>(Place::Behind),
            DataType::PROC_NSPACE => Self::new::<pmix_nspace_t>(Place::Behind),
            DataType::VALUE => Self::new::<pmix_value_t>(Place::Behind),
            DataType::INFO => Self::new::<pmix_info_t>(Place::Behind),
            DataType::PDATA => Self::new::<pmix_pdata_t>(Place::Behind),
            DataType::APP => Self::new::<pmix_app_t>(Place::Behind),
            DataType::QUERY => Self::new::<pmix_query_t>(Place::Behind),
            DataType::REGATTR => Self::new::<pmix_regattr_t>(Place::Behind),
            DataType::PROC_INFO => Self::new::<pmix_proc_info_t>(Place::Behind),
            DataType::DATA_ARRAY => Self::new::<pmix_data_array_t>(Place::Behind),
            DataType::DATA_BUFFER => Self::new::<pmix_data_buffer_t>(Place::Behind),
            DataType::COORD => Self::new::<pmix_coord_t>(Place::Behind),
            DataType::GEOMETRY => Self::new::<pmix_geometry_t>(Place::Behind),
            DataType::DEVICE_DIST => Self::new::<pmix_device_distance_t>(Place::Behind),
            DataType::ENDPOINT => Self::new::<pmix_endpoint_t>(Place::Behind),
            DataType::TOPO => Self::new::<pmix_topology_t>(Place::Behind),
            DataType::PROC_CPUSET => Self::new::<pmix_cpuset_t>(Place::Behind),
            DataType::DEVICE => Self::new::<pmix_device_t>(Place::Behind),
            DataType::RESOURCE_UNIT => Self::new::<pmix_resource_unit_t>(Place::Behind),
            DataType::NODE_PID => Self::new::<pmix_node_pid_t>(Place::Behind),
            DataType::REGEX2 => Self::new::<pmix_regex2_t>(Place::Behind),
            DataType::PROC_STATS => Self::new::<pmix_proc_stats_t>(Place::Behind),
            DataType::DISK_STATS => Self::new::<pmix_disk_stats_t>(Place::Behind),
            DataType::NET_STATS => Self::new::<pmix_net_stats_t>(Place::Behind),
            DataType::NODE_STATS => Self::new::<pmix_node_stats_t>(Place::Behind),
            _ => None,
        }
    }

    /// Returns whether it is a number: nothing but its bits matters.
    pub fn is_number(&self) -> bool {
        self.place == Place::Word
    }

    /// The number that an element is, as it lies in the first word of a union.
    ///
    /// # Safety
    /// `element` is of this kind, which is one of numbers.
    #[inline]
    pub unsafe fn number(&self, element: *const c_void) -> u64 {
        // SAFETY: numbers have one of four sizes; C may have packed the element oddly.
        unsafe {
            match self.size {
                1 => element.cast::<u8>().read().into(),
                2 => element.cast::<u16>().read_unaligned().into(),
                4 => element.cast::<u32>().read_unaligned().into(),
                _ => element.cast::<u64>().read_unaligned(),
            }
        }
    }

    /// Writes such a number to where an element is to lie.
    ///
    /// # Safety
    /// `place` has room for an element of this kind, which is one of numbers.
    #[inline]
    pub unsafe fn put_number(&self, number: u64, place: *mut c_void) {
        // SAFETY: as above.
        unsafe {
            match self.size {
                1 => place.cast::<u8>().write(number as u8),
                2 => place.cast::<u16>().write_unaligned(number as u16),
                4 => place.cast::<u32>().write_unaligned(number as u32),
                _ => place.cast::<u64>().write_unaligned(number),
            }
        }
    }

    /// Returns whether a value points to its element instead of holding it in the union.
    pub fn is_boxed(&self) -> bool {
        self.place == Place::Behind
    }

    /// Does [`Owned::let_go`] of a value of this kind that is no number.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn let_go_within(&self, value: &mut pmix_value_t) {
        // SAFETY: the member holds, or points to, an element of this kind, as promised by the caller.
        unsafe {
            if !self.is_boxed() {
                (self.let_go)((&raw mut value.data).cast());
            } else if !value.data.ptr.is_null() {
                (self.let_go)(value.data.ptr);
                alloc::release(value.data.ptr);
            }
        }
    }

    /// Does [`Owned::dup_to`] of the union of a value of this kind that is no number.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn dup_within(&self, value: &pmix_value_t, place: *mut pmix_value_t) -> Outcome {
        // SAFETY: as above; the union is large enough for any kind that is not boxed.
        unsafe {
            if !self.is_boxed() {
                let mut data = pmix_data_t { words: [0; 3] };
                (self.dup)((&raw const value.data).cast(), (&raw mut data).cast())?;
                (*place).data = data;
                return Ok(());
            }
            let copy = match value.data.ptr.is_null() {
                // An array that is not there becomes an empty one: programs look into what they copied.
                true if value.ty == DataType::DATA_ARRAY.0 => alloc::boxed(pmix_data_array_t::constructed())?.cast(),
                true => ptr::null_mut(),
                false => self.dup_boxed(value.data.ptr)?,
            };
            (*place).data.words = [0; 3];
            (*place).data.ptr = copy;
        }
        Ok(())
    }

    /// A copy of an element in memory of its own.
    ///
    /// # Safety
    /// `element` is of this kind.
    pub unsafe fn dup_boxed(&self, element: *const c_void) -> Result<*mut c_void, Status> {
        // SAFETY: malloc takes any size.
        let place = unsafe { libc::malloc(self.size) };
        if place.is_null() {
            return Err(Status::ERR_NOMEM);
        }
        // SAFETY: `place` has room for an element; `element` as promised by the caller.
        match unsafe { (self.dup)(element, place) } {
            Ok(()) => Ok(place),
            Err(status) => {
                // SAFETY: made above, and nothing was written to it.
                unsafe { alloc::release(place) };
                Err(status)
            }
        }
    }
}
