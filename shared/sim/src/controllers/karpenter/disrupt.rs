//! Nodes that Karpenter takes away of its own accord: expired, drifted, empty, or not needed.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{DISRUPTED, DO_NOT_DISRUPT, POOL, State, claim, duration, is_daemon, key_of, node_of, say};
use crate::{
    clock,
    kind::Kind,
    object,
    scheduler::{self, pod::PodInfo, world::World},
    store::Store,
};

impl State {
    /// Takes away what is due; answers when to look again.
    pub(super) fn disrupt(&mut self, store: &mut Store, now: Timestamp) -> Option<Timestamp> {
        let expiry = expire(store, now);
        let mut wake = expiry;
        let mut later = |at: Timestamp| wake = Some(wake.map_or(at, |wake: Timestamp| wake.min(at)));
        let waits = |pod: &Arc<Value>| {
            object::active(pod)
                && object::node_name(pod).is_empty()
                && object::condition(pod, "PodScheduled") == Some("False")
        };
        let poll = self.polled.map_or(now, |polled| clock::after(polled, self.settings.poll));
        let polls = poll <= now;
        if polls {
            self.polled = Some(now);
        }
        // Nodes that pending Pods are meant for are left alone, and here all are.
        let settled = !store.iter(Kind::Pod).any(waits);
        let claims: Vec<Arc<Value>> = store.iter(Kind::NodeClaim).cloned().collect();
        self.quiet.retain(|name, _| claims.iter().any(|claim| object::text(claim, "/status/nodeName") == name));
        for claim in &claims {
            let Some(node) = node_of(store, claim) else { continue };
            let pods = pods_on(store, object::name(&node));
            let uids: Vec<String> = pods.iter().map(|pod| object::uid(pod).to_owned()).collect();
            let quiet = self.quiet.entry(object::name(&node).to_owned()).or_insert_with(|| (uids.clone(), now));
            if quiet.0 != uids {
                *quiet = (uids, now);
            }
            let since = quiet.1;
            let drifted = drifts(store, claim, now);
            let is_candidate = settled
                && !object::terminating(claim)
                && !object::terminating(&node)
                && object::condition(claim, "Initialized") == Some("True")
                && object::annotation(&node, DO_NOT_DISRUPT) != Some("true");
            if !is_candidate {
                continue;
            }
            let Some(pool) = object::label(claim, POOL).and_then(|name| store.get(Kind::NodePool, "", name)).cloned()
            else {
                continue;
            };
            if object::list(&pool, "/spec/disruption/budgets").iter().any(|budget| budget["nodes"] == "0") {
                continue;
            }
            if let Some(at) = pods.iter().filter_map(|pod| protected_until(pod, now)).max() {
                if at < Timestamp::MAX {
                    later(at);
                }
                continue;
            }
            let moving: Vec<_> = pods.iter().filter(|pod| !is_daemon(pod)).cloned().collect();
            let after = duration(object::text(&pool, "/spec/disruption/consolidateAfter"));
            let reason = match after {
                _ if drifted => Some("Drifted"),
                // A static pool has as many nodes as it says.
                _ if object::number(&pool, "/spec/replicas").is_some() => None,
                Some(after) if clock::after(since, after) > now => {
                    later(clock::after(since, after));
                    None
                }
                Some(_) if moving.is_empty() => Some("Empty"),
                Some(_) if underutilized(&pool) && self.fit_elsewhere(store, &node, &moving) => Some("Underutilized"),
                _ => None,
            };
            match reason {
                Some(reason) if polls => {
                    choose(store, claim, &node, reason, now);
                    return Some(now);
                }
                Some(_) => later(poll),
                None => {}
            }
        }
        wake
    }

