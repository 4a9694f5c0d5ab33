//! Places of processes on a node as text, `SK0:L30:CR0-1:HT0-1:NM0`, and the parts that two such places have in common.
use super::constants::locality::*;

/// Prefix of a place in some hosts' locality strings.
const METHOD: &str = "hwloc:";

/// Returns the parts of a node that two processes share (`constants::locality` bits, always the node), from their
/// locality strings. `None` for text that is none.
///
/// ```
/// use instanton::data::{constants::locality::*, locality};
/// let shared = locality::shared(b"SK0:L30:CR0:HT0", b"hwloc:SK0:L30:CR1:HT2-3");
/// assert_eq!(shared, Some(LOCALITY_SHARE_NODE | LOCALITY_SHARE_PACKAGE | LOCALITY_SHARE_L3CACHE));
/// ```
pub fn shared(a: &[u8], b: &[u8]) -> Option<u16> {
    let (a, b) = (places(a)?, places(b)?);
    let mut shared = LOCALITY_SHARE_NODE;
    for (bit, spans) in &a {
        let others = b.iter().filter(|(other, _)| other == bit).flat_map(|(_, spans)| spans);
        if others.into_iter().any(|(low, high)| spans.iter().any(|(from, to)| from <= high && low <= to)) {
            shared |= bit;
        }
    }
    Some(shared)
}

/// A level and the numbers of its objects, first and last of each run.
type Place = (u16, Vec<(u32, u32)>);

fn places(text: &[u8]) -> Option<Vec<Place>> {
    let text = std::str::from_utf8(text).ok()?;
    let text = text.strip_prefix(METHOD).unwrap_or(text);
    text.split(':').filter(|part| !part.is_empty()).map(place).collect()
}

fn place(part: &str) -> Option<Place> {
    let (level, list) = part.split_at_checked(2)?;
    let bit = match level {
        "NM" => LOCALITY_SHARE_NUMA,
        "SK" => LOCALITY_SHARE_PACKAGE,
        "L3" => LOCALITY_SHARE_L3CACHE,
        "L2" => LOCALITY_SHARE_L2CACHE,
        "L1" => LOCALITY_SHARE_L1CACHE,
        "CR" => LOCALITY_SHARE_CORE,
        "HT" => LOCALITY_SHARE_HWTHREAD,
        _ => return None,
    };
    let span = |span: &str| {
        let (low, high) = span.split_once('-').unwrap_or((span, span));
        Some((low.parse().ok()?, high.parse().ok()?))
    };
    Some((bit, list.split(',').map(span).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_compared_level_by_level() {
        let here = b"SK0:L30:L20-1:L10-1:CR0-1:HT0-1:NM0";
        assert_eq!(shared(here, here), Some(0x407f));
        assert_eq!(shared(b"SK0:NM0", b"SK1:NM0-1"), Some(LOCALITY_SHARE_NODE | LOCALITY_SHARE_NUMA));
        assert_eq!(shared(b"CR0-3,5", b"CR4,6"), Some(LOCALITY_SHARE_NODE));
        assert_eq!(shared(b"CR0-3,5", b"CR5"), Some(LOCALITY_SHARE_NODE | LOCALITY_SHARE_CORE));
        assert_eq!(shared(b"hwloc:", b""), Some(LOCALITY_SHARE_NODE));
        for wrong in [&b"XX0"[..], b"SK", b"SKx", b"SK1-", b"\xff", b"L", b"SK99999999999", b"other:SK0"] {
            assert_eq!(shared(wrong, here), None);
        }
    }
}
