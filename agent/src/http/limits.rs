//! What the ports take at most; one listener's limits do not touch another's. The table for people is in
//! `docs/security.md`, which a test compares with these.

use std::time::Duration;

use super::slots::Bound;

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
/// How long a caller may take for the whole of an answer that holds a place.
pub(crate) const SENDING: Duration = Duration::from_secs(60);

/// The largest request body: a thousand node names are some 250 KiB at most.
pub(crate) const BODY_BYTES: usize = 1 << 20;
/// A larger body, or one that does not say how large it is, needs its place before it is read: of all connections at once
/// the smaller ones are 16 MiB. A hundred node names are some 25 KiB at most.
pub(crate) const SMALL_BODY_BYTES: usize = 32 << 10;

/// Nodes of one plan: at the 110 Pods that a node usually takes, some 4 MiB of JSON and as much again while it is made.
pub(crate) const PLANNED_NODES: usize = rotate_shared::plan::NODES_A_REQUEST;
/// Nodes of one request for rotations, each of which is planned, [`PLANNED_NODES`] at a time, before the first is begun.
pub(crate) const ROTATED_NODES: usize = rotate_shared::rotation::NODES_A_REQUEST;

/// Streams of events that are open at once, so that connections are left for everything else.
/// The plugin opens 16 at most.
pub(crate) const STREAMS: Bound = Bound { all: 256, account: 192, token: 64 };
/// Answers about the whole fleet, plans and new rotations that are in work at once, until they are sent: each may take some
/// megabytes, and all of them leave room below the manifests' limit of 256 MiB.
pub(crate) const HEAVY: Bound = Bound { all: 16, account: 12, token: 8 };

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
        let bound = |Bound { all, account, token }| format!("{all} in all, {account} an account, {token} a token");
        let seconds = |time: Duration| format!("{} s", time.as_secs());
        for (row, limit) in [
            ("connections", CONNECTIONS.to_string()),
            ("first line and headers of a request", format!("{} KiB, 100 headers", HEAD_BYTES >> 10)),
            ("time to send headers, and between two requests", seconds(HEAD_PATIENCE)),
            #[cfg(feature = "tls")]
            ("time for a TLS handshake", seconds(HANDSHAKE_PATIENCE)),
            ("body", format!("{} MiB, JSON in UTF-8", BODY_BYTES >> 20)),
            ("body of a pause, resume or cancel", format!("{} KiB", SMALL_BODY_BYTES >> 10)),
            ("nodes of one plan", PLANNED_NODES.to_string()),
            ("nodes of one request for rotations", ROTATED_NODES.to_string()),
            ("time to send a body", seconds(BODY_PATIENCE)),
            ("time without taking a byte of an answer", seconds(READER_PATIENCE)),
            ("time to take the whole of a list, a plan or a new rotation", seconds(SENDING)),
            ("streams of events", bound(STREAMS)),
            ("lists, plans and new rotations at once, until they are sent", bound(HEAVY)),
            ("requests of one token", format!("{UNITS} units a second, {UNITS_AT_ONCE} at once;")),
            ("tokens not seen before", format!("{STRANGERS} a second, {STRANGERS_AT_ONCE} at once")),
            ("a stream whose token was withdrawn or has expired", format!("judged every {}", seconds(RECHECK))),
        ] {
            assert!(page.contains(&format!("\n| {row} | {limit}")), "{row}: {limit}");
        }
        assert!(page.contains(&format!("after {} where the API server cannot be asked", seconds(UNJUDGED))));
    }
}
