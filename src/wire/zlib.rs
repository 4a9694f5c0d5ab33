//! Compressed bytes: the length of what went in, four bytes in the machine's order, and a zlib stream.
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::data::{Text, Value};

/// Shorter data is not worth it.
const WORTH_IT: usize = 4096;
/// No stream grows to more than this many times its length.
const MAX_RATIO: usize = 1032;
const HEAD: usize = 4;
/// Most bytes that are compressed, or come of a stream: no value is longer.
pub const MOST: usize = crate::data::archive::MAX_LEN;
/// Room for the first bytes of a stream; then as much again as there was, however much more it claims.
const ROOM: usize = 1 << 16;

/// The compressed form of some bytes; none where they are too few or too many, or would not become fewer.
pub fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    let len = u32::try_from(bytes.len()).ok().filter(|_| (WORTH_IT..=MOST).contains(&bytes.len()))?;
    let mut out = Vec::new();
    out.try_reserve_exact(bytes.len()).ok()?;
    out.extend_from_slice(&len.to_ne_bytes());
    // The vector grows no further: what does not fit is not worth it.
    let status = Compress::new(Compression::best(), true).compress_vec(bytes, &mut out, FlushCompress::Finish);
    matches!(status, Ok(Status::StreamEnd)).then_some(out)
}

/// Returns the bytes that were compressed; none where `bytes` are nothing that [`compress`] or a stock library has
/// made, or would become more than `most`.
pub fn decompress(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    let (head, mut stream) = bytes.split_first_chunk::<HEAD>()?;
    let len = usize::try_from(u32::from_ne_bytes(*head)).ok()?;
    if len > most.min(stream.len().saturating_mul(MAX_RATIO)) {
        return None;
    }
    let (mut out, mut inflater) = (Vec::new(), Decompress::new(true));
    loop {
        // One byte more than there should be: a stream that fills it is another one.
        out.try_reserve_exact(ROOM.max(out.len()).min(len + 1 - out.len())).ok()?;
        let before = (inflater.total_in(), out.len());
        let status = inflater.decompress_vec(stream, &mut out, FlushDecompress::None).ok()?;
        stream = &stream[(inflater.total_in() - before.0) as usize..];
        match status {
            Status::StreamEnd => return (out.len() == len).then_some(out),
            _ if out.len() > len || before == (inflater.total_in(), out.len()) => return None,
            _ => {}
        }
    }
}

/// A value that a stock library has compressed on its way; none where it is more than is `left`.
pub fn inflated(value: Value, left: &mut usize) -> Option<Value> {
    let mut inflate = |bytes: &[u8]| {
        let inflated = decompress(bytes, *left)?;
        *left -= inflated.len();
        Some(inflated)
    };
    match value {
        Value::CompressedString(bytes) => {
            let mut text = inflate(&bytes)?;
            text.pop_if(|last| *last == 0);
            Some(Value::String(Some(Text::new(text).ok()?)))
        }
        Value::CompressedByteObject(bytes) => Some(Value::ByteObject(inflate(&bytes)?)),
        value => Some(value),
    }
}

/// A posted value as the process had it: clients of 5.0.8 to 5.0.11 compress long texts, and nobody's Get undoes it.
/// One that is too long stays as it is, and so do those behind it.
pub fn plain(value: Value, left: &mut usize) -> Value {
    if !matches!(value, Value::CompressedString(_)) {
        return value;
    }
    inflated(value.clone(), left).unwrap_or_else(|| {
        *left = 0;
        value
    })
}

/// The list that a map expression of the binary form stands for: `blob:`, `component=zlib:` and `size=N:`, a NUL behind
/// each, and N compressed bytes. None where it is something else, or longer than `most`.
pub fn expression(bytes: &[u8], most: usize) -> Option<Vec<u8>> {
    let rest = bytes.strip_prefix(b"blob:\0component=zlib:\0size=")?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let size: usize = std::str::from_utf8(rest[..end].strip_suffix(b":")?).ok()?.parse().ok()?;
    let mut list = decompress(rest.get(end + 1..)?.get(..size)?, most)?;
    if list.last() == Some(&0) {
        list.pop();
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_text_is_one_text() {
        let inflated =
            |text: &[u8]| super::inflated(Value::CompressedString(compress(text).unwrap()), &mut MOST.clone());
        let text = "x".repeat(5000);
        assert_eq!(inflated(text.as_bytes()), Some(Value::string(&*text)));
        assert_eq!(inflated(format!("{text}\0").as_bytes()), Some(Value::string(text)));
        // Any process of the job may have posted it.
        assert_eq!(inflated("x\0".repeat(5000).as_bytes()), None);
    }

    #[test]
    fn a_binary_map_expression_is_the_list_that_was_compressed() {
        let list = (0..2000).map(|n| format!("host{n}")).collect::<Vec<_>>().join(",").into_bytes();
        let small = compress(&list).expect("worth it");
        let head = format!("blob:\0component=zlib:\0size={}:\0", small.len());
        let blob = [head.as_bytes(), &small].concat();
        assert_eq!(expression(&blob, MOST).as_ref(), Some(&list));
        for len in 0..blob.len() {
            assert_eq!(expression(&blob[..len], MOST), None);
        }
        assert_eq!(expression(&[head.replace("zlib", "other").as_bytes(), &small].concat(), MOST), None);
        assert_eq!(expression(&list, MOST), None);
    }

    #[test]
    fn what_is_compressed_comes_back() {
        let text: Vec<u8> = (0..40_000u32).flat_map(|n| (n % 97).to_string().into_bytes()).collect();
        let small = compress(&text).expect("worth it");
        assert!(small.len() < text.len() / 4);
        assert_eq!(small[..4], u32::try_from(text.len()).expect("short").to_ne_bytes());
        assert_eq!(decompress(&small, text.len()).as_ref(), Some(&text));
        assert_eq!(decompress(&small, text.len() - 1), None);
        assert_eq!(compress(&text[..WORTH_IT - 1]), None);
        let zeros = vec![0; 5 * ROOM];
        assert_eq!(decompress(&compress(&zeros).expect("worth it"), MOST), Some(zeros));
    }

    #[test]
    fn noise_stays_as_it_is() {
        let mut state = 1u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        let noise: Vec<u8> = noise.take(10_000).collect();
        assert_eq!(compress(&noise), None);
    }

    #[test]
    fn other_bytes_are_refused_before_memory_is_taken() {
        let good = compress(&[b'a'; 5000]).expect("worth it");
        for len in 0..good.len() {
            assert_eq!(decompress(&good[..len], MOST), None);
        }
        let mut claims = good.clone();
        claims[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(decompress(&claims, MOST), None);
        claims[..4].copy_from_slice(&4999u32.to_ne_bytes());
        assert_eq!(decompress(&claims, MOST), None);
        claims[..4].copy_from_slice(&5001u32.to_ne_bytes());
        assert_eq!(decompress(&claims, MOST), None);
    }
}
