//! Sleeping on words of memory until somebody wakes the sleepers.
//!
//! Addresses are plain numbers here: the kernel reads four bytes there and answers an error when it
//! cannot; nothing is written.
#![cfg_attr(not(feature = "client"), allow(dead_code, reason = "only clients wait"))]
use std::io;
use std::ptr;
use std::time::Duration;

use instanton_layout::sync::{AtomicU32, Ordering};

/// Wakes every process that sleeps on the shared word at that address. It takes no right to write there.
pub(crate) fn wake_all(address: usize) {
    // SAFETY: FUTEX_WAKE looks at no memory of this process; of a word that is not mapped it says EFAULT.
    unsafe { libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAKE, i32::MAX) };
}

/// Asks the kernel to sleep on two words, one of which is not as said, so that it does not.
///
/// # Errors
/// The kernel's answer where it has no such call, or refuses it.
#[cfg_attr(not(feature = "server"), allow(dead_code, reason = "trials are for those who start jobs"))]
pub(crate) fn try_two_words() -> io::Result<()> {
    let (bell, other) = (Bell::new(), Bell::new());
    match bell.wait_for_both(other.address(), 1, Duration::ZERO) {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT)) => Err(error),
        _ => Ok(()),
    }
}

/// A word of this process that one thread sleeps on until another one rings.
#[derive(Debug)]
pub(crate) struct Bell(AtomicU32);

impl Bell {
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Wakes the one who waits, or will. A store before this is seen by it.
    pub(crate) fn ring(&self) {
        self.0.store(1, Ordering::Release);
        // SAFETY: as in `wake_all`.
        unsafe { libc::syscall(libc::SYS_futex, self.address(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1) };
    }

    /// Forgets that it has rung. Of the one who waits, when nobody rings.
    #[inline]
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has_rung(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    fn address(&self) -> usize {
        ptr::from_ref(&self.0) as usize
    }

    /// Sleeps until it rings, the shared word at `address` changes from `seen` and its sleepers are woken, or `limit`
    /// is over. Also returns for nothing.
    pub(crate) fn wait_beside(&self, address: usize, seen: u32, limit: Duration) {
        match self.wait_for_both(address, seen, limit) {
            // A wait that is over.
            Ok(()) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT)) => {}
            // Before Linux 5.16, forbidden, or without memory for it: then the bell is looked at now and then.
            Err(_) => wait_shared(address, seen, limit.min(TURN)),
        }
    }

    fn wait_for_both(&self, address: usize, seen: u32, limit: Duration) -> io::Result<()> {
        let of = |address: usize, value: u32, flags: u32| Waiter {
            value: value.into(),
            address: address as u64,
            flags,
            reserved: 0,
        };
        let waiters = [of(address, seen.to_le(), SIZE_U32), of(self.address(), 0, SIZE_U32 | PRIVATE)];
        let end = monotonic(limit)?;
        // SAFETY:
        // - `waiters` is an array of that many of the kernel's `struct futex_waitv`, and `end` a
        //   timespec; both outlive the call
        // - the kernel reads the two words itself
        let woken = unsafe {
            libc::syscall(
                libc::SYS_futex_waitv,
                waiters.as_ptr(),
                waiters.len(),
                0,
                &raw const end,
                libc::CLOCK_MONOTONIC,
            )
        };
        if woken < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

const SIZE_U32: u32 = 2;
const PRIVATE: u32 = 128;
/// Time that one sleeps on one word of two, where the kernel cannot wait for both.
const TURN: Duration = Duration::from_millis(50);

/// The kernel's `struct futex_waitv`.
#[repr(C)]
struct Waiter {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

/// Sleeps on the shared word alone, if it is `seen`, until its sleepers are woken or the time is over. Also returns for
/// nothing.
pub(crate) fn wait_shared(address: usize, seen: u32, limit: Duration) {
    let limit = timespec(limit);
    // SAFETY: reads the word at `address`, or says EFAULT; `limit` is a timespec that outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, address, libc::FUTEX_WAIT, seen.to_le(), &raw const limit) };
}

fn monotonic(from_now: Duration) -> io::Result<libc::timespec> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(timespec(Duration::new(now.tv_sec as u64, now.tv_nsec as u32) + from_now))
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Instant;

    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

    const LONG: Duration = Duration::from_secs(60);

    /// Waits for one of the two with `wait`, which may return early; says how it ended.
    fn woken(ring: bool, wait: impl Fn(&Bell, usize) + Send + 'static) -> bool {
        let both = Arc::new((Bell::new(), AtomicU32::new(7)));
        let there = both.clone();
        let sleeper = std::thread::spawn(move || {
            let address = ptr::from_ref(&there.1) as usize;
            let begin = Instant::now();
            while !there.0.has_rung() && there.1.load(Ordering::Acquire) == 7u32.to_le() {
                wait(&there.0, address);
            }
            assert!(begin.elapsed() < LONG / 2);
            there.0.has_rung()
        });
        if ring {
            both.0.ring();
        } else {
            both.1.store(8, Ordering::Release);
            wake_all(ptr::from_ref(&both.1) as usize);
        }
        sleeper.join().unwrap()
    }

    #[test]
    fn either_word_wakes_whoever_waits_for_both() {
        for _ in 0..100 {
            assert!(woken(true, |bell, address| bell.wait_beside(address, 7, LONG)));
            assert!(!woken(false, |bell, address| bell.wait_beside(address, 7, LONG)));
        }
    }

    #[test]
    fn a_kernel_that_cannot_wait_for_both_makes_it_a_little_later() {
        assert!(woken(true, |_, address| wait_shared(address, 7, TURN)));
        assert!(!woken(false, |_, address| wait_shared(address, 7, TURN)));
    }

    #[test]
    fn a_wait_for_both_that_is_refused_is_no_busy_one() {
        for errno in [libc::ENOSYS, libc::EPERM, libc::ENOMEM] {
            let turns = std::thread::spawn(move || {
                let rules = [(libc::SYS_futex_waitv, Vec::new())].into();
                let answer = SeccompAction::Errno(errno as u32);
                let machine = std::env::consts::ARCH.try_into().unwrap();
                let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, machine).unwrap();
                let program: BpfProgram = filter.try_into().unwrap();
                if let Err(error) = seccompiler::apply_filter(&program) {
                    println!("SKIPPED: no call can be refused here: {error}");
                    return 0;
                }
                let (bell, word, begin) = (Bell::new(), AtomicU32::new(7), Instant::now());
                let wait = || bell.wait_beside(ptr::from_ref(&word) as usize, 7, LONG);
                (0..).inspect(|_| wait()).take_while(|_| begin.elapsed() < 4 * TURN).count()
            });
            assert!(turns.join().unwrap() <= 8, "errno {errno}");
        }
    }

    #[test]
    fn a_bell_that_has_rung_keeps_nobody_until_that_is_forgotten() {
        let bell = Bell::new();
        let begin = Instant::now();
        bell.ring();
        bell.wait_beside(ptr::from_ref(&bell.0) as usize, 1, LONG);
        assert!(bell.has_rung() && begin.elapsed() < LONG / 2);
        bell.reset();
        assert!(!bell.has_rung());
    }
}
