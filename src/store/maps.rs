//! Node and process maps, expanded.

/// A map that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a map: {0}")]
pub struct BadMap(String);

fn text(bytes: &[u8]) -> Result<&str, BadMap> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|e| BadMap(e.to_string()))?;
    Ok(text.strip_prefix("raw:").unwrap_or(text))
}

/// Names of nodes, in order.
pub(super) fn nodes(bytes: &[u8]) -> Result<Vec<Vec<u8>>, BadMap> {
    Ok(text(bytes)?.split(',').filter(|name| !name.is_empty()).map(|name| name.as_bytes().to_vec()).collect())
}

/// Ranks of each node, in order of the nodes.
pub(super) fn ranks(bytes: &[u8], limit: u32) -> Result<Vec<Vec<u32>>, BadMap> {
    let bad = |what: &str| BadMap(format!("{what:?}"));
    text(bytes)?
        .split(';')
        .map(|node| {
            let mut ranks = Vec::new();
            for part in node.split(',').filter(|part| !part.is_empty()) {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                let (first, last): (u32, u32) =
                    (first.parse().map_err(|_| bad(part))?, last.parse().map_err(|_| bad(part))?);
                if first > last || last >= limit {
                    return Err(bad(part));
                }
                ranks.extend(first..=last);
            }
            Ok(ranks)
        })
        .collect()
}
