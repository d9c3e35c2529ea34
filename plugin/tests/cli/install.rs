//! What `install` prints, and what it and `uninstall` refuse.

use serde_json::Value;

use crate::cluster::Cluster;
use crate::support::rotate;

fn refused(line: &[&str], message: &str) {
    let run = rotate(line);
    assert_eq!((run.code, run.stderr.lines().next()), (Some(2), Some(message)), "{line:?}");
    assert_eq!(run.stdout, "", "{line:?}");
}

#[test]
fn manifests_are_printed_without_a_cluster_and_always_alike() {
    let line = ["install", "--with", "tls", "--with", "network-policy,ha"];
    let run = rotate(&line);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    assert_eq!(rotate(&line).stdout, run.stdout);
    let objects: Vec<Value> = serde_saphyr::from_multiple(&run.stdout).unwrap();
    let names = rotate(&[&line[..], &["-o", "name"]].concat()).stdout;
    assert_eq!(names.lines().count(), objects.len());
    assert!(names.starts_with("namespace/kubectl-rotate\nnamespace/kubectl-rotate-room\n"), "{names}");
    let list: Value = serde_json::from_str(&rotate(&[&line[..], &["-o", "json"]].concat()).stdout).unwrap();
    assert_eq!((&list["kind"], list["items"].as_array().unwrap()), (&Value::from("List"), &objects));
}

#[test]
fn an_image_of_ones_own_is_the_only_one_that_is_named() {
    let run = rotate(&["install", "--image", "registry.example.com/mirror/rotate-agent:1", "--replicas", "5"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!run.stdout.contains("ghcr.io"), "{}", run.stdout);
    assert_eq!(run.stdout.matches("registry.example.com/mirror/rotate-agent:1").count(), 3);
    assert!(run.stdout.contains("replicas: 5"), "{}", run.stdout);
}

#[test]
fn what_cannot_be_meant_is_refused_before_anybody_is_asked() {
    refused(
        &["install", "--image", "a'b"],
        "error: invalid argument \"a'b\" for \"--image\" flag: it is not the name of an image",
    );
    refused(
        &["install", "--with", "everything"],
        "error: invalid argument \"everything\" for \"--with\" flag: must be one of tls, network-policy, ha",
    );
    for flag in ["--force-conflicts", "--allow-downgrade", "--dry-run"] {
        refused(
            &["install", flag],
            &format!("error: {flag} goes with --apply: without it nothing is asked or changed"),
        );
    }
    let formats = "unable to match a printer suitable for the output format \"wide\", allowed formats are";
    refused(&["install", "-o", "wide"], &format!("error: {formats}: json,name,yaml"));
    refused(&["uninstall", "-o", "wide"], &format!("error: {formats}: name"));
    for verb in ["install", "uninstall"] {
        refused(
            &[verb, "--agent-namespace", "other"],
            "error: the agent is installed in namespace kubectl-rotate: its admission policies and rights name it",
        );
    }
}

#[test]
fn nothing_is_deleted_elsewhere_than_was_said() {
    let own = "error: the agent is installed in namespace kubectl-rotate: its admission policies and rights name it";
    for verb in ["install", "uninstall"] {
        for flag in ["--agent-namespace", "-n"] {
            refused(&[verb, flag, "other", "--server", "http://127.0.0.1:1"], own);
        }
        let empty = rotate(&[verb, "-n", "", "-o", "", "--dry-run", "--server", "http://127.0.0.1:1"]);
        assert!(!empty.stderr.contains("namespace") && !empty.stderr.contains("format"), "{}", empty.stderr);
    }
}

#[test]
fn where_nothing_is_installed_there_is_nothing_to_ask() {
    let cluster = Cluster::bare();
    let run = rotate(&["uninstall", "--server", &cluster.server]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), ""), "{}", run.stderr);
    assert!(run.stderr.starts_with("kubectl-rotate is not installed in the cluster at http://"), "{}", run.stderr);
}
