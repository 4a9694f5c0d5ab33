//! The clock on the wall, for people and for peers that want to be told the time.
//!
//! Somebody may set it, back and forth: nothing here is decided by it. Code that waits looks at the monotonic clock.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time since 1970; none before that.
#[allow(clippy::disallowed_methods, reason = "the one place that reads it")]
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