    /// Whether the Pods of a node all find room on others.
    fn fit_elsewhere(&mut self, store: &Store, node: &Value, pods: &[Arc<Value>]) -> bool {
        let mut world = World::of(store, &mut self.cache);
        if let Some(at) = world.position(object::name(node)) {
            world.put(at, Vec::new());
            world.nodes.remove(at);
        }
        pods.iter().all(|pod| {
            let info = Arc::new(PodInfo { node: String::new(), ..PodInfo::of(pod) });
            let found = (0..world.nodes.len()).find(|&at| scheduler::fits(&info, &world, at).is_ok());
            found.map(|at| world.add(at, info)).is_some()
        })
    }
}

/// Deletes the claims whose time has come, whatever protects their nodes.
fn expire(store: &mut Store, now: Timestamp) -> Option<Timestamp> {
    let claims: Vec<Arc<Value>> = store.iter(Kind::NodeClaim).cloned().collect();
    let mut next: Option<Timestamp> = None;
    for claim in claims.iter().filter(|claim| !object::terminating(claim)) {
        let created = clock::parse(object::text(claim, "/metadata/creationTimestamp"));
        let after = duration(object::text(claim, "/spec/expireAfter"));
        let Some(at) = created.zip(after).map(|(created, after)| clock::after(created, after)) else { continue };
        if at <= now {
            store.delete(Kind::NodeClaim, &key_of(claim), None);
        } else {
            next = Some(next.map_or(at, |next| next.min(at)));
        }
    }
    next
}

/// Whether the claim has drifted: because of what its pool says now, or because somebody says so.
fn drifts(store: &mut Store, claim: &Value, now: Timestamp) -> bool {
    let pool = object::label(claim, POOL).and_then(|name| store.get(Kind::NodePool, "", name)).cloned();
    match pool.and_then(|pool| claim::drift(claim, &pool)) {
        Some(reason) => {
            store.update(Kind::NodeClaim, &key_of(claim), |claim| {
                object::set_condition(claim, "Drifted", "True", reason, reason, now);
            });
            true
        }
        None => object::condition(claim, "Drifted") == Some("True"),
    }
}

fn underutilized(pool: &Value) -> bool {
    object::text(pool, "/spec/disruption/consolidationPolicy") != "WhenEmpty"
}

/// Marks the node so that nothing new comes, and deletes the claim.
fn choose(store: &mut Store, claim: &Value, node: &Value, reason: &str, now: Timestamp) {
    say(store, Kind::NodeClaim, claim, "Normal", "DisruptionLaunching", &format!("Disrupting NodeClaim: {reason}"));
    store.update(Kind::NodeClaim, &key_of(claim), |claim| {
        object::set_condition(claim, "DisruptionReason", "True", reason, reason, now);
    });
    taint(store, node);
    store.delete(Kind::NodeClaim, &key_of(claim), None);
}

/// Puts the taint on.
pub(super) fn taint(store: &mut Store, node: &Value) {
    store.update(Kind::Node, &key_of(node), |node| {
        let mut taints = object::list(node, "/spec/taints").to_vec();
        if !taints.iter().any(|taint| taint["key"] == DISRUPTED) {
            taints.push(json!({"key": DISRUPTED, "effect": "NoSchedule"}));
            node["spec"]["taints"] = json!(taints);
        }
    });
}

/// The Pods on a node that have not ended.
pub(super) fn pods_on(store: &Store, node: &str) -> Vec<Arc<Value>> {
    store.iter(Kind::Pod).filter(|pod| object::node_name(pod) == node && !object::finished(pod)).cloned().collect()
}

/// Until when a Pod's own mark keeps it where it is; `None` where nothing does.
pub(super) fn protected_until(pod: &Value, now: Timestamp) -> Option<Timestamp> {
    let mark = object::annotation(pod, DO_NOT_DISRUPT).filter(|_| object::active(pod))?;
    if mark == "true" {
        return Some(Timestamp::MAX);
    }
    let lasts = duration(mark).filter(|lasts| *lasts > Duration::ZERO)?;
    let Some(started) = clock::parse(object::text(pod, "/status/startTime")) else { return Some(Timestamp::MAX) };
    Some(clock::after(started, lasts)).filter(|until| *until > now)
}
