//! Places of the stock door: addresses at which processes and tools that bring a stock library are let in.
//!
//! They are those of the loopback interface, on which the kernel tells who is at the other end. Where the host asks for
//! peers of other machines, those of the interfaces that it names are added, or of all that are up.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::config::ServerError;
use crate::data::{Info, InfoList, Status, keys};
use crate::sys::interfaces::Interface;

/// Names of the attributes with lists of interfaces.
const INCLUDE: &str = "PMIX_TCP_IF_INCLUDE";
const EXCLUDE: &str = "PMIX_TCP_IF_EXCLUDE";

/// Ports on which processes that bring a stock library are let in, at each address the same. 0 stands for one that the
/// kernel chooses. By default there is one on IPv4 alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockPorts {
    /// Port on IPv4, if there is one. Processes are sent there where there are both.
    pub ipv4: Option<u16>,
    /// Port on IPv6, if there is one.
    pub ipv6: Option<u16>,
}

impl StockPorts {
    /// Reads the attributes of an init: there is a port on IPv6 where it is asked for, or is the only way that is left.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a port that is none.
    pub fn asked_by(info: &[Info]) -> Result<Self, Status> {
        let port = |key| {
            let port = |info: &Info| info.value.as_i64().and_then(|port| u16::try_from(port).ok());
            info.find(key).map(|info| port(info).ok_or(Status::ERR_BAD_PARAM)).transpose()
        };
        let is_disabled = |key| info.find(key).map(Info::is_true);
        let without_ipv4 = is_disabled(keys::TCP_DISABLE_IPV4) == Some(true);
        let ipv4 = port(keys::TCP_IPV4_PORT)?.or(Some(0)).filter(|_| !without_ipv4);
        let ipv6 = match (port(keys::TCP_IPV6_PORT)?, is_disabled(keys::TCP_DISABLE_IPV6)) {
            (_, Some(true)) => None,
            (Some(port), _) => Some(port),
            (None, Some(false)) => Some(0),
            (None, None) => without_ipv4.then_some(0),
        };
        Ok(StockPorts { ipv4, ipv6 })
    }
}

impl Default for StockPorts {
    fn default() -> Self {
        StockPorts { ipv4: Some(0), ipv6: None }
    }
}

impl StockPorts {
    /// Returns the port for addresses of this one's family, if there is one.
    fn at(self, address: IpAddr) -> Option<u16> {
        if address.is_ipv4() { self.ipv4 } else { self.ipv6 }
    }

    /// Returns the places at which processes of this machine are let in.
    pub(super) fn of_loopback(self) -> Vec<SocketAddr> {
        let addresses = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
        addresses.into_iter().filter_map(|address| Some((address, self.at(address)?).into())).collect()
    }
}

/// Interfaces of this machine on which peers of other machines are let in, in lists with commas. A part of a list is the
/// name of an interface, or a network that its address is in, such as `10.0.0.0/8`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StockInterfaces {
    /// Interfaces that are wanted; all that are up where the list is empty.
    pub include: String,
    /// Interfaces that are not wanted.
    pub exclude: String,
}

impl StockInterfaces {
    /// Reads the attributes of an init: none where the host does not ask for peers of other machines.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a list that is no text.
    pub fn asked_by(info: &[Info]) -> Result<Option<Self>, Status> {
        let list = |key| {
            let text = |info: &Info| info.value.as_text().map(|text| text.to_string_lossy().into_owned());
            info.find(key)
                .map(|info| text(info).ok_or(Status::ERR_BAD_PARAM))
                .transpose()
                .map(Option::unwrap_or_default)
        };
        let asked = StockInterfaces { include: list(keys::TCP_IF_INCLUDE)?, exclude: list(keys::TCP_IF_EXCLUDE)? };
        Ok(Some(asked).filter(|_| info.is_set(keys::SERVER_REMOTE_CONNECTIONS)))
    }

