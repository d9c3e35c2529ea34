//! What may be open at once behind a port, and what is let in with a request.

use std::sync::Arc;

use futures::future;
use http::{HeaderValue, StatusCode, header};
use jiff::SignedDuration;
use rotate_shared::Code;

use super::gate::{self, Gate};
use super::rules::Need;
use crate::clock::Clock;
use crate::http::budget::Weight;
use crate::http::limits;
use crate::http::problem::Refusal;
use crate::http::slots::{Full, Key, Owner, Slot, Slots};
use crate::http::traffic::{Refused, Traffic};

/// The bounds of one port.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) clock: Clock,
    pub(super) traffic: Arc<Traffic>,
    streams: Arc<Slots>,
    heavy: Arc<Slots>,
}

/// Goes with a request to its handler: the key to what is bounded, and what its caller is judged anew by.
#[derive(Clone)]
pub(crate) struct Pass {
    pub(super) door: Arc<Door>,
    pub(super) owner: Owner,
    pub(super) visa: Option<Arc<Visa>>,
}

/// Goes with a request that may turn out to be dear.
#[derive(Clone)]
pub(crate) struct Purse {
    pub(super) gate: Arc<Gate>,
    pub(super) key: Key,
}

/// What a caller was let in by.
pub(super) struct Visa {
    pub(super) gate: Arc<Gate>,
    pub(super) token: String,
    pub(super) need: Need,
}

/// An open stream; counted until dropped.
#[derive(Debug)]
pub(crate) struct Stream {
    _slot: Slot,
    traffic: Arc<Traffic>,
}

// === impl Door ===

impl Door {
    pub(super) fn new(clock: Clock, traffic: Arc<Traffic>) -> Self {
        Self { clock, traffic, streams: Slots::new(limits::STREAMS), heavy: Slots::new(limits::HEAVY) }
    }

    /// A place for a request that may take much memory.
    pub(super) fn heavy(&self, owner: Owner) -> Result<Slot, Refusal> {
        self.slot(&self.heavy, owner, "requests of this kind")
    }

    fn slot(&self, slots: &Arc<Slots>, owner: Owner, what: &str) -> Result<Slot, Refusal> {
        slots.take(owner).map_err(|full| {
            self.traffic.refuse(Refused::Busy);
            let wait = SignedDuration::from_secs(1);
            match full {
                Full::Token => too_many(&format!("this token has as many {what} open as it may have"), wait),
                Full::Account => too_many(&format!("this account has as many {what} open as it may have"), wait),
                Full::All => too_many(&format!("the agent has as many {what} open as it can"), wait)
                    .status(StatusCode::SERVICE_UNAVAILABLE),
            }
        })
    }
}

// === impl Pass ===

impl Pass {
    /// A place for a stream.
    pub(crate) fn stream(&self) -> Result<Stream, Refusal> {
        let slot = self.door.slot(&self.door.streams, self.owner, "streams of events")?;
        self.door.traffic.stream_opened();
        Ok(Stream { _slot: slot, traffic: Arc::clone(&self.door.traffic) })
    }

    /// Waits until the caller may no longer do what was asked for: the token has expired or was withdrawn, or the role was.
    pub(crate) async fn withdrawn(self) {
        let Some(visa) = self.visa else { return future::pending().await };
        let clock = self.door.clock;
        let mut judged = clock.now();
        loop {
            clock.sleep(limits::RECHECK).await;
            match visa.judge().await {
                Ok(()) => judged = clock.now(),
                Err(refusal) if matches!(refusal.code(), Code::Unauthenticated | Code::Forbidden) => break,
                // An API server that is away for a while must not leave people blind to what goes on.
                Err(_) if clock.now().duration_since(judged).unsigned_abs() < limits::UNJUDGED => {}
                Err(_) => break,
            }
        }
        tracing::info!("a stream of events ends: its caller is no longer let in");
    }
}

impl Visa {
    async fn judge(&self) -> Result<(), Refusal> {
        let key = gate::key(&self.token);
        let user = self.gate.identify(&self.token, key).await?;
        self.gate.authorize(self.need, &user, &key).await
    }
}

impl Purse {
    /// Pays for a question to the API server.
    pub(crate) fn pay_for_a_look(&self) -> Result<(), Refusal> {
        self.gate.charge(&self.key, Weight::Heavy)
    }
}

impl std::fmt::Debug for Purse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Purse").field("door", &self.gate.door).finish_non_exhaustive()
    }
}

// It has the token.
impl std::fmt::Debug for Pass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pass").field("door", &self.door).finish_non_exhaustive()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.traffic.stream_closed();
    }
}

/// Asks to come back later. The connection is closed, so that it does not stand in others' way meanwhile.
pub(super) fn too_many(detail: &str, wait: SignedDuration) -> Refusal {
    let seconds = wait.as_secs() + i64::from(wait.subsec_nanos() > 0);
    Refusal::new(Code::TooManyRequests, format!("{detail}; try again in {seconds} s"))
        .header(header::RETRY_AFTER, HeaderValue::from(seconds))
        .header(header::CONNECTION, HeaderValue::from_static("close"))
}
