use std::path::Path;

use serde_json::Value;

use super::*;

/// All objects of the files of `manifests/base`, as written.
fn manifests() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/base");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|file| file.file_name().unwrap() != "kustomization.yaml");
    files
        .flat_map(|file| serde_saphyr::from_multiple::<Value>(&std::fs::read_to_string(file).unwrap()).unwrap())
        .collect()
}

fn of_kind(kind: &str) -> Vec<Value> {
    manifests().into_iter().filter(|object| object["kind"] == kind).collect()
}

fn named(kind: &str, namespace: Option<&str>, name: &str) -> Value {
    let wanted =
        |object: &Value| object["metadata"]["name"] == name && object["metadata"]["namespace"].as_str() == namespace;
    of_kind(kind).into_iter().find(wanted).unwrap_or_else(|| panic!("there is no {kind} {name}"))
}

#[test]
fn the_manifests_hold_the_same_namespaces_and_priority() {
    let mut ours = objects();
    let mut written: Vec<Object> = Vec::new();
    for object in of_kind("Namespace") {
        written.push(Object::Namespace(serde_json::from_value(object).unwrap()));
    }
    for object in of_kind("PriorityClass") {
        written.push(Object::PriorityClass(serde_json::from_value(object).unwrap()));
    }
    ours.sort_by_key(ToString::to_string);
    written.sort_by_key(ToString::to_string);
    assert_eq!(written, ours);
}

#[test]
fn kustomization_lists_every_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/base");
    let text = std::fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
    let kustomization: Value = serde_saphyr::from_str(&text).unwrap();
    let mut listed: Vec<_> =
        kustomization["resources"].as_array().unwrap().iter().map(|file| file.as_str().unwrap().to_owned()).collect();
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = files.filter(|file| file != "kustomization.yaml").collect();
    listed.sort();
    files.sort();
    assert_eq!(listed, files);
}

#[test]
fn the_deployment_meets_the_restricted_level() {
    let pod = &named("Deployment", Some(names::NAMESPACE), names::AGENT)["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    assert_eq!(pod["serviceAccountName"], names::AGENT);
    for container in pod["containers"].as_array().unwrap() {
        assert_eq!(container["securityContext"]["allowPrivilegeEscalation"], false);
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(container["securityContext"]["capabilities"]["drop"], serde_json::json!(["ALL"]));
    }
}

#[test]
fn the_deployment_sets_only_variables_that_the_agent_reads() {
    use clap::CommandFactory as _;
    let command = crate::cli::Cli::command();
    let known: Vec<_> = command.get_arguments().filter_map(|arg| arg.get_env()?.to_str()).collect();
    let deployment = named("Deployment", Some(names::NAMESPACE), names::AGENT);
    for variable in deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap() {
        assert!(known.contains(&variable["name"].as_str().unwrap()), "{variable}");
    }
}

#[test]
fn the_component_for_tls_sets_only_variables_that_the_agent_reads() {
    use clap::CommandFactory as _;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/components/tls/kustomization.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let command = crate::cli::Cli::command();
    let known: Vec<_> = command.get_arguments().filter_map(|arg| arg.get_env()?.to_str()).collect();
    let set: Vec<_> = text.lines().filter_map(|line| line.trim().strip_prefix("name: ROTATE_")).collect();
    assert_eq!(set, ["TLS_CERT", "TLS_KEY"]);
    for name in set {
        assert!(known.contains(&&*format!("ROTATE_{name}")), "{name}");
    }
}

/// The (resource, verb) pairs that a role grants in a group.
fn grants(role: &Value, group: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut grants = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        if rule["apiGroups"].as_array().unwrap().iter().any(|name| name == group) {
            for resource in rule["resources"].as_array().unwrap() {
                grants.extend(rule["verbs"].as_array().unwrap().iter().map(|verb| (text(resource), text(verb))));
            }
        }
    }
    grants.sort();
    grants
}

#[test]
fn the_operator_may_do_exactly_what_the_routes_ask_for_and_the_viewer_may_start_nothing() {
    let mut needed = crate::http::needs();
    needed.sort();
    needed.dedup();
    assert_eq!(grants(&named("ClusterRole", None, "rotate-operator"), names::AUTHORIZATION_GROUP), needed);
    needed.retain(|(resource, verb)| resource != "rotations" || matches!(verb.as_str(), "get" | "list"));
    assert_eq!(grants(&named("ClusterRole", None, "rotate-viewer"), names::AUTHORIZATION_GROUP), needed);
}

#[test]
fn no_role_grants_everything_or_reads_secrets() {
    for role in of_kind("Role").into_iter().chain(of_kind("ClusterRole")) {
        for rule in role["rules"].as_array().unwrap() {
            let text = rule.to_string();
            assert!(
                !text.contains("\"*\"") && !text.contains("\"secrets\""),
                "{} grants {text}",
                role["metadata"]["name"]
            );
        }
    }
}

#[test]
fn pods_can_be_deleted_only_where_the_placeholders_are() {
    let deletes = |role: &Value| grants(role, "").contains(&("pods".to_owned(), "delete".to_owned()));
    assert!(!deletes(&named("ClusterRole", None, names::AGENT)));
    assert!(!deletes(&named("Role", Some(names::NAMESPACE), names::AGENT)));
    assert!(deletes(&named("Role", Some(names::ROOM_NAMESPACE), names::AGENT)));
}

/// The text of an admission policy.
fn policy(name: &str) -> String {
    named("ValidatingAdmissionPolicy", None, name).to_string()
}

#[test]
fn the_policy_for_records_knows_which_phases_are_over() {
    use rotate_shared::Phase;
    let policy = policy("rotate-records");
    for phase in Phase::ALL {
        let written = serde_json::to_string(&phase).unwrap().replace('"', "'");
        assert_eq!(policy.contains(&written), phase.is_terminal(), "{written}");
    }
    assert!(policy.contains(names::GROUPS) && policy.contains(names::AGENT) && policy.contains(names::RECORD_PREFIX));
}

#[test]
fn the_policy_for_nodes_names_every_annotation_that_is_ours_to_set() {
    let policy = policy("rotate-nodes");
    for key in crate::provider::PROTECTION {
        assert!(policy.contains(&format!("'{key}'")), "{key}");
    }
    for key in [names::ROTATION, names::CORDONED_BY, names::PROTECTED_BY] {
        assert!(key.starts_with("kubectl-rotate.dev/"), "{key}");
    }
}

#[test]
fn every_policy_is_bound_and_denies() {
    let policies = of_kind("ValidatingAdmissionPolicy");
    assert_eq!(policies.len(), of_kind("ValidatingAdmissionPolicyBinding").len());
    for policy in policies {
        assert_eq!(policy["spec"]["failurePolicy"], "Fail");
        let name = policy["metadata"]["name"].as_str().unwrap();
        let binding = named("ValidatingAdmissionPolicyBinding", None, name);
        assert_eq!(binding["spec"], serde_json::json!({ "policyName": name, "validationActions": ["Deny"] }));
    }
}
