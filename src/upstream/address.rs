//! Address of a stock server, as its variables and its contact files have it, and whom it takes this process for.
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt;

use super::error::JoinError;
use super::node;
use crate::data::{Info, Nspace, Proc, Rank};

/// Variables with a server's address, the newest protocol first. All of them name the same server.
const URI_VARIABLES: [&str; 4] = ["PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI51", "PMIX_SERVER_URI61"];
/// Variable with the server's release.
const VERSION_VARIABLE: &str = "PMIX_VERSION";

/// Identity of this process towards a stock server.
#[derive(Clone, Debug, PartialEq)]
pub enum Identity {
    /// A process of a job, which the server knows.
    Process(Proc),
    /// A tool.
    Tool {
        /// Name that it has or wants; the server makes one where there is none.
        proc: Option<Proc>,
        /// True if the user has named the server, rather than letting one be found.
        named: bool,
        /// True if it is a launcher: it starts jobs.
        is_launcher: bool,
        /// Attributes for the server's host.
        info: Vec<Info>,
    },
}

/// A stock server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockAddress {
    /// Name of the server.
    pub server: Proc,
    /// Its address, as its variable has it.
    pub uri: String,
    /// Its socket.
    pub socket: SocketAddr,
    /// Major number of its release; 0 where it names none.
    pub major: u32,
    /// Address of the node's segments of the job, where a plug-in of ours offers them.
    pub node: Option<String>,
}

impl StockAddress {
    /// The address that some variables name; none where they name no stock server.
    ///
    /// # Errors
    /// [`JoinError::Variable`] names the variable that cannot be used.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<StockAddress>, JoinError> {
        let found = URI_VARIABLES.iter().find_map(|name| variable(name).map(|value| (*name, value)));
        let Some((name, value)) = found else { return Ok(None) };
        let bad = |problem| JoinError::Variable { name, problem };
        let uri = String::from_utf8(value.into_vec()).map_err(|_| bad("is no address"))?;
        let version = variable(VERSION_VARIABLE).map(OsString::into_vec).unwrap_or_default();
        let found = StockAddress::parse(&uri, &version).map_err(bad)?;
        let node = node::offered(&uri, variable);
        Ok(Some(StockAddress { node, ..found }))
    }

    /// Reads an address, beside which the server's release may be known.
    ///
    /// # Errors
    /// The fault of the address.
    pub fn parse(uri: &str, version: &[u8]) -> Result<StockAddress, &'static str> {
        let mut parts = uri.split(';');
        let server = parts.next().and_then(name_of).ok_or("names no server")?;
        let socket = parts.next().and_then(socket_of).ok_or("has no address of TCP")?;
        Ok(StockAddress { server, socket, major: major(version), uri: uri.to_owned(), node: None })
    }
}

/// A namespace and a rank, with a point between them.
fn name_of(text: &str) -> Option<Proc> {
    let (nspace, rank) = text.rsplit_once('.')?;
    Some(Proc::new(Nspace::new(nspace).ok()?, Rank(rank.parse().ok()?)))
}

fn socket_of(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.strip_prefix("tcp4://").or_else(|| text.strip_prefix("tcp6://"))?.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some(SocketAddr::new(host.parse().ok()?, port.parse().ok()?))
}

/// The first number of a release, which may have a letter before it and others behind it.
fn major(version: &[u8]) -> u32 {
    let digits =
        version.iter().skip_while(|byte| !byte.is_ascii_digit()).take(4).take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number, digit| 10 * number + u32::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<StockAddress>, JoinError> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        StockAddress::from_variables(value)
    }

    #[test]
    fn the_server_and_its_socket_are_read() {
        let uri = ("PMIX_SERVER_URI41", "prterun-node.1-17@0.2;tcp4://127.0.0.1:38017");
        let found = read(&[("PMIX_SERVER_URI4", "x.0;tcp4://127.0.0.1:1"), uri, ("PMIX_VERSION", "5.0.11")]);
        let found = found.unwrap().unwrap();
        assert_eq!(found.server, Proc::new(Nspace::new("prterun-node.1-17@0").unwrap(), Rank(2)));
        assert_eq!((found.socket, found.major), ("127.0.0.1:38017".parse().unwrap(), 5));
        let six = read(&[("PMIX_SERVER_URI41", "x.0;tcp6://[::1]:99")]).unwrap().unwrap();
        assert_eq!((six.socket, six.major), ("[::1]:99".parse().unwrap(), 0));
    }

    #[test]
    fn what_is_no_address_is_named_and_none_is_none() {
        assert_eq!(read(&[("PMIX_VERSION", "4.2.2")]).unwrap(), None);
        for bad in
            ["", "x", "x.0", "x.0;usock:/tmp/x", "x.0;tcp4://127.0.0.1", "x.y;tcp4://127.0.0.1:1", "x.0;tcp4://a:1"]
        {
            let refused = read(&[("PMIX_SERVER_URI41", bad)]);
            assert!(matches!(refused, Err(JoinError::Variable { name: "PMIX_SERVER_URI41", .. })), "{bad:?}");
        }
    }
}
