use std::collections::BTreeSet;
use std::path::Path;

use super::*;

fn all() -> Wanted {
    Wanted { with: Component::ALL.to_vec(), ..Wanted::default() }
}

fn named<'a>(objects: &'a [Object], told: &str) -> &'a Value {
    &objects.iter().find(|object| object.told() == told).unwrap_or_else(|| panic!("no {told}")).json
}

#[test]
fn every_file_of_the_manifests_is_embedded() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests");
    let mut there = BTreeSet::new();
    for folder in ["base".to_owned()].into_iter().chain(Component::ALL.map(Component::folder)) {
        for file in std::fs::read_dir(root.join(&folder)).unwrap() {
            there.insert(format!("{folder}/{}", file.unwrap().file_name().into_string().unwrap()));
        }
    }
    let components = std::fs::read_dir(root.join("components")).unwrap();
    assert_eq!(components.count(), Component::ALL.len());
    assert_eq!(FILES.iter().map(|(path, _)| (*path).to_owned()).collect::<BTreeSet<_>>(), there);
}

#[test]
fn the_image_is_the_same_wherever_it_is_named_and_of_this_version() {
    for (image, expected) in [
        (None, concat!("ghcr.io/kubectl-rotate/rotate-agent:", env!("CARGO_PKG_VERSION"))),
        (Some("registry.example.com:5000/a/b@sha256:0".to_owned()), "registry.example.com:5000/a/b@sha256:0"),
    ] {
        let objects = objects(&Wanted { image, ..all() });
        let agent = named(&objects, "deployment.apps/rotate-agent");
        let container = &agent["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], expected);
        assert!(
            container["env"]
                .as_array()
                .unwrap()
                .contains(&json!({"name": "ROTATE_PLACEHOLDER_IMAGE", "value": expected}))
        );
        let room = named(&objects, "validatingadmissionpolicy.admissionregistration.k8s.io/rotate-room");
        assert_eq!(room["spec"]["variables"][0], json!({"name": "image", "expression": format!("'{expected}'")}));
        assert_eq!(version(agent), Some(env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn what_is_printed_reads_back_as_what_is_installed() {
    for wanted in [Wanted::default(), all(), Wanted { replicas: Some(5), ..all() }] {
        for object in objects(&wanted) {
            assert_eq!(serde_saphyr::from_str::<Value>(&object.yaml()).unwrap(), object.json, "{}", object.told());
        }
    }
    let rights = objects(&Wanted::default());
    let rights = rights.iter().find(|object| object.told() == "clusterrole.rbac.authorization.k8s.io/rotate-agent");
    assert!(rights.unwrap().yaml().contains("# Evictions, which respect disruption budgets."), "comments are kept");
}

#[test]
fn every_object_is_labelled_and_in_a_namespace_of_ours_or_in_none() {
    for object in objects(&all()) {
        let (told, (key, value)) = (object.told(), LABEL.split_once('=').unwrap());
        assert_eq!(object.json["metadata"]["labels"][key], value, "{told}");
        assert_eq!(object.namespace().is_some(), object.kind().namespaced, "{told}");
        assert!(object.namespace().is_none_or(|namespace| NAMESPACES.contains(&namespace)), "{told}");
    }
}

#[test]
fn what_people_act_through_is_called_as_the_program_calls_it() {
    let objects = objects(&Wanted::default());
    for (account, role) in [(names::OPERATOR, names::OPERATE), (names::VIEWER, names::VIEW)] {
        named(&objects, &format!("serviceaccount/{account}"));
        let role = named(&objects, &format!("role.rbac.authorization.k8s.io/{role}"));
        let rules = role["rules"].as_array().unwrap();
        let tokens = rules.iter().find(|rule| rule["resources"] == json!(["serviceaccounts/token"])).unwrap();
        assert!(tokens["resourceNames"].as_array().unwrap().contains(&json!(account)), "{role}");
    }
}

#[test]
fn what_others_need_comes_first_and_the_agents_last() {
    let objects = objects(&Wanted::default());
    let position = |told: &str| objects.iter().position(|object| object.told() == told).unwrap();
    assert!(position("namespace/kubectl-rotate-room") <= 1);
    assert!(position("serviceaccount/rotate-agent") < position("deployment.apps/rotate-agent"));
    assert!(
        position("validatingadmissionpolicy.admissionregistration.k8s.io/rotate-nodes")
            < position("deployment.apps/rotate-agent")
    );
}

#[test]
fn components_add_what_they_are_about_and_nothing_else() {
    let plain = objects(&Wanted::default());
    let with = |component| objects(&Wanted { with: vec![component], ..Wanted::default() });
    let agent = |objects: &[Object]| named(objects, "deployment.apps/rotate-agent")["spec"].clone();
    let pod = |objects: &[Object]| agent(objects)["template"]["spec"].clone();
    let added = |objects: &[Object]| -> Vec<String> {
        let new = objects.iter().filter(|object| !plain.iter().any(|known| known.told() == object.told()));
        new.map(Object::told).collect()
    };
    let tls = with(Component::Tls);
    assert_eq!(added(&tls), ["service/rotate-agent"]);
    assert_eq!(pod(&tls)["volumes"][0]["secret"]["secretName"], names::TLS_SECRET);
    let network = with(Component::NetworkPolicy);
    assert_eq!(
        added(&network),
        ["networkpolicy.networking.k8s.io/rotate-agent", "networkpolicy.networking.k8s.io/rotate-placeholders"]
    );
    assert_eq!(agent(&network), agent(&plain));
    let ha = with(Component::Ha);
    assert_eq!(added(&ha), [""; 0]);
    assert_eq!((&agent(&ha)["replicas"], &agent(&plain)["replicas"]), (&json!(3), &json!(2)));
    assert_eq!(pod(&ha)["topologySpreadConstraints"][0]["whenUnsatisfiable"], "DoNotSchedule");
}
