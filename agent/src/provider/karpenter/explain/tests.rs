use serde_json::{Value, json};

use super::super::tests::{claim, node, objects, pool};
use super::*;
use crate::surge::testing;

/// An hour after everything was created.
const NOW: &str = "2026-01-05T01:00:00Z";

fn warned(objects: &Objects) -> Vec<Notice> {
    let explained = explain(&node("cand", &json!({})), objects, &Options::default(), NOW.parse().unwrap());
    assert_eq!(explained.blockers, []);
    explained.warnings
}

fn codes(warnings: &[Notice]) -> Vec<Code> {
    warnings.iter().map(|warning| warning.code).collect()
}

fn of_pool(over: &Value) -> Objects {
    objects(vec![pool(over)], vec![claim("cand", &json!({}))])
}

#[test]
fn nothing_is_said_where_nothing_is_odd() {
    assert_eq!(warned(&of_pool(&json!({}))), []);
}

#[test]
fn another_version_and_missing_rights_are_told_apart() {
    let absent = warned(&Objects::default());
    assert_eq!(codes(&absent), [Code::ProviderUnreadable, Code::ProviderUnreadable]);
    assert!(absent[0].message.contains("NodePools of karpenter.sh/v1 are not served"), "{}", absent[0].message);

    let forbidden = Objects { pools: Listing::Forbidden("nodepools is forbidden".to_owned()), ..of_pool(&json!({})) };
    let warnings = warned(&forbidden);
    assert_eq!(codes(&warnings), [Code::ProviderUnreadable]);
    assert!(warnings[0].message.contains("(nodepools is forbidden)"), "{}", warnings[0].message);

    let unconverted = Objects { pools: Listing::Unconverted("no such service".to_owned()), ..of_pool(&json!({})) };
    let warnings = warned(&unconverted);
    assert_eq!(codes(&warnings), [Code::ProviderUnreadable]);
    assert!(warnings[0].message.contains("as karpenter.sh/v1"), "{}", warnings[0].message);
    assert!(warnings[0].remedy.contains("conversion webhook"), "{}", warnings[0].remedy);
}

#[test]
fn what_cannot_be_read_is_named() {
    let mut odd = of_pool(&json!({}));
    odd.claims =
        Listing::Read { items: vec![claim("cand", &json!({}))], unreadable: vec!["odd: no duration".to_owned()] };
    let warnings = warned(&odd);
    assert_eq!(codes(&warnings), [Code::ProviderUnreadable]);
    assert!(warnings[0].message.starts_with("1 of Karpenter's NodeClaims cannot be read"), "{}", warnings[0].message);
    assert!(warnings[0].message.ends_with("odd: no duration"), "{}", warnings[0].message);
}

#[test]
fn a_node_without_a_claim_stays_and_the_plan_says_so() {
    let none = objects(vec![pool(&json!({}))], Vec::new());
    let warnings = warned(&none);
    assert_eq!(codes(&warnings), [Code::NodeClaimUnmatched]);
    assert!(warnings[0].message.starts_with("no NodeClaim stands behind it"), "{}", warnings[0].message);

    let twice = |name| claim(name, &json!({ "status": { "nodeName": "cand" } }));
    let warnings = warned(&objects(vec![pool(&json!({}))], vec![twice("one"), twice("two")]));
    assert!(warnings[0].message.starts_with("NodeClaim one and NodeClaim two all claim it"), "{}", warnings[0].message);
}

#[test]
fn a_claim_without_a_node_is_named_once_it_should_have_one() {
    let stray = |created: &str| {
        let over = json!({ "metadata": { "creationTimestamp": created }, "status": { "nodeName": "" } });
        warned(&objects(vec![pool(&json!({}))], vec![claim("cand", &json!({})), claim("stray", &over)]))
    };
    assert_eq!(stray("2026-01-05T00:57:00Z"), []);
    let warnings = stray("2026-01-05T00:50:00Z");
    assert_eq!(codes(&warnings), [Code::NodeClaimUnmatched]);
    assert_eq!(
        warnings[0].message,
        "has no node 10 min after it was made, and counts against the limits of NodePool general"
    );
}

#[test]
fn a_static_pool_is_to_be_scaled_by_hand_first() {
    let warnings = warned(&of_pool(&json!({ "spec": { "replicas": 3 } })));
    assert_eq!(codes(&warnings), [Code::GroupAtLimit]);
    assert!(warnings[0].message.ends_with("it is static: spec.replicas is 3, whatever Pods wait"));
    let remedy =
        "where no other node has room: kubectl scale nodepool general --replicas=4 first, and back to 3 afterwards";
    assert_eq!(warnings[0].remedy, remedy);
}

#[test]
fn a_pool_that_goes_or_is_gone_brings_nothing() {
    let deleting = warned(&of_pool(&json!({ "metadata": { "deletionTimestamp": testing::CREATED } })));
    assert_eq!(deleting[0].message, "brings no node for our placeholders: it is being deleted");
    let gone = warned(&objects(Vec::new(), vec![claim("cand", &json!({}))]));
    assert_eq!(codes(&gone), [Code::GroupAtLimit]);
    assert_eq!(gone[0].object, "NodePool general");
}

#[test]
fn a_claim_that_expires_before_we_are_done_is_named_with_the_time() {
    // 900 s for the surge, 300 s to settle, half an hour for the drain: 50 min.
    let expiring = |after: &str| {
        let over = json!({ "spec": { "expireAfter": after, "terminationGracePeriod": "5m" } });
        warned(&objects(vec![pool(&json!({}))], vec![claim("cand", &over)]))
    };
    assert_eq!(expiring("Never"), []);
    assert_eq!(expiring("111m"), []);
    let warnings = expiring("1h40m");
    assert_eq!(codes(&warnings), [Code::NodeExpires]);
    assert_eq!(
        warnings[0].message,
        "expires at 2026-01-05T01:40:00Z, in 40 min: from then on Karpenter drains the node itself, whatever protects it, \
         and 5m later ends its Pods whatever their disruption budgets say (terminationGracePeriod)"
    );
    // Its time has come, and Karpenter has not got round to it.
    assert!(expiring("10m")[0].message.contains("in 0 min"));
}
