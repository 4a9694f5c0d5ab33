//! Numbers, times and texts in printed elements.
use instanton::data::constants::locality;
use instanton::data::names::{self, Names};
use instanton::data::{DataType, Rank};
use libc::c_char;

use crate::alloc;

/// Words for texts that are not there: in most types, and in those that came later.
pub const NIL: &[u8] = b"(null)";
/// The other.
pub const NULL: &[u8] = b"NULL";

/// Names of commands, by number, in the protocol of stock libraries.
const COMMANDS: [&str; 39] = [
    "REQUEST INIT INFO",
    "ABORT",
    "COMMIT",
    "FENCE",
    "GET",
    "FINALIZE",
    "PUBLISH",
    "LOOKUP",
    "UNPUBLISH",
    "SPAWN",
    "CONNECT",
    "DISCONNECT",
    "NOTIFY",
    "REGISTER EVENT HANDLER",
    "DEREGISTER EVENT HANDLER",
    "QUERY",
    "LOG",
    "ALLOCATE",
    "JOB CONTROL",
    "MONITOR",
    UNKNOWN,
    UNKNOWN,
    "IOF PULL",
    "IOF PUSH",
    "GROUP CONSTRUCT",
    "GROUP JOIN",
    "GROUP INVITE",
    "GROUP LEAVE",
    "GROUP DESTRUCT",
    "IOF DEREG",
    "FABRIC REGISTER",
    "FABRIC UPDATE",
    "COMPUTE DEVICE DIST",
    "REFRESH CACHE",
    UNKNOWN,
    UNKNOWN,
    UNKNOWN,
    "RESOLVE PEERS",
    "RESOLVE NODE",
];
const UNKNOWN: &str = "UNKNOWN";

pub fn command(number: u8) -> &'static str {
    COMMANDS.get(usize::from(number)).unwrap_or(&UNKNOWN)
}

/// A data type.
pub fn name(ty: DataType) -> &'static [u8] {
    match ty.pointer() {
        Some(_) => ty.text().to_bytes(),
        None => UNKNOWN.as_bytes(),
    }
}

/// A rank: three of those that mean something have a name.
pub fn rank(rank: u32) -> Option<&'static str> {
    match Rank(rank) {
        Rank::UNDEF => Some("PMIX_RANK_UNDEF"),
        Rank::WILDCARD => Some("PMIX_RANK_WILDCARD"),
        Rank::LOCAL_NODE => Some("PMIX_RANK_LOCAL_NODE"),
        Rank(_) => None,
    }
}

/// A process id as the unsigned number of the machine's width that printf makes of it.
pub fn unsigned(pid: i32) -> u64 {
    i64::from(pid) as u64
}

/// A time of this machine's clock, as `ctime` writes it.
pub fn date(seconds: i64) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // SAFETY: all zeros is a legal `tm`, and localtime_r fills it or answers NULL.
    let tm = unsafe {
        let mut tm = std::mem::zeroed();
        if libc::localtime_r(&seconds, &mut tm).is_null() {
            return seconds.to_string();
        }
        tm
    };
    let day = usize::try_from(tm.tm_wday).ok().and_then(|day| DAYS.get(day)).unwrap_or(&"???");
    let month = usize::try_from(tm.tm_mon).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&"???");
    let year = i64::from(tm.tm_year) + 1900;
    format!("{day} {month} {:2} {:02}:{:02}:{:02} {year}", tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec)
}

/// The texts of the bits that are set, with colons between them.
pub fn bits(names: &Names, number: u64) -> String {
    names.set(number).collect::<Vec<_>>().join(":")
}

/// Returns the names of the places that two processes share.
pub fn places(number: u16) -> String {
    match number {
        0 => UNKNOWN.into(),
        locality::LOCALITY_NONLOCAL => names::LOCALITY.text(number).into(),
        number => bits(&names::LOCALITY, u64::from(number & !locality::LOCALITY_NONLOCAL)).replace("CACHE", ""),
    }
}

/// A text, or what stands for it.
///
/// # Safety
/// `text` is NULL or a C string that stays for `'a`.
pub unsafe fn or<'a>(text: *const c_char, other: &'static [u8]) -> &'a [u8] {
    // SAFETY: as promised by the caller.
    unsafe { alloc::c_bytes(text) }.unwrap_or(other)
}

/// The text in a fixed array, which need not end.
pub fn within(name: &[c_char]) -> &[u8] {
    // SAFETY: the array's own bytes.
    unsafe { alloc::bounded(name.as_ptr(), name.len()) }
}
