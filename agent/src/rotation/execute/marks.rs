//! Our marks on a node: the cordon, whose it is, and the protection from the autoscaler.
//!
//! What somebody set before us is not ours and is there after us; what we set is written down on the node itself, so
//! that it can be undone without any record.

use std::collections::BTreeSet;

use rotate_shared::names;
use serde_json::{Map, Value, json};

use crate::provider::PROTECTION;

/// The merge patch that cordons and marks a node; `None`: it is marked already.
pub(super) fn put(node: &Value, rotation: &str) -> Option<Value> {
    let annotation = |key: &str| node["metadata"]["annotations"][key].as_str();
    let cordoned = node["spec"]["unschedulable"] == true;
    let mut annotations = Map::new();
    let mut set = |key: &str, value: String| {
        if annotation(key) != Some(&value) {
            annotations.insert(key.to_owned(), Value::String(value));
        }
    };
    set(names::ROTATION, rotation.to_owned());
    // A cordon that an earlier rotation of ours left behind is taken over, a person's is not.
    if !cordoned || annotation(names::CORDONED_BY).is_some() {
        set(names::CORDONED_BY, rotation.to_owned());
    }
    let before: Vec<Owned<'_>> = annotation(names::PROTECTED_BY).map(owned).unwrap_or_default();
    let taken_over = |key: &str| before.iter().find(|owned| owned.key == key).copied();
    let ours: Vec<Owned<'_>> =
        PROTECTION.into_iter().filter_map(|key| taken_over(key).or_else(|| own(key, annotation(key)))).collect();
    if !ours.is_empty() {
        set(names::PROTECTED_BY, format!("{rotation}:{}", written(&ours)));
    }
    for owned in ours {
        set(owned.key, "true".to_owned());
    }
    if cordoned && annotations.is_empty() {
        return None;
    }
    Some(json!({
        "metadata": { "resourceVersion": node["metadata"]["resourceVersion"], "annotations": annotations },
        "spec": { "unschedulable": true },
    }))
}

/// The merge patch that protects a node that came for this rotation; `None`: some rotation of ours protects it already.
/// It says whose it is even where every key was there before us: what came for whom is read off it.
pub(super) fn protect(node: &Value, rotation: &str) -> Option<Value> {
    let annotation = |key: &str| node["metadata"]["annotations"][key].as_str();
    if annotation(names::PROTECTED_BY).is_some() {
        return None;
    }
    let ours: Vec<Owned<'_>> = PROTECTION.into_iter().filter_map(|key| own(key, annotation(key))).collect();
    let mut annotations: Map<_, _> = ours.iter().map(|owned| (owned.key.to_owned(), json!("true"))).collect();
    annotations.insert(names::PROTECTED_BY.to_owned(), json!(format!("{rotation}:{}", written(&ours))));
    Some(json!({ "metadata": { "resourceVersion": node["metadata"]["resourceVersion"], "annotations": annotations } }))
}

/// The merge patch that takes this rotation's marks off; `None`: it carries none.
pub(super) fn take_off(node: &Value, rotation: &str, uncordon: bool) -> Option<Value> {
    let annotation = |key: &str| node["metadata"]["annotations"][key].as_str();
    let mut annotations = Map::new();
    let mut put_back = |key: &str, before: Option<&str>| {
        annotations.insert(key.to_owned(), json!(before));
    };
    if annotation(names::ROTATION) == Some(rotation) {
        put_back(names::ROTATION, None);
    }
    let ours = annotation(names::CORDONED_BY) == Some(rotation);
    if ours {
        put_back(names::CORDONED_BY, None);
    }
    if let Some(protected) = annotation(names::PROTECTED_BY).filter(|value| value.split(':').next() == Some(rotation)) {
        put_back(names::PROTECTED_BY, None);
        for Owned { key, before } in owned(protected) {
            // Somebody changed it since: it is theirs now.
            if PROTECTION.contains(&key) && annotation(key) == Some("true") {
                put_back(key, before);
            }
        }
    }
    if annotations.is_empty() {
        return None;
    }
    let mut patch =
        json!({ "metadata": { "resourceVersion": node["metadata"]["resourceVersion"], "annotations": annotations } });
    if ours && uncordon {
        patch["spec"] = json!({ "unschedulable": null });
    }
    Some(patch)
}

