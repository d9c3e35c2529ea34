//! What the ports take at most; one listener's limits do not touch another's. The table for people is in
//! `docs/security.md`, which a test compares with these.

use std::time::Duration;

/// Connections of one listener; one more is answered 503 and closed. Each costs some 10 KiB, with TLS some 40 KiB.
pub(crate) const CONNECTIONS: usize = 512;
/// Bytes of a request's first line and headers together: a token has at most 16 KiB. One more is answered 431.
pub(crate) const HEAD_BYTES: usize = 32 << 10;
/// How long a connection may take to send a request's headers, and how long it may wait before the next request: what is
/// slower is closed. More than the 15 s between the polls of many a client.
pub(crate) const HEAD_PATIENCE: Duration = Duration::from_secs(20);
/// How long a connection may take for the TLS handshake.
#[cfg(feature = "tls")]
pub(crate) const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// How long a caller may take to send a body.
pub(crate) const BODY_PATIENCE: Duration = Duration::from_secs(10);
/// How long a caller may take no byte of an answer.
pub(crate) const READER_PATIENCE: Duration = Duration::from_secs(30);

/// The largest request body: a thousand node names are some 250 KiB at most.
pub(crate) const BODY_BYTES: usize = 1 << 20;

/// Streams of events that are open at once, so that connections are left for everything else.
pub(crate) const STREAMS: usize = 256;
/// Those of one credential: the plugin opens 16 at most.
pub(crate) const STREAMS_EACH: usize = 64;
/// Answers about the whole fleet, plans and changes that are in work at once, until they are sent: each may take a few
/// megabytes.
pub(crate) const HEAVY: usize = 16;
/// Those of one credential.
pub(crate) const HEAVY_EACH: usize = 8;

/// What one credential may spend a second, see [`super::budget::Weight`].
pub(crate) const UNITS: u32 = 2_500;
/// What it may spend at once after a pause.
pub(crate) const UNITS_AT_ONCE: u32 = 5_000;
/// Tokens a second that were not known before, and that the API server is asked about.
pub(crate) const STRANGERS: u32 = 50;
/// The same after a pause.
pub(crate) const STRANGERS_AT_ONCE: u32 = 100;

/// How often the caller of an open stream is judged anew. With the 10 s that an answer is remembered: a withdrawn or expired
/// token ends its streams within 25 s.
pub(crate) const RECHECK: Duration = Duration::from_secs(15);
/// How long a stream goes on while the API server cannot be asked about its caller.
pub(crate) const UNJUDGED: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_security_says_what_holds() {
        let page = include_str!("../../../docs/security.md");
        let seconds = |time: Duration| format!("{} s", time.as_secs());
        for (row, limit) in [
            ("connections", CONNECTIONS.to_string()),
            ("first line and headers of a request", format!("{} KiB, 100 headers", HEAD_BYTES >> 10)),
            ("time to send headers, and between two requests", seconds(HEAD_PATIENCE)),
            #[cfg(feature = "tls")]
            ("time for a TLS handshake", seconds(HANDSHAKE_PATIENCE)),
            ("body", format!("{} MiB, JSON in UTF-8", BODY_BYTES >> 20)),
            ("time to send a body", seconds(BODY_PATIENCE)),
            ("time without taking a byte of an answer", seconds(READER_PATIENCE)),
            ("streams of events", format!("{STREAMS} in all, {STREAMS_EACH} a token")),
            ("lists, plans and changes at once, until they are sent", format!("{HEAVY} in all, {HEAVY_EACH} a token")),
            ("requests of one token", format!("{UNITS} units a second, {UNITS_AT_ONCE} at once;")),
            ("tokens not seen before", format!("{STRANGERS} a second, {STRANGERS_AT_ONCE} at once")),
            ("a stream whose token was withdrawn or has expired", format!("judged every {}", seconds(RECHECK))),
        ] {
            assert!(page.contains(&format!("\n| {row} | {limit}")), "{row}: {limit}");
        }
        assert!(page.contains(&format!("after {} where the API server cannot be asked", seconds(UNJUDGED))));
    }
}
