//! Providers' objects among saved ones: what `plan --from FILE` goes by.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use rotate_shared::names;
use rotate_shared::plan::Provider;
use serde::Deserialize;

use super::cluster_autoscaler::status::Status;
use super::cluster_autoscaler::templates::Templates;
use super::{Listing, ProviderObjects, detect, karpenter};
use crate::cache::State;

/// Collects what belongs to providers out of saved objects.
#[derive(Debug, Default)]
pub struct Saved {
    pools: Listing<karpenter::NodePool>,
    claims: Listing<karpenter::NodeClaim>,
    status: Status,
    templates: Templates,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigMap {
    metadata: Metadata,
    data: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    namespace: String,
    name: String,
}

impl Saved {
    /// Takes in an object, where a provider keeps such. What cannot be read says so in its place.
    pub fn take(&mut self, kind: &str, json: &str) {
        match kind {
            "NodePool" => self.pools.take_one(json),
            "NodeClaim" => self.claims.take_one(json),
            "ConfigMap" => self.take_config_map(json),
            _ => {}
        }
    }

    fn take_config_map(&mut self, json: &str) {
        let Ok(ConfigMap { metadata, data }) = serde_json::from_str(json) else { return };
        let data = data.unwrap_or_default();
        let settings = ProviderObjects::default().autoscaler.settings;
        if (&metadata.namespace, &metadata.name) == (&settings.status.0, &settings.status.1) {
            self.status = match data.get("status") {
                Some(text) => Status::parse(text),
                None => Status::Unreadable("it has no key status".to_owned()),
            };
            // It was fresh when it was saved, with everything else.
            if let Status::Read(told) = &mut self.status {
                told.at = Timestamp::MAX;
            }
        } else if metadata.name == names::GROUPS {
            self.templates = Templates::read(&data);
        }
    }

    /// What is known, and of which providers' nodes nothing was saved.
    #[must_use]
    pub fn finish(self, state: &State) -> ProviderObjects {
        let Self { pools, claims, status, templates } = self;
        let mut objects = ProviderObjects::default();
        objects.autoscaler.status = status;
        objects.autoscaler.templates = Arc::new(templates);
        objects.karpenter = karpenter::Objects { pools, claims };
        let saved = |provider: Provider| match provider {
            Provider::Karpenter => objects.karpenter.pools != Listing::Absent,
            Provider::ClusterAutoscaler => objects.autoscaler.status != Status::Absent,
            // Its objects are in another cluster; of the others there are none.
            Provider::ClusterApi | Provider::Unmanaged => true,
        };
        let mut unseen = Vec::new();
        for provider in state.nodes().map(|node| detect(node, &objects)) {
            if !saved(provider) && !unseen.contains(&provider) {
                unseen.push(provider);
            }
        }
        ProviderObjects { unseen, ..objects }
    }
}

#[cfg(test)]
mod tests;
