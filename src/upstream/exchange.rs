//! Posted data as servers of the reference implementation exchange it when a fence collects: what a server is given by
//! its host when all nodes have come, read for the plug-in that stands in it.
//!
//! Each server's part is packed bytes of their own. Releases 4.2 and 5.0 put the keys of a part in front of it and name a
//! process by its place among the participants; since then each process is named, and a part may be compressed.
use std::collections::BTreeMap;

use super::answers;
use crate::data::{DataType as T, Key, Nspace, Posted, Proc, Rank, Scope, Text, Value};
use crate::stock::body::Body;
use crate::wire::{Form, WireError, zlib};

/// Flag of a part: its keys are listed in front of it.
const KEYS_IN_FRONT: u8 = 2;

/// Data that each process of a job has posted.
pub type Exchanged = Vec<(Rank, Vec<Posted>)>;

/// Entries in the order of their ranks; a process may be in several parts.
#[derive(Default)]
struct Found {
    by_rank: BTreeMap<Rank, Vec<Posted>>,
    /// Bytes that compressed values may still become.
    left: usize,
}

impl Found {
    fn new() -> Self {
        Found { by_rank: BTreeMap::new(), left: answers::MAX_INFLATED }
    }

    /// Adds an entry. One that cannot be read here leaves none: whoever wants it asks.
    fn add(&mut self, rank: Rank, key: Key, value: Value) {
        let entries = self.by_rank.entry(rank).or_default();
        if let Some(value) = zlib::inflated(value, &mut self.left) {
            entries.push(Posted { scope: Scope::GLOBAL, key, value });
        }
    }

    fn end(self) -> Exchanged {
        self.by_rank.into_iter().collect()
    }
}

/// Reads what releases 4.2 and 5.0 exchange in a fence whose participants are all of one job.
///
/// # Errors
/// [`WireError`] says what is wrong with the bytes.
pub fn by_place(bytes: &[u8]) -> Result<Exchanged, WireError> {
    let (mut body, mut found) = (Body::new(bytes, Form::Plain), Found::new());
    while !body.is_empty() {
        let packed = body.one::<Vec<u8>>(T::BYTE_OBJECT)?;
        let mut part = Body::new(&packed, Form::Plain);
        // A server without processes of the job has nothing to say.
        if part.is_empty() {
            continue;
        }
        let flags = part.one::<u8>(T::BYTE)?;
        let keys = match flags & KEYS_IN_FRONT {
            0 => None,
            _ => {
                let count = part.one::<u32>(T::UINT32)? as usize;
                let keys: Vec<Option<Text>> = part.many(T::STRING, count)?;
                let key = |name: Option<Text>| name.and_then(|name| Key::new(name).ok());
                Some(keys.into_iter().map(key).collect::<Vec<_>>())
            }
        };
        while !part.is_empty() {
            let packed = part.one::<Vec<u8>>(T::BYTE_OBJECT)?;
            let mut of_one = Body::new(&packed, Form::Plain);
            let rank = of_one.one::<Rank>(T::PROC_RANK)?;
            while !of_one.is_empty() {
                let (key, value) = match &keys {
                    None => of_one.entry().map(|(key, value)| (Some(key), value))?,
                    Some(keys) => {
                        let at = of_one.one::<u32>(T::UINT32)? as usize;
                        let key = keys.get(at).ok_or(WireError::Malformed("place of a key"))?;
                        (key.clone(), of_one.one::<Value>(T::VALUE)?)
                    }
                };
                if let Some(key) = key {
                    found.add(rank, key, value);
                }
            }
        }
    }
    Ok(found.end())
}

