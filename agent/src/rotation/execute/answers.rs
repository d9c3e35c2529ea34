//! Takes what came of effects into [`Memory`], until the cache shows it.

use jiff::{SignedDuration, Timestamp};
use rotate_shared::plan::Notice;
use rotate_shared::{Code, names};

use super::{Done, ExecuteError, waking_name};
use crate::cache::{Resources, State};
use crate::drain::evict::{Answer, Eviction};
use crate::probe;
use crate::provider::cluster_autoscaler::hook::Refusal;
use crate::rotation::effect::{Effect, Reservation};
use crate::rotation::memory::{Created, Evicting, Failure, Memory, Ordered};
use crate::rotation::observation::{Asked, Refused};
use crate::surge::told::AllTold;

impl Memory {
    /// Notes that an effect is on its way.
    pub(in crate::rotation) fn begin(&mut self, rotation: &str, effect: &Effect, state: &State, now: Timestamp) {
        match effect {
            Effect::Evict(eviction) => self.note_evicting(&eviction.uid, state, now),
            Effect::Reserve(reservation) => {
                self.reserving.insert(reservation.name.clone(), reservation.clone());
            }
            Effect::ReadProvider => self.provider_asked = Some(now),
            Effect::Order(_) => self.ordered = Some(Ordered::Sent),
            Effect::Remove(_) => _ = self.asked.get_or_insert(Asked { since: now, accepted: None }),
            Effect::Wake(pod) => {
                self.waking = Some(waking_name(rotation, pod));
                self.woken.insert(pod.uid.clone(), (pod.attempt + 1, now));
            }
            _ => {}
        }
    }

    /// Takes in what came of an effect.
    pub(in crate::rotation) fn end(
        &mut self,
        node: &str,
        effect: &Effect,
        result: Result<Done, ExecuteError>,
        state: &State,
        now: Timestamp,
    ) {
        match effect {
            Effect::Reserve(reservation) => {
                self.reserving.remove(&reservation.name);
            }
            Effect::Wake(_) => self.waking = None,
            // One that was given up may have arrived all the same.
            Effect::Order(_) => self.ordered = Some(Ordered::Ended(now)),
            _ => {}
        }
        match result {
            Ok(done) => {
                self.failures.remove(&effect.key());
                self.take(done, state, now);
            }
            // Who may not hear goes on: what is heard only explains what is waited for.
            Err(error) if matches!(effect, Effect::Listen(_)) => {
                tracing::debug!(error = %error, "failed to {}", effect.describe(node));
                self.told = Some((AllTold::default(), now));
            }
            Err(error) => {
                if let Effect::Evict(eviction) = effect {
                    self.evicting.remove(&eviction.uid);
                }
                if let ExecuteError::Hook(refusal @ Refusal::Final(_)) = &error {
                    self.will_not = Some(refusal.to_string());
                }
                let doing = effect.describe(node);
                tracing::warn!(error = %error, "failed to {doing}");
                self.fail(&effect.key(), now, |times| failure_notice(node, effect, &error, times));
            }
        }
    }

    /// Notes that a call failed, and when it may be tried again.
    pub(in crate::rotation) fn fail(&mut self, key: &str, now: Timestamp, notice: impl FnOnce(&str) -> Notice) {
        let count = self.failures.get(key).map_or(0, |failure| failure.count) + 1;
        let times = if count == 1 { String::new() } else { format!(" ({count} times)") };
        let failure = Failure { count, until: now + backoff(count, key), notice: notice(&times) };
        self.failures.insert(key.to_owned(), failure);
    }

    fn take(&mut self, done: Done, state: &State, now: Timestamp) {
        match done {
            Done::Marked(marked) => {
                self.marks = Some((marked, now));
                self.listed = None;
            }
            Done::Listed { bound, arriving } => {
                self.listed = Some((bound, now));
                self.arriving = arriving;
            }
            Done::Volumes(claims, limits) => {
                self.volumes.claims.extend(claims);
                self.volumes.limits.extend(limits);
            }
            Done::Owner(owner, workload) => {
                self.owners.insert(owner.uid.to_string(), (now, workload));
            }
            Done::Reserved(reservation, uid) => {
                let Reservation { name, pod_uid, class } = reservation;
                self.note_attempt(&name, &pod_uid, now);
                self.created.insert(
                    name,
                    Created { uid, pod_uid, class: class.id, offers: Resources::from(&class.requests), at: now },
                );
            }
            Done::NameTaken(reservation) => self.note_attempt(&reservation.name, &reservation.pod_uid, now),
            Done::Released(uid) => {
                self.released.insert(uid, now);
            }
            Done::Answered(eviction, answer) => self.answered(&eviction, answer, state, now),
            Done::Withheld(eviction) => self.note_withheld(&eviction.uid, state, now),
            Done::Woken(pod) => tracing::info!(pod = pod.path, "the scheduler had passed it over, and was woken"),
            Done::Heard(told) => self.told = Some((told, now)),
            Done::Protected(uid, protected) => _ = self.protections.insert(uid, (protected, now)),
            Done::GivenBack(uid) => _ = self.given_back.insert(uid),
            Done::Provider(objects) => self.provider = Some((objects, self.provider_asked.unwrap_or(now))),
            Done::Ordered | Done::Settled => self.provider = None,
            Done::Removing => {
                if let Some(asked) = &mut self.asked {
                    asked.accepted = Some(now);
                }
            }
        }
    }

