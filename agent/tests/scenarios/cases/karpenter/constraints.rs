//! Pods that not every node will do for: the node that comes is one that they can use.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{
    Affinity, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, PodAffinityTerm,
    PodAntiAffinity, TopologySpreadConstraint, Volume,
};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use rotate_shared::names;
use serde_json::json;

use super::{GENERAL, full, general, nodes_of, nodes_of_app, only_node, rotate, rotated};
use crate::cases::{Case, cases};
use crate::harness::workloads::Workload;
use crate::karpenter::NodePool;
use crate::world::{SHOP, World};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "karpenter":
        accelerators_come_with_the_node,
        a_zone_spread_keeps_its_zone,
        anti_affinity_of_our_own_and_of_others_brings_a_node,
        a_volume_of_a_zone_brings_a_node_of_that_zone,
        one_big_pod_is_not_stranded_by_four_small_ones,
        a_pod_that_cannot_preempt_gets_its_room,
    ]
}

async fn accelerators_come_with_the_node(world: &World) -> Result<()> {
    let _karpenter = world.backend.karpenter().await?;
    general().create(&world.client).await?;
    NodePool::new("accelerated", "gpu-4").create(&world.client).await?;
    Workload::new(SHOP, "model", 2)
        .request("cpu", "1")
        .request("nvidia.com/gpu", "1")
        .deployment(&world.client)
        .await?;
    world.running("model", 2).await?;
    let candidate = only_node(world, "accelerated").await?;
    let agent = world.agent().await?;
    let begun = rotate(world, &agent, &candidate).await?;
    rotated(world, &agent, &begun.id, "accelerated", 2).await?;
    ensure!(nodes_of(world, GENERAL).await?.is_empty(), "a node came that has no accelerators");
    Ok(())
}

async fn a_zone_spread_keeps_its_zone(world: &World) -> Result<()> {
    let _karpenter = world.backend.karpenter().await?;
    NodePool::new(GENERAL, "c-2").create(&world.client).await?;
    let even = TopologySpreadConstraint {
        max_skew: 1,
        topology_key: names::ZONE.to_owned(),
        when_unsatisfiable: "DoNotSchedule".to_owned(),
        label_selector: Some(app("web")),
        ..TopologySpreadConstraint::default()
    };
    let workload = full().spec(|spec| spec.topology_spread_constraints = Some(vec![even]));
    workload.deployment(&world.client).await?;
    world.running("web", 4).await?;
    let nodes = nodes_of(world, GENERAL).await?;
    ensure!(nodes.len() == 2, "{} nodes for two zones", nodes.len());
    let (candidate, zone) = (nodes[0].name_any(), nodes[0].labels()[names::ZONE].clone());
    let agent = world.agent().await?;
    let begun = rotate(world, &agent, &candidate).await?;
    rotated(world, &agent, &begun.id, GENERAL, 2).await?;
    for node in nodes_of_app(world, "web", 4).await? {
        let same = world.get_node(&node).await?.labels()[names::ZONE] == zone;
        ensure!(same != (node == nodes[1].name_any()), "{node} is not where it should be");
    }
    Ok(())
}

/// Two Pods that keep apart from each other, and a guard that keeps both away: there is room beside each of them, and none
/// of it will do.
async fn anti_affinity_of_our_own_and_of_others_brings_a_node(world: &World) -> Result<()> {
    let _karpenter = world.backend.karpenter().await?;
    general().create(&world.client).await?;
    let apart = |from: &str| {
        let term = PodAffinityTerm {
            topology_key: names::HOSTNAME.to_owned(),
            label_selector: Some(app(from)),
            ..PodAffinityTerm::default()
        };
        let required = Some(vec![term]);
        let anti =
            PodAntiAffinity { required_during_scheduling_ignored_during_execution: required, ..Default::default() };
        Some(Affinity { pod_anti_affinity: Some(anti), ..Affinity::default() })
    };
    Workload::new(SHOP, "web", 2).spec(|spec| spec.affinity = apart("web")).deployment(&world.client).await?;
    world.running("web", 2).await?;
    Workload::new(SHOP, "guard", 1).spec(|spec| spec.affinity = apart("web")).deployment(&world.client).await?;
    world.running("guard", 1).await?;
    let before = nodes_of_app(world, "web", 2).await?;
    ensure!(nodes_of(world, GENERAL).await?.len() == 3 && before[0] != before[1], "{before:?}");
    let agent = world.agent().await?;
    let begun = rotate(world, &agent, &before[0]).await?;
    rotated(world, &agent, &begun.id, GENERAL, 1).await.map(drop)
}