    /// Returns the places at which peers of other machines are let in, those on IPv4 first. Addresses of IPv6 that are
    /// good for one link alone are left out: an address that is told to a peer does not say which link.
    ///
    /// # Errors
    /// [`ServerError::Interfaces`] where a list names an interface that is not there, where a part of it is no network,
    /// and where none of those that are wanted has an address.
    pub(super) fn places(&self, found: &[Interface], ports: StockPorts) -> Result<Vec<SocketAddr>, ServerError> {
        let include = parts(INCLUDE, &self.include, found)?;
        let exclude = parts(EXCLUDE, &self.exclude, found)?;
        let is_wanted = |interface: &&Interface| {
            let is_in = |parts: &[Part<'_>]| parts.iter().any(|part| part.has(interface));
            interface.is_up && (include.is_empty() || is_in(&include)) && !is_in(&exclude)
        };
        let wanted = found.iter().filter(is_wanted).filter_map(|interface| interface.address);
        let places = wanted.filter_map(|address| Some(SocketAddr::from((address, ports.at(address)?))));
        let mut places: Vec<SocketAddr> = places.filter(|place| !is_of_one_link(place.ip())).collect();
        if places.is_empty() && !include.is_empty() {
            let reason = "none of these is up and has an address at which a port is asked for";
            return Err(ServerError::Interfaces { attribute: INCLUDE, value: self.include.clone(), reason });
        }
        // There is a door already.
        places.retain(|place| !place.ip().is_loopback());
        places.sort_unstable();
        places.dedup();
        Ok(places)
    }
}

/// Part of a list of interfaces.
enum Part<'a> {
    Name(&'a str),
    /// The first address of a network, and the bits that all of its addresses have in common.
    Network(IpAddr, u32),
}

impl Part<'_> {
    /// Returns whether an address of an interface is meant.
    fn has(&self, interface: &Interface) -> bool {
        match (self, interface.address) {
            (Part::Name(name), _) => interface.name == *name,
            (Part::Network(IpAddr::V4(network), bits), Some(IpAddr::V4(address))) => {
                let differs = network.to_bits() ^ address.to_bits();
                differs.leading_zeros() >= *bits
            }
            (Part::Network(IpAddr::V6(network), bits), Some(IpAddr::V6(address))) => {
                let differs = network.to_bits() ^ address.to_bits();
                differs.leading_zeros() >= *bits
            }
            _ => false,
        }
    }
}

/// Reads a list of interfaces.
fn parts<'a>(attribute: &'static str, list: &'a str, found: &[Interface]) -> Result<Vec<Part<'a>>, ServerError> {
    let part = |part: &'a str| {
        let wrong = |reason| ServerError::Interfaces { attribute, value: part.to_owned(), reason };
        if let Some((address, bits)) = part.split_once('/') {
            let (address, bits) = (address.parse::<IpAddr>().ok(), bits.parse::<u32>().ok());
            let network = address.zip(bits).filter(|(address, bits)| *bits <= bits_of(*address));
            return network
                .map(|(address, bits)| Part::Network(address, bits))
                .ok_or_else(|| wrong("it is no network"));
        }
        if let Ok(address) = part.parse::<IpAddr>() {
            return Ok(Part::Network(address, bits_of(address)));
        }
        let is_there = found.iter().any(|interface| interface.name == part);
        if is_there { Ok(Part::Name(part)) } else { Err(wrong("this machine has no interface of that name")) }
    };
    list.split(',').map(str::trim).filter(|part| !part.is_empty()).map(part).collect()
}

fn bits_of(address: IpAddr) -> u32 {
    if address.is_ipv4() { Ipv4Addr::BITS } else { Ipv6Addr::BITS }
}

