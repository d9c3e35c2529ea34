//! Karpenter: NodePools bring nodes, a NodeClaim stands behind each.
//!
//! ```text
//! NodePool ── limits, requirements, taints ──▶ Headroom
//! NodeClaim ── nodeName ──▶ Node: removed by deleting the claim, taken once it is deleted by others
//! ```

mod explain;
mod growth;
mod kinds;
mod objects;
mod requirements;

use jiff::Timestamp;
use rotate_shared::options::Then;
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Options};

pub use objects::{Condition, NodeClaim, NodePool};
pub use requirements::{Operator, Requirement};

use super::{Driver, Explained, Headroom, Listing, Order, ProviderObjects, Removal};
use crate::cache::{Node, State};

/// Where NodePools are listed.
pub(super) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
/// Where NodeClaims are listed.
pub(super) const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

/// The label that Karpenter puts on its nodes: the name of their pool.
const POOL: &str = "karpenter.sh/nodepool";
/// The taint that Karpenter puts on a node that it is about to take away.
const DISRUPTED: &str = "karpenter.sh/disrupted";

/// Karpenter's driver.
#[derive(Clone, Copy, Debug)]
pub struct Karpenter;

/// Karpenter's objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// The NodePools.
    pub pools: Listing<NodePool>,
    /// The NodeClaims.
    pub claims: Listing<NodeClaim>,
}

impl Objects {
    /// The claim behind a node. As for Karpenter, several are none: which one is true is not known.
    #[must_use]
    pub fn claim_of(&self, node: &Node) -> Option<&NodeClaim> {
        match self.claims_of(node).as_slice() {
            [claim] => Some(claim),
            _ => None,
        }
    }

    /// Why it is not known of every claim whose it is, in words; `None`: it is.
    fn unread(&self) -> Option<String> {
        match &self.claims {
            Listing::Absent => Some("are not served".to_owned()),
            Listing::Forbidden(said) => Some(format!("may not be read ({said})")),
            Listing::Unconverted(said) => Some(format!("cannot be read as karpenter.sh/v1 ({said})")),
            Listing::Read { unreadable, .. } if unreadable.is_empty() => None,
            Listing::Read { unreadable, .. } => Some(format!("cannot all be read ({})", unreadable.join("; "))),
        }
    }

    /// All claims that say they stand behind a node: by the machine's id where both have one, else by the node's name.
    fn claims_of(&self, node: &Node) -> Vec<&NodeClaim> {
        let is_its = |claim: &&NodeClaim| match (&node.provider_id, &*claim.provider_id) {
            (Some(id), of) if !of.is_empty() => **id == *of,
            _ => *claim.node == *node.name,
        };
        self.claims.items().iter().filter(is_its).collect()
    }
}

impl Driver for Karpenter {
    fn detect(&self, node: &Node, _objects: &ProviderObjects) -> bool {
        node.label(POOL).is_some()
    }

    fn order(&self, _candidate: &Node, _objects: &ProviderObjects) -> Option<Order> {
        None
    }

    fn headroom(&self, state: &State, objects: &ProviderObjects, _now: Timestamp) -> Vec<Headroom> {
        growth::headroom(&objects.karpenter, state)
    }

    fn default_then(&self, candidate: &Node, objects: &ProviderObjects) -> Then {
        if objects.karpenter.claim_of(candidate).is_some() { Then::Delete } else { Then::Keep }
    }

    fn remove(&self, node: &Node, objects: &ProviderObjects) -> Removal {
        match objects.karpenter.claim_of(node) {
            Some(claim) => Removal::NodeClaim { name: claim.name.to_string(), uid: claim.uid.to_string() },
            // Among what is not read may be its own.
            None => objects.karpenter.unread().map_or(Removal::NodeObject, |why| Removal::Left {
                to: format!("Karpenter, whose NodeClaims {why}"),
                within: None,
            }),
        }
    }

    fn is_gone(&self, removal: &Removal, objects: &ProviderObjects) -> bool {
        let Removal::NodeClaim { name, uid } = removal else { return true };
        match &objects.karpenter.claims {
            Listing::Read { items, unreadable } => {
                let of_it = format!("{name}: ");
                !items.iter().any(|claim| *claim.uid == **uid) && !unreadable.iter().any(|it| it.starts_with(&of_it))
            }
            // What may not be read, or is not served at this moment, may be there still.
            Listing::Absent | Listing::Forbidden(_) | Listing::Unconverted(_) => false,
        }
    }

    fn taken(&self, node: &Node, objects: &ProviderObjects) -> Option<String> {
        let claim = objects.karpenter.claim_of(node);
        if let Some((claim, since)) = claim.and_then(|claim| Some((claim, claim.deleted?))) {
            return Some(format!(
                "NodeClaim {} was deleted at {since}: Karpenter drains and ends the node",
                claim.name
            ));
        }
        if node.deleting {
            return Some(format!("Node {} was deleted: Karpenter drains and ends it", node.name));
        }
        if let Some(claim) = claim.filter(|claim| claim.disruption.is_true()) {
            return Some(format!(
                "Karpenter has chosen NodeClaim {} to be disrupted: {}",
                claim.name, claim.disruption.reason
            ));
        }
        let tainted = node.taints.iter().any(|taint| &*taint.key == DISRUPTED);
        tainted.then(|| format!("Karpenter has begun to disrupt it: Node {} has the taint {DISRUPTED}", node.name))
    }

    fn explain(
        &self,
        candidate: &Node,
        _state: &State,
        objects: &ProviderObjects,
        options: &Options,
        now: Timestamp,
    ) -> Explained {
        let mut explained = explain::explain(candidate, &objects.karpenter, options, now);
        // What is said of every node that is being deleted is not said twice.
        let taken = self.taken(candidate, objects).filter(|_| !candidate.deleting);
        explained.blockers.extend(taken.map(|message| Notice {
            code: Code::NodeDeleting,
            object: format!("Node {}", candidate.name),
            message,
            remedy: "leave it to Karpenter".to_owned(),
        }));
        explained
    }
}

#[cfg(test)]
mod tests;
