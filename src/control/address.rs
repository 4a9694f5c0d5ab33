//! Address of a server, as one environment variable.
//!
//! `setup_fork` puts an [`Address`] into `INSTANTON_SERVER`. It names the process it was made for and the stock address
//! it was made beside: a variable left over from an outer launcher names others, and is not used.
use std::fmt;
use std::str::FromStr;

use crate::data::{Nspace, Proc, Rank};

/// The environment variable.
pub const VARIABLE: &str = "INSTANTON_SERVER";

/// A server's doors, and what a client must show there.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// The process this address was made for.
    pub proc: Proc,
    /// The server's user: the client refuses a server of another one that is not root or itself.
    pub uid: u32,
    /// Name in the abstract socket namespace.
    pub abstract_name: String,
    /// Path of the second door, for other network namespaces.
    pub path: Option<String>,
    /// The job's token.
    pub token: [u8; 32],
    /// The stock door's URI beside this one (`PMIX_SERVER_URI41`); empty where there is none.
    pub stock_uri: String,
}

/// A variable that is not an address.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadAddress {
    /// Made by another version.
    #[error("{VARIABLE} has the form {0:?}; this library reads \"1\"")]
    Version(String),
    /// A field is missing or cannot be read.
    #[error("{VARIABLE} has no usable {0}")]
    Field(&'static str),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1;{};{};{};", hex(self.proc.nspace.as_bytes()), self.proc.rank.0, self.uid)?;
        write!(f, "{};{};", self.abstract_name, hex(self.path.as_deref().unwrap_or("").as_bytes()))?;
        write!(f, "{};{}", hex(&self.token), hex(self.stock_uri.as_bytes()))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token stays out of traces.
        f.debug_struct("Address")
            .field("proc", &self.proc)
            .field("abstract_name", &self.abstract_name)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let mut fields = text.split(';');
        let version = fields.next().unwrap_or_default();
        if version != "1" {
            return Err(BadAddress::Version(version.chars().take(16).collect()));
        }
        let mut field = |name| fields.next().ok_or(BadAddress::Field(name));
        let nspace =
            unhex(field("namespace")?).and_then(|b| Nspace::new(b).ok()).ok_or(BadAddress::Field("namespace"))?;
        let rank = field("rank")?.parse().map_err(|_| BadAddress::Field("rank"))?;
        let uid = field("uid")?.parse().map_err(|_| BadAddress::Field("uid"))?;
        let abstract_name = field("abstract name")?.to_owned();
        let path = text_of(field("path")?).ok_or(BadAddress::Field("path"))?;
        let token = unhex(field("token")?).and_then(|b| b.try_into().ok()).ok_or(BadAddress::Field("token"))?;
        let stock_uri = text_of(field("stock address")?).ok_or(BadAddress::Field("stock address"))?;
        Ok(Address {
            proc: Proc::new(nspace, Rank(rank)),
            uid,
            abstract_name,
            path: Some(path).filter(|p| !p.is_empty()),
            token,
            stock_uri,
        })
    }
}

/// Names and paths travel as hexadecimal: they may hold any byte, the separator included.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |out, b| out + &format!("{b:02x}"))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let digits = digits?;
    (digits.len() % 2 == 0).then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn text_of(hexadecimal: &str) -> Option<String> {
    unhex(hexadecimal).and_then(|bytes| String::from_utf8(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Address {
        Address {
            proc: Proc::new(Nspace::new("job;with;separators@1").unwrap(), Rank(3)),
            uid: 1000,
            abstract_name: "instanton-0123".into(),
            path: Some("/tmp/a;b/s".into()),
            token: [7; 32],
            stock_uri: String::new(),
        }
    }

    #[test]
    fn an_address_comes_back_as_it_was() {
        assert_eq!(sample().to_string().parse(), Ok(sample()));
        let bare = Address { path: None, ..sample() };
        assert_eq!(bare.to_string().parse(), Ok(bare));
    }

    #[test]
    fn a_bad_variable_is_named() {
        assert_eq!("2;x".parse::<Address>(), Err(BadAddress::Version("2".into())));
        assert_eq!("1;6a;x".parse::<Address>(), Err(BadAddress::Field("rank")));
        let short = sample().to_string().replace(&hex(&[7; 32]), "0707");
        assert_eq!(short.parse::<Address>(), Err(BadAddress::Field("token")));
        assert_eq!("1".parse::<Address>(), Err(BadAddress::Field("namespace")));
    }
}
