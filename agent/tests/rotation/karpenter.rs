//! Nodes of Karpenter's whose NodeClaims cannot be read when it matters.

use rotate_agent::rotation::record::NewRotation;
use rotate_shared::options::Then;
use rotate_shared::plan::Provider;
use rotate_shared::{Code, Options, Phase};
use rotate_sim::NodeSpec;
use serde_json::json;

use crate::check;
use crate::world::{World, options};

const CLAIMS: &str = "/nodeclaims";

#[tokio::test(start_paused = true)]
async fn a_node_whose_claims_may_not_be_read_is_not_deleted_until_they_may() {
    let world = World::start();
    world.sim.add_node(NodeSpec::new("a").label("karpenter.sh/nodepool", "general"));
    world.node("b", "4");
    world.deploy_on("a", "web", 2, "1").await;
    world.sim.create(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": { "name": "general-1", "labels": { "karpenter.sh/nodepool": "general" } },
        "spec": { "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" } },
        "status": { "nodeName": "a" },
    }));
    world.sim.faults().fail("GET", CLAIMS, 403, 1_000_000);
    let options = Options { then: Some(Then::Delete), ..options() };
    let new = NewRotation { provider: Provider::Karpenter, ..world.new_rotation("a", options) };
    let id = world.begin(new).await;
    let unreadable = |rotation: &rotate_shared::Rotation| {
        let of_it = |waiting: &rotate_shared::rotation::Waiting| {
            waiting.code == Code::ProviderUnreadable && waiting.message.contains("whose NodeClaims may not be read")
        };
        rotation.phase == Phase::Settling && rotation.waiting.iter().any(of_it)
    };
    world.until(&id, unreadable).await;
    world.pass(60_000).await;
    assert!(unreadable(&world.view(&id).unwrap()), "{:#?}", world.view(&id));
    let deleted = |path: &str| {
        let requests = world.sim.requests().into_iter();
        requests.filter(|request| request.method == "DELETE" && request.path.ends_with(path)).count()
    };
    assert_eq!(deleted("/nodes/a"), 0);

    world.sim.faults().clear();
    world.until_phase(&id, Phase::Removing).await;
    world.pass(5_000).await;
    assert!(world.sim.get("nodeclaims", "", "general-1").is_none(), "its claim was not deleted");
    // As Karpenter does once the claim is.
    world.sim.delete("nodes", "", "a");
    world.until_phase(&id, Phase::Succeeded).await;
    assert_eq!(deleted("/nodes/a"), 0, "the node is Karpenter's to delete");
    check::nothing_is_left(&world, &[]);
}
