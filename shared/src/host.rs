//! Hosts of addresses.

use std::net::IpAddr;

/// Whether what is sent to this host stays on this machine: `localhost`, or an address of loopback, an IPv6 one in brackets as
/// URLs have it.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_this_machine() {
        for host in ["localhost", "127.0.0.1", "127.8.9.1", "[::1]", "::1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", "localhost.example", "10.0.0.7", "[::2]", "127.0.0.1.example", "0.0.0.0"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