/// The merge patch that takes every mark of ours off a node, whoever's it is; `None`: it carries none. A cordon of ours stays where
/// `keeps_cordon` says so of the rotation that set it.
pub fn take_all_off(node: &Value, keeps_cordon: impl Fn(&str) -> bool) -> Option<Value> {
    let annotation = |key: &str| node["metadata"]["annotations"][key].as_str();
    let owner = |key: &str| annotation(key).and_then(|value| value.split(':').next());
    let owners: BTreeSet<&str> = OURS.into_iter().filter_map(owner).collect();
    let mut whole =
        json!({ "metadata": { "resourceVersion": node["metadata"]["resourceVersion"], "annotations": {} } });
    for rotation in owners {
        let Some(patch) = take_off(node, rotation, !keeps_cordon(rotation)) else { continue };
        if let Some(annotations) = patch["metadata"]["annotations"].as_object() {
            for (key, value) in annotations {
                whole["metadata"]["annotations"][key] = value.clone();
            }
        }
        if patch["spec"].is_object() {
            whole["spec"] = patch["spec"].clone();
        }
    }
    let marked = whole["metadata"]["annotations"].as_object().is_some_and(|annotations| !annotations.is_empty());
    marked.then_some(whole)
}

/// The annotations that say whose a mark is.
const OURS: [&str; 3] = [names::ROTATION, names::CORDONED_BY, names::PROTECTED_BY];

/// An annotation that we set, and what it said before where it said something.
#[derive(Clone, Copy, Debug)]
struct Owned<'a> {
    key: &'a str,
    before: Option<&'a str>,
}

/// What of a key becomes ours, by what it says now: one that says something else than `true` protects nothing. What cannot
/// be written down, to be put back, stays as it is.
fn own<'a>(key: &'a str, now: Option<&'a str>) -> Option<Owned<'a>> {
    let owned = Owned { key, before: now };
    match now {
        None => Some(owned),
        Some(other) => (other != "true" && !other.contains([',', '='])).then_some(owned),
    }
}

/// The part after the colon of `id:key,key=before`.
fn written(owned: &[Owned<'_>]) -> String {
    let one = |owned: &Owned<'_>| match owned.before {
        Some(before) => format!("{}={before}", owned.key),
        None => owned.key.to_owned(),
    };
    owned.iter().map(one).collect::<Vec<_>>().join(",")
}

