//! Memory that crosses the boundary.
//!
//! Programs free what we return and give us what they allocated, with the `malloc` family of the process's libc: the
//! older headers do it in macros that are compiled into the program. So nothing that C can see is ever Rust memory.
use std::mem::MaybeUninit;
use std::ptr;

use instanton::data::Status;
use libc::{c_char, c_void};

/// No object of C is larger: what lies above is not user memory on any 64-bit Linux.
const ADDRESS_SPACE: usize = 1 << 47;

/// `n` zeroed elements; NULL where there are none or there is no memory for them.
pub fn zeroed<T>(n: usize) -> *mut T {
    match n.checked_mul(size_of::<T>()) {
        // SAFETY: calloc takes any numbers.
        Some(bytes) if bytes != 0 && bytes <= ADDRESS_SPACE => unsafe { libc::calloc(1, bytes).cast() },
        _ => ptr::null_mut(),
    }
}

/// Room for a new element.
#[inline]
pub fn room<T>() -> Result<*mut T, Status> {
    // SAFETY: malloc takes any size.
    let place = unsafe { libc::malloc(size_of::<T>()) }.cast::<T>();
    if place.is_null() { Err(Status::ERR_NOMEM) } else { Ok(place) }
}

/// A new element that holds `value`.
#[inline]
pub fn boxed<T: Copy>(value: T) -> Result<*mut T, Status> {
    let place = room::<T>()?;
    // SAFETY: `place` is fresh, large enough and aligned as malloc aligns everything.
    unsafe { place.write(value) };
    Ok(place)
}

/// A copy of plain bytes; NULL for none.
pub fn bytes(from: &[u8]) -> Result<*mut c_char, Status> {
    if from.is_empty() {
        return Ok(ptr::null_mut());
    }
    // SAFETY: malloc takes any size.
    let place = unsafe { libc::malloc(from.len()) }.cast::<u8>();
    if place.is_null() {
        return Err(Status::ERR_NOMEM);
    }
    // SAFETY: `place` is fresh and has room for `from`.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), place, from.len()) };
    Ok(place.cast())
}

/// `n` bytes that `fill` copies to a new place, saying how many it had; the rest are zeros.
pub fn bytes_with(n: usize, fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> usize) -> Result<*mut c_char, Status> {
    // SAFETY: malloc takes any size.
    let place = unsafe { libc::malloc(n) }.cast::<MaybeUninit<u8>>();
    if place.is_null() {
        return Err(Status::ERR_NOMEM);
    }
    // SAFETY: `place` is fresh and has `n` bytes, which need not be initialised.
    let room = unsafe { std::slice::from_raw_parts_mut(place, n) };
    let filled = fill(room).min(n);
    room[filled..].fill(MaybeUninit::new(0));
    Ok(place.cast())
}

/// A C string with these bytes, which have no NUL.
pub fn text(from: &[u8]) -> Result<*mut c_char, Status> {
    // SAFETY: malloc takes any size.
    let place = unsafe { libc::malloc(from.len() + 1) }.cast::<u8>();
    if place.is_null() {
        return Err(Status::ERR_NOMEM);
    }
    // SAFETY: `place` is fresh and has room for `from` and one byte more.
    unsafe {
        ptr::copy_nonoverlapping(from.as_ptr(), place, from.len());
        place.add(from.len()).write(0);
    }
    Ok(place.cast())
}

/// Gives memory back to libc.
///
/// # Safety
/// `place` is NULL or came from the malloc family, and nobody uses it any more.
pub unsafe fn release<T>(place: *mut T) {
    // SAFETY: as promised by the caller.
    unsafe { libc::free(place.cast::<c_void>()) };
}

/// The elements of a C array.
///
/// # Errors
/// `ERR_BAD_PARAM` where there is a number without an array, or a number that no array can have.
///
/// # Safety
/// `first` is NULL or points to `n` initialised elements that stay for `'a`.
pub unsafe fn slice<'a, T>(first: *const T, n: usize) -> Result<&'a [T], Status> {
    if n == 0 {
        return Ok(&[]);
    }
    if first.is_null() || !first.is_aligned() || n.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > ADDRESS_SPACE)
    {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: not NULL, aligned, of a possible size; the rest as promised by the caller.
    Ok(unsafe { std::slice::from_raw_parts(first, n) })
}

/// The bytes before the NUL of a C string.
///
/// # Safety
/// `text` is NULL or a C string that stays for `'a`.
pub unsafe fn c_bytes<'a>(text: *const c_char) -> Option<&'a [u8]> {
    match text.is_null() {
        true => None,
        // SAFETY: as promised by the caller.
        false => Some(unsafe { std::ffi::CStr::from_ptr(text) }.to_bytes()),
    }
}

/// The bytes of a map expression: those before the NUL, or of the binary forms (`blob:`, `size=...:` with or without the
/// name of a component before it, a NUL behind each) all that it says it has.
///
/// # Safety
/// `text` is NULL or such an expression that stays for `'a`.
pub unsafe fn expression<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: as promised by the caller.
    unsafe {
        let method = c_bytes(text)?;
        if method != b"blob:" {
            return Some(method);
        }
        let mut head = method.len() + 1;
        let mut size = c_bytes(text.add(head))?;
        head += size.len() + 1;
        // Bytes behind a size are no text.
        if !size.starts_with(b"size=") {
            size = c_bytes(text.add(head))?;
            head += size.len() + 1;
        }
        let digits = size.strip_prefix(b"size=")?.strip_suffix(b":")?;
        let bytes: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
        slice(text.cast::<u8>(), head.checked_add(bytes)?).ok()
    }
}

