//! Seats: the first line of a connection, in which a launcher says for which process it is.
use super::words::{Words, line as words_line};
use crate::data::{Nspace, Proc, Rank};

/// The line for a process that shows that token.
pub fn line(proc: &Proc, token: &[u8; 32]) -> Vec<u8> {
    // In hexadecimal: a namespace may hold anything.
    let (nspace, token) = (hex(proc.nspace.as_bytes()), hex(token));
    words_line(&[
        ("cmd", b"seat"),
        ("nspace", &nspace),
        ("rank", proc.rank.0.to_string().as_bytes()),
        ("token", &token),
    ])
}

/// Reads such a line, without its end; none where it is no such line.
pub fn read(line: &[u8]) -> Option<(Proc, [u8; 32])> {
    let words = Words::of_line(line).ok().filter(|words| words.command() == b"seat")?;
    let nspace = Nspace::new(unhex(words.get("nspace")?)?).ok()?;
    let rank = words.number("rank").and_then(|rank| u32::try_from(rank).ok())?;
    let token = unhex(words.get("token")?)?.try_into().ok()?;
    Some((Proc::new(nspace, Rank(rank)), token))
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let pairs = text.chunks(2).map(|pair| match pair {
        [high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_read_as_it_was_named() {
        let proc = Proc::new(Nspace::new("job 1=@").unwrap(), Rank(7));
        let named = line(&proc, &[9; 32]);
        let (end, text) = named.split_last().unwrap();
        assert_eq!((*end, read(text)), (b'\n', Some((proc, [9; 32]))));
        for bad in
            ["cmd=init pmi_version=1", "cmd=seat nspace=zz rank=1 token=00", "cmd=seat nspace=6a rank=-1 token=00"]
        {
            assert_eq!(read(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(read(&text[..text.len() - 1]), None);
    }
}
