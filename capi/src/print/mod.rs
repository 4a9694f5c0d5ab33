//! Texts for elements of every type, in the form that programs know from stock libraries: a prefix, the type,
//! the value; what is made of parts has a line for each. They are read where they lie: no element is
//! converted or copied for its text.
//!
//! A value within something else is always printed with the prefix [`INNER`]. Types that stock libraries print nothing
//! for are printed in the words of the data model.
mod records;
mod words;

use std::fmt::{Display, Write as _};

use instanton::data::{Channels, DataType, NodePid, Rank, Regex2, Status, archive, decimal, names};
use libc::{c_char, c_void, timeval};

use self::words::{NULL, bits, command, date, name, or, places, rank, unsigned, within};
use crate::alloc;
use crate::boundary::Outcome;
use crate::convert;
use crate::foreign::Foreign as _;
use crate::kind::Kind;
use crate::text::TextBuilder;
use crate::types::*;

/// The prefix where the caller gives none, and that of values.
pub const INNER: &[u8] = b" ";

/// A text of an element, the caller's to free.
///
/// # Errors
/// `ERR_BAD_PARAM` where there is nothing to print or it is nested too deeply, `ERR_UNKNOWN_DATA_TYPE`, `ERR_NOMEM`.
///
/// # Safety
/// `at` is NULL or points to an element of that type; of a string or a map expression it is the text itself.
pub unsafe fn print(prefix: &[u8], ty: DataType, at: *const c_void) -> Result<*mut c_char, Status> {
    let mut page = Page { out: TextBuilder::new(), depth: 0 };
    // SAFETY: as promised by the caller.
    unsafe {
        match ty {
            DataType::STRING => page.text(prefix, at.cast()),
            DataType::REGEX => page.regex(prefix, at.cast()),
            ty => page.element(prefix, ty, at),
        }?;
    }
    page.out.finish()
}

/// A process as everything that names one to a person has it; a new C string.
///
/// # Errors
/// `ERR_NOMEM`.
pub fn named(proc: &pmix_proc_t) -> Result<*mut c_char, Status> {
    let mut page = Page { out: TextBuilder::new(), depth: 0 };
    page.named(proc);
    page.out.finish()
}

/// The text of an application; a new C string.
///
/// # Errors
/// As of what is printed in it.
///
/// # Safety
/// It is constructed, and its members are what the headers say.
pub unsafe fn app(app: &pmix_app_t) -> Result<*mut c_char, Status> {
    let mut page = Page { out: TextBuilder::new(), depth: 0 };
    // SAFETY: as promised by the caller.
    unsafe { page.app(app) }?;
    page.out.finish()
}

/// The text of an attribute, with the end of a line behind it; a new C string.
///
/// # Errors
/// As of what is printed in it.
///
/// # Safety
/// It is constructed.
pub unsafe fn info(info: &pmix_info_t) -> Result<*mut c_char, Status> {
    let mut page = Page { out: TextBuilder::new(), depth: 0 };
    // SAFETY: as promised by the caller.
    unsafe { page.info(INNER, info) }?;
    page.put(&[b"\n"]);
    page.out.finish()
}

/// Elements that are not printed are counted out, up to this many.
const MOST_UNPRINTABLE: usize = 1 << 16;

/// Text that has been printed so far.
struct Page {
    out: TextBuilder,
    depth: usize,
}

/// Types that are not printed within values and arrays, though some of them are alone.
fn is_unprintable(ty: DataType) -> bool {
    matches!(
        ty,
        DataType::UNDEF
            | DataType::VALUE
            | DataType::APP
            | DataType::PDATA
            | DataType::POINTER
            | DataType::COMMAND
            | DataType::INFO_DIRECTIVES
            | DataType::DATA_TYPE
            | DataType::QUERY
            | DataType::COMPRESSED_STRING
            | DataType::COMPRESSED_BYTE_OBJECT
            | DataType::IOF_CHANNEL
            | DataType::REGEX
            | DataType::PROC_STATS
            | DataType::DISK_STATS
            | DataType::NET_STATS
            | DataType::NODE_STATS
            | DataType::DATA_BUFFER
    ) || Kind::of(ty).is_none()
}

/// Appends formatted text.
macro_rules! say {
    ($page:expr, $($arg:tt)*) => {
        // A text that cannot be had is found out at its end.
        let _ = write!($page.out, $($arg)*);
    };
}
use say;

