//! Readers of a record that is replaced all the time.
use instanton_layout::sync::{AtomicBool, Ordering};

use super::*;

/// Bytes that all are the same, of a length that depends on which: what is mixed shows.
fn blob(round: u32) -> Vec<u8> {
    vec![round as u8; 8 + round as usize % 700]
}

fn is_blob(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| bytes.iter().all(|byte| byte == first))
}

#[test]
fn a_record_that_changes_is_never_mixed() {
    const ROUNDS: u32 = 60_000;
    let mut writer = writer(&Limits::default());
    post(&mut writer, 0, "blob", blob(0)).unwrap();
    let readers: Vec<_> = (0..2).map(|_| attach(&mut writer).0).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for (n, reader) in readers.iter().enumerate() {
            let done = &done;
            threads.spawn(move || {
                let mut reads = 0u64;
                let question = Question::new(Rank(0), "blob");
                while !done.load(Ordering::Relaxed) || reads == 0 {
                    reads += 1;
                    if n == 0 {
                        match reader.get(&question) {
                            Ok(Value::ByteObject(bytes)) => assert!(is_blob(&bytes), "a mixture after {reads} reads"),
                            Ok(other) => panic!("{other:?}"),
                            Err(Miss::Busy | Miss::Unmapped(_)) => {}
                            Err(miss) => panic!("{miss} after {reads} reads"),
                        }
                    } else {
                        let guard = match reader.pin() {
                            Ok(guard) => guard,
                            // Stopped with a guard, it may have held back too much.
                            Err(PinError::HoldsBack) => continue,
                            Err(error) => panic!("{error}"),
                        };
                        match guard.get(&question) {
                            Ok(value) => {
                                // Twice: what is held does not change while it is.
                                assert!(is_blob(&value.bytes()), "a mixture after {reads} reads");
                                assert!(is_blob(&value.bytes()));
                            }
                            Err(Miss::Unmapped(_) | Miss::Busy) => {}
                            Err(miss) => panic!("{miss} after {reads} reads"),
                        }
                    }
                }
            });
        }
        for round in 1..=ROUNDS {
            post(&mut writer, 0, "blob", blob(round)).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    // A reader that is stopped with a guard may hold back 4 MiB, in segments of twice that.
    assert!(writer.stats().bytes < 16 << 20, "blocks are not reused: {:?}", writer.stats());
}
