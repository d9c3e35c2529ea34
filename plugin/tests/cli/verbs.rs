//! Each verb against an agent, as a person types it.

use rotate_sim::objects;
use serde_json::json;

use crate::cluster::Cluster;
use crate::support::{interrupted, started};

#[test]
fn a_node_is_rotated_and_each_change_is_a_line_on_stderr() {
    let cluster = Cluster::with_room(true).agent();
    let run = cluster.rotate(&["node", "w1", "--yes"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "node/w1 rotated\n"), "{}", run.stderr);
    assert!(
        run.stderr.contains("node/w1 can be rotated: 3 Pods to move, room for 3 is reserved first"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("node/w1 succeeded after "), "{}", run.stderr);
    assert!(!run.stderr.contains('\u{1b}'), "no terminal, no colours: {:?}", run.stderr);
    assert!(cluster.is_cordoned("w1"));
    let pods = cluster.sim.list("pods");
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"] != "w1"), "{pods:?}");
}

#[test]
fn an_unknown_node_is_worded_as_in_kubectl() {
    let cluster = Cluster::with_room(true).agent();
    for line in [&["node", "nope", "--yes"][..], &["plan", "node", "nope"]] {
        let run = cluster.rotate(line);
        assert_eq!(
            (run.code, run.stderr.as_str()),
            (Some(1), "Error from server (NotFound): nodes \"nope\" not found\n")
        );
    }
}

#[test]
fn without_a_terminal_nothing_is_done_unless_yes_is_said() {
    let cluster = Cluster::with_room(true).agent();
    let run = cluster.rotate(&["node", "w1"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.ends_with("There is no terminal to ask on: give --yes to go ahead\n"), "{}", run.stderr);
    assert!(!cluster.is_cordoned("w1"));
}

#[test]
fn a_node_that_is_being_rotated_is_not_rotated_twice() {
    let cluster = Cluster::with_room(false).agent();
    let first = cluster.rotate(&["node", "w1", "--yes", "--wait=false", "-o", "name"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let id = first.stdout.trim().strip_prefix("rotation/").expect("the name of a rotation").to_owned();
    let second = cluster.rotate(&["node", "w1", "--yes"]);
    assert_eq!(second.code, Some(3), "{}", second.stderr);
    assert!(second.stderr.contains(&id), "{}", second.stderr);
    assert!(!second.stderr.contains("can be rotated"), "{}", second.stderr);
    assert!(second.stderr.contains("kubectl rotate status"), "{}", second.stderr);
}

#[test]
fn a_bare_pod_blocks_with_its_remedy_and_nothing_is_touched() {
    let cluster = Cluster::with_room(true);
    let mut pod = objects::pod("debug", "shop", &objects::template("debug", "100m", "64Mi"));
    pod["spec"]["nodeName"] = "w1".into();
    cluster.sim.create(pod);
    let cluster = cluster.agent();
    let run = cluster.rotate(&["node", "w1", "--yes"]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("BarePod: Pod shop/debug"), "{}", run.stderr);
    assert!(run.stderr.contains("--force"), "{}", run.stderr);
    assert!(!cluster.is_cordoned("w1"));
    assert_eq!(cluster.rotate(&["plan", "node", "w1", "--exit-code"]).code, Some(3));
}

#[test]
fn a_plan_is_data_on_stdout_in_every_format() {
    let cluster = Cluster::with_room(true).agent();
    let text = cluster.rotate(&["plan", "node/w1"]);
    assert_eq!((text.code, text.stderr.as_str()), (Some(0), ""));
    assert!(text.stdout.contains("node/w1 can be rotated: 3 Pods to move"), "{}", text.stdout);
    let json = cluster.rotate(&["plan", "node", "w1", "-o", "json"]);
    let plan: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!((&plan["kind"], &plan["totals"]["pods"]), (&"Plan".into(), &3.into()));
    let list = cluster.rotate(&["plan", "node", "w1", "w2", "-o", "json"]);
    let list: serde_json::Value = serde_json::from_str(&list.stdout).expect("JSON");
    assert_eq!((&list["kind"], list["items"].as_array().map(Vec::len)), (&"PlanList".into(), Some(2)));
    assert!(cluster.rotate(&["plan", "node", "w1", "-o", "yaml"]).stdout.contains("\nkind: Plan\n"));
    assert_eq!(cluster.rotate(&["plan", "node", "w1", "w2", "-o", "name"]).stdout, "node/w1\nnode/w2\n");
    assert_eq!(cluster.rotate(&["plan", "node", "w1", "--exit-code"]).code, Some(10));
}

#[test]
fn where_no_room_comes_everything_is_put_back() {
    let cluster = Cluster::with_room(false).agent();
    let run = cluster.rotate(&["node", "w1", "--yes", "--surge-timeout", "300ms"]);
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(run.stdout.starts_with("node/w1 not rotated, everything is as it was found"), "{}", run.stdout);
    assert!(!cluster.is_cordoned("w1"));
}

#[test]
fn when_the_time_to_wait_is_over_the_agent_goes_on_and_the_next_command_is_printed() {
    let cluster = Cluster::with_room(false).agent();
    let run = cluster.rotate(&["node", "w1", "--yes", "--timeout", "300ms"]);
    assert_eq!(run.code, Some(5), "{}", run.stderr);
    assert!(run.stderr.contains("Follow it with: kubectl rotate status "), "{}", run.stderr);
    let status = cluster.rotate(&["status", "node/w1"]);
    assert!(status.stdout.contains("Phase:       Surging\n"), "{}", status.stdout);
    assert!(status.stdout.contains("waiting "), "a wait names its blocker: {}", status.stdout);
}

#[test]
fn ctrl_c_ends_only_the_waiting() {
    let cluster = Cluster::with_room(false).agent();
    let child = started(&["node", "w1", "--yes", "--agent-url", &cluster.agent_url]);
    cluster.until(|sim| sim.list("pods").iter().any(|pod| pod["metadata"]["namespace"] == "kubectl-rotate-room"));
    let run = interrupted(child);
    assert_eq!(run.code, Some(130), "{}", run.stderr);
    assert!(run.stderr.contains("Interrupted; it goes on in the agent."), "{}", run.stderr);
    assert!(run.stderr.contains(&format!(" -w --agent-url {}\n", cluster.agent_url)), "{}", run.stderr);
    assert!(cluster.rotate(&["status", "node/w1"]).stdout.contains("Phase:       Surging\n"));
}

#[test]
fn several_nodes_are_one_batch() {
    let cluster = Cluster::with_room(true).agent();
    let run = cluster.rotate(&["node", "w2", "w3", "--yes", "--max-concurrent", "2", "-o", "json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let states: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect();
    let batch = states[0]["batch"].as_str().expect("they are a batch");
    assert!(states.iter().all(|state| state["kind"] == "Rotation" && state["batch"] == batch), "{states:#?}");
    for node in ["w2", "w3"] {
        let last = states.iter().rfind(|state| state["node"] == node).expect("its states");
        assert_eq!(last["phase"], "Succeeded");
    }
    let status = cluster.rotate(&["status", &format!("batch/{batch}"), "--no-headers"]);
    assert_eq!(status.stdout.lines().count(), 2, "{}", status.stdout);
}

#[test]
fn a_rotation_can_be_paused_resumed_and_cancelled() {
    let cluster = Cluster::with_room(false).agent();
    let id = cluster.rotate(&["node", "w1", "--yes", "--wait=false", "-o", "name"]).stdout;
    let id = id.trim();
    assert_eq!(cluster.rotate(&["pause", id]).stdout, format!("{id} paused\n"));
    assert_eq!(cluster.rotate(&["resume", "node/w1"]).stdout, format!("{id} resumed\n"));
    let cancelled = cluster.rotate(&["cancel", id]);
    assert_eq!((cancelled.code, cancelled.stdout), (Some(0), format!("{id} cancelled\n")));
    let end = cluster.rotate(&["status", id, "-w", "-o", "json"]);
    assert_eq!(end.code, Some(4), "{}", end.stderr);
    let last = end.stdout.lines().last().expect("a line for each state");
    let last: serde_json::Value = serde_json::from_str(last).expect("one object a line");
    assert_eq!(last["phase"], "RolledBack");
    assert!(!cluster.is_cordoned("w1"));
}

#[test]
fn a_batch_is_cancelled_as_a_whole_and_what_is_over_is_no_failure() {
    let cluster = Cluster::with_room(false).agent();
    let begun = cluster.rotate(&["node", "w1", "w2", "--yes", "--wait=false", "-o", "json"]);
    let begun: serde_json::Value = serde_json::from_str(&begun.stdout).expect("JSON");
    let batch = format!("batch/{}", begun["items"][0]["batch"].as_str().expect("they are a batch"));
    assert_eq!(cluster.rotate(&["pause", &batch, "-o", "name"]).stdout.lines().count(), 2);
    let resumed = cluster.rotate(&["resume", &batch]);
    assert_eq!(resumed.stdout.lines().filter(|line| line.ends_with(" resumed")).count(), 2, "{}", resumed.stdout);
    let mut nodes: Vec<_> = resumed.stderr.lines().collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["  node/w1", "  node/w2"]);
    let cancelled = cluster.rotate(&["cancel", &batch]);
    assert_eq!((cancelled.code, cancelled.stdout.lines().count()), (Some(0), 2), "{}", cancelled.stderr);
    let mut told: Vec<_> = cancelled.stderr.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    told.sort_unstable();
    assert_eq!(told, ["node/w1:", "node/w2:"], "{}", cancelled.stderr);
    assert!(cancelled.stderr.contains(": Nothing had been touched."), "{}", cancelled.stderr);
    assert_eq!(cluster.rotate(&["status", &batch, "-w"]).code, Some(6), "one was queued, and one is rolled back");
    let again = cluster.rotate(&["cancel", &batch]);
    assert_eq!((again.code, again.stdout.as_str(), again.stderr.as_str()), (Some(0), "", "All of them are over.\n"));
}

#[test]
fn without_an_agent_a_plan_reads_with_the_kubeconfig_and_says_so() {
    let cluster = Cluster::with_room(true);
    let run = crate::support::rotate(&["plan", "node", "w1", "--server", &cluster.server]);
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (Some(0), "Planned with your own kubeconfig: no agent in namespace kubectl-rotate\n")
    );
    assert!(run.stdout.contains("node/w1 can be rotated: 3 Pods to move"), "{}", run.stdout);
    let paths = cluster.sim.requests();
    assert!(paths.iter().all(|request| !request.writes() && !request.path.starts_with("/apis?")), "{paths:?}");
    assert!(paths.len() <= 9, "a command costs a fixed, small number of requests: {paths:?}");
    assert!(run.stdout.contains("NotProbed: Namespace kubectl-rotate-room"), "{}", run.stdout);
}

#[test]
fn the_fleet_is_a_table_as_kubectls() {
    let cluster = Cluster::with_room(true).agent();
    let run = cluster.rotate(&["fleet"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[0].starts_with("NAME   STATUS   AGE"), "{}", run.stdout);
    assert_eq!(lines.len(), 4);
    assert!(lines[1].starts_with("w1     Ready    "), "{}", run.stdout);
    assert!(lines[1].contains("cpu 3, memory 3Gi"), "{}", run.stdout);
    assert_eq!(cluster.rotate(&["fleet", "-l", "kubernetes.io/hostname=w2", "-o", "name"]).stdout, "node/w2\n");
}

#[test]
fn nothing_found_is_said_on_stderr_and_is_no_failure() {
    let cluster = Cluster::with_room(true).agent();
    let run = cluster.rotate(&["status"]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "", "No rotations found\n"));
    let missing = cluster.rotate(&["status", "0123456789"]);
    assert_eq!(
        (missing.code, missing.stderr.as_str()),
        (Some(1), "Error from server (NotFound): rotations \"0123456789\" not found\n")
    );
    for verb in [&["plan", "-l", "pool=none"][..], &["node", "-l", "pool=none", "--yes"]] {
        let run = cluster.rotate(verb);
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(0), "", "No nodes found\n"), "{verb:?}");
        let run = cluster.rotate(&["status", "worker-1"]);
        let told =
            "Error from server (NotFound): rotations \"worker-1\" not found; the one of a node is node/worker-1\n";
        assert_eq!((run.code, run.stderr.as_str()), (Some(1), told));
    }
}

#[test]
fn a_token_is_taken_of_the_account_that_the_verb_needs() {
    let cluster = Cluster::with_room(true).guarded_agent();
    for account in ["rotate-operator", "rotate-viewer"] {
        cluster.sim.create(json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": "kubectl-rotate"},
        }));
    }
    let issued = |account: &str| {
        let path = format!("/api/v1/namespaces/kubectl-rotate/serviceaccounts/{account}/token");
        cluster.sim.requests().iter().filter(|request| request.path == path).count()
    };
    let fleet = cluster.rotate(&["fleet", "-o", "name", "--server", &cluster.server]);
    assert_eq!((fleet.code, fleet.stdout.as_str()), (Some(0), "node/w1\nnode/w2\nnode/w3\n"), "{}", fleet.stderr);
    assert_eq!((issued("rotate-viewer"), issued("rotate-operator")), (1, 0));
    let begun = cluster.rotate(&["node", "w1", "--yes", "--wait=false", "--server", &cluster.server]);
    assert_eq!(begun.code, Some(0), "{}", begun.stderr);
    assert!(
        begun.stderr.contains("Begun; it goes on in the agent. Follow it with: kubectl rotate status "),
        "{}",
        begun.stderr
    );
    assert_eq!((issued("rotate-viewer"), issued("rotate-operator")), (1, 1));
}