impl Page {
    #[inline]
    fn put(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.out.put(part));
    }

    /// Begins the text of a type.
    fn head(&mut self, prefix: &[u8], name: &[u8]) {
        self.put(&[prefix, b"Data type: ", name]);
    }

    /// The whole text of something simple.
    fn line(&mut self, prefix: &[u8], name: &[u8], value: &dyn Display) {
        self.words(prefix, name, b"");
        say!(self, "{value}");
    }

    /// Prints a line with a text.
    fn words(&mut self, prefix: &[u8], name: &[u8], value: &[u8]) {
        self.head(prefix, name);
        self.put(&[b"\tValue: ", value]);
    }

    /// Prints a line with a number.
    fn signed(&mut self, prefix: &[u8], name: &[u8], value: i64) {
        self.words(prefix, name, b"");
        self.out.signed(value);
    }

    /// Prints a line with a number without a sign.
    fn number(&mut self, prefix: &[u8], name: &[u8], value: u64) {
        self.words(prefix, name, b"");
        self.out.number(value);
    }

    /// Seconds; a negative number of microseconds has its sign where it stands.
    fn seconds(&mut self, time: timeval) {
        self.out.signed(time.tv_sec);
        let sign: &[u8] = if time.tv_usec < 0 { b"-" } else { b"" };
        self.put(&[b".", sign]);
        self.out.padded(time.tv_usec.unsigned_abs(), 6 - sign.len());
    }

    fn directives(&mut self, prefix: &[u8], flags: u32) {
        self.words(prefix, b"PMIX_INFO_DIRECTIVES", b"");
        names::each_info_directive(flags, |piece| self.out.put(piece.as_bytes()));
    }

    fn named(&mut self, proc: &pmix_proc_t) {
        self.put(&[b"[", within(&proc.nspace), b","]);
        match (Rank(proc.rank), rank(proc.rank)) {
            (Rank::INVALID, _) => self.put(&[b"INVALID"]),
            (Rank::LOCAL_PEERS, _) => self.put(&[b"LOCAL_PEERS"]),
            (_, Some(name)) => self.put(&[name.trim_start_matches("PMIX_RANK_").as_bytes()]),
            (Rank(number), None) => self.out.number(number.into()),
        }
        self.put(&[b"]"]);
    }

    fn rank(&mut self, number: u32) {
        match rank(number) {
            Some(name) => self.put(&[name.as_bytes()]),
            None => self.out.number(number.into()),
        }
    }

    fn unprintable(&mut self, ty: DataType) {
        self.put(&[INNER, b"Data type: ", name(ty), b"("]);
        self.out.number(ty.0.into());
        self.put(&[b")\tValue: UNPRINTABLE"]);
    }

    unsafe fn text(&mut self, prefix: &[u8], text: *const c_char) -> Outcome {
        self.head(prefix, b"PMIX_STRING");
        // SAFETY: NULL or a C string, as promised by the caller.
        self.put(&[b"\tValue: ", unsafe { or(text, b"NULL pointer") }]);
        Ok(())
    }

    unsafe fn regex(&mut self, prefix: &[u8], text: *const c_char) -> Outcome {
        self.head(prefix, b"PMIX_REGEX");
        // SAFETY: NULL or a C string, as promised by the caller.
        self.put(&[b"\tName: ", unsafe { alloc::c_bytes(text) }.ok_or(Status::ERR_BAD_PARAM)?]);
        Ok(())
    }

    /// One element: its type's line, and more of them for what it is made of.
    unsafe fn element(&mut self, prefix: &[u8], ty: DataType, at: *const c_void) -> Outcome {
        if at.is_null() {
            return Err(Status::ERR_BAD_PARAM);
        }
        if self.depth > archive::MAX_DEPTH {
            return Err(Status::ERR_BAD_PARAM);
        }
        self.depth += 1;
        // SAFETY: an element of that type, as promised by the caller.
        unsafe { self.part(prefix, ty, at) }?;
        self.depth -= 1;
        Ok(())
    }

    unsafe fn part(&mut self, prefix: &[u8], ty: DataType, at: *const c_void) -> Outcome {
        /// The element as a C type.
        macro_rules! get {
            ($c:ty) => {
                // SAFETY: an element of that type, as promised by the caller. C may have packed it oddly.
                unsafe { at.cast::<$c>().read_unaligned() }
            };
        }
        let plain = name(ty);
        match ty {
            DataType::BOOL => self.words(prefix, plain, if get!(u8) == 0 { b"FALSE" } else { b"TRUE" }),
            DataType::BYTE => self.line(prefix, plain, &format_args!("{:x}", get!(u8))),
            DataType::INT8 => self.signed(prefix, plain, get!(i8).into()),
            DataType::UINT8 | DataType::PERSIST => self.number(prefix, plain, get!(u8).into()),
            DataType::INT16 => self.signed(prefix, plain, get!(i16).into()),
            DataType::UINT16 => self.number(prefix, plain, get!(u16).into()),
            DataType::INT | DataType::INT32 => self.signed(prefix, plain, get!(i32).into()),
            DataType::UINT | DataType::UINT32 => self.number(prefix, plain, get!(u32).into()),
            DataType::INT64 => self.signed(prefix, plain, get!(i64)),
            DataType::SIZE | DataType::UINT64 => self.number(prefix, plain, get!(u64)),
            DataType::PID => self.number(prefix, plain, unsigned(get!(i32))),
            DataType::FLOAT => self.words(prefix, plain, decimal(get!(f32).into()).as_bytes()),
            DataType::DOUBLE => self.words(prefix, plain, decimal(get!(f64)).as_bytes()),
            DataType::TIMEVAL => {
                self.words(prefix, plain, b"");
                self.seconds(get!(timeval));
            }
            DataType::TIME => self.words(prefix, plain, date(get!(i64)).as_bytes()),
            DataType::STATUS => self.words(prefix, plain, Status(get!(i32)).text().to_bytes()),
            DataType::PROC_RANK => {
                self.words(prefix, plain, b"");
                self.rank(get!(u32));
            }
            DataType::SCOPE => self.words(prefix, plain, names::SCOPE.of(get!(u8)).to_bytes()),
            DataType::DATA_RANGE => self.words(prefix, plain, names::DATA_RANGE.of(get!(u8)).to_bytes()),
            DataType::PROC_STATE => self.words(prefix, plain, names::PROC_STATE.of(get!(u8)).to_bytes()),
            DataType::JOB_STATE => self.words(prefix, plain, names::JOB_STATE.of(get!(u8)).to_bytes()),
            DataType::LINK_STATE => self.words(prefix, plain, names::LINK_STATE.of(get!(u8)).to_bytes()),
            DataType::ALLOC_DIRECTIVE => self.words(prefix, plain, names::ALLOC_DIRECTIVE.of(get!(u8)).to_bytes()),
            DataType::RESBLOCK_DIRECTIVE => {
                self.words(prefix, plain, names::RESOURCE_BLOCK_DIRECTIVE.of(get!(u8)).to_bytes())
            }
            DataType::ALLOC_INHERIT => self.words(prefix, plain, names::ALLOC_INHERITANCE.of(get!(u8)).to_bytes()),
            DataType::COMMAND => self.words(prefix, plain, command(get!(u8)).as_bytes()),
            DataType::IOF_CHANNEL => self.words(prefix, plain, names::iof_channel(Channels(get!(u16))).to_bytes()),
            DataType::INFO_DIRECTIVES => self.directives(prefix, get!(u32)),
            DataType::DATA_TYPE => self.words(prefix, plain, name(DataType(get!(u16)))),
            DataType::DEVTYPE => self.line(prefix, b"PMIX_DEVICE_TYPE", &format_args!("{:#x}", get!(u64))),
            DataType::LOCTYPE => self.words(prefix, b"PMIX_LOCALITY", places(get!(u16)).as_bytes()),
            DataType::STOR_MEDIUM => self.words(prefix, plain, bits(&names::STORAGE_MEDIUM, get!(u64)).as_bytes()),
            DataType::STOR_ACCESS => {
                self.words(prefix, plain, bits(&names::STORAGE_ACCESSIBILITY, get!(u64)).as_bytes())
            }
            DataType::STOR_PERSIST => {
                self.words(prefix, plain, bits(&names::STORAGE_PERSISTENCE, get!(u64)).as_bytes())
            }
            DataType::STOR_ACCESS_TYPE => {
                self.words(prefix, plain, bits(&names::STORAGE_ACCESS_TYPE, get!(u16).into()).as_bytes());
            }
            // SAFETY: as promised by the caller.
            _ => unsafe { self.structure(prefix, ty, at)? },
        }
        Ok(())
    }

    unsafe fn structure(&mut self, prefix: &[u8], ty: DataType, at: *const c_void) -> Outcome {
        // SAFETY: what the type says, as promised by the caller; members point to what the headers say.
        unsafe {
            match ty {
                DataType::STRING => self.text(prefix, *at.cast())?,
                DataType::POINTER => {
                    self.head(prefix, name(ty));
                    say!(self, "\tAddress: {at:p}");
                }
                DataType::PROC => self.proc(prefix, &*at.cast()),
                DataType::PROC_NSPACE => {
                    self.head(prefix, name(ty));
                    self.put(&[b"\tValue: ", alloc::bounded(at.cast(), NSPACE_SIZE)]);
                }
                DataType::BYTE_OBJECT | DataType::COMPRESSED_STRING | DataType::COMPRESSED_BYTE_OBJECT => {
                    let bytes = &*at.cast::<pmix_byte_object_t>();
                    let compressed = ty == DataType::COMPRESSED_BYTE_OBJECT;
                    self.head(prefix, if compressed { name(ty) } else { b"PMIX_BYTE_OBJECT" });
                    self.put(&[b"\tSize: "]);
                    self.out.number(bytes.size as u64);
                }
                DataType::DATA_BUFFER => {
                    let buffer = &*at.cast::<pmix_data_buffer_t>();
                    self.put(&[prefix, b"PMIX_DATA_BUFFER NumBytesUsed: "]);
                    self.out.number(buffer.bytes_used as u64);
                }
                DataType::VALUE => self.value(prefix, &*at.cast())?,
                DataType::INFO => self.info(prefix, &*at.cast())?,
                DataType::PDATA => self.pdata(prefix, &*at.cast())?,
                DataType::QUERY => self.query(prefix, &*at.cast())?,
                DataType::DATA_ARRAY => self.array(prefix, &*at.cast())?,
                DataType::PROC_INFO => self.proc_info(prefix, &*at.cast()),
                DataType::ENVAR => self.envar(prefix, &*at.cast()),
                DataType::REGATTR => self.regattr(prefix, &*at.cast()),
                DataType::COORD => self.coord(prefix, &*at.cast()),
                DataType::GEOMETRY => self.geometry(prefix, &*at.cast())?,
                DataType::DEVICE_DIST => self.distance(prefix, &*at.cast()),
                DataType::ENDPOINT => self.endpoint(prefix, &*at.cast()),
                DataType::PROC_STATS => self.proc_stats(prefix, &*at.cast()),
                DataType::DISK_STATS => self.disk_stats(prefix, &*at.cast()),
                DataType::NET_STATS => self.net_stats(prefix, &*at.cast()),
                DataType::NODE_STATS => self.node_stats(prefix, &*at.cast()),
                DataType::APP => {
                    self.words(prefix, name(ty), b"");
                    self.app(&*at.cast())?;
                }
                DataType::DEVICE => self.device(prefix, &*at.cast()),
                DataType::RESOURCE_UNIT => {
                    let unit = &*at.cast::<pmix_resource_unit_t>();
                    let what = names::DEVICE_TYPE.text(unit.dtype);
                    self.line(prefix, name(ty), &format_args!("Type: {what}  Count: {}", unit.count));
                }
                DataType::NODE_PID => {
                    self.line(prefix, name(ty), &convert::one::<pmix_node_pid_t, NodePid>(at.cast())?)
                }
                DataType::REGEX2 => self.line(prefix, name(ty), &convert::one::<pmix_regex2_t, Regex2>(at.cast())?),
                // Nobody's object.
                DataType::PROC_CPUSET | DataType::TOPO if (*at.cast::<*const c_char>()).is_null() => {
                    return Err(Status::ERR_NOT_SUPPORTED);
                }
                DataType::PROC_CPUSET => self.line(prefix, b"PMIX_CPUSET", &convert::read(ty, at, 0)?),
                DataType::TOPO => match (*at.cast::<pmix_topology_t>()).object()? {
                    Some(topology) => {
                        let outline = topology.outline().ok_or(Status::ERR_NOT_SUPPORTED)?;
                        self.words(prefix, name(ty), outline.as_bytes());
                    }
                    None => self.line(prefix, name(ty), &convert::read(ty, at, 0)?),
                },
                _ => return Err(Status::ERR_UNKNOWN_DATA_TYPE),
            }
        }
        Ok(())
    }

    /// A value without the word that says so.
    unsafe fn inside(&mut self, value: &pmix_value_t) -> Outcome {
        let ty = DataType(value.ty);
        // SAFETY: the member of the union that the type selects, as promised by the caller.
        unsafe {
            match ty {
                DataType::UNDEF => self.head(INNER, b"PMIX_UNDEF"),
                _ if is_unprintable(ty) || ty == DataType::INFO => self.unprintable(ty),
                DataType::PROC if value.data.ptr.is_null() => self.put(&[INNER, b"PROC: NULL"]),
                DataType::PROC_NSPACE if value.data.ptr.is_null() => self.words(INNER, name(ty), b"(null)"),
                _ if Kind::of(ty).is_some_and(Kind::is_boxed) => return self.element(INNER, ty, value.data.ptr),
                _ => return self.element(INNER, ty, (&raw const value.data).cast()),
            }
        }
        Ok(())
    }

    unsafe fn value(&mut self, prefix: &[u8], value: &pmix_value_t) -> Outcome {
        self.put(&[prefix, b"PMIX_VALUE: "]);
        // SAFETY: as promised by the caller.
        unsafe { self.inside(value) }
    }

    unsafe fn info(&mut self, prefix: &[u8], info: &pmix_info_t) -> Outcome {
        self.put(&[prefix, b"KEY: ", within(&info.key), b"\n", prefix, b"\t"]);
        self.directives(prefix, info.flags);
        self.put(&[b"\n", prefix, b"\t"]);
        // SAFETY: as promised by the caller.
        unsafe { self.value(prefix, &info.value) }
    }

    unsafe fn pdata(&mut self, prefix: &[u8], data: &pmix_pdata_t) -> Outcome {
        self.put(&[prefix, b"  "]);
        self.proc(prefix, &data.proc);
        self.put(&[b"  KEY: ", within(&data.key), b" "]);
        // SAFETY: as promised by the caller.
        unsafe { self.value(prefix, &data.value) }
    }

    unsafe fn query(&mut self, prefix: &[u8], query: &pmix_query_t) -> Outcome {
        self.head(prefix, b"PMIX_QUERY");
        self.put(&[b"\tValue:"]);
        let inner = [prefix, b"\t"].concat();
        // SAFETY: as promised by the caller.
        unsafe {
            for key in alloc::argv(query.keys) {
                self.put(&[b"\n", &inner, b"Key: ", key]);
            }
            for info in alloc::slice(query.qualifiers, query.nqual)? {
                self.put(&[b"\n"]);
                self.info(&inner, info)?;
            }
        }
        Ok(())
    }

    unsafe fn app(&mut self, app: &pmix_app_t) -> Outcome {
        // SAFETY: as promised by the caller.
        unsafe {
            self.put(&[b"CMD: ", or(app.cmd, NULL)]);
            for (what, argv) in [("ARGV", app.argv), ("ENV", app.env)] {
                say!(self, "\n    {what}:");
                if argv.is_null() {
                    self.put(&[b"\n        NONE"]);
                }
                for (i, text) in alloc::argv(argv).into_iter().enumerate() {
                    say!(self, "\n        {what}[{i}]: ");
                    self.put(&[text]);
                }
            }
            self.put(&[b"\n    CWD: ", or(app.cwd, NULL)]);
            say!(self, "\n    MAXPROCS: {}\n    INFO:", app.maxprocs);
            if app.info.is_null() {
                self.put(&[b" NONE"]);
                return Ok(());
            }
            for (i, info) in alloc::slice(app.info, app.ninfo)?.iter().enumerate() {
                say!(self, "\n        INFO[{i}]: ");
                self.info(INNER, info)?;
            }
        }
        Ok(())
    }

    unsafe fn array(&mut self, prefix: &[u8], array: &pmix_data_array_t) -> Outcome {
        let ty = DataType(array.ty);
        self.head(prefix, b"PMIX_DATA_ARRAY");
        self.put(&[b"\tType: ", name(ty), b"\tSize: "]);
        self.out.number(array.size as u64);
        if is_unprintable(ty) {
            for _ in 0..array.size.min(MOST_UNPRINTABLE) {
                self.put(&[b"\n", prefix]);
                self.unprintable(ty);
            }
            return Ok(());
        }
        let size = Kind::of(ty).map_or(0, |kind| kind.size);
        let bytes = array.size.checked_mul(size).ok_or(Status::ERR_BAD_PARAM)?;
        // SAFETY: as many elements of that type, as promised by the caller.
        unsafe {
            alloc::slice(array.array.cast::<u8>(), bytes)?;
            for i in 0..array.size {
                self.put(&[b"\n", prefix]);
                self.element(prefix, ty, array.array.byte_add(i * size))?;
            }
        }
        Ok(())
    }
}
