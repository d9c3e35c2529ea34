//! What a person asks for: other Pods than all, and no waiting for those that do not end.

use super::*;

#[test]
fn a_pod_that_is_not_selected_stays_whatever_would_stand_in_its_way() {
    let selecting = |selector: &str| Options { pod_selector: Some(selector.to_owned()), ..Options::default() };
    let cart = json!({ "metadata": { "labels": { "app": "cart" } } });
    assert_eq!(with(selecting("app=cart"), &cart).disposition, Disposition::Evict);
    for over in [cart, json!({ "metadata": { "labels": { "app": "cart" }, "ownerReferences": [] } })] {
        let verdict = with(selecting("app in (web, shop)"), &over);
        assert_eq!((verdict.disposition, verdict.reason), (Disposition::Stay, PodReason::NotSelected));
        assert!(!verdict.reserved && verdict.blockers.is_empty(), "{verdict:?}");
    }
    // Of a record that a newer version wrote: rather none than all.
    assert_eq!(with(selecting("app ~ cart"), &json!({})).disposition, Disposition::Stay);
}

#[test]
fn a_pod_that_should_have_been_gone_for_long_is_not_waited_for_where_that_was_asked() {
    let skip = |seconds| Options { skip_wait_for_delete_timeout_seconds: seconds, ..Options::default() };
    let since = json!({ "metadata": { "deletionTimestamp": "2026-01-05T00:59:00Z" } });
    assert_eq!(with(skip(0), &since).disposition, Disposition::Wait);
    assert_eq!(with(skip(60), &since).disposition, Disposition::Wait);
    let given_up = with(skip(59), &since);
    assert_eq!((given_up.disposition, given_up.reason), (Disposition::Gone, PodReason::Terminating));
    // Its time to shut down is not over.
    let soon = json!({ "metadata": { "deletionTimestamp": "2026-01-05T01:10:00Z" } });
    assert_eq!(with(skip(1), &soon).disposition, Disposition::Wait);
    assert_eq!(with(skip(u64::MAX), &since).disposition, Disposition::Wait);
}
