use super::super::management::tests::{Fake, deployment, fleet, machine, object};
use super::*;

fn management(fake: &Fake) -> Management {
    Management::client(fake.client())
}

fn web() -> Key {
    Key::new("fleet", "web")
}

fn replicas(fake: &Fake) -> (u64, Value) {
    let web = fake.get("machinedeployments", "web").unwrap();
    (web["spec"]["replicas"].as_u64().unwrap(), web["metadata"]["annotations"][ORDERED_BY].clone())
}

/// A Machine that has been ordered and is not a node yet.
fn coming(name: &str) -> Value {
    let young = json!({ "metadata": { "creationTimestamp": "2026-01-06T00:00:00Z" }, "status": { "nodeRef": null } });
    machine(name, young)
}

fn marked(fake: &Fake, name: &str) -> Option<String> {
    fake.get("machines", name)?["metadata"]["annotations"][DELETE_MACHINE].as_str().map(ToOwned::to_owned)
}

#[tokio::test]
async fn a_replica_is_ordered_once_however_often_it_is_asked_for() {
    let fake = fleet();
    management(&fake).order("r1", &web()).await.unwrap();
    management(&fake).order("r1", &web()).await.unwrap();
    assert_eq!(replicas(&fake), (3, json!("r1")));
    assert_eq!(fake.writes(), ["PATCH machinedeployments/web"]);
}

#[tokio::test]
async fn every_rotation_orders_its_own() {
    let fake = fleet();
    for rotation in ["r2", "r1", "r2"] {
        management(&fake).order(rotation, &web()).await.unwrap();
    }
    assert_eq!(replicas(&fake), (4, json!("r1,r2")));
}

#[tokio::test]
async fn an_order_that_others_cross_is_made_on_what_they_wrote() {
    let fake = fleet();
    fake.conflict(2);
    management(&fake).order("r1", &web()).await.unwrap();
    assert_eq!(replicas(&fake), (3, json!("r1")));
    fake.conflict(ATTEMPTS);
    let error = management(&fake).order("r2", &web()).await.unwrap_err();
    assert!(matches!(error, ManagementError::Contended(_)), "{error}");
    assert_eq!(replicas(&fake), (3, json!("r1")), "nothing was written");
}

#[tokio::test]
async fn nothing_is_ordered_of_what_does_not_exist() {
    let error = management(&fleet()).order("r1", &Key::new("fleet", "db")).await.unwrap_err();
    assert_eq!(error.to_string(), "machinedeployment fleet/db does not exist");
}

#[tokio::test]
async fn the_candidates_machine_goes_and_its_replica_with_it() {
    let fake = fleet();
    let management = management(&fake);
    management.order("r1", &web()).await.unwrap();
    fake.writes();
    for _ in 0..2 {
        management.shrink("r1", &Key::new("fleet", "web-a"), "uid-web-a", &web()).await.unwrap();
    }
    assert_eq!(marked(&fake, "web-a").as_deref(), Some("kubectl-rotate:r1"));
    assert_eq!(replicas(&fake), (2, Value::Null), "once, and no trace of ours is left");
    assert_eq!(fake.writes(), ["PATCH machines/web-a", "PATCH machinedeployments/web"]);
    // Cluster API's controller has taken it.
    fake.remove("machines", "web-a");
    management.shrink("r1", &Key::new("fleet", "web-a"), "uid-web-a", &web()).await.unwrap();
    assert_eq!(replicas(&fake), (2, Value::Null));
}

#[tokio::test]
async fn where_an_autoscaler_brought_the_room_the_replica_is_still_given_back_once() {
    let fake = fleet();
    for _ in 0..3 {
        management(&fake).shrink("r1", &Key::new("fleet", "web-a"), "uid-web-a", &web()).await.unwrap();
    }
    assert_eq!(replicas(&fake), (1, Value::Null));
}

#[tokio::test]
async fn a_crash_between_any_two_writes_gives_back_one_replica() {
    for after in 0..3 {
        let fake = fleet();
        let management = management(&fake);
        management.order("r1", &web()).await.unwrap();
        let open = management.opened(&web()).await.unwrap();
        // What had been written when it died.
        if after > 0 {
            let mark = |_: &Wire| Some(json!({ "metadata": { "annotations": { DELETE_MACHINE: mark("r1") } } }));
            open.change("machines", &Key::new("fleet", "web-a"), mark).await.unwrap();
        }
        if after > 1 {
            open.change("machinedeployments", &web(), |wire| repay(wire, "r1", true)).await.unwrap();
        }
        management.shrink("r1", &Key::new("fleet", "web-a"), "uid-web-a", &web()).await.unwrap();
        assert_eq!(replicas(&fake), (2, Value::Null), "after {after} writes");
        assert_eq!(marked(&fake, "web-a").as_deref(), Some("kubectl-rotate:r1"));
    }
}

#[tokio::test]
async fn a_machine_that_others_took_gives_back_what_replaces_it() {
    let fake = fleet();
    let management = management(&fake);
    management.order("r1", &web()).await.unwrap();
    fake.put("machines", machine("web-c", json!({})));
    fake.remove("machines", "web-a");
    fake.put("machines", coming("web-d"));
    management.shrink("r1", &Key::new("fleet", "web-a"), "uid-web-a", &web()).await.unwrap();
    assert_eq!(marked(&fake, "web-d").as_deref(), Some("kubectl-rotate:r1"));
    assert_eq!(replicas(&fake), (2, Value::Null));
}

