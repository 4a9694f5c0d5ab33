//! Entrance of a door: accepts those who come, a bounded number at a time, so that those who are in have their turns.
//!
//! Those left over in a crowd are accepted at the next turn. A process without descriptors looks again after a
//! [pause](super::shortage::PAUSE).
use std::io;
use std::time::Instant;

use super::shortage::{PAUSE, Shortage};

/// Time at which a door accepts again, and whether it can.
pub struct Entrance {
    resume: Option<Instant>,
    shortage: Shortage,
}

impl Default for Entrance {
    fn default() -> Self {
        Entrance { resume: None, shortage: Shortage::none() }
    }
}

impl Entrance {
    /// Accepts up to `most` connections of a socket that does not block; `accept` takes the next one in.
    pub fn accept<S>(&mut self, most: usize, mut accept: impl FnMut() -> io::Result<S>) -> Vec<S> {
        let mut accepted = Vec::new();
        while accepted.len() < most {
            match accept() {
                Ok(stream) => {
                    self.shortage.end();
                    accepted.push(stream);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.shortage.end();
                    return accepted;
                }
                Err(e) if matches!(e.raw_os_error(), Some(libc::ECONNABORTED | libc::EINTR)) => {}
                Err(e) => {
                    let may_refuse = self.shortage.begin_or_go_on(Instant::now(), &e);
                    let was_there = may_refuse && accept().is_ok();
                    if may_refuse {
                        self.shortage.refused(was_there);
                    }
                    if !was_there {
                        self.resume_at(Some(Instant::now() + PAUSE));
                        return accepted;
                    }
                }
            }
        }
        self.resume_at(Some(Instant::now()));
        accepted
    }

    /// Leaves whoever comes waiting until a time, or until the next one comes.
    pub fn resume_at(&mut self, time: Option<Instant>) {
        self.resume = time;
    }

    /// Returns whether it is time to accept again.
    pub fn resumes(&mut self, now: Instant) -> bool {
        self.resume.take_if(|at| *at <= now).is_some()
    }

    /// Returns the time at which to accept again.
    pub fn deadline(&self) -> Option<Instant> {
        self.resume
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(codes: &[i32]) -> impl FnMut() -> io::Result<()> {
        let mut codes = codes.iter().copied();
        move || match codes.next() {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::from_raw_os_error(code)),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    #[test]
    fn a_crowd_comes_in_by_parts_and_nobody_is_forgotten() {
        let mut entrance = Entrance::default();
        let mut three = crowd(&[0, libc::EINTR, 0, libc::ECONNABORTED, 0]);
        assert_eq!(entrance.accept(2, &mut three).len(), 2);
        assert!(entrance.resumes(Instant::now()) && !entrance.resumes(Instant::now()));
        assert_eq!(entrance.accept(2, &mut three).len(), 1);
        assert_eq!(entrance.deadline(), None);
    }

    #[test]
    fn without_descriptors_the_door_looks_again_after_a_pause() {
        let mut entrance = Entrance::default();
        let mut short = crowd(&[0, libc::EMFILE, 0]);
        assert_eq!(entrance.accept(9, &mut short).len(), 1);
        assert!(!entrance.resumes(Instant::now()));
        assert!(entrance.resumes(Instant::now() + PAUSE));
        assert_eq!(entrance.accept(9, &mut short).len(), 1);
    }
}
