//! Nodes that go: tainted, drained by evictions, then ended with their claims.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{FINALIZER, State, disrupt, duration, is_daemon, key_of, node_of};
use crate::{api, clock, kind::Kind, object, store::Store};

/// How soon it asks again for what was refused.
const AGAIN: Duration = Duration::from_secs(1);

impl State {
    /// Takes the next step for all that go; answers when to look again.
    pub(super) fn terminate(&mut self, store: &mut Store, now: Timestamp) -> Option<Timestamp> {
        let going = |object: &&Arc<Value>| object::terminating(object) && is_held(object);
        let claims: Vec<Arc<Value>> = store.iter(Kind::NodeClaim).filter(going).cloned().collect();
        for claim in &claims {
            match node_of(store, claim) {
                Some(node) if object::terminating(&node) => {}
                Some(node) => drop(store.delete(Kind::Node, &key_of(&node), None)),
                None => release(store, Kind::NodeClaim, claim),
            }
        }
        let nodes: Vec<Arc<Value>> = store.iter(Kind::Node).filter(going).cloned().collect();
        self.drained.retain(|name, _| nodes.iter().any(|node| object::name(node) == name));
        if nodes.is_empty() {
            self.asked = None;
            return None;
        }
        let mut wake: Option<Timestamp> = None;
        let mut later = |at: Timestamp| wake = Some(wake.map_or(at, |wake: Timestamp| wake.min(at)));
        // What is refused is not asked for at each change.
        let asks = self.asked.is_none_or(|at| clock::after(at, AGAIN) <= now);
        if asks {
            self.asked = Some(now);
        }
        for node in &nodes {
            let claim = claim_of(store, node);
            if let Some(claim) = claim.as_ref().filter(|claim| !object::terminating(claim)) {
                store.delete(Kind::NodeClaim, &key_of(claim), None);
            }
            disrupt::taint(store, node);
            let forced = claim.as_ref().and_then(|claim| {
                let grace = duration(object::text(claim, "/spec/terminationGracePeriod"))?;
                let since = clock::parse(object::text(claim, "/metadata/deletionTimestamp"))?;
                Some(clock::after(since, grace))
            });
            let pods: Vec<_> =
                disrupt::pods_on(store, object::name(node)).into_iter().filter(|pod| drains(pod)).collect();
            if !pods.is_empty() {
                self.drained.remove(object::name(node));
                match forced {
                    Some(at) if at <= now => pods.iter().for_each(|pod| end(store, pod)),
                    Some(at) => later(at),
                    None => {}
                }
                if asks {
                    pods.iter().filter(|pod| object::active(pod)).for_each(|pod| evict(store, pod, now));
                }
                later(clock::after(self.asked.unwrap_or(now), AGAIN));
                continue;
            }
            let since = *self.drained.entry(object::name(node).to_owned()).or_insert(now);
            let end = clock::after(since, self.settings.terminate);
            if end > now {
                later(end);
                continue;
            }
            release(store, Kind::Node, node);
            if let Some(claim) = claim {
                release(store, Kind::NodeClaim, &claim);
            }
        }
        wake
    }
}

/// A mirror goes with its node; what tolerates everything stays until then.
fn drains(pod: &Value) -> bool {
    let mirror = object::annotation(pod, "kubernetes.io/config.mirror").is_some();
    let tolerates_all = object::list(pod, "/spec/tolerations")
        .iter()
        .any(|it| object::text(it, "/key").is_empty() && it["operator"] == "Exists" && it["effect"].is_null());
    !mirror && !tolerates_all && !is_daemon(pod)
}

fn evict(store: &mut Store, pod: &Value, now: Timestamp) {
    if disrupt::protected_until(pod, now).is_some() {
        return;
    }
    let key = (object::namespace(pod).to_owned(), object::name(pod).to_owned());
    let options = json!({"preconditions": {"uid": object::uid(pod)}});
    if let Err(refused) = api::evict_pod(store, &key, &options, false) {
        tracing::debug!(pod = key.1, error = refused.message, "Karpenter may not evict a Pod yet");
    }
}

fn end(store: &mut Store, pod: &Value) {
    let key = (object::namespace(pod).to_owned(), object::name(pod).to_owned());
    store.delete(Kind::Pod, &key, Some(0));
}

fn is_held(object: &Value) -> bool {
    object::list(object, "/metadata/finalizers").iter().any(|it| it == FINALIZER)
}

/// Lets go of what is being deleted.
fn release(store: &mut Store, kind: Kind, object: &Value) {
    store.update(kind, &key_of(object), |object| {
        let kept: Vec<_> =
            object::list(object, "/metadata/finalizers").iter().filter(|it| *it != FINALIZER).cloned().collect();
        object["metadata"]["finalizers"] = json!(kept);
    });
}

fn claim_of(store: &Store, node: &Value) -> Option<Arc<Value>> {
    store.iter(Kind::NodeClaim).find(|claim| object::text(claim, "/status/nodeName") == object::name(node)).cloned()
}