/// What `id:key,key=before` says.
fn owned(protected: &str) -> Vec<Owned<'_>> {
    let keys = protected.split_once(':').map_or("", |(_, keys)| keys);
    let one = |entry| match str::split_once(entry, '=') {
        Some((key, before)) => Owned { key, before: Some(before) },
        None => Owned { key: entry, before: None },
    };
    keys.split(',').filter(|entry| !entry.is_empty()).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(unschedulable: bool, annotations: Value) -> Value {
        json!({ "metadata": { "resourceVersion": "7", "annotations": annotations }, "spec": { "unschedulable": unschedulable } })
    }

    /// RFC 7386, as the API server applies it.
    fn merge(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (key, value) in patch {
            if value.is_null() {
                target.as_object_mut().unwrap().remove(key);
            } else {
                merge(&mut target[key], value);
            }
        }
    }

    fn patched(mut node: Value, patch: Option<Value>) -> Value {
        merge(&mut node, &patch.expect("there is something to change"));
        node
    }

    #[test]
    fn a_mark_that_protects_nothing_is_replaced_for_a_while_and_put_back() {
        let before = json!({ names::KARPENTER_DO_NOT_DISRUPT: "10m", names::SCALE_DOWN_DISABLED: "false" });
        let marked = patched(node(false, before.clone()), put(&node(false, before.clone()), "abc"));
        let annotations = &marked["metadata"]["annotations"];
        for key in PROTECTION {
            assert_eq!(annotations[key], "true", "{key}");
        }
        // The next rotation of ours takes over what there was before the first.
        let next = patched(marked.clone(), put(&marked, "def"));
        let after = patched(next.clone(), take_off(&next, "def", true));
        assert_eq!(after["metadata"]["annotations"], before);
        // So it is for a node that came for the surge.
        let came = patched(node(false, before.clone()), protect(&node(false, before.clone()), "abc"));
        let after = patched(came.clone(), take_off(&came, "abc", false));
        assert_eq!(after["metadata"]["annotations"], before);
    }

    #[test]
    fn a_mark_that_cannot_be_written_down_stays_as_it_is() {
        let odd = node(false, json!({ names::KARPENTER_DO_NOT_DISRUPT: "a,b" }));
        let marked = patched(odd.clone(), put(&odd, "abc"));
        assert_eq!(marked["metadata"]["annotations"][names::KARPENTER_DO_NOT_DISRUPT], "a,b");
    }

    #[test]
    fn a_schedulable_node_is_cordoned_marked_and_protected_in_one_patch() {
        let patch = put(&node(false, json!({})), "abc").unwrap();
        assert_eq!(
            patch,
            json!({
                "metadata": { "resourceVersion": "7", "annotations": {
                    "kubectl-rotate.dev/rotation": "abc",
                    "kubectl-rotate.dev/cordoned-by": "abc",
                    "kubectl-rotate.dev/protected-by":
                        "abc:karpenter.sh/do-not-disrupt,cluster-autoscaler.kubernetes.io/scale-down-disabled",
                    "karpenter.sh/do-not-disrupt": "true",
                    "cluster-autoscaler.kubernetes.io/scale-down-disabled": "true",
                } },
                "spec": { "unschedulable": true },
            })
        );
    }

    #[test]
    fn marking_twice_changes_nothing() {
        let marked = patched(node(false, json!({})), put(&node(false, json!({})), "abc"));
        assert_eq!(put(&marked, "abc"), None);
    }

    #[test]
    fn undoing_leaves_a_node_as_it_was_found() {
        for before in [
            node(false, json!({})),
            node(true, json!({})),
            node(false, json!({ "karpenter.sh/do-not-disrupt": "true" })),
            node(true, json!({ "cluster-autoscaler.kubernetes.io/scale-down-disabled": "false", "a": "b" })),
        ] {
            let marked = patched(before.clone(), put(&before, "abc"));
            let mut after = patched(marked.clone(), take_off(&marked, "abc", true));
            // Absent and false are the same to Kubernetes.
            if after["spec"]["unschedulable"].is_null() {
                after["spec"]["unschedulable"] = json!(false);
            }
            assert_eq!(after, before);
        }
    }

    #[test]
    fn all_marks_are_taken_off_whoevers_they_are() {
        let before = node(false, json!({ "a": "b" }));
        let mut marked = patched(before.clone(), put(&before, "abc"));
        marked["metadata"]["annotations"][names::ROTATION] = json!("def");
        let mut after = patched(marked.clone(), take_all_off(&marked, |_| false));
        after["spec"]["unschedulable"] = json!(false);
        assert_eq!(after, before);
        let kept = patched(marked.clone(), take_all_off(&marked, |rotation| rotation == "abc"));
        assert_eq!(kept, node(true, json!({ "a": "b" })));
        assert_eq!(take_all_off(&before, |_| false), None);
    }

    #[test]
    fn a_persons_cordon_is_not_adopted() {
        let before = node(true, json!({}));
        let marked = patched(before.clone(), put(&before, "abc"));
        assert!(marked["metadata"]["annotations"].get("kubectl-rotate.dev/cordoned-by").is_none());
        assert_eq!(patched(marked.clone(), take_off(&marked, "abc", true))["spec"]["unschedulable"], true);
    }

    #[test]
    fn keeping_the_cordon_takes_only_the_marks_off() {
        let marked = patched(node(false, json!({})), put(&node(false, json!({})), "abc"));
        let after = patched(marked.clone(), take_off(&marked, "abc", false));
        assert_eq!(after, node(true, json!({})));
    }

    #[test]
    fn marks_of_another_rotation_are_left_alone() {
        let marked = patched(node(false, json!({})), put(&node(false, json!({})), "abc"));
        assert_eq!(take_off(&marked, "def", true), None);
    }

    #[test]
    fn what_a_dead_rotation_left_behind_is_taken_over_and_undone() {
        let left = patched(node(false, json!({})), put(&node(false, json!({})), "old"));
        let taken = patched(left.clone(), put(&left, "new"));
        assert_eq!(put(&taken, "new"), None);
        let after = patched(taken.clone(), take_off(&taken, "new", true));
        assert_eq!(after["metadata"]["annotations"], json!({}));
        assert_eq!(after["spec"], json!({}));
    }

    #[test]
    fn a_node_that_came_for_us_is_protected_without_a_cordon_and_left_as_it_was() {
        for before in [
            node(false, json!({})),
            node(false, json!({ "karpenter.sh/do-not-disrupt": "true" })),
            node(
                false,
                json!({ "karpenter.sh/do-not-disrupt": "1h", "cluster-autoscaler.kubernetes.io/scale-down-disabled": "false" }),
            ),
        ] {
            let protected = patched(before.clone(), protect(&before, "abc"));
            assert_eq!(protected["spec"], before["spec"]);
            let owner = protected["metadata"]["annotations"][names::PROTECTED_BY].as_str().unwrap();
            assert!(owner.starts_with("abc:"), "it says for whom it came: {owner}");
            assert_eq!(protect(&protected, "abc"), None);
            assert_eq!(protect(&protected, "def"), None, "one protection is enough");
            assert_eq!(take_off(&protected, "def", true), None);
            assert_eq!(patched(protected.clone(), take_off(&protected, "abc", false)), before);
        }
    }

    #[test]
    fn a_protection_that_somebody_changed_since_is_theirs() {
        let mut marked = patched(node(false, json!({})), put(&node(false, json!({})), "abc"));
        marked["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] = json!("1h");
        let after = patched(marked.clone(), take_off(&marked, "abc", true));
        assert_eq!(after["metadata"]["annotations"], json!({ "karpenter.sh/do-not-disrupt": "1h" }));
    }
}
