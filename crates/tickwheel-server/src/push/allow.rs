//! Which addresses may be dialled.
//!
//! A target's URL comes from a client, so without a check a client could make the server call
//! services that only the server can reach. Every address is checked after its name was resolved,
//! and these are the addresses that are dialled. Addresses that are not public are denied unless
//! `push.allow` names them, or the host.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The largest number of entries of `push.allow`.
const MAX_ENTRIES: usize = 256;

/// What `push.allow` allows besides public addresses.
///
/// ```
/// use tickwheel_server::config::PushAllow;
///
/// let allow: PushAllow = "10.1.0.0/16, *.internal.example".parse()?;
/// assert!(allow.allows("billing.internal.example", "10.9.9.9".parse()?).is_ok());
/// assert!(allow.allows("elsewhere.example", "10.9.9.9".parse()?).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushAllow {
    networks: Vec<Network>,
    /// Patterns of host names, in lower case.
    hosts: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    /// IPv4 addresses as IPv4-mapped ones.
    bits: u128,
    /// Bits of a mapped address that have to match.
    length: u32,
}

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        let bits = mapped(address);
        self.length == 0 || (bits ^ self.bits) >> (128 - self.length) == 0
    }
}

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(address) => address.into(),
    }
}

impl FromStr for PushAllow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut allow = Self::default();
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        for (number, entry) in entries.enumerate() {
            if number == MAX_ENTRIES {
                return Err(format!("more than {MAX_ENTRIES} entries: use wider networks"));
            }
            match network(entry)? {
                Some(network) => allow.networks.push(network),
                None if is_host_pattern(entry) => allow.hosts.push(entry.to_ascii_lowercase()),
                None => {
                    return Err(format!(
                        "{entry:?} is neither a network like 10.0.0.0/8 nor a host pattern like \
                         *.internal.example"
                    ));
                }
            }
        }
        Ok(allow)
    }
}

/// The network that an entry names; `None` if it is no address.
fn network(entry: &str) -> Result<Option<Network>, String> {
    let (address, length) = match entry.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (entry, None),
    };
    let Ok(address) = address.trim_matches(['[', ']']).parse::<IpAddr>() else {
        return match length {
            Some(_) => Err(format!("{entry:?} is not a network: write it like 10.0.0.0/8")),
            None => Ok(None),
        };
    };
    let (most, offset) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
    let length = match length {
        None => most,
        Some(length) => {
            length.parse::<u32>().ok().filter(|length| *length <= most).ok_or_else(|| {
                format!("{entry:?} is not a network: its prefix must be between 0 and {most}")
            })?
        }
    };
    Ok(Some(Network { bits: mapped(address), length: length + offset }))
}

fn is_host_pattern(entry: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
    entry.bytes().all(is_fine) && entry.bytes().any(|byte| byte.is_ascii_alphabetic())
}

impl PushAllow {
    /// Returns whether an address may be dialled, to which the host name was resolved.
    ///
    /// # Errors
    ///
    /// The kind of address that is denied.
    pub fn allows(&self, host: &str, address: IpAddr) -> Result<(), Denied> {
        let Some(kind) = special(address) else { return Ok(()) };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_named = |pattern: &String| tickwheel_queue::Access::pattern_matches(pattern, &host);
        let is_allowed = self.networks.iter().any(|network| network.contains(address))
            || self.networks.iter().any(|network| network.contains(address.to_canonical()))
            || self.hosts.iter().any(is_named);
        if is_allowed { Ok(()) } else { Err(Denied { address, kind }) }
    }
}

/// An address that may not be dialled.
///
/// ```
/// use tickwheel_server::config::PushAllow;
/// let denied = PushAllow::default().allows("localhost", "127.0.0.1".parse()?).unwrap_err();
/// assert!(denied.to_string().starts_with("127.0.0.1 is a loopback address"));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    address: IpAddr,
    kind: &'static str,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, kind } = self;
        write!(
            f,
            "{address} is {kind} address, which targets may not have: start the server with "
        )?;
        write!(f, "`--push-allow {address}` if this is intended")
    }
}

impl std::error::Error for Denied {}

/// What kind of address it is, if it is not a public one.
fn special(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => special_v4(address),
        IpAddr::V6(address) => special_v6(address),
    }
}

