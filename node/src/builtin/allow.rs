//! What `http_task.allow` names: hosts, addresses and networks that requests may reach although they are not out on the
//! internet, each with an optional port.
//!
//! ```text
//!   billing.internal     billing.internal:8443     whatever the name resolves to, on any port or this one
//!   10.1.2.3             [fd00::7]:8080            an address
//!   10.0.0.0/8           10.0.0.0/8:443            [fd00::/8]:443      a network
//! ```

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use url::Host;

use super::address::is_public;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    whom: Whom,
    /// None: any.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Whom {
    /// In lower case, as it is looked up, without the dot at the end.
    Name(String),
    Net(IpNet),
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is no host, address or network with an optional port, such as billing.internal:8443, \
                 10.1.2.3, 10.0.0.0/8:443 or [fd00::/8]:443"
            )
        };
        let (whom, port) = match (text.strip_prefix('['), text.rsplit_once(':')) {
            (Some(rest), _) => match rest.split_once(']') {
                Some((whom, "")) => (whom, None),
                Some((whom, port)) => (whom, Some(port.strip_prefix(':').ok_or_else(wrong)?)),
                None => return Err(wrong()),
            },
            // More than one colon: an address of version 6, or a network of them.
            (None, Some((before, _))) if before.contains(':') => (text, None),
            (None, Some((whom, port))) => (whom, Some(port)),
            (None, None) => (text, None),
        };
        let port = port.map(|port| port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)).transpose()?;
        let whom = match (whom.parse::<IpNet>(), whom.parse::<IpAddr>()) {
            (Ok(net), _) => Whom::Net(net.trunc()),
            (_, Ok(address)) => Whom::Net(IpNet::from(address.to_canonical())),
            // As the host of a URL is read: 127.1 is an address there, and ä becomes what is looked up.
            _ => match Host::parse(whom).map_err(|_| wrong())? {
                Host::Domain(name) if name.contains('*') => return Err(wrong()),
                Host::Domain(name) => Whom::Name(plain(&name).to_owned()),
                Host::Ipv4(_) | Host::Ipv6(_) => return Err(wrong()),
            },
        };
        Ok(Self { whom, port })
    }
}

/// All entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(pub Vec<Rule>);

impl Rules {
    /// Whether an entry names this host or this address of it.
    pub(super) fn name(&self, host: &str, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        let names = |whom: &Whom| match whom {
            Whom::Name(name) => name == plain(&host.to_ascii_lowercase()),
            Whom::Net(net) => net.contains(&address),
        };
        self.0.iter().any(|rule| rule.port.is_none_or(|only| only == port) && names(&rule.whom))
    }

    /// Whether a request may go there.
    pub(super) fn permit(&self, host: &str, address: IpAddr, port: u16) -> bool {
        is_public(address) || self.name(host, address, port)
    }
}

fn plain(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(rules: &str, host: &str, address: &str, port: u16) -> bool {
        let rules = rules.split(',').map(|rule| rule.parse().unwrap()).collect();
        Rules(rules).permit(host, address.parse().unwrap(), port)
    }

    #[test]
    fn a_rule_names_a_host_an_address_or_a_network_and_perhaps_a_port() {
        for (rules, host, address, port, permitted) in [
            ("10.0.0.0/8", "a.example", "10.1.2.3", 80, true),
            ("10.0.0.0/8", "a.example", "192.168.0.1", 80, false),
            ("10.0.0.0/8:443", "a.example", "10.1.2.3", 443, true),
            ("10.0.0.0/8:443", "a.example", "10.1.2.3", 80, false),
            ("10.1.2.3", "x", "10.1.2.3", 1, true),
            ("10.1.2.3", "x", "10.1.2.4", 1, false),
            ("10.1.2.3:7", "x", "10.1.2.3", 7, true),
            ("10.1.2.3:7", "x", "10.1.2.3", 8, false),
            ("10.1.2.3", "x", "::ffff:10.1.2.3", 1, true),
            ("::ffff:10.1.2.3", "x", "10.1.2.3", 1, true),
            ("::1", "x", "::1", 1, true),
            ("[::1]", "x", "::1", 1, true),
            ("[::1]:80", "x", "::1", 80, true),
            ("[::1]:80", "x", "::1", 81, false),
            ("fd00::/8", "x", "fd12::1", 1, true),
            ("[fd00::/8]:443", "x", "fd12::1", 443, true),
            ("[fd00::/8]:443", "x", "fd12::1", 80, false),
            ("billing.internal", "billing.internal", "10.0.0.1", 80, true),
            ("billing.internal", "Billing.Internal.", "10.0.0.1", 80, true),
            ("billing.internal", "other.internal", "10.0.0.1", 80, false),
            ("billing.internal:8443", "billing.internal", "10.0.0.1", 8443, true),
            ("billing.internal:8443", "billing.internal", "10.0.0.1", 80, false),
            ("billing.internal", "notbilling.internal", "10.0.0.1", 80, false),
            ("a.example,10.0.0.0/8", "b.example", "10.0.0.1", 80, true),
            ("a.example", "b.example", "8.8.8.8", 80, true),
        ] {
            assert_eq!(permits(rules, host, address, port), permitted, "{rules} {host} {address}:{port}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "",
            "http://a.example",
            "a.example/path",
            "*.example",
            "a b",
            "a.example:0",
            "a.example:99999",
            "a.example:http",
            "10.0.0.0/33",
            "[::1",
            "[::1]x",
            "2130706433",
            "127.1",
            "user@a.example",
            "fe80::1%eth0",
        ] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }
}
