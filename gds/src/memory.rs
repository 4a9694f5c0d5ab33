//! Reading the host's memory at addresses that may be none: a wrong one is an error of the kernel, and no crash.
//!
//! The kernel is asked about each page, by a call that reads a word there and changes nothing; what it could read is
//! then read here. Nobody takes the page away meanwhile: its owner is in the call that is being answered, and waits. So
//! the kernel is asked about a page once in such a call ([`in_one_call`]): objects of the host lie close together, and a
//! question costs as much as the rest of a look at a few of them.
//! The kernel could copy it all as well (`process_vm_readv`), at ten times the cost.
use std::cell::Cell;
use std::io;

use libc::c_void;

/// Bytes of a page; of larger ones, the kernel is asked more often than need be.
const PAGE: usize = 4096;
/// Longest text: a key of the Standard, and its NUL.
const LONGEST: usize = 512;
/// An operation on the set of blocked signals that there is not: it is refused once the argument has been read.
const NO_OPERATION: libc::c_int = -1;
/// Bytes of the kernel's set of signals.
const SET: usize = 8;

/// Pages that are remembered.
const REMEMBERED: usize = 8;

thread_local! {
    /// The latest pages that were found readable in the call that is being answered; `None` outside of one.
    static READABLE: Cell<Option<[usize; REMEMBERED]>> = const { Cell::new(None) };
}

/// Answers a call of the host, which leaves what it has given where it is until then.
pub fn in_one_call<T>(body: impl FnOnce() -> T) -> T {
    struct End(Option<[usize; REMEMBERED]>);
    impl Drop for End {
        fn drop(&mut self) {
            READABLE.set(self.0);
        }
    }
    let _end = End(READABLE.replace(Some([0; REMEMBERED])));
    body()
}

/// The host has worked, or something was freed: pages may be gone.
pub fn forget() {
    READABLE.set(READABLE.get().map(|_| [0; REMEMBERED]));
}

/// Returns whether the page of an address can be read.
fn is_readable(address: usize) -> bool {
    let page = address / PAGE;
    let remembered = READABLE.get();
    if remembered.is_some_and(|pages| pages.contains(&page)) {
        return true;
    }
    let is_readable = ask(address);
    if let Some(mut pages) = remembered.filter(|_| is_readable) {
        pages.rotate_right(1);
        pages[0] = page;
        READABLE.set(Some(pages));
    }
    is_readable
}

/// Asks the kernel about it.
fn ask(address: usize) -> bool {
    let word = (address & !(SET - 1)) as *const c_void;
    // SAFETY: the kernel looks whether it can read the word, and refuses the operation otherwise.
    let refused = unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NO_OPERATION, word, 0usize, SET) };
    refused == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// The bytes from an address to the end of its page, but no more than so many.
///
/// # Errors
/// `EFAULT` where they cannot be read.
fn within_page<'a>(address: usize, most: usize) -> io::Result<&'a [u8]> {
    if address < PAGE || !is_readable(address) {
        return Err(io::Error::from_raw_os_error(libc::EFAULT));
    }
    let len = most.min(PAGE - address % PAGE);
    // SAFETY: the page is there, and whoever owns it waits for the answer; the slice is gone before that.
    Ok(unsafe { std::slice::from_raw_parts(address as *const u8, len) })
}

/// Copies bytes of this process.
///
/// # Errors
/// `EFAULT` where not all of them can be read.
pub fn read(address: usize, into: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < into.len() {
        let at = address.checked_add(done).ok_or(io::ErrorKind::InvalidData)?;
        let part = within_page(at, into.len() - done)?;
        into[done..done + part.len()].copy_from_slice(part);
        done += part.len();
    }
    Ok(())
}

/// An address.
///
/// # Errors
/// As [`read`].
pub fn pointer(address: usize) -> io::Result<usize> {
    let mut bytes = [0; 8];
    read(address, &mut bytes)?;
    Ok(u64::from_le_bytes(bytes) as usize)
}

/// A number of 32 bits.
///
/// # Errors
/// As [`read`].
pub fn number(address: usize) -> io::Result<u32> {
    let mut bytes = [0; 4];
    read(address, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

/// A text, without its NUL.
///
/// # Errors
/// As [`read`]; `InvalidData` where it does not end.
pub fn text(address: usize) -> io::Result<Vec<u8>> {
    let mut found = Vec::new();
    while found.len() < LONGEST {
        let at = address.checked_add(found.len()).ok_or(io::ErrorKind::InvalidData)?;
        let part = within_page(at, LONGEST - found.len())?;
        match part.iter().position(|byte| *byte == 0) {
            Some(end) => {
                found.extend_from_slice(&part[..end]);
                return Ok(found);
            }
            None => found.extend_from_slice(part),
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_address_is_an_error() {
        for address in [0, 8, 1 << 46, usize::MAX - 3, usize::MAX] {
            assert!(read(address, &mut [0; 8]).is_err() && text(address).is_err() && pointer(address).is_err());
        }
        let endless = vec![b'x'; 2 * LONGEST];
        assert_eq!(text(endless.as_ptr() as usize).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn what_is_there_is_read() {
        let words = *b"\x07\x00\x00\x00\x00\x00\x00\x01a text of more than 64 bytes, which is read in full\0x";
        let at = words.as_ptr() as usize;
        assert_eq!((pointer(at).unwrap(), number(at).unwrap()), (0x0100_0000_0000_0007, 7));
        assert_eq!(text(at + 8).unwrap(), &words[8..words.len() - 2]);
    }

    #[test]
    fn the_kernel_is_asked_about_a_page_once_in_a_call() {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
        // SAFETY: fresh memory, which nobody reads when it is gone: only the kernel is asked about it then.
        unsafe {
            let at =
                mmap_anonymous(None, PAGE.try_into().unwrap(), ProtFlags::PROT_READ, MapFlags::MAP_PRIVATE).unwrap();
            let address = at.as_ptr() as usize;
            in_one_call(|| {
                assert!(pointer(address).is_ok());
                munmap(at, PAGE).unwrap();
                assert!(is_readable(address + 8) && !is_readable(PAGE));
                in_one_call(|| assert!(!is_readable(address)));
                assert!(is_readable(address));
                forget();
                assert!(pointer(address).is_err());
            });
            assert!(!is_readable(address));
        }
    }

    #[test]
    fn a_text_at_the_end_of_its_memory_is_read_to_its_end() {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).unwrap().unwrap() as usize;
        let both = std::num::NonZero::new(2 * page).unwrap();
        // SAFETY: fresh memory, of which the second page is never touched.
        unsafe {
            let at = mmap_anonymous(None, both, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE)
                .unwrap();
            mprotect(at.byte_add(page), page, ProtFlags::PROT_NONE).unwrap();
            let text_at = at.byte_add(page - 3).cast::<u8>();
            text_at.copy_from_nonoverlapping(std::ptr::NonNull::from(b"ab\0").cast(), 3);
            assert_eq!(text(text_at.as_ptr() as usize).unwrap(), b"ab");
            assert!(text(at.as_ptr() as usize + page).is_err());
            munmap(at, 2 * page).unwrap();
        }
    }
}