/// The registry of special addresses of IANA (RFC 6890 and its updates), read strictly.
fn special_v4(address: Ipv4Addr) -> Option<&'static str> {
    Some(match address.octets() {
        [0, ..] => "a \"this network\"",
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => "a private",
        [100, 64..=127, ..] => "a carrier-grade NAT",
        [127, ..] => "a loopback",
        // Alibaba Cloud's metadata service, 100.100.100.200, is within carrier-grade NAT.
        [169, 254, ..] => "a link-local or metadata service",
        [192, 0, 0 | 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => "a documentation or protocol",
        [192, 31, 196, _] | [192, 52, 193, _] | [192, 175, 48, _] => "an anycast service",
        [192, 88, 99, _] => "a 6to4 relay",
        [198, 18..=19, ..] => "a benchmark",
        [168, 63, 129, 16] => "a metadata service",
        [224..=239, ..] => "a multicast",
        [240..=255, ..] => "a reserved or broadcast",
        _ => return None,
    })
}

fn special_v6(address: Ipv6Addr) -> Option<&'static str> {
    if let Some(address) = address.to_ipv4_mapped() {
        return Some(special_v4(address).unwrap_or("an IPv4-mapped"));
    }
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => "an unspecified",
        [0, 0, 0, 0, 0, 0, 0, 1] => "a loopback",
        [0, 0, 0, 0, 0, 0, ..] => "an IPv4-compatible",
        [0x64, 0xff9b, ..] => "a NAT64",
        [0x100, 0, 0, ..] => "a discard-only",
        [0x2001, 0..=0x1ff, ..] => "a Teredo, benchmark or protocol",
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => "a documentation",
        [0x2002, ..] => "a 6to4",
        [0x5f00, ..] => "a segment routing",
        [0xfc00..=0xfdff, ..] => "a unique local",
        [0xfe80..=0xfebf, ..] => "a link-local",
        [0xfec0..=0xfeff, ..] => "a site-local",
        [0xff00..=0xffff, ..] => "a multicast",
        [0x2000..=0x3fff, ..] => return None,
        _ => "a reserved",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(allow: &str, host: &str, address: &str) -> bool {
        let allow: PushAllow = allow.parse().unwrap();
        allow.allows(host, address.parse().unwrap()).is_ok()
    }

    #[test]
    fn only_public_addresses_are_allowed_by_default() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.254",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.1",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
        ] {
            assert!(!is_allowed("", "partner.example", address), "{address}");
        }
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "198.20.0.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "2001:4860:4860::8888",
        ] {
            assert!(is_allowed("", "partner.example", address), "{address}");
        }
    }

    #[test]
    fn networks_and_hosts_are_allowed_by_name() {
        assert!(is_allowed("10.0.0.0/8", "x.example", "10.255.0.1"));
        assert!(is_allowed("10.0.0.0/8", "x.example", "11.0.0.1"));
        assert!(!is_allowed("10.0.0.0/8", "x.example", "192.168.0.1"));
        assert!(is_allowed("192.168.0.7", "x.example", "192.168.0.7"));
        assert!(!is_allowed("192.168.0.7", "x.example", "192.168.0.8"));
        assert!(is_allowed("10.0.0.0/8", "x.example", "::ffff:10.0.0.1"));
        assert!(is_allowed("fd00::/8", "x.example", "fd12::1"));
        assert!(is_allowed("[::1]", "x.example", "::1"));
        assert!(is_allowed("0.0.0.0/0", "x.example", "127.0.0.1"));
        assert!(!is_allowed("0.0.0.0/0", "x.example", "::1"));
        assert!(is_allowed(
            "*.Internal.example, localhost",
            "Billing.internal.example.",
            "10.0.0.1"
        ));
        assert!(!is_allowed("*.internal.example", "internal.example.evil", "10.0.0.1"));
    }

    #[test]
    fn wrong_entries_are_refused() {
        for text in ["10.0.0.0/33", "::/129", "10.0.0/8", "a/8", "http://x", "x y", "10.0.0.0/-1"] {
            assert!(text.parse::<PushAllow>().is_err(), "{text}");
        }
        assert_eq!(" , ".parse(), Ok(PushAllow::default()));
    }
}
