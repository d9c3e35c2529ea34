//! The API as a real client meets it, in process under the paused clock and once over loopback.

use std::time::Duration;

use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt;
use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{ConfigMap, Node, Pod},
};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::{
    Access, Event, Identity, NodeSpec, Rule, Settings, Sim,
    objects::{disruption_budget, namespace, pod, replica_set, template},
};

mod evicting;
mod watches;

/// One request; the code and body of its answer.
async fn ask(sim: &Sim, method: Method, path: &str, content_type: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let request = Request::builder().method(method).uri(path).header("content-type", content_type).body(body);
    let response = sim.router().oneshot(request.unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn post(sim: &Sim, path: &str, body: &Value) -> (u16, Value) {
    ask(sim, Method::POST, path, "application/json", body).await
}

async fn get(sim: &Sim, path: &str) -> (u16, Value) {
    ask(sim, Method::GET, path, "", &Value::Null).await
}

async fn merge(sim: &Sim, path: &str, body: &Value) -> (u16, Value) {
    ask(sim, Method::PATCH, path, "application/merge-patch+json", body).await
}

async fn web(replicas: u32) -> Sim {
    let sim = Sim::start(Settings::default());
    sim.add_node(NodeSpec::new("n1"));
    sim.create(replica_set("web", "default", replicas, template("web", "100m", "128Mi")));
    sim.run_for(Duration::from_secs(10)).await;
    sim
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn a_kube_client_works_in_process_under_the_paused_clock() {
    let sim = web(3).await;
    let client = Client::new(sim.router(), "default");
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let list = pods.list(&ListParams::default().labels("app in (web)").fields("spec.nodeName=n1")).await.unwrap();
    assert_eq!(list.items.len(), 3);
    let nodes: Api<Node> = Api::all(client.clone());
    let patch = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    let node = nodes.patch("n1", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(node.spec.unwrap().unschedulable, Some(true));
    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let error = sets.get("nothing").await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 404 && status.reason == "NotFound"));
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let map: ConfigMap = serde_json::from_value(config_map("m")).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    assert!(maps.delete("m", &DeleteParams::default()).await.unwrap().is_right());
}

#[tokio::test]
async fn a_kube_client_works_over_loopback() {
    let settings = Settings { pod_start: Duration::ZERO, ..Settings::default() };
    let sim = Sim::start(settings);
    sim.add_node(NodeSpec::new("n1"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = sim.router();
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let pods: Api<Pod> = Api::default_namespaced(Client::try_from(config).unwrap());
    let new: Pod = serde_json::from_value(pod("a", "default", &template("a", "1", "1Gi"))).unwrap();
    pods.create(&PostParams::default(), &new).await.unwrap();
    sim.until(|sim| sim.log().iter().any(|entry| matches!(entry.event, Event::PodReady { .. }))).await;
    assert_eq!(pods.get("a").await.unwrap().spec.unwrap().node_name.as_deref(), Some("n1"));
    server.abort();
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages_of_one_version() {
    let sim = web(5).await;
    let (_, first) = get(&sim, "/api/v1/pods?limit=2").await;
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    assert!(first["items"][0].get("kind").is_none());
    sim.create(pod("late", "default", &template("late", "1", "1Gi")));
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, second) = get(&sim, &format!("/api/v1/pods?limit=9&continue={token}")).await;
    assert_eq!(second["items"].as_array().unwrap().len(), 3);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert!(second["metadata"].get("continue").is_none());
    sim.faults().compact();
    let (code, status) = get(&sim, &format!("/api/v1/pods?limit=9&continue={token}")).await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
}

#[tokio::test(start_paused = true)]
async fn creating_twice_conflicts_and_generated_names_differ() {
    let sim = web(0).await;
    assert_eq!(post(&sim, MAPS, &config_map("m")).await.0, 201);
    let (code, status) = post(&sim, MAPS, &config_map("m")).await;
    assert_eq!((code, &status["reason"]), (409, &json!("AlreadyExists")));
    assert_eq!(status["message"], "configmaps \"m\" already exists");
    let mut generated = config_map("");
    generated["metadata"] = json!({"generateName": "m-"});
    let (_, a) = post(&sim, MAPS, &generated).await;
    let (_, b) = post(&sim, MAPS, &generated).await;
    assert_ne!(a["metadata"]["name"], b["metadata"]["name"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_in_a_patch_is_a_precondition_and_null_deletes() {
    let sim = web(0).await;
    let (_, map) = post(&sim, MAPS, &config_map("m")).await;
    let path = format!("{MAPS}/m");
    let version = map["metadata"]["resourceVersion"].clone();
    let patch = json!({"metadata": {"resourceVersion": version}, "data": {"a": null, "b": "2"}});
    let (code, map) = merge(&sim, &path, &patch).await;
    assert_eq!((code, &map["data"]), (200, &json!({"b": "2"})));
    let (code, status) = merge(&sim, &path, &patch).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    assert!(status["message"].as_str().unwrap().contains("please apply your changes to the latest version"));
    let (code, same) = merge(&sim, &path, &json!({"data": {"b": "2"}})).await;
    assert_eq!(code, 200);
    assert_eq!(same["metadata"]["resourceVersion"], map["metadata"]["resourceVersion"], "nothing changed");
}

#[tokio::test(start_paused = true)]
async fn replacing_needs_the_present_version() {
    let sim = web(0).await;
    let (_, mut map) = post(&sim, MAPS, &config_map("m")).await;
    map["data"]["a"] = json!("2");
    let put = |map: Value| {
        let sim = sim.clone();
        async move { ask(&sim, Method::PUT, &format!("{MAPS}/m"), "application/json", &map).await }
    };
    assert_eq!(put(map.clone()).await.0, 200);
    assert_eq!(put(map.clone()).await.0, 409);
}

#[tokio::test(start_paused = true)]
async fn an_apply_patch_creates_what_is_not_there() {
    let sim = web(0).await;
    let path = format!("{MAPS}/m?fieldManager=test");
    let apply = |path: String, body: Value| {
        let sim = sim.clone();
        async move { ask(&sim, Method::PATCH, &path, "application/apply-patch+yaml", &body).await }
    };
    assert_eq!(apply(path.clone(), config_map("m")).await.0, 201);
    let mut more = config_map("m");
    more["data"] = json!({"b": "2"});
    assert_eq!(apply(path, more).await.1["data"], json!({"a": "1", "b": "2"}));
}

#[tokio::test(start_paused = true)]
async fn dry_runs_answer_as_if_and_change_nothing() {
    let sim = web(1).await;
    let before = sim.cluster().store().version();
    let name = sim.list("pods")[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/namespaces/default/pods/{name}");
    assert_eq!(post(&sim, &format!("{MAPS}?dryRun=All"), &config_map("m")).await.0, 201);
    assert_eq!(merge(&sim, "/api/v1/nodes/n1?dryRun=All", &json!({"spec": {"unschedulable": true}})).await.0, 200);
    assert_eq!(ask(&sim, Method::DELETE, &format!("{path}?dryRun=All"), "", &Value::Null).await.0, 200);
    let options = json!({"dryRun": ["All"]});
    assert_eq!(ask(&sim, Method::DELETE, &path, "application/json", &options).await.0, 200);
    assert_eq!(sim.cluster().store().version(), before);
    assert!(sim.requests().iter().filter(|request| request.query.contains("dryRun")).all(|request| !request.writes()));
}

#[tokio::test(start_paused = true)]
async fn the_status_subresource_changes_status_and_nothing_else() {
    let sim = web(0).await;
    let both = json!({"spec": {"unschedulable": true}, "status": {"phase": "Running"}});
    let (_, node) = merge(&sim, "/api/v1/nodes/n1/status", &both).await;
    assert_eq!(node["status"]["phase"], "Running");
    assert!(node["spec"].get("unschedulable").is_none());
    let (_, node) = merge(&sim, "/api/v1/nodes/n1", &json!({"status": {"phase": "Broken"}})).await;
    assert_eq!(node["status"]["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn deletion_heeds_its_preconditions_and_the_grace_asked_for() {
    let sim = web(1).await;
    let pod = sim.list("pods").remove(0);
    let path = format!("/api/v1/namespaces/default/pods/{}", pod["metadata"]["name"].as_str().unwrap());
    let wrong = json!({"preconditions": {"uid": "other"}});
    let (code, status) = ask(&sim, Method::DELETE, &path, "application/json", &wrong).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    assert!(status["message"].as_str().unwrap().contains("the UID in the precondition (other) does not match"));
    let stale = json!({"preconditions": {"resourceVersion": "1"}});
    assert_eq!(ask(&sim, Method::DELETE, &path, "application/json", &stale).await.0, 409);
    let right = json!({"preconditions": {"uid": pod["metadata"]["uid"]}});
    let (code, left) = ask(&sim, Method::DELETE, &path, "application/json", &right).await;
    assert_eq!((code, &left["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(30)));
    let now = json!({"gracePeriodSeconds": 0});
    assert_eq!(ask(&sim, Method::DELETE, &path, "application/json", &now).await.0, 200);
    assert_eq!(get(&sim, &path).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn pods_are_completed_and_checked_as_they_come_in() {
    let sim = web(0).await;
    let path = "/api/v1/namespaces/default/pods";
    let (_, plain) = post(&sim, path, &pod("plain", "default", &template("a", "1", "1Gi"))).await;
    assert_eq!(plain["spec"]["terminationGracePeriodSeconds"], 30);
    assert_eq!(plain["spec"]["priority"], 0);
    assert_eq!(plain["spec"]["tolerations"][0]["tolerationSeconds"], 300);
    let mut classless = pod("classless", "default", &template("a", "1", "1Gi"));
    classless["spec"]["priorityClassName"] = json!("nobody");
    let (code, status) = post(&sim, path, &classless).await;
    assert_eq!(code, 403);
    assert_eq!(status["message"], "pods \"classless\" is forbidden: no PriorityClass with name nobody was found");
    let mut gpu = pod("gpu", "default", &template("a", "1", "1Gi"));
    gpu["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = json!("2");
    let (code, status) = post(&sim, path, &gpu).await;
    assert_eq!(code, 422);
    assert!(status["message"].as_str().unwrap().contains("Limit must be set for non overcommitable resources"));
    gpu["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = json!("2");
    assert_eq!(post(&sim, path, &gpu).await.0, 201);
    let (code, status) =
        post(&sim, "/api/v1/namespaces/gone/pods", &pod("a", "gone", &template("a", "1", "1Gi"))).await;
    assert_eq!((code, &status["message"]), (404, &json!("namespaces \"gone\" not found")));
}

#[tokio::test(start_paused = true)]
async fn pod_security_refuses_host_ports_unless_privileged() {
    let sim = web(0).await;
    for (level, expected) in [("restricted", 403), ("baseline", 403), ("privileged", 201)] {
        sim.create(namespace(level, &json!({"pod-security.kubernetes.io/enforce": level})));
        let mut new = pod("a", level, &template("a", "1", "1Gi"));
        new["spec"]["securityContext"] = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
        let container = &mut new["spec"]["containers"][0];
        container["securityContext"] = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        let path = format!("/api/v1/namespaces/{level}/pods");
        assert_eq!(post(&sim, &format!("{path}?dryRun=All"), &new).await.0, 201, "{level} without a host port");
        new["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
        assert_eq!(post(&sim, &path, &new).await.0, expected, "{level}");
    }
}

#[tokio::test(start_paused = true)]
async fn names_and_label_values_beyond_their_limits_are_refused() {
    let sim = web(0).await;
    for name in ["A", "-a", "a_b", &"a".repeat(254)] {
        assert_eq!(post(&sim, MAPS, &config_map(name)).await.0, 422, "{name}");
    }
    assert_eq!(post(&sim, MAPS, &config_map(&"a".repeat(253))).await.0, 201);
    let mut map = config_map("m");
    map["metadata"]["labels"] = json!({"a": "b".repeat(64)});
    assert_eq!(post(&sim, MAPS, &map).await.0, 422);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_issued_reviewed_and_expire() {
    let sim = web(0).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "viewer"}});
    sim.create(account);
    let request = json!({"spec": {"audiences": ["kubectl-rotate.dev"], "expirationSeconds": 600}});
    let (code, issued) = post(&sim, "/api/v1/namespaces/default/serviceaccounts/viewer/token", &request).await;
    assert_eq!(code, 201);
    let review = |audience: &str| json!({"spec": {"token": issued["status"]["token"], "audiences": [audience]}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (_, right) = post(&sim, path, &review("kubectl-rotate.dev")).await;
    assert_eq!(right["status"]["authenticated"], true);
    assert_eq!(right["status"]["user"]["username"], "system:serviceaccount:default:viewer");
    let credential = &right["status"]["user"]["extra"]["authentication.kubernetes.io/credential-id"][0];
    assert!(credential.as_str().unwrap().starts_with("JTI="));
    assert!(post(&sim, path, &review("other")).await.1["status"].get("authenticated").is_none());
    sim.run_for(Duration::from_secs(601)).await;
    assert!(post(&sim, path, &review("kubectl-rotate.dev")).await.1["status"].get("authenticated").is_none());
}

#[tokio::test(start_paused = true)]
async fn rules_decide_what_a_token_may_do() {
    let sim = web(0).await;
    let mut access = Access::default();
    let who = Identity { user: "viewer".to_owned(), groups: vec!["people".to_owned()], audiences: Vec::new() };
    access.tokens.insert("secret".to_owned(), who);
    access.rules.push(Rule::new("people", &["get", "list"], &["nodes", "apps/replicasets"]));
    sim.set_access(access);
    let with_token = |path: &'static str| {
        let request = Request::get(path).header("authorization", "Bearer secret").body(Body::empty()).unwrap();
        sim.router().oneshot(request)
    };
    assert_eq!(with_token("/api/v1/nodes").await.unwrap().status(), 200);
    assert_eq!(with_token("/apis/apps/v1/replicasets").await.unwrap().status(), 200);
    let response = with_token("/api/v1/pods").await.unwrap();
    assert_eq!(response.status(), 403);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        status["message"],
        "pods is forbidden: User \"viewer\" cannot list resource \"pods\" in API group \"\" at the cluster scope"
    );
    let review = |verb: &str| {
        json!({"spec": {"user": "viewer", "groups": ["people"],
            "resourceAttributes": {"verb": verb, "resource": "nodes"}}})
    };
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    assert_eq!(post(&sim, path, &review("list")).await.1["status"]["allowed"], true);
    assert_eq!(post(&sim, path, &review("delete")).await.1["status"]["allowed"], false);
    let unknown = Request::get("/api/v1/nodes").header("authorization", "Bearer no").body(Body::empty()).unwrap();
    assert_eq!(sim.router().oneshot(unknown).await.unwrap().status(), 401);
}

#[tokio::test(start_paused = true)]
async fn faults_fail_delay_and_lose_what_they_are_asked_to() {
    let sim = web(0).await;
    sim.faults().fail("POST", "/configmaps", 503, 2);
    assert_eq!(post(&sim, MAPS, &config_map("a")).await.0, 503);
    assert_eq!(get(&sim, MAPS).await.0, 200);
    assert_eq!(post(&sim, MAPS, &config_map("a")).await.0, 503);
    assert_eq!(post(&sim, MAPS, &config_map("a")).await.0, 201);
    sim.faults().lose_answers("POST", "/configmaps", 1);
    assert_eq!(post(&sim, MAPS, &config_map("b")).await.0, 504);
    assert_eq!(post(&sim, MAPS, &config_map("b")).await.0, 409, "it was carried out");
    let before = sim.now();
    sim.faults().delay("GET", "/configmaps", Duration::from_secs(7), 1);
    assert_eq!(get(&sim, MAPS).await.0, 200);
    assert_eq!(sim.now().duration_since(before).as_secs(), 7);
    sim.faults().refuse(true);
    assert_eq!(get(&sim, MAPS).await.0, 503);
    sim.faults().clear();
    assert_eq!(get(&sim, MAPS).await.0, 200);
    let counted = sim.requests().iter().filter(|request| request.method == "POST").count();
    assert_eq!(counted, 5);
}

#[tokio::test(start_paused = true)]
async fn an_inspector_sees_each_write_before_it_is_carried_out() {
    let sim = web(0).await;
    let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let notes = seen.clone();
    sim.inspect(move |sim, request, body| {
        let there = sim.get("configmaps", "default", "m").is_some();
        notes.lock().push((request.method.clone(), request.writes(), there, body.len()));
    });
    let body = config_map("m");
    post(&sim, &format!("{MAPS}?dryRun=All"), &body).await;
    post(&sim, MAPS, &body).await;
    get(&sim, MAPS).await;
    ask(&sim, Method::DELETE, &format!("{MAPS}/m"), "application/json", &json!({"dryRun": ["All"]})).await;
    let length = body.to_string().len();
    let (create, delete) = ("POST".to_owned(), "DELETE".to_owned());
    let dry = json!({"dryRun": ["All"]}).to_string().len();
    assert_eq!(
        *seen.lock(),
        [(create.clone(), false, false, length), (create, true, false, length), (delete, false, true, dry)]
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_acts_as_another_has_that_ones_rights() {
    let sim = web(0).await;
    sim.set_access(Access { rules: vec![Rule::new("viewer", &["get"], &["nodes"])], ..Access::default() });
    let acting = |path: &'static str| {
        let request = Request::get(path).header("impersonate-user", "viewer").body(Body::empty()).unwrap();
        sim.router().oneshot(request)
    };
    assert_eq!(acting("/api/v1/nodes/n1").await.unwrap().status(), 200);
    assert_eq!(acting("/api/v1/nodes").await.unwrap().status(), 403);
    assert_eq!(sim.requests().last().unwrap().user, "viewer");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_exist_and_what_is_not_json_is_refused() {
    let sim = web(0).await;
    assert_eq!(get(&sim, "/api/v1/things").await.0, 404);
    assert_eq!(get(&sim, "/apis/karpenter.sh/v1/nodeclaims").await.0, 200);
    assert_eq!(post(&sim, MAPS, &json!("text")).await.0, 400);
    let protobuf = ask(&sim, Method::POST, MAPS, "application/vnd.kubernetes.protobuf", &json!({})).await;
    assert_eq!(protobuf.0, 415);
    let only = |accept: &'static str| {
        let request = Request::get(MAPS).header("accept", accept).body(Body::empty()).unwrap();
        sim.router().oneshot(request)
    };
    assert_eq!(only("application/vnd.kubernetes.protobuf").await.unwrap().status(), 406);
    let both = only("application/vnd.kubernetes.protobuf, application/json").await.unwrap();
    assert_eq!(
        (both.status().as_u16(), &both.headers()["content-type"].to_str().unwrap()[..16]),
        (200, "application/json")
    );
    assert_eq!(get(&sim, "/livez").await.0, 200);
    assert_eq!(get(&sim, "/version").await.1["gitVersion"], "v1.36.3");
}

#[tokio::test(start_paused = true)]
async fn a_bound_pod_is_not_bound_again() {
    let sim = Sim::start(Settings::default());
    sim.create(pod("a", "default", &template("a", "1", "1Gi")));
    let path = "/api/v1/namespaces/default/pods/a/binding";
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n1"}});
    assert_eq!(post(&sim, path, &binding).await.0, 201);
    let (code, status) = post(&sim, path, &binding).await;
    assert_eq!(code, 409);
    assert!(status["message"].as_str().unwrap().contains("already assigned to node \"n1\""));
}

#[tokio::test(start_paused = true)]
async fn everything_ends_with_the_last_handle() {
    let sim = web(1).await;
    let cluster = std::sync::Arc::downgrade(sim.cluster());
    let router = sim.router();
    drop(sim);
    tokio::task::yield_now().await;
    assert!(cluster.upgrade().is_some(), "the router is a handle too");
    drop(router);
    tokio::task::yield_now().await;
    assert!(cluster.upgrade().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_budget_can_be_patched_and_is_observed() {
    let sim = web(2).await;
    sim.create(disruption_budget("b", "default", "web", "minAvailable", json!(2)));
    sim.run_for(Duration::from_secs(1)).await;
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b";
    merge(&sim, path, &json!({"spec": {"minAvailable": 1}})).await;
    sim.run_for(Duration::from_millis(1)).await;
    let (_, budget) = get(&sim, path).await;
    assert_eq!(budget["status"]["disruptionsAllowed"], 1);
    assert_eq!(budget["status"]["observedGeneration"], 2);
}