async fn a_volume_of_a_zone_brings_a_node_of_that_zone(world: &World) -> Result<()> {
    let _karpenter = world.backend.karpenter().await?;
    // Zone a would be as good for everything else.
    general().create(&world.client).await?;
    volume(world, "data", "b").await?;
    let claim = PersistentVolumeClaimVolumeSource { claim_name: "data".to_owned(), ..Default::default() };
    let mounted = Volume { name: "data".to_owned(), persistent_volume_claim: Some(claim), ..Volume::default() };
    let database = Workload::new(SHOP, "db", 1).request("cpu", "950m").spec(|spec| spec.volumes = Some(vec![mounted]));
    database.deployment(&world.client).await?;
    world.running("db", 1).await?;
    Workload::new(SHOP, "web", 3).request("cpu", "950m").deployment(&world.client).await?;
    world.running("web", 3).await?;
    let candidate = only_node(world, GENERAL).await?;
    let agent = world.agent().await?;
    let begun = rotate(world, &agent, &candidate).await?;
    world.phase(&agent, &begun.id, rotate_shared::Phase::Succeeded).await?;
    let node = nodes_of_app(world, "db", 1).await?.remove(0);
    ensure!(world.get_node(&node).await?.labels()[names::ZONE] == "b", "{node} is in another zone");
    world.running("web", 3).await?;
    world.nothing_left().await
}

/// The room comes in two nodes of half the size: four small Pods first would leave the big one without any.
async fn one_big_pod_is_not_stranded_by_four_small_ones(world: &World) -> Result<()> {
    let _karpenter = world.backend.karpenter().await?;
    // A full node of the smaller kind: of a pool without any, nothing could be promised.
    NodePool::new(GENERAL, "c-2").create(&world.client).await?;
    world.deployment("seed", 1, "1900m").await?;
    let large = NodePool::new("large", "c-4").limit("nodes", "1").change(|spec| spec["weight"] = 10.into());
    large.create(&world.client).await?;
    Workload::new(SHOP, "big", 1).request("cpu", "1900m").deployment(&world.client).await?;
    world.running("big", 1).await?;
    Workload::new(SHOP, "small", 4).request("cpu", "475m").deployment(&world.client).await?;
    world.running("small", 4).await?;
    let candidate = only_node(world, "large").await?;
    let agent = world.agent().await?;
    let since = world.recorder.now();
    let begun = rotate(world, &agent, &candidate).await?;
    world.phase(&agent, &begun.id, rotate_shared::Phase::Succeeded).await?;
    world.running("big", 1).await?;
    world.running("small", 4).await?;
    world.room_was_there(since, 5)?;
    ensure!(nodes_of(world, GENERAL).await?.len() == 3, "more nodes came than were needed");
    world.nothing_left().await
}

async fn a_pod_that_cannot_preempt_gets_its_room(world: &World) -> Result<()> {
    let polite = json!({
        "metadata": {"name": "polite"}, "value": 0, "preemptionPolicy": "Never",
    });
    let classes = Api::<PriorityClass>::all(world.client.clone());
    classes.create(&PostParams::default(), &serde_json::from_value(polite)?).await?;
    let _karpenter = world.backend.karpenter().await?;
    general().create(&world.client).await?;
    full().spec(|spec| spec.priority_class_name = Some("polite".to_owned())).deployment(&world.client).await?;
    world.running("web", 4).await?;
    let candidate = only_node(world, GENERAL).await?;
    let agent = world.agent().await?;
    let begun = rotate(world, &agent, &candidate).await?;
    rotated(world, &agent, &begun.id, GENERAL, 4).await.map(drop)
}

/// A volume that is only in a zone, and its claim.
async fn volume(world: &World, name: &str, zone: &str) -> Result<()> {
    let volume = json!({
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "nfs": {"server": "example.invalid", "path": "/"},
            "claimRef": {"namespace": SHOP, "name": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": names::ZONE, "operator": "In", "values": [zone]},
            ]}]}},
        },
    });
    let claim = json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let options = PostParams::default();
    Api::<PersistentVolume>::all(world.client.clone()).create(&options, &serde_json::from_value(volume)?).await?;
    let claims = Api::<PersistentVolumeClaim>::namespaced(world.client.clone(), SHOP);
    claims.create(&options, &serde_json::from_value(claim)?).await?;
    Ok(())
}

fn app(name: &str) -> LabelSelector {
    LabelSelector { match_labels: Some([("app".to_owned(), name.to_owned())].into()), ..LabelSelector::default() }
}