#[test]
fn whom_the_api_server_gives_no_token_is_not_authorised() {
    let cluster = Cluster::with_room(true).guarded_agent();
    let missing = cluster.rotate(&["fleet", "--server", &cluster.server]);
    assert_eq!(missing.code, Some(7), "{}", missing.stderr);
    assert!(missing.stderr.contains("no service account kubectl-rotate/rotate-viewer"), "{}", missing.stderr);
    assert_eq!(missing.stderr.lines().count(), 1);
}

#[test]
fn an_agent_that_asks_for_a_token_refuses_who_has_none_or_may_not() {
    let cluster = Cluster::with_room(true).guarded_agent();
    let run = cluster.rotate(&["node", "w1", "--yes"]);
    assert_eq!(run.code, Some(7), "{}", run.stderr);
    assert!(!cluster.is_cordoned("w1"));
}

#[test]
fn states_in_yaml_are_a_document_each() {
    let cluster = Cluster::with_room(true).agent();
    let run = cluster.rotate(&["node", "w1", "--yes", "-o", "yaml"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let documents: Vec<&str> = run.stdout.split("---\n").collect();
    assert_eq!(documents[0], "");
    assert!(documents[1..].iter().all(|document| document.contains("kind: Rotation\n")), "{}", run.stdout);
    assert!(documents.last().is_some_and(|last| last.contains("phase: Succeeded\n")), "{}", run.stdout);
}

#[test]
fn selected_pods_move_and_the_node_is_kept_for_the_others() {
    let cluster = Cluster::with_room(true);
    cluster.on("w1", objects::replica_set("cart", "shop", 1, objects::template("cart", "100m", "64Mi")));
    let cluster = cluster.agent();
    let plan = cluster.rotate(&["plan", "node", "w1", "--pod-selector", "app=web"]);
    assert!(plan.stdout.contains("and 1 Pod left alone: not selected by --pod-selector"), "{}", plan.stdout);
    assert!(plan.stdout.contains("then the node stays, cordoned"), "{}", plan.stdout);
    let run = cluster.rotate(&["node", "w1", "--pod-selector", "app=web", "--yes"]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(0), "node/w1 rotated\n"), "{}", run.stderr);
    let pods = cluster.sim.list("pods");
    let left: Vec<&str> = pods
        .iter()
        .filter(|pod| pod["spec"]["nodeName"] == "w1")
        .filter_map(|pod| pod["metadata"]["labels"]["app"].as_str())
        .collect();
    assert_eq!(left, ["cart"]);
}

#[test]
fn a_dry_run_on_the_server_tells_what_would_not_be_evicted_and_evicts_nothing() {
    let cluster = Cluster::with_room(true);
    cluster.sim.create(objects::disruption_budget("web", "shop", "web", "minAvailable", json!(3)));
    cluster.until(|sim| sim.list("poddisruptionbudgets").iter().all(|budget| budget["status"]["currentHealthy"] == 3));
    let asked = "Asked the API server about 3 evictions: it would refuse 3 of them now (dry run).\n";
    let check = |run: crate::support::Run| {
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(run.stderr.ends_with(asked), "{}", run.stderr);
        let refused = "its eviction would be refused now: The disruption budget web needs 3 healthy pods and has 3";
        assert_eq!(run.stdout.matches(refused).count(), 3, "{}", run.stdout);
    };
    let line = ["node", "w1", "--dry-run=server"];
    check(crate::support::rotate(&[&line[..], &["--server", &cluster.server]].concat()));
    check(cluster.embedded(&line));
    let cluster = cluster.agent();
    check(cluster.rotate(&line));
    let client = cluster.rotate(&["node", "w1", "--dry-run=client"]);
    assert!(!client.stderr.contains("Asked") && !client.stdout.contains("refused"), "{}", client.stdout);
    let evictions: Vec<_> =
        cluster.sim.requests().into_iter().filter(|request| request.path.ends_with("/eviction")).collect();
    assert!(evictions.len() == 9 && evictions.iter().all(|asked| asked.query == "dryRun=All"), "{evictions:?}");
    assert!(!cluster.is_cordoned("w1"));
}

#[test]
fn lists_are_read_in_pages_of_the_length_asked_for() {
    let cluster = Cluster::with_room(true);
    let pages = |chunk: &str| {
        let before = cluster.sim.requests().len();
        let line = ["plan", "node", "w1", "--server", &cluster.server, "--chunk-size", chunk];
        assert_eq!(crate::support::rotate(&line).code, Some(0));
        let requests = cluster.sim.requests().split_off(before);
        requests.into_iter().filter(|request| request.path == "/api/v1/nodes").map(|request| request.query).collect()
    };
    let one: Vec<String> = pages("0");
    assert_eq!(one, ["limit=0"]);
    let several: Vec<String> = pages("2");
    assert!(several.len() == 2 && several.iter().all(|query| query.starts_with("limit=2")), "{several:?}");
}

#[test]
fn many_nodes_are_a_table_before_the_question() {
    let cluster = Cluster::bare();
    let names: Vec<String> = (0..6).map(|number| format!("n{number}")).collect();
    for name in &names {
        cluster.sim.add_node(rotate_sim::NodeSpec::new(name));
    }
    let cluster = cluster.agent();
    let line: Vec<&str> = std::iter::once("node").chain(names.iter().map(String::as_str)).collect();
    let run = cluster.rotate(&line);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
    let said: Vec<&str> = run.stderr.lines().collect();
    assert!(said[0].starts_with("NODE   PROVIDER    MOVE   STAY"), "{}", run.stderr);
    assert!(said[6].starts_with("n5     unmanaged   0"), "{}", run.stderr);
    assert!(said[7].starts_with("Each node is planned by itself"), "{}", run.stderr);
    assert!(said[8].starts_with("error: Rotate these 6 nodes? There is no terminal to ask on"), "{}", run.stderr);
}

#[test]
fn of_many_blocked_nodes_the_first_are_shown_and_how_to_see_the_others() {
    let cluster = Cluster::bare();
    cluster.sim.create(objects::namespace("shop", &json!({})));
    for number in 0..7 {
        let node = format!("n{number}");
        cluster.sim.add_node(rotate_sim::NodeSpec::new(&node).label("pool", "web"));
        let mut pod = objects::pod(&format!("debug-{number}"), "shop", &objects::template("debug", "100m", "64Mi"));
        pod["spec"]["nodeName"] = node.into();
        cluster.sim.create(pod);
    }
    let cluster = cluster.agent();
    let run = cluster.rotate(&["node", "-l", "pool=web", "--yes"]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert_eq!(run.stderr.matches(" is blocked:").count(), 5, "{}", run.stderr);
    let end = "error: node/n0, node/n1, node/n2, node/n3, node/n4 and 2 more cannot be rotated as asked; nothing was touched\n";
    assert!(
        run.stderr.contains("the same command shows with --dry-run") && run.stderr.ends_with(end),
        "{}",
        run.stderr
    );
    let all = cluster.rotate(&["node", "-l", "pool=web", "--dry-run"]);
    assert_eq!(all.stdout.matches(" is blocked:").count(), 7, "{}", all.stdout);
}

#[test]
fn a_node_that_others_cordoned_is_not_said_to_be_uncordoned() {
    let cluster = Cluster::with_room(true).agent();
    cluster.sim.edit("nodes", "", "w1", |node| node["spec"]["unschedulable"] = json!(true));
    let run = cluster.rotate(&["plan", "node", "w1", "--then=uncordon"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.ends_with("; then the node stays cordoned, as it was found.\n"), "{}", run.stdout);
}

#[test]
fn what_is_lost_is_told_above_the_question() {
    let cluster = Cluster::with_room(true).agent();
    let pod = objects::replica_set("cache", "shop", 1, objects::template("cache", "1", "1Gi"));
    let mut pod = pod;
    pod["spec"]["template"]["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
    cluster.on("w1", pod);
    let run = cluster.rotate(&["node", "w1", "--yes", "--delete-emptydir-data", "--wait=false"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(
        run.stderr
            .contains("4 Pods to move, room for 4 is reserved first (cpu 4, memory 4Gi), 1 loses its emptyDir data"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains("Warning: Node w1: --delete-emptydir-data: 1 Pod loses what is in emptyDir"),
        "{}",
        run.stderr
    );
}
