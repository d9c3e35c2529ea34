//! What the autoscaler tells of its groups, in the form of cluster-autoscaler 1.30 and later.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::State;
use crate::{clock, controllers::create, kind::Kind, object, store::Store};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "cluster-autoscaler-status";
/// How often the real one looks, and tells.
const EVERY: Duration = Duration::from_secs(10);

impl State {
    /// Writes its group into the status that all groups share; answers when it does so next.
    pub(super) fn publish(&mut self, store: &mut Store, now: Timestamp) -> Option<Timestamp> {
        let group = self.provisioner.group.clone()?;
        let mine = self.told(store, &group, now);
        let known = store.get(Kind::ConfigMap, NAMESPACE, NAME).cloned();
        let text = known.as_ref().map_or("", |map| object::text(map, "/data/status"));
        let mut status: Value = serde_json::from_str(text).unwrap_or_else(|_| json!({"nodeGroups": []}));
        let groups = status["nodeGroups"].as_array_mut().expect("it is written here only");
        let before = groups.iter().position(|told| told["name"] == mine["name"]);
        let same = before
            .is_some_and(|at| groups[at]["health"]["cloudProviderTarget"] == mine["health"]["cloudProviderTarget"]);
        let next = self.published.map(|at| clock::after(at, EVERY)).filter(|at| *at > now);
        if let (true, Some(next)) = (same, next) {
            return Some(next);
        }
        match before {
            Some(at) => groups[at] = mine,
            None => groups.push(mine),
        }
        status["time"] = json!(now.strftime("%Y-%m-%d %H:%M:%S.%9f +0000 UTC").to_string());
        status["autoscalerStatus"] = json!("Running");
        // JSON is YAML.
        let data = json!({"status": status.to_string()});
        if known.is_some() {
            store.update(Kind::ConfigMap, &(NAMESPACE.to_owned(), NAME.to_owned()), |map| map["data"] = data);
        } else {
            create(store, Kind::ConfigMap, json!({"metadata": {"namespace": NAMESPACE, "name": NAME}, "data": data}));
        }
        self.published = Some(now);
        Some(clock::after(now, EVERY))
    }

    /// Its own part, under the name that its cloud has for the group.
    fn told(&self, store: &Store, group: &str, now: Timestamp) -> Value {
        let members = self.members(store);
        let ready = members.iter().filter(|node| object::ready(node)).count();
        let target = self.size(store);
        let probed = json!(now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        let progress = if target > ready { "InProgress" } else { "NoActivity" };
        json!({
            "name": format!("eks-{group}-5ec1d2a0-0000-4000-8000-000000000000"),
            "health": {
                "status": "Healthy", "cloudProviderTarget": target, "lastProbeTime": probed,
                "minSize": self.provisioner.min, "maxSize": self.provisioner.max,
                "nodeCounts": {"registered": {"total": members.len(), "ready": ready}},
            },
            "scaleUp": {"status": progress, "lastProbeTime": probed},
        })
    }
}