    fn note_attempt(&mut self, name: &str, pod_uid: &str, now: Timestamp) {
        let number = name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        self.attempts.insert(pod_uid.to_owned(), (number, now));
    }

    fn answered(&mut self, eviction: &Eviction, answer: Answer, state: &State, now: Timestamp) {
        let uid = &eviction.uid;
        self.evicting.remove(uid);
        let count = self.refusals.get(uid).copied().unwrap_or(0);
        let object = format!("Pod {}/{}", eviction.namespace, eviction.name);
        if answer.is_refusal() {
            self.refused_at = Some(now);
        }
        let (after, code, object, message) = match answer {
            Answer::Accepted => {
                self.evicting.insert(uid.clone(), Evicting::Accepted(now));
                self.refusals.remove(uid);
                self.refused.remove(uid);
                return;
            }
            // The cache is about to show it, unless it was an admission webhook that answered so.
            Answer::Gone | Answer::Replaced => {
                let message = "its eviction was answered as if it were gone, or replaced".to_owned();
                (backoff(count, uid), Code::EvictionRefused, object, message)
            }
            Answer::Budget { message } => {
                let pod = state.pod(uid);
                let pdbs = pod.as_ref().map(|pod| state.pdbs_selecting(pod)).unwrap_or_default();
                // Where the watch says the same, the watch will say when it opens.
                if pdbs.iter().any(|pdb| pdb.allowed <= 0) {
                    self.refused.remove(uid);
                    return;
                }
                let object = pdbs.first().map(|pdb| crate::drain::blockers::object(pdb)).unwrap_or(object);
                (backoff(count, uid).min(SignedDuration::from_secs(15)), Code::PodDisruptionBudget, object, message)
            }
            Answer::Throttled { after } => {
                let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::from_secs(60));
                let message = "the API server is throttling us".to_owned();
                (after, Code::Throttled, "the API server".to_owned(), message)
            }
            Answer::SeveralBudgets { message } => {
                (SignedDuration::from_secs(30), Code::MultiplePodDisruptionBudgets, object, message)
            }
            Answer::NamespaceTerminating => {
                let message = "it goes with its namespace, which is being terminated".to_owned();
                (SignedDuration::from_secs(5), Code::Terminating, object, message)
            }
            Answer::Refused { status, message } => {
                let message = format!("its {} is refused ({status}): {message}", eviction.act());
                (backoff(count, uid), Code::EvictionRefused, object, message)
            }
        };
        self.refusals.insert(uid.clone(), count + 1);
        let notice = Notice { code, object, message, remedy: String::new() };
        self.refused.insert(uid.clone(), Refused { until: now + after, notice });
    }
}

fn failure_notice(node: &str, effect: &Effect, error: &ExecuteError, times: &str) -> Notice {
    let status = error.status();
    let code = match (effect, status) {
        (_, Some(429)) => Code::Throttled,
        (Effect::Reserve(_), Some(400 | 403 | 422)) => Code::PlaceholderRefused,
        _ => Code::ApiError,
    };
    let object = match effect {
        Effect::Reserve(Reservation { name, .. }) | Effect::Release { name, .. } => {
            format!("Pod {}/{name}", names::ROOM_NAMESPACE)
        }
        Effect::Evict(eviction) => format!("Pod {}/{}", eviction.namespace, eviction.name),
        Effect::ReadOwner { namespace, owner } => format!("{} {namespace}/{}", owner.kind, owner.name),
        Effect::Protect { node, .. } | Effect::Unprotect { node, .. } | Effect::GiveBack { node, .. } => {
            format!("Node {node}")
        }
        _ => format!("Node {node}"),
    };
    let remedy = match code {
        Code::PlaceholderRefused => probe::remedy(&error.to_string()),
        _ => String::new(),
    };
    Notice { code, object, message: format!("failed to {}{times}: {error}", effect.describe(node)), remedy }
}

/// From half a second to half a minute, with up to a quarter of jitter that differs by key, so that many who wait for
/// the same do not ask at once.
fn backoff(count: u32, key: &str) -> SignedDuration {
    let base = 500_i64 << count.min(6);
    let jitter = i64::try_from(names::fnv1a(&format!("{key}/{count}")) % 250).unwrap_or(0);
    SignedDuration::from_millis((base + base * jitter / 1000).min(30_000))
}

#[cfg(test)]
mod tests;
