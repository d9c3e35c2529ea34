//! Leader election on a Lease: one agent acts, the others watch.
//!
//! The Lease's resourceVersion is the lock: of two agents that want it at once, one's patch is refused. Whether a holder
//! is alive is judged by what changes here, never by another clock: a Lease that has not changed for as long as it is
//! valid has lost its holder.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, Patch, PatchParams, PostParams};
use rotate_shared::names;
use serde_json::json;
use tokio::sync::watch;

use crate::client::said;
use crate::clock::Clock;

/// A name for this process that no other has: the Pod's or machine's name, and what tells processes on it apart.
#[must_use]
pub fn identity(clock: Clock) -> String {
    static PROCESS: AtomicU64 = AtomicU64::new(0);
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".to_owned());
    let number = PROCESS.fetch_add(1, Ordering::Relaxed);
    let salt = names::fnv1a(&format!("{}/{number}/{}", std::process::id(), clock.now().as_nanosecond()));
    format!("{host}-{salt:016x}")
}

/// How an election is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How long a Lease that nobody renews is respected. Default 15 s.
    pub lease: Duration,
    /// How long a holder acts without having renewed. Less than `lease` by more than a call may take. Default 10 s.
    pub renew_within: Duration,
    /// How often a holder renews, and the others look. Default 2 s.
    pub every: Duration,
    /// How long a new holder waits before it acts: as long as the last call of its predecessor may take. Default 5 s.
    pub wait: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew_within: Duration::from_secs(10),
            every: Duration::from_secs(2),
            wait: Duration::from_secs(5),
        }
    }
}

/// From the end of a term to the Lease's release: time for calls that were dropped to die.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// A time of leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Rises with every term of this process.
    pub number: u64,
    /// Not to act before: the predecessor's last call may still be on its way.
    pub acts_from: Timestamp,
    /// Not to act from then on, whether or not the end of the term was told: a process that was held up for long must
    /// not go on as if no time had passed. Put off by each renewal.
    pub acts_until: Timestamp,
}

/// Somebody else who holds the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Who.
    pub holder: String,
    /// When it last renewed the Lease, by its own clock.
    pub renewed: Option<Timestamp>,
    /// How long it is respected without another renewal.
    pub valid: SignedDuration,
    /// Whether the Lease changed while we looked: somebody is at work. If not, its holder may be gone.
    pub alive: bool,
}

/// Who holds the Lease, from one look at it; `None`: nobody.
///
/// # Errors
///
/// The API server did not answer as expected.
pub async fn rival(client: kube::Client, namespace: &str, name: &str) -> Result<Option<Rival>, LeaseError> {
    let read = Api::<Lease>::namespaced(client, namespace).get_opt(name).await;
    let lease = read.map_err(|source| LeaseError { doing: "read", name: name.to_owned(), source })?;
    Ok(lease.and_then(|lease| lease.spec).and_then(|spec| Rival::of(&spec)))
}

/// Why the Lease cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{doing} Lease {name}: {}", said(source))]
pub struct LeaseError {
    doing: &'static str,
    name: String,
    #[source]
    source: kube::Error,
}

