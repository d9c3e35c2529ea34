//! From a claim to its node.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    INSTANCE_TYPE, POOL, State, ZONE,
    claim::{self, Choice},
    key_of, node_of, say,
};
use crate::{clock, controllers::create, kind::Kind, object, settings::Karpenter, store::Store};

impl State {
    /// Launches, registers and initializes what is due; answers when the next is.
    pub(super) fn launch(&mut self, store: &mut Store, now: Timestamp) -> Option<Timestamp> {
        let claims: Vec<Arc<Value>> = store.iter(Kind::NodeClaim).cloned().collect();
        let names: Vec<&str> = claims.iter().map(|claim| object::name(claim)).collect();
        self.choices.retain(|name, _| names.contains(&&**name));
        let mut wake: Option<Timestamp> = None;
        let mut later = |at: Timestamp| wake = Some(wake.map_or(at, |wake| wake.min(at)));
        for claim in claims.iter().filter(|claim| !object::terminating(claim)) {
            let Some((choice, since)) = self.choice(store, claim, now) else { continue };
            if object::condition(claim, "Launched") != Some("True") {
                let at = clock::after(since, self.settings.launch);
                if at > now {
                    later(at);
                } else if let Some(why) = refused(store, claim) {
                    say(store, Kind::NodeClaim, claim, "Warning", "InsufficientCapacityError", &why);
                    store.delete(Kind::NodeClaim, &key_of(claim), None);
                } else {
                    let node = choice.node(object::name(claim));
                    registered(store, claim, &node, now);
                }
            } else if let Some(node) = node_of(store, claim)
                && object::condition(claim, "Initialized") != Some("True")
            {
                if !object::ready(&node) {
                    let boots = self.settings.boot.map(|boot| clock::after(since, self.settings.launch + boot));
                    match boots {
                        Some(at) if at <= now => ready(store, &node, now),
                        Some(at) => later(at),
                        None => {}
                    }
                }
                initialized(store, claim, &node, now);
            }
        }
        wake
    }

    /// What a claim is to become, and since when that is known. Of one made before this Karpenter was started it is read
    /// off the claim.
    fn choice(&mut self, store: &Store, claim: &Value, now: Timestamp) -> Option<(Choice, Timestamp)> {
        if let Some(known) = self.choices.get(object::name(claim)) {
            return Some(known.clone());
        }
        let pool = store.get(Kind::NodePool, "", object::label(claim, POOL)?)?;
        let all = Choice::all(pool, &self.settings.types, &self.settings.zones);
        let same =
            |choice: &Choice, key: &str| choice.labels.get(key).and_then(Value::as_str) == object::label(claim, key);
        let found = all.into_iter().find(|choice| [INSTANCE_TYPE, ZONE].into_iter().all(|key| same(choice, key)))?;
        let known = (found, now);
        self.choices.insert(object::name(claim).to_owned(), known.clone());
        Some(known)
    }
}

/// Why no machine is to be had.
fn refused(store: &Store, claim: &Value) -> Option<String> {
    let pool = store.get(Kind::NodePool, "", object::label(claim, POOL)?)?;
    object::annotation(pool, Karpenter::LAUNCH_FAILS).map(ToOwned::to_owned)
}

fn registered(store: &mut Store, claim: &Value, node: &Value, now: Timestamp) {
    let name = object::name(claim);
    store.update(Kind::NodeClaim, &key_of(claim), |claim| {
        claim["status"]["nodeName"] = json!(name);
        claim["status"]["providerID"] = json!(claim::provider_id(name));
        claim["status"]["capacity"] = node["status"]["capacity"].clone();
        claim["status"]["allocatable"] = node["status"]["allocatable"].clone();
        for kind in ["Launched", "Registered"] {
            object::set_condition(claim, kind, "True", kind, "", now);
        }
    });
    create(store, Kind::Node, node.clone());
}

fn ready(store: &mut Store, node: &Value, now: Timestamp) {
    store.update(Kind::Node, &key_of(node), |node| {
        object::set_condition(node, "Ready", "True", "KubeletReady", "", now);
    });
}

fn initialized(store: &mut Store, claim: &Value, node: &Value, now: Timestamp) {
    let is_ready = store.get(Kind::Node, "", object::name(node)).is_some_and(|node| object::ready(node));
    if !is_ready {
        return;
    }
    store.update(Kind::Node, &key_of(node), |node| {
        node["metadata"]["labels"]["karpenter.sh/initialized"] = json!("true");
    });
    store.update(Kind::NodeClaim, &key_of(claim), |claim| {
        for kind in ["Initialized", "Ready"] {
            object::set_condition(claim, kind, "True", kind, "", now);
        }
    });
}