/// The bytes before the NUL of a name that has at most `room` bytes, the NUL included.
///
/// # Errors
/// `ERR_BAD_PARAM` for NULL and where no NUL comes in time.
///
/// # Safety
/// `name` is NULL, a C string, or an array of at least `room` bytes; it stays for `'a`.
pub unsafe fn name<'a>(name: *const c_char, room: usize) -> Result<&'a [u8], Status> {
    if name.is_null() {
        return Err(Status::ERR_BAD_PARAM);
    }
    // SAFETY: strnlen reads neither past a NUL nor past `room` bytes.
    let len = unsafe { libc::strnlen(name, room) };
    match len < room {
        // SAFETY: these bytes were just read.
        true => Ok(unsafe { std::slice::from_raw_parts(name.cast(), len) }),
        false => Err(Status::ERR_BAD_PARAM),
    }
}

/// Returns whether an array holds that name and the NUL behind it.
#[inline]
pub fn is<const ROOM: usize>(array: &[c_char; ROOM], name: &[u8]) -> bool {
    let same = |(there, wanted): (&c_char, &u8)| *there as u8 == *wanted;
    array.get(name.len()) == Some(&0) && array.iter().zip(name).all(same)
}

/// The bytes before a NUL, at most `most`; none of NULL.
///
/// # Safety
/// `text` is NULL, a C string, or an array of at least `most` bytes; it stays for `'a`.
pub unsafe fn bounded<'a>(text: *const c_char, most: usize) -> &'a [u8] {
    match text.is_null() {
        true => &[],
        // SAFETY: strnlen reads neither past a NUL nor past `most`.
        false => unsafe { std::slice::from_raw_parts(text.cast(), libc::strnlen(text, most)) },
    }
}

/// Fills a fixed array of a C structure with a name and NULs. Bytes that do not fit are cut off.
pub fn set_name<const N: usize>(place: &mut [c_char; N], name: &[u8]) {
    let len = name.len().min(N - 1);
    // SAFETY: bytes and C's characters are the same, and there is room for these.
    unsafe { ptr::copy_nonoverlapping(name.as_ptr().cast(), place.as_mut_ptr(), len) };
    place[len..].fill(0);
}

/// Frees a NULL-terminated array of strings.
///
/// # Safety
/// `argv` is NULL or such an array from the malloc family, and nobody uses it any more.
pub unsafe fn release_argv(argv: *mut *mut c_char) {
    if argv.is_null() {
        return;
    }
    // SAFETY: the array ends with a NULL, as promised by the caller.
    unsafe {
        let mut at = argv;
        while !(*at).is_null() {
            release(*at);
            at = at.add(1);
        }
        release(argv);
    }
}

/// The strings of a NULL-terminated array.
///
/// # Safety
/// `argv` is NULL or such an array; it stays for `'a`.
pub unsafe fn argv<'a>(argv: *const *mut c_char) -> Vec<&'a [u8]> {
    let mut out = Vec::new();
    let mut at = argv;
    // SAFETY: the array ends with a NULL, as promised by the caller.
    while let Some(text) = (!at.is_null()).then(|| unsafe { c_bytes(*at) }).flatten() {
        out.push(text);
        at = at.wrapping_add(1);
    }
    out
}

/// A NULL-terminated array of copies of these strings.
pub fn new_argv<'a>(texts: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<*mut *mut c_char, Status> {
    let array = zeroed::<*mut c_char>(texts.len() + 1);
    if array.is_null() {
        return Err(Status::ERR_NOMEM);
    }
    for (i, one) in texts.enumerate() {
        match text(one) {
            // SAFETY: the array has room for every text and the NULL.
            Ok(copy) => unsafe { array.add(i).write(copy) },
            Err(status) => {
                // SAFETY: made above, NULL-terminated at every step because it began zeroed.
                unsafe { release_argv(array) };
                return Err(status);
            }
        }
    }
    Ok(array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_ends_where_it_says_that_it_does() {
        // SAFETY: all of them end with a NUL, or have the bytes that they say they have.
        let read = |text: &'static [u8]| unsafe { expression(text.as_ptr().cast()) };
        assert_eq!(read(b"pmix[a]\0rest\0"), Some(&b"pmix[a]"[..]));
        let with_component = b"blob:\0component=zlib:\0size=4:\0a\0b\0\0";
        assert_eq!(read(with_component), Some(&with_component[..with_component.len() - 1]));
        let without = b"blob:\0size=4:\0a\0b\0\0";
        assert_eq!(read(without), Some(&without[..without.len() - 1]));
        for bad in
            [&b"blob:\0size=:\0a\0\0"[..], b"blob:\0size=4\0abcd\0", b"blob:\0a:\0size=-1:\0\0", b"blob:\0a\0b\0"]
        {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }
}
