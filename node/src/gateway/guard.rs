//! Requests that a web page made a browser send.
//!
//! A page on the internet can make a browser on this machine send requests to it, and by rebinding a name of its own to
//! 127.0.0.1 it can even read the answers. Such requests show themselves: their `Host` is a name that is not ours, or
//! their `Origin` is another place than the one they go to. Both are refused, whatever they ask for.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri, header};
use orbit_actors::error::{Code, Error, Result};

/// The names by which a node may be called: those of this machine alone, and the configured ones.
#[derive(Clone, Debug, Default)]
pub struct Names(Vec<String>);

impl Names {
    /// These and those of this machine alone. In lower case, without port.
    #[must_use]
    pub fn new(configured: Vec<String>) -> Self {
        Self(configured)
    }

    fn are_ours(&self, authority: &Authority) -> bool {
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        let host = host.to_ascii_lowercase();
        let loopback = host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
        loopback || host == "localhost" || self.0.contains(&host)
    }
}

/// Whether a request may come in.
///
/// # Errors
/// Its `Host` is not ours, or its `Origin` is foreign.
pub fn check(names: &Names, uri: &Uri, headers: &HeaderMap) -> Result<()> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => Some(Authority::try_from(host.as_bytes()).map_err(|_| foreign_host())?),
        (None, _) => None,
        (Some(_), Some(_)) => return Err(foreign_host()),
    };
    let named = [host.as_ref(), uri.authority()];
    if named.iter().all(Option::is_none) || !named.iter().flatten().all(|authority| names.are_ours(authority)) {
        return Err(foreign_host());
    }
    for origin in headers.get_all(header::ORIGIN) {
        let origin = Uri::try_from(origin.as_bytes()).ok();
        let same = |authority: &Authority| {
            let origin = origin.as_ref().and_then(Uri::authority);
            origin.is_some_and(|origin| origin.as_str().eq_ignore_ascii_case(authority.as_str()))
        };
        if !named.iter().flatten().all(|authority| same(authority)) {
            let message = "the Origin of the request is another place than this node; call it from your own program";
            return Err(Error::new(Code::Forbidden, message));
        }
    }
    Ok(())
}

fn foreign_host() -> Error {
    let message =
        "the Host of the request is no name of this node; call it by localhost, or add the name to http.names";
    Error::new(Code::Forbidden, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(uri: &str, headers: &[(&'static str, &str)]) -> bool {
        let names = Names::new(vec!["orbit.example".to_owned(), "10.0.0.5".to_owned()]);
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        check(&names, &uri.parse().unwrap(), &headers).is_ok()
    }

    #[test]
    fn only_our_own_names_are_hosts() {
        for host in [
            "localhost",
            "localhost:7400",
            "LOCALHOST.:1",
            "127.0.0.1:7400",
            "127.9.9.9",
            "[::1]:7400",
            "orbit.example",
            "10.0.0.5:80",
        ] {
            assert!(passes("/v1/health", &[("host", host)]), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "10.0.0.6", "", "a b", "127.0.0.1.evil.example", "0.0.0.0"]
        {
            assert!(!passes("/v1/health", &[("host", host)]), "{host}");
        }
        assert!(!passes("/v1/health", &[]), "no host at all");
        assert!(!passes("/v1/health", &[("host", "localhost"), ("host", "localhost")]), "two hosts");
        assert!(passes("http://localhost:7401/x", &[]), "the authority of HTTP/2");
        assert!(!passes("http://evil.example/x", &[]));
        assert!(!passes("http://evil.example/x", &[("host", "localhost")]), "both count");
    }

    #[test]
    fn only_our_own_pages_are_origins() {
        let with = |origin| passes("/v1/executions", &[("host", "localhost:7400"), ("origin", origin)]);
        assert!(with("http://localhost:7400"));
        for origin in ["http://localhost:3000", "https://evil.example", "null", "http://127.0.0.1:7400", "localhost:"] {
            assert!(!with(origin), "{origin}");
        }
    }
}
