//! Points in time for people and programs: in UTC, as ISO 8601 writes them.
use jiff::Timestamp;

/// A time in seconds since 1970.
pub fn utc(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(|| seconds.to_string(), |time| time.to_string())
}

/// The time now, to a millisecond.
pub fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(u64::MAX), u64::MAX.to_string());
        assert!(now().ends_with('Z'));
    }
}