/// Takes part in an election. One task runs it; [`Election::subscribe`] tells the others.
pub struct Election {
    api: Api<Lease>,
    name: String,
    identity: String,
    times: Times,
    clock: Clock,
    term: watch::Sender<Option<Term>>,
    holder: watch::Sender<Option<String>>,
    rival: watch::Sender<Option<Rival>>,
    terms: u64,
    seen: Option<Seen>,
    renewed_at: Option<Timestamp>,
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Election {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Election").field("name", &self.name).field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The Lease as last seen, and when it was seen to change by this clock.
#[derive(Clone, Debug)]
struct Seen {
    version: String,
    at: Timestamp,
}

/// What to do about the Lease as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// It is ours.
    Renew,
    /// Its holder gave it up: it can be taken without waiting for anybody.
    TakeFree,
    /// Its holder has gone silent.
    TakeOver,
    /// Somebody else holds it.
    Leave,
}

// === impl Election ===

impl Election {
    /// An election for the Lease of this name. `identity` must be this process's own.
    #[must_use]
    pub fn new(client: kube::Client, namespace: &str, name: &str, identity: &str, times: Times, clock: Clock) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            identity: identity.to_owned(),
            times,
            clock,
            term: watch::Sender::new(None),
            holder: watch::Sender::new(None),
            rival: watch::Sender::new(None),
            terms: 0,
            seen: None,
            renewed_at: None,
        }
    }

    /// The present term of leadership; `None` while somebody else leads.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Option<Term>> {
        self.term.subscribe()
    }

    /// Who holds the Lease, as last seen.
    #[must_use]
    pub fn holder(&self) -> watch::Receiver<Option<String>> {
        self.holder.subscribe()
    }

    /// Who else holds the Lease, as last seen.
    #[must_use]
    pub fn rival(&self) -> watch::Receiver<Option<Rival>> {
        self.rival.subscribe()
    }

    /// Takes part until `stop` says so, then gives the Lease up.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let clock = self.clock;
        loop {
            if let Err(error) = self.attempt().await {
                tracing::warn!(error = %error, "the election goes on");
            }
            tokio::select! {
                () = clock.sleep(self.left().unwrap_or(self.times.every).min(self.times.every)) => {}
                () = &mut stop => break,
            }
        }
        // Whoever acts under this term hears of its end and lets go first.
        if self.term.borrow().is_some() {
            self.step_down();
            clock.sleep(LAST_CALLS).await;
        }
        if let Err(error) = self.release().await {
            tracing::warn!(error = %error, "the next leader has to wait");
        }
    }

    /// Reads the Lease once and takes or renews it where possible. Whether this process leads afterwards.
    ///
    /// # Errors
    ///
    /// The API server did not answer as expected. A lost race is not an error.
    pub async fn attempt(&mut self) -> Result<bool, LeaseError> {
        // Judged from before the call: how long an answer takes must not lengthen the term.
        let began = self.clock.now();
        if self.left().is_none() {
            self.step_down();
        }
        let patience = self.left().unwrap_or(self.times.wait).min(self.times.wait);
        let call = tokio::time::timeout(patience, self.call(began));
        let result = call.await.unwrap_or(Ok(()));
        let alive = self.left().is_some();
        if !alive {
            self.step_down();
        }
        result.map(|()| alive)
    }

    /// How long what was last renewed is still good for; `None`: it is over, or there is nothing.
    fn left(&self) -> Option<Duration> {
        let left = self.clock.now().duration_until(self.until(self.renewed_at?));
        Duration::try_from(left).ok().filter(|left| !left.is_zero())
    }

    /// Until when a holder acts that renewed at this time.
    fn until(&self, renewed: Timestamp) -> Timestamp {
        renewed.saturating_add(signed(self.times.renew_within)).unwrap_or(Timestamp::MAX)
    }

    async fn call(&mut self, began: Timestamp) -> Result<(), LeaseError> {
        let lease = match self.api.get_opt(&self.name).await {
            Ok(Some(lease)) => lease,
            Ok(None) => return self.create(began).await,
            Err(source) => return Err(self.error("read", source)),
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let changed = self.seen.as_ref().is_some_and(|seen| seen.version != version);
        if changed || self.seen.is_none() {
            self.seen = Some(Seen { version: version.clone(), at: began });
        }
        let spec = lease.spec.unwrap_or_default();
        let rival = Rival::of(&spec);
        let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty());
        let next = self.judge(holder.as_deref(), valid(&spec), began);
        self.holder.send_if_modified(|known| {
            let changed = *known != holder;
            known.clone_from(&holder);
            changed
        });
        if next == Move::Leave {
            self.rival.send_modify(|known| {
                let alive = changed || known.as_ref().is_some_and(|known| known.alive);
                *known = rival.map(|rival| Rival { alive, ..rival });
            });
            self.renewed_at = None;
            return Ok(());
        }
        let taking = next != Move::Renew;
        let mut patch = json!({
            "metadata": { "resourceVersion": version },
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": self.times.lease.as_secs(),
                "renewTime": MicroTime(began),
            },
        });
        if taking {
            patch["spec"]["acquireTime"] = json!(MicroTime(began));
            patch["spec"]["leaseTransitions"] = json!(spec.lease_transitions.unwrap_or(0) + 1);
        }
        match self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(lease) => {
                self.won(lease, began, next);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(source) => Err(self.error("write", source)),
        }
    }

    fn judge(&self, holder: Option<&str>, valid: SignedDuration, now: Timestamp) -> Move {
        let silent = self.seen.as_ref().is_some_and(|seen| now.duration_since(seen.at) > valid);
        match holder {
            None => Move::TakeFree,
            // After a restart under the same name the term is a new one, and nobody else can have acted since.
            Some(holder) if holder == self.identity => Move::Renew,
            Some(_) if silent => Move::TakeOver,
            Some(_) => Move::Leave,
        }
    }

    async fn create(&mut self, began: Timestamp) -> Result<(), LeaseError> {
        let mut lease = Lease::default();
        lease.metadata.name = Some(self.name.clone());
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = i32::try_from(self.times.lease.as_secs()).ok();
        spec.acquire_time = Some(MicroTime(began));
        spec.renew_time = Some(MicroTime(began));
        match self.api.create(&PostParams::default(), &lease).await {
            Ok(lease) => {
                self.won(lease, began, Move::TakeFree);
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(source) => Err(self.error("create", source)),
        }
    }

    /// The Lease is ours from the moment the call began.
    fn won(&mut self, lease: Lease, began: Timestamp, how: Move) {
        self.seen = Some(Seen { version: lease.metadata.resource_version.unwrap_or_default(), at: began });
        self.renewed_at = Some(began);
        self.holder.send_replace(Some(self.identity.clone()));
        self.rival.send_replace(None);
        let acts_until = self.until(began);
        let renewed =
            self.term.send_if_modified(|term| term.as_mut().map(|term| term.acts_until = acts_until).is_some());
        if renewed {
            return;
        }
        self.terms += 1;
        let wait = if how == Move::TakeOver { signed(self.times.wait) } else { SignedDuration::ZERO };
        let acts_from = self.clock.now().saturating_add(wait).unwrap_or(Timestamp::MAX);
        tracing::info!(identity = self.identity, "leading");
        self.term.send_replace(Some(Term { number: self.terms, acts_from, acts_until }));
    }

    fn step_down(&mut self) {
        self.renewed_at = None;
        if self.term.send_replace(None).is_some() {
            tracing::warn!(identity = self.identity, "no longer leading");
        }
    }

    /// Gives the Lease up, so that the next holder need not wait.
    ///
    /// # Errors
    ///
    /// The API server did not answer as expected.
    pub async fn release(&mut self) -> Result<(), LeaseError> {
        self.step_down();
        let ours = self.holder.borrow().as_ref() == Some(&self.identity);
        let Some(seen) = self.seen.as_ref().filter(|_| ours) else { return Ok(()) };
        let patch = json!({ "metadata": { "resourceVersion": seen.version }, "spec": { "holderIdentity": "" } });
        match self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(source) => Err(self.error("release", source)),
        }
    }

    fn error(&self, doing: &'static str, source: kube::Error) -> LeaseError {
        LeaseError { doing, name: self.name.clone(), source }
    }
}

// === impl Rival ===

impl Rival {
    fn of(spec: &LeaseSpec) -> Option<Self> {
        let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
        let renewed = spec.renew_time.as_ref().map(|time| time.0);
        Some(Self { holder, renewed, valid: valid(spec), alive: false })
    }
}

fn valid(spec: &LeaseSpec) -> SignedDuration {
    SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or(0).max(0).into())
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests;
