//! Our own standard input, where all ranks of the first job read it: each has a copy.
//!
//! One thread reads it, from the moment that all ranks are started, and writes every piece to every rank: all go on as
//! fast as the slowest of them reads. A rank that has ended, or has closed its input, gets nothing more.
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use crate::threads::start_thread;

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// The writing ends of the ranks' inputs, until they are served.
#[derive(Debug, Default)]
pub struct InputCopies(Mutex<Writers>);

#[derive(Debug, Default)]
enum Writers {
    #[default]
    None,
    Waiting(Vec<PipeWriter>),
    /// Input of a rank that is started anew is over before it begins.
    Served,
}

impl InputCopies {
    /// The input of one more rank.
    ///
    /// # Errors
    /// When the system refuses a pipe.
    pub fn add(&self) -> io::Result<PipeReader> {
        let (reader, writer) = io::pipe()?;
        let mut writers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *writers {
            Writers::None => *writers = Writers::Waiting(vec![writer]),
            Writers::Waiting(waiting) => waiting.push(writer),
            Writers::Served => {}
        }
        Ok(reader)
    }

    /// Begins to copy, if somebody wants that, what `input` has; our own input where there is none.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn serve(&self, input: Option<File>) -> Result<()> {
        match self.take() {
            Writers::Waiting(writers) => start_thread("input", move || match input {
                Some(input) => copy(input, writers),
                None => copy(io::stdin(), writers),
            }),
            _ => Ok(()),
        }
    }

    fn take(&self) -> Writers {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), Writers::Served)
    }
}

fn copy(mut input: impl Read, mut writers: Vec<PipeWriter>) {
    let mut chunk = vec![0; CHUNK];
    while !writers.is_empty() {
        match input.read(&mut chunk) {
            Ok(count @ 1..) => writers.retain_mut(|writer| writer.write_all(&chunk[..count]).is_ok()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_gets_all_of_it_and_one_that_leaves_holds_nobody_up() {
        let _ends = crate::COPIES.read();
        let copies = InputCopies::default();
        let readers = [copies.add().unwrap(), copies.add().unwrap()];
        let left = copies.add().unwrap();
        drop(left);
        let Writers::Waiting(writers) = copies.take() else { panic!("three were added") };
        let mut late = copies.add().unwrap();
        assert_eq!(late.read(&mut [0]).unwrap(), 0, "it comes too late");
        let text: Vec<u8> = (0..300_000u32).map(|number| (number % 251) as u8).collect();
        let expected = text.clone();
        let copying = std::thread::spawn(move || copy(&text[..], writers));
        let reading = readers.map(|mut reader| {
            std::thread::spawn(move || {
                let mut all = Vec::new();
                reader.read_to_end(&mut all).map(|_| all).unwrap()
            })
        });
        for reading in reading {
            assert!(reading.join().unwrap() == expected);
        }
        copying.join().unwrap();
    }
}
