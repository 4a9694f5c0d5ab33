//! Interfaces of this machine, and the addresses that they have.
use std::io;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// An address of an interface, or an interface without any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// True if it is up.
    pub is_up: bool,
    /// The address; none for what is said of the interface itself.
    pub address: Option<IpAddr>,
}

/// Returns the interfaces of this network namespace: each as often as it has addresses, and mostly once more without
/// one.
///
/// # Errors
/// The kernel's.
pub fn all() -> io::Result<Vec<Interface>> {
    let one = |found: nix::ifaddrs::InterfaceAddress| {
        let address = found.address.and_then(|address| {
            let ipv4 = address.as_sockaddr_in().map(|address| IpAddr::from(address.ip()));
            ipv4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::from(address.ip())))
        });
        Interface { name: found.interface_name, is_up: found.flags.contains(InterfaceFlags::IFF_UP), address }
    };
    Ok(getifaddrs()?.map(one).collect())
}

/// Returns whether an address is one of this machine's.
///
/// # Errors
/// The kernel's.
pub fn has(address: IpAddr) -> io::Result<bool> {
    Ok(address.is_loopback() || all()?.iter().any(|interface| interface.address == Some(address)))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn loopback_is_there_and_an_address_for_examples_is_not() {
        let local = IpAddr::from(Ipv4Addr::LOCALHOST);
        let found = all().unwrap();
        let loopback = found.iter().find(|interface| interface.address == Some(local)).expect("a loopback interface");
        assert!(loopback.is_up && loopback.name == "lo", "{loopback:?}");
        assert!(has(Ipv4Addr::new(127, 3, 2, 1).into()).unwrap());
        assert!(!has(Ipv4Addr::new(192, 0, 2, 1).into()).unwrap());
    }
}
