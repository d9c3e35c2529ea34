//! What a person should know of a candidate that Karpenter brought.

use jiff::{SignedDuration, Timestamp};
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Options};

use super::{NodeClaim, NodePool, Objects, POOL, growth};
use crate::cache::Node;
use crate::provider::{Explained, Listing};

/// Beyond the rotation's own timeouts: for budgets and for Pods that shut down slowly.
const DRAIN: SignedDuration = SignedDuration::from_mins(30);
/// Karpenter itself gives up a claim whose node has not registered after 15 min.
const REGISTERS_WITHIN: SignedDuration = SignedDuration::from_mins(5);

/// All of it, but for who is taking the node already.
pub(super) fn explain(candidate: &Node, objects: &Objects, options: &Options, now: Timestamp) -> Explained {
    let mut warnings: Vec<_> = [unread("NodePools", &objects.pools), unread("NodeClaims", &objects.claims)]
        .into_iter()
        .flatten()
        .map(|(code, message, remedy)| Notice { code, object: object(candidate), message, remedy })
        .collect();
    let claim = objects.claim_of(candidate);
    if claim.is_none() && objects.claims.is_whole() {
        warnings.push(unclaimed(candidate, objects));
    }
    if objects.pools.is_whole() {
        warnings.extend(pool(candidate, objects));
    }
    warnings.extend(claim.and_then(|claim| expiry(claim, options, now)));
    let name = candidate.label(POOL).unwrap_or_default();
    warnings.extend(
        objects.claims.items().iter().filter(|claim| *claim.pool == *name).filter_map(|claim| stray(claim, now)),
    );
    Explained { warnings, ..Explained::default() }
}

fn object(node: &Node) -> String {
    format!("Node {}", node.name)
}

/// What could not be read, and what that costs.
fn unread<T>(kind: &str, listing: &Listing<T>) -> Option<(Code, String, String)> {
    let costs = "no new node can be promised, and once empty, this one stays";
    let (message, remedy) = match listing {
        Listing::Absent => (
            format!("is Karpenter's by its label, but {kind} of karpenter.sh/v1 are not served here: {costs}"),
            "upgrade Karpenter to 1.0 or newer, or install its custom resource definitions".to_owned(),
        ),
        Listing::Forbidden(said) => (
            format!("Karpenter's {kind} may not be read: {costs} ({said})"),
            "allow the agent to list nodepools and nodeclaims of karpenter.sh".to_owned(),
        ),
        Listing::Unconverted(said) => (
            format!("Karpenter's {kind} cannot be read as karpenter.sh/v1: {costs} ({said})"),
            "see that Karpenter runs, or that its custom resource definitions name no conversion webhook that is gone"
                .to_owned(),
        ),
        Listing::Read { unreadable, .. } if !unreadable.is_empty() => (
            format!(
                "{} of Karpenter's {kind} cannot be read and are left out: {}",
                unreadable.len(),
                unreadable.join("; ")
            ),
            String::new(),
        ),
        Listing::Read { .. } => return None,
    };
    Some((Code::ProviderUnreadable, message, remedy))
}

fn unclaimed(candidate: &Node, objects: &Objects) -> Notice {
    let alike =
        objects.claims_of(candidate).iter().map(|claim| format!("NodeClaim {}", claim.name)).collect::<Vec<_>>();
    let message = if alike.is_empty() {
        "no NodeClaim stands behind it: Karpenter does not manage it any more, and once empty, it stays, cordoned"
            .to_owned()
    } else {
        format!(
            "{} all claim it: Karpenter heeds none of them, and once empty, it stays, cordoned",
            alike.join(" and ")
        )
    };
    let remedy = format!("afterwards: kubectl delete node {}, and see that its machine ends", candidate.name);
    Notice { code: Code::NodeClaimUnmatched, object: object(candidate), message, remedy }
}

/// Whether more nodes like the candidate may come.
fn pool(candidate: &Node, objects: &Objects) -> Option<Notice> {
    let name = candidate.label(POOL)?;
    let Some(pool) = objects.pools.items().iter().find(|pool| *pool.name == *name) else {
        return Some(Notice {
            code: Code::GroupAtLimit,
            object: format!("NodePool {name}"),
            message: "does not exist any more: no node like this one comes from it".to_owned(),
            remedy: "room has to be there already, or to come from another pool".to_owned(),
        });
    };
    let why = growth::stands_still(pool)?;
    Some(Notice {
        code: Code::GroupAtLimit,
        object: format!("NodePool {name}"),
        message: format!("brings no node for our placeholders: {why}"),
        remedy: remedy(pool),
    })
}

fn remedy(pool: &NodePool) -> String {
    match pool.replicas {
        Some(replicas) if !pool.deleting => format!(
            "where no other node has room: kubectl scale nodepool {name} --replicas={more} first, and back to {replicas} afterwards",
            name = pool.name,
            more = replicas.saturating_add(1),
        ),
        _ => "room has to be there already, or to come from another pool".to_owned(),
    }
}

/// Expiry heeds no annotation: Karpenter deletes the claim when its time has come.
fn expiry(claim: &NodeClaim, options: &Options, now: Timestamp) -> Option<Notice> {
    let seconds = options.surge_timeout_seconds.saturating_add(options.settle_timeout_seconds);
    let takes = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX)).saturating_add(DRAIN);
    let at = claim.created.saturating_add(claim.expire_after?).unwrap_or(Timestamp::MAX);
    let left = at.duration_since(now);
    if left > takes || claim.deleted.is_some() {
        return None;
    }
    let left = left.max(SignedDuration::ZERO);
    let forced = claim.termination_grace.map(|grace| {
        format!(", and {grace:#} later ends its Pods whatever their disruption budgets say (terminationGracePeriod)")
    });
    Some(Notice {
        code: Code::NodeExpires,
        object: format!("NodeClaim {}", claim.name),
        message: format!(
            "expires at {at}, in {}: from then on Karpenter drains the node itself, whatever protects it{}",
            in_minutes(left),
            forced.unwrap_or_default()
        ),
        remedy: "rotate it well before, or leave it to Karpenter".to_owned(),
    })
}

/// A claim without a node: it counts against the limits, and may never bring one.
fn stray(claim: &NodeClaim, now: Timestamp) -> Option<Notice> {
    let waits = now.duration_since(claim.created);
    (claim.node.is_empty() && claim.deleted.is_none() && waits > REGISTERS_WITHIN).then(|| Notice {
        code: Code::NodeClaimUnmatched,
        object: format!("NodeClaim {}", claim.name),
        message: format!(
            "has no node {} after it was made, and counts against the limits of NodePool {}",
            in_minutes(waits),
            claim.pool
        ),
        remedy: format!("kubectl describe nodeclaim {} says why; Karpenter gives it up after 15 min", claim.name),
    })
}

fn in_minutes(duration: SignedDuration) -> String {
    format!("{} min", duration.as_mins())
}

#[cfg(test)]
mod tests;