/// Reads what releases since 6.0 exchange in a fence, as far as it is of one job. `inflate` is the library's own way to
/// decompress a part.
///
/// # Errors
/// [`WireError`] says what is wrong with the bytes.
pub fn by_name(
    bytes: &[u8],
    nspace: &Nspace,
    inflate: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<Exchanged, WireError> {
    let (mut body, mut found) = (Body::new(bytes, Form::Plain), Found::new());
    while !body.is_empty() {
        let whole = body.one::<Vec<u8>>(T::BYTE_OBJECT)?;
        let mut whole = Body::new(&whole, Form::Plain);
        let is_compressed = whole.one::<bool>(T::BOOL)?;
        let mut packed = whole.one::<Vec<u8>>(T::BYTE_OBJECT)?;
        if is_compressed {
            packed = inflate(&packed).ok_or(WireError::Malformed("compressed part"))?;
        }
        let mut part = Body::new(&packed, Form::Plain);
        part.one::<u8>(T::BYTE)?;
        while !part.is_empty() {
            let packed = part.one::<Vec<u8>>(T::BYTE_OBJECT)?;
            let mut of_one = Body::new(&packed, Form::Plain);
            let proc = of_one.one::<Proc>(T::PROC)?;
            while !of_one.is_empty() {
                let (key, value) = of_one.entry()?;
                if proc.nspace == *nspace {
                    found.add(proc.rank, key, value);
                }
            }
        }
    }
    Ok(found.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stock::body::Bodies;

    fn packed(fill: impl FnOnce(&mut Bodies) -> Result<(), WireError>) -> Vec<u8> {
        let mut bodies = Bodies::new(Form::Plain);
        fill(&mut bodies).unwrap();
        bodies.bytes
    }

    fn posted(key: &str, value: impl Into<Value>) -> Posted {
        Posted { scope: Scope::GLOBAL, key: Key::new(key).unwrap(), value: value.into() }
    }

    /// A part of two processes, as a server of 4.2 was seen to pack it.
    fn of_4_2() -> Vec<u8> {
        let of_one = |rank: u32, number: u32| {
            packed(|to| {
                to.one(T::PROC_RANK, &Rank(rank))?;
                to.one(T::UINT32, &1u32)?.one(T::VALUE, &Value::Uint32(number))?;
                to.one(T::UINT32, &0u32)?.one(T::VALUE, &Value::string("text")).map(drop)
            })
        };
        let part = packed(|to| {
            to.one(T::BYTE, &3u8)?.one(T::UINT32, &2u32)?;
            let keys = ["s.text", "s.number"].map(|key| Some(Text::new(key).unwrap()));
            to.many(T::STRING, &keys)?;
            to.one(T::BYTE_OBJECT, &of_one(2, 7))?.one(T::BYTE_OBJECT, &of_one(0, 8)).map(drop)
        });
        packed(|to| to.one(T::BYTE_OBJECT, &part).map(drop))
    }

    /// The same of 7.0; `compressed` is what stands for the compressed part.
    fn of_7_0(nspace: &str, compressed: Option<&[u8]>) -> Vec<u8> {
        let proc = Proc::new(Nspace::new(nspace).unwrap(), Rank(1));
        let of_one = packed(|to| {
            to.one(T::PROC, &proc)?;
            for Posted { key, value, .. } in [posted("s.text", Value::string("text")), posted("s.number", 7u32)] {
                crate::wire::Writer::new(&mut to.bytes).all_or_nothing(|to| {
                    to.head(Form::Plain, T::KVAL, 1)?;
                    crate::wire::Record::put(&key, to)?;
                    crate::wire::Record::put(&value, to)
                })?;
            }
            Ok(())
        });
        let part = packed(|to| to.one(T::BYTE, &1u8)?.one(T::BYTE_OBJECT, &of_one).map(drop));
        let whole = packed(|to| match compressed {
            None => to.one(T::BOOL, &false)?.one(T::BYTE_OBJECT, &part).map(drop),
            Some(mark) => {
                let compressed = [mark, &part].concat();
                to.one(T::BOOL, &true)?.one(T::BYTE_OBJECT, &compressed).map(drop)
            }
        });
        packed(|to| to.one(T::BYTE_OBJECT, &whole).map(drop))
    }

    #[test]
    fn parts_of_releases_before_7_are_read() {
        let nothing = packed(|to| to.one(T::BYTE_OBJECT, &Vec::<u8>::new()).map(drop));
        let entries = |number: u32| vec![posted("s.number", number), posted("s.text", Value::string("text"))];
        let twice = [nothing, of_4_2(), of_4_2()].concat();
        assert_eq!(by_place(&of_4_2()).unwrap(), [(Rank(0), entries(8)), (Rank(2), entries(7))]);
        assert_eq!(by_place(&twice).unwrap()[1].1.len(), 4);
        assert_eq!(by_place(&[]), Ok(Vec::new()));
    }

    #[test]
    fn parts_of_7_are_read_as_far_as_they_are_of_the_job() {
        let nspace = Nspace::new("job").unwrap();
        let inflate = |bytes: &[u8]| bytes.strip_prefix(b"mark").map(<[u8]>::to_vec);
        let expected = vec![(Rank(1), vec![posted("s.text", Value::string("text")), posted("s.number", 7u32)])];
        for compressed in [None, Some(&b"mark"[..])] {
            let bytes = [of_7_0("job", compressed), of_7_0("other", None)].concat();
            assert_eq!(by_name(&bytes, &nspace, inflate).unwrap(), expected);
        }
        assert!(by_name(&of_7_0("job", Some(b"else")), &nspace, inflate).is_err());
    }

    #[test]
    fn damaged_parts_are_errors() {
        let nspace = Nspace::new("job").unwrap();
        let read = |bytes: &[u8]| (by_place(bytes), by_name(bytes, &nspace, |bytes| Some(bytes.to_vec())));
        for whole in [of_4_2(), of_7_0("job", None), of_7_0("job", Some(b""))] {
            for cut in 1..whole.len() {
                let (place, name) = read(&whole[..cut]);
                assert!(place.is_err() && name.is_err(), "{cut}");
            }
            for at in 0..whole.len() {
                let mut damaged = whole.clone();
                damaged[at] ^= 0xff;
                let _ = read(&damaged);
            }
        }
    }
}