#[tokio::test]
async fn a_machine_of_another_uid_is_not_touched() {
    let fake = fleet();
    let web_a = Key::new("fleet", "web-a");
    management(&fake).delete(&web_a, "another").await.unwrap();
    management(&fake).shrink("r1", &web_a, "another", &web()).await.unwrap();
    assert_eq!(fake.writes(), Vec::<String>::new());
    assert!(fake.get("machines", "web-a").is_some());
}

#[tokio::test]
async fn a_machine_that_is_to_be_replaced_is_deleted_and_the_replicas_stay() {
    let fake = fleet();
    for _ in 0..2 {
        management(&fake).delete(&Key::new("fleet", "web-a"), "uid-web-a").await.unwrap();
    }
    assert_eq!(fake.writes(), ["DELETE machines/web-a"]);
    assert_eq!(replicas(&fake), (2, Value::Null));
}

#[tokio::test]
async fn an_order_that_has_become_no_node_is_given_back_with_its_machine() {
    let fake = fleet();
    let management = management(&fake);
    management.order("r1", &web()).await.unwrap();
    fake.put("machines", coming("web-c"));
    for _ in 0..2 {
        management.give_back("r1", &web()).await.unwrap();
    }
    assert_eq!(marked(&fake, "web-c").as_deref(), Some("kubectl-rotate:r1"));
    assert_eq!((marked(&fake, "web-a"), marked(&fake, "web-b")), (None, None));
    assert_eq!(replicas(&fake), (2, Value::Null));
}

#[tokio::test]
async fn an_order_that_nobody_has_acted_on_is_given_back_without_a_mark() {
    let fake = fleet();
    management(&fake).order("r1", &web()).await.unwrap();
    management(&fake).give_back("r1", &web()).await.unwrap();
    assert_eq!(fake.writes(), ["PATCH machinedeployments/web"; 2]);
    assert_eq!(replicas(&fake), (2, Value::Null));
}

#[tokio::test]
async fn an_order_that_has_just_become_a_node_is_not_given_back_blindly() {
    let fake = fleet();
    management(&fake).order("r1", &web()).await.unwrap();
    fake.put("machines", machine("web-c", json!({})));
    let error = management(&fake).give_back("r1", &web()).await.unwrap_err();
    assert!(matches!(error, ManagementError::Joined(_)), "{error}");
    assert_eq!(replicas(&fake), (3, json!("r1")));
}

#[tokio::test]
async fn an_order_that_somebody_uses_is_kept() {
    let fake = fleet();
    management(&fake).order("r1", &web()).await.unwrap();
    management(&fake).keep("r1", &web()).await.unwrap();
    assert_eq!(replicas(&fake), (3, Value::Null));
}

#[tokio::test]
async fn other_annotations_stay_as_they_are() {
    let fake = fleet();
    fake.put("machinedeployments", deployment(json!({ "metadata": { "annotations": { "team": "shop" } } })));
    management(&fake).order("r1", &web()).await.unwrap();
    management(&fake).give_back("r1", &web()).await.unwrap();
    let web = fake.get("machinedeployments", "web").unwrap();
    assert_eq!(web["metadata"]["annotations"], json!({ "team": "shop" }));
    assert_ne!(web, object("web", json!({})));
}

#[tokio::test]
async fn what_was_marked_before_a_crash_and_is_a_node_by_now_is_not_left_marked() {
    for how in ["keep", "shrink", "give back"] {
        let fake = fleet();
        let management = management(&fake);
        management.order("r1", &web()).await.unwrap();
        // Marked while it was coming; then the agent died, and Pods have come to it.
        let marks = json!({ "metadata": { "annotations": { DELETE_MACHINE: mark("r1") } } });
        fake.put("machines", machine("web-c", marks));
        match how {
            "keep" => management.keep("r1", &web()).await.unwrap(),
            "shrink" => management.shrink("r1", &Key::new("fleet", "web-a"), "uid-web-a", &web()).await.unwrap(),
            _ => {
                fake.put("machines", coming("web-d"));
                management.give_back("r1", &web()).await.unwrap();
            }
        }
        assert_eq!(marked(&fake, "web-c"), None, "{how}");
        assert_eq!(replicas(&fake), (if how == "keep" { 3 } else { 2 }, Value::Null), "{how}");
    }
}

#[tokio::test]
async fn what_a_rotation_without_a_record_has_on_loan_is_found_and_settled() {
    let fake = fleet();
    let management = management(&fake);
    management.order("r1", &web()).await.unwrap();
    management.order("r2", &web()).await.unwrap();
    fake.put("machines", coming("web-c"));
    let clusters = BTreeSet::from([Key::new("fleet", "west")]);
    let loans = management.loans(&clusters).await.unwrap();
    assert_eq!(loans, [(web(), "r1".to_owned()), (web(), "r2".to_owned())]);

    management.settle_leftover("r1", &web(), true).await.unwrap();
    assert_eq!(marked(&fake, "web-c").as_deref(), Some("kubectl-rotate:r1"));
    assert_eq!(replicas(&fake), (3, json!("r2")));
    // All of them are nodes: whose Pods run there nobody knows.
    fake.remove("machines", "web-c");
    fake.put("machines", machine("web-d", json!({})));
    management.settle_leftover("r2", &web(), true).await.unwrap();
    assert_eq!(replicas(&fake), (3, Value::Null));
    assert_eq!(management.loans(&clusters).await.unwrap(), []);
}