fn is_of_one_link(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_those_that_are_asked_for() {
        let asked = |info: &[(&'static str, i64)]| {
            let info: Vec<Info> = info.iter().map(|(key, n)| Info::new(*key, *n as i32)).collect();
            StockPorts::asked_by(&info).map(|ports| (ports.ipv4, ports.ipv6))
        };
        let flag = |key, is_set| Info::new(key, is_set);
        let flagged = |info: &[Info]| StockPorts::asked_by(info).map(|ports| (ports.ipv4, ports.ipv6));
        assert_eq!(StockPorts::asked_by(&[]), Ok(StockPorts::default()));
        assert_eq!(asked(&[(keys::TCP_IPV4_PORT, 4000), (keys::TCP_IPV6_PORT, 6000)]), Ok((Some(4000), Some(6000))));
        assert_eq!(flagged(&[flag(keys::TCP_DISABLE_IPV6, false)]), Ok((Some(0), Some(0))));
        assert_eq!(flagged(&[flag(keys::TCP_DISABLE_IPV4, true)]), Ok((None, Some(0))));
        let neither = [keys::TCP_DISABLE_IPV4, keys::TCP_DISABLE_IPV6].map(|key| flag(key, true));
        assert_eq!(flagged(&neither), Ok((None, None)));
        for bad in [-1, 65536] {
            assert_eq!(asked(&[(keys::TCP_IPV4_PORT, bad)]), Err(Status::ERR_BAD_PARAM));
        }
    }

    /// A machine with two networks, one of which is in use on IPv6 as well, and an interface that is down.
    fn machine() -> Vec<Interface> {
        let one = |name: &str, is_up, address: Option<&str>| {
            let address = address.map(|address| address.parse().unwrap());
            Interface { name: name.to_owned(), is_up, address }
        };
        vec![
            one("lo", true, None),
            one("lo", true, Some("127.0.0.1")),
            one("lo", true, Some("::1")),
            one("eth0", true, None),
            one("eth0", true, Some("10.1.2.3")),
            one("eth0", true, Some("2001:db8::3")),
            one("eth0", true, Some("fe80::3")),
            one("ib0", true, Some("192.168.7.3")),
            one("down0", false, Some("10.9.9.9")),
            one("bare0", true, None),
        ]
    }

    fn chosen(include: &str, exclude: &str, ipv6: Option<u16>) -> Result<String, String> {
        let asked = StockInterfaces { include: include.to_owned(), exclude: exclude.to_owned() };
        let places = asked.places(&machine(), StockPorts { ipv4: Some(7), ipv6 });
        let list = |places: Vec<SocketAddr>| places.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" ");
        places.map(list).map_err(|error| error.to_string())
    }

    #[test]
    fn interfaces_are_those_that_are_asked_for_or_all_that_are_up() {
        let chosen = |include, exclude, ipv6| chosen(include, exclude, ipv6).unwrap();
        assert_eq!(chosen("", "", None), "10.1.2.3:7 192.168.7.3:7");
        assert_eq!(chosen("", "", Some(8)), "10.1.2.3:7 192.168.7.3:7 [2001:db8::3]:8");
        assert_eq!(chosen("", "eth0", Some(8)), "192.168.7.3:7");
        assert_eq!(chosen("", "192.168.0.0/16,lo", None), "10.1.2.3:7");
        assert_eq!(chosen(" eth0 , ", "", None), "10.1.2.3:7");
        assert_eq!(chosen("10.0.0.0/8,192.168.7.3", "", None), "10.1.2.3:7 192.168.7.3:7");
        assert_eq!(chosen("0.0.0.0/0", "10.1.2.3/32", None), "192.168.7.3:7");
        assert_eq!(chosen("2001:db8::/32", "", Some(8)), "[2001:db8::3]:8");
        assert_eq!(chosen("eth0,ib0", "ib0", None), "10.1.2.3:7");
        // That door is there in any case.
        assert_eq!(chosen("lo", "", None), "");
        assert_eq!(chosen("", "eth0,ib0", None), "");
    }

    #[test]
    fn an_interface_that_cannot_be_had_is_named() {
        let reason = |include, exclude| chosen(include, exclude, None).unwrap_err();
        assert_eq!(reason("eth0,eht1", ""), "PMIX_TCP_IF_INCLUDE=eht1: this machine has no interface of that name");
        assert_eq!(reason("", "eht1"), "PMIX_TCP_IF_EXCLUDE=eht1: this machine has no interface of that name");
        for bad in ["10.0.0.0/33", "10.0.0/8", "10.0.0.0/", "/8", "::/129", "eth0/8"] {
            assert_eq!(reason(bad, ""), format!("PMIX_TCP_IF_INCLUDE={bad}: it is no network"));
        }
        for without in ["down0", "bare0", "172.16.0.0/12", "2001:db8::/32"] {
            assert!(reason(without, "").starts_with(&format!("PMIX_TCP_IF_INCLUDE={without}: none of these is up")));
        }
    }

    #[test]
    fn other_machines_are_let_in_where_the_host_asks_for_it_alone() {
        let list = Info::new(keys::TCP_IF_INCLUDE, "eth0");
        let remote = |is_set| Info::new(keys::SERVER_REMOTE_CONNECTIONS, is_set);
        assert_eq!(StockInterfaces::asked_by(&[]), Ok(None));
        assert_eq!(StockInterfaces::asked_by(std::slice::from_ref(&list)), Ok(None));
        assert_eq!(StockInterfaces::asked_by(&[remote(false), list.clone()]), Ok(None));
        assert_eq!(StockInterfaces::asked_by(&[remote(true)]), Ok(Some(StockInterfaces::default())));
        let asked = StockInterfaces { include: "eth0".to_owned(), exclude: String::new() };
        assert_eq!(StockInterfaces::asked_by(&[remote(true), list]), Ok(Some(asked)));
        let bad = Info::new(keys::TCP_IF_EXCLUDE, 7u32);
        assert_eq!(StockInterfaces::asked_by(&[remote(true), bad]), Err(Status::ERR_BAD_PARAM));
    }
}
