use std::sync::{Arc, Mutex};

use http::Response;
use kube::client::Body;
use rotate_shared::Options;
use serde_json::{Value, json};

use super::*;
use crate::cache::Volumes;
use crate::provider::ProviderObjects;
use crate::surge::{plan, testing};

/// What the API server fills in where nobody interferes.
fn admitted(sent: &Value) -> Value {
    let mut came = sent.clone();
    let not_ready = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
        "tolerationSeconds": 300});
    let mut tolerations = came["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    tolerations.push(not_ready);
    testing::merge(
        &mut came,
        &json!({
            "metadata": {"uid": "u", "creationTimestamp": testing::CREATED},
            "spec": {"priority": -10, "preemptionPolicy": "Never", "schedulerName": "default-scheduler",
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "serviceAccountName": "default",
                "tolerations": tolerations},
            "status": {"phase": "Pending"},
        }),
    );
    came
}

/// An API server that answers creates with `admit`, and has these quotas. Counts what it is asked for.
#[derive(Clone)]
struct Server {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn probe(
        quotas: Value,
        standing: Standing,
        admit: impl Fn(Value) -> Result<Value, Value> + Clone + Send + Sync + 'static,
    ) -> (Self, Probe) {
        let server = Self { asked: Arc::default() };
        let asked = Arc::clone(&server.asked);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (asked, admit, quotas) = (Arc::clone(&asked), admit.clone(), quotas.clone());
            async move {
                asked.lock().unwrap().push(format!("{} {}", request.method(), request.uri()));
                let answer = if request.method() == "GET" {
                    if quotas.get("code").is_some() { Err(quotas) } else { Ok(quotas) }
                } else {
                    let bytes = http_body_util::BodyExt::collect(request.into_body()).await.unwrap().to_bytes();
                    admit(admitted(&serde_json::from_slice(&bytes).unwrap()))
                };
                let (status, body) = match answer {
                    Ok(body) => (200, body),
                    Err(status) => (u16::try_from(status["code"].as_u64().unwrap()).unwrap(), status),
                };
                Response::builder().status(status).body(Body::from(serde_json::to_vec(&body).unwrap()))
            }
        });
        let client = Client::new(service, "default");
        let probe = Probe::new(client, "registry.example/pause".to_owned(), standing, Clock::system());
        (server, probe)
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn no_quotas() -> Value {
    json!({"kind": "ResourceQuotaList", "apiVersion": "v1", "metadata": {}, "items": []})
}

fn refusal(code: u16, reason: &str, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code})
}

/// Plans of nodes with these Pods on each.
fn plans(nodes: &[&str], pods: &[(&str, Value)]) -> Vec<Planned> {
    let on = |node: &&str| {
        let node = (*node).to_owned();
        pods.iter().map(move |(name, over)| {
            let mut over = over.clone();
            testing::merge(&mut over, &json!({"spec": {"nodeName": node}}));
            testing::pod("shop", &format!("{name}-{node}"), &over)
        })
    };
    let spare = testing::node("spare", &json!({"status": {"allocatable": {"cpu": "400", "pods": "1000"}}}));
    let all = nodes.iter().map(|node| testing::node(node, &json!({}))).chain([spare]);
    let state = testing::state(all, nodes.iter().flat_map(on));
    let options = Options::default();
    let now = testing::CREATED.parse().unwrap();
    let one = |node: &&str| {
        plan::planned(&state, node, &Volumes::default(), &ProviderObjects::default(), &options, now).unwrap()
    };
    nodes.iter().map(one).collect()
}

async fn probed(probe: &Probe, mut plans: Vec<Planned>) -> Vec<Planned> {
    let before: Vec<_> = plans.iter().map(|plan| (plan.plan.blockers.len(), plan.plan.warnings.len())).collect();
    probe.probe(&mut plans, &Options::default()).await.unwrap();
    for (plan, (blockers, warnings)) in plans.iter_mut().zip(before) {
        plan.plan.blockers.drain(..blockers);
        plan.plan.warnings.drain(..warnings);
    }
    plans
}

/// What is said of one node with one Pod, where its placeholder comes back changed like this.
async fn changed_by(over: Value) -> (Vec<Notice>, Vec<Notice>) {
    let (_, probe) = Server::probe(no_quotas(), Standing::Installed, move |mut pod| {
        testing::merge(&mut pod, &over);
        Ok(pod)
    });
    let port = json!({"spec": {"containers": [{"name": "app", "ports": [{"containerPort": 80, "hostPort": 80}],
        "resources": {"requests": {"cpu": "2"}}}]}});
    let plan = probed(&probe, plans(&["cand"], &[("web", port)])).await.remove(0).plan;
    (plan.blockers, plan.warnings)
}

/// What is said where it is refused with this.
async fn refused_with(standing: Standing, code: u16, reason: &str, message: &str) -> (Vec<Notice>, Vec<Notice>) {
    let answer = refusal(code, reason, message);
    let (_, probe) = Server::probe(no_quotas(), standing, move |_| Err(answer.clone()));
    let plan = probed(&probe, plans(&["cand"], &[("web", json!({}))])).await.remove(0).plan;
    (plan.blockers, plan.warnings)
}

#[tokio::test]
async fn a_placeholder_that_comes_back_as_it_was_sent_is_nothing_to_speak_of() {
    let (blockers, warnings) = changed_by(json!({})).await;
    assert_eq!((blockers, warnings), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn nothing_is_created() {
    let (server, probe) = Server::probe(no_quotas(), Standing::Installed, Ok);
    probed(&probe, plans(&["cand"], &[("web", json!({}))])).await;
    assert_eq!(
        server.asked(),
        [
            "POST /api/v1/namespaces/kubectl-rotate-room/pods?dryRun=All",
            "GET /api/v1/namespaces/kubectl-rotate-room/resourcequotas"
        ]
    );
}

#[tokio::test]
async fn each_kind_of_room_is_asked_about_once_whatever_the_number_of_pods_and_nodes() {
    let (server, probe) = Server::probe(no_quotas(), Standing::Installed, Ok);
    let big = testing::requesting(&json!({"cpu": "1"}));
    let pods = [("a", json!({})), ("b", json!({})), ("c", big)];
    probed(&probe, plans(&["one", "two", "three"], &pods)).await;
    assert_eq!(server.asked().iter().filter(|line| line.starts_with("POST")).count(), 2);
}

#[tokio::test]
async fn no_more_than_twenty_kinds_are_asked_about_and_the_rest_is_said() {
    let (server, probe) = Server::probe(no_quotas(), Standing::Installed, Ok);
    let pods: Vec<_> =
        (1..=23).map(|number| ("web", testing::requesting(&json!({"cpu": format!("{number}m")})))).collect();
    let named: Vec<(String, Value)> =
        pods.into_iter().enumerate().map(|(at, (name, over))| (format!("{name}{at}"), over)).collect();
    let named: Vec<_> = named.iter().map(|(name, over)| (name.as_str(), over.clone())).collect();
    let plan = probed(&probe, plans(&["cand"], &named)).await.remove(0).plan;
    assert_eq!(server.asked().iter().filter(|line| line.starts_with("POST")).count(), 20);
    assert_eq!(plan.warnings.len(), 1, "{:?}", plan.warnings);
    assert_eq!(plan.warnings[0].code, Code::NotProbed);
    assert!(plan.warnings[0].message.contains("of 3 more was not looked at"), "{}", plan.warnings[0].message);
}

#[tokio::test]
async fn whatever_admission_changes_about_where_a_placeholder_may_be_is_a_blocker() {
    let room = |over: Value| json!({"spec": {"containers": [over]}});
    let changes = [
        (
            json!({"spec": {"containers": [
                {"name": "room", "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "2"}}},
                {"name": "istio-proxy", "resources": {"requests": {"cpu": "100m"}}}]}}),
            "container istio-proxy is added; they request 2100m cpu instead of 2",
        ),
        (
            room(json!({"name": "room", "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "2", "memory": "64Mi"}}})),
            "they request 64Mi memory instead of none",
        ),
        (room(json!({"name": "room", "resources": {"requests": {"cpu": "2"}}})), "their host ports are none"),
        (json!({"spec": {"overhead": {"cpu": "250m"}}}), "overhead of a runtime class included"),
        (json!({"spec": {"nodeSelector": {"pool": "infra"}}}), r#"their node selector is "pool=infra""#),
        (
            json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}}}),
            "their affinity is another",
        ),
        (json!({"spec": {"tolerations": [{"operator": "Exists"}]}}), "a toleration of every taint is added"),
        (
            json!({"spec": {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]}}),
            "a topology spread is added",
        ),
        (json!({"spec": {"schedulerName": "volcano"}}), "scheduler volcano places them"),
        (json!({"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}), "scheduling gate kueue"),
        (json!({"spec": {"runtimeClassName": "gvisor"}}), r#"their runtime class is "gvisor""#),
        (json!({"spec": {"nodeName": "n7"}}), "they are bound to node n7"),
        (json!({"spec": {"resourceClaims": [{"name": "gpu"}]}}), "they claim devices"),
        (
            json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}),
            "volume v with a claim is added",
        ),
        (json!({"spec": {"activeDeadlineSeconds": 60}}), "their deadline is 60 s instead of 4800 s"),
        (
            json!({"metadata": {"labels": {"kubectl-rotate.dev/class": "z"}}}),
            r#"label kubectl-rotate.dev/class is "z" instead of "a""#,
        ),
        (
            json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "false"}}}),
            "annotation karpenter.sh/do-not-disrupt is",
        ),
        (json!({"spec": {"priority": 0}}), "their priority is 0 instead of -10: PriorityClass rotate-placeholder"),
        (json!({"spec": {"preemptionPolicy": "PreemptLowerPriority"}}), "they may preempt other Pods"),
        (
            json!({"spec": {"priority": 7, "priorityClassName": "critical"}}),
            r#"they are given PriorityClass "critical" instead of rotate-placeholder"#,
        ),
        (json!({"metadata": {"finalizers": ["example.com/hold"]}}), "finalizer example.com/hold keeps them"),
        (
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "7"}]}}),
            "they end with ConfigMap gone",
        ),
    ];
    for (over, said) in changes {
        let (blockers, _) = changed_by(over.clone()).await;
        let [blocker] = &blockers[..] else { panic!("{over}: {blockers:?}") };
        assert_eq!(blocker.code, Code::PlaceholderRefused);
        assert!(blocker.message.contains(said), "{over}: {}", blocker.message);
        assert!(blocker.message.starts_with("placeholders of class a are changed on the way in: "), "{blocker:?}");
        assert!(!blocker.remedy.is_empty(), "{blocker:?}");
    }
}

#[tokio::test]
async fn what_does_no_harm_is_at_most_a_warning() {
    for (over, said) in [
        (json!({"metadata": {"labels": {"team": "infra"}, "annotations": {"seen": "yes"}}}), None),
        (json!({"spec": {"imagePullSecrets": [{"name": "mirror"}], "priorityClassName": "rotate-placeholder"}}), None),
        (
            json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists",
            "effect": "NoSchedule"}]}}),
            None,
        ),
        (json!({"spec": {"terminationGracePeriodSeconds": 30}}), Some("they may take 30 s to give way")),
        (
            json!({"spec": {"containers": [{"name": "room", "ports": [{"containerPort": 80, "hostPort": 80, "protocol":
                "TCP"}], "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}}]}}),
            // Limits alone stand in for requests: what the API server fills in is what came.
            Some("they get a limit of memory"),
        ),
    ] {
        let (blockers, warnings) = changed_by(over.clone()).await;
        assert_eq!(blockers, [], "{over}");
        let said_so: Vec<_> = warnings.iter().map(|warning| warning.message.as_str()).collect();
        match said {
            None => assert!(said_so.is_empty(), "{over}: {said_so:?}"),
            Some(said) => assert!(said_so.len() == 1 && said_so[0].contains(said), "{over}: {said_so:?}"),
        }
    }
}

#[tokio::test]
async fn a_refusal_is_a_blocker_in_the_api_servers_words_with_a_remedy() {
    let name = names::placeholder_name("probe", "web-cand", 0);
    for (code, reason, why, remedy) in [
        (403, "Forbidden", "violates PodSecurity \"baseline:latest\": hostPort", "pod-security.kubernetes.io/enforce"),
        (403, "Forbidden", "exceeded quota: small, requested: pods=1", "ResourceQuota"),
        (
            422,
            "Invalid",
            "ValidatingAdmissionPolicy 'rotate-room' with binding 'rotate-room' denied request: a placeholder is of the image a",
            "of different versions; kubectl rotate install --apply",
        ),
        (403, "Forbidden", "maximum cpu usage per Container is 1, but limit is 2", "LimitRange"),
        (403, "Forbidden", "no PriorityClass with name rotate-placeholder was found", "kubectl rotate install --apply"),
    ] {
        let message = format!("pods {name:?} is forbidden: {why}");
        let (blockers, _) = refused_with(Standing::Installed, code, reason, &message).await;
        let [blocker] = &blockers[..] else { panic!("{blockers:?}") };
        assert_eq!(blocker.code, Code::PlaceholderRefused);
        assert_eq!(blocker.object, "Namespace kubectl-rotate-room");
        assert_eq!(blocker.message, format!("placeholders of class a are refused: {why}"));
        assert!(blocker.remedy.contains(remedy), "{}", blocker.remedy);
    }
    for (code, reason, message) in [
        (400, "BadRequest", "admission webhook \"guard.example\" denied the request: no pause Pods here"),
        (500, "InternalError", "Internal error occurred: failed calling webhook \"guard.example\": connection refused"),
        (404, "NotFound", "namespaces \"kubectl-rotate-room\" not found"),
    ] {
        let (blockers, _) = refused_with(Standing::Installed, code, reason, message).await;
        let [blocker] = &blockers[..] else { panic!("{blockers:?}") };
        assert!(blocker.message.ends_with(message), "{}", blocker.message);
        assert!(!blocker.remedy.is_empty(), "{message}");
    }
}

#[tokio::test]
async fn a_class_of_other_values_is_told_from_a_webhook_that_sets_others() {
    let name = names::placeholder_name("probe", "web-cand", 0);
    let computed = "must not be provided in pod spec; priority admission controller computed";
    for (what, value, said, remedy) in [
        ("integer value of priority (-10)", "1000", "rotate-placeholder is not ours", "kubectl delete priorityclass"),
        ("integer value of priority (-10)", "-100", "rotate-placeholder is not ours", "kubectl delete priorityclass"),
        (
            "string value of PreemptionPolicy (Never)",
            "PreemptLowerPriority",
            "rotate-placeholder is not ours",
            "kubectl delete priorityclass",
        ),
        ("integer value of priority (7)", "-10", "are refused: the integer value", "exempt namespace"),
        ("string value of PreemptionPolicy (X)", "Never", "are refused: the string value", "exempt namespace"),
    ] {
        let message =
            format!("pods {name:?} is forbidden: the {what} {computed} {value} from the given PriorityClass name");
        let (blockers, _) = refused_with(Standing::Installed, 403, "Forbidden", &message).await;
        let [blocker] = &blockers[..] else { panic!("{blockers:?}") };
        assert!(blocker.message.contains(said) && blocker.remedy.contains(remedy), "{blocker:?}");
    }
}

#[tokio::test]
async fn what_is_missing_stands_in_nobodys_way_who_has_it_created_first() {
    for message in [
        "namespaces \"kubectl-rotate-room\" not found",
        "pods \"room\" is forbidden: no PriorityClass with name rotate-placeholder was found",
    ] {
        for standing in [Standing::ToBeInstalled, Standing::Person] {
            let (blockers, warnings) = refused_with(standing, 404, "NotFound", message).await;
            assert_eq!(blockers, [], "{standing:?}");
            assert_eq!(warnings.iter().map(|warning| warning.code).collect::<Vec<_>>(), [Code::NotProbed]);
        }
    }
}

#[tokio::test]
async fn a_person_who_may_not_create_pods_there_is_told_that_they_were_not_probed() {
    let message = "pods is forbidden: User \"jane\" cannot create resource \"pods\" in API group \"\" in the namespace";
    let (blockers, warnings) = refused_with(Standing::Person, 403, "Forbidden", message).await;
    assert_eq!(blockers, []);
    assert_eq!(warnings[0].code, Code::NotProbed);
    let (blockers, _) = refused_with(Standing::Installed, 403, "Forbidden", message).await;
    assert_eq!(blockers.len(), 1, "an agent that may not create them cannot rotate");
}

#[tokio::test]
async fn a_webhook_without_dry_runs_leaves_it_open() {
    let message = "admission webhook \"audit.example\" does not support dry run";
    let (blockers, warnings) = refused_with(Standing::Installed, 400, "BadRequest", message).await;
    assert_eq!(blockers, []);
    assert_eq!(warnings[0].code, Code::NotProbed);
    assert!(warnings[0].message.contains("audit.example"), "{}", warnings[0].message);
}

#[tokio::test]
async fn a_placeholder_of_that_name_that_is_there_was_let_in() {
    let (blockers, warnings) =
        refused_with(Standing::Installed, 409, "AlreadyExists", "pods \"x\" already exists").await;
    assert_eq!((blockers, warnings), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn an_api_server_that_is_throttling_or_down_is_no_verdict() {
    for (code, reason) in [(429, "TooManyRequests"), (503, "ServiceUnavailable"), (401, "Unauthorized")] {
        let answer = refusal(code, reason, "later");
        let (_, probe) = Server::probe(no_quotas(), Standing::Installed, move |_| Err(answer.clone()));
        let failed = probe.probe(&mut plans(&["cand"], &[("web", json!({}))]), &Options::default()).await;
        assert!(matches!(failed, Err(ProbeError::Api(_))), "{code}: {failed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_was_just_made_gets_its_service_account_first() {
    let tries = Arc::new(Mutex::new(0));
    let (_, probe) = Server::probe(no_quotas(), Standing::Installed, move |pod| {
        let mut tries = tries.lock().unwrap();
        *tries += 1;
        let message = "pods \"x\" is forbidden: error looking up service account kubectl-rotate-room/default";
        if *tries < 4 { Err(refusal(403, "Forbidden", message)) } else { Ok(pod) }
    });
    let plan = probed(&probe, plans(&["cand"], &[("web", json!({}))])).await.remove(0).plan;
    assert_eq!(plan.blockers, []);
}

#[tokio::test]
async fn a_quota_that_lets_one_in_but_not_all_is_a_blocker_with_numbers() {
    let quotas = json!({"items": [
        {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "3", "requests.cpu": "10"}},
            "status": {"hard": {"pods": "3", "requests.cpu": "10"}, "used": {"pods": "2", "requests.cpu": "1"}}},
        {"metadata": {"name": "gpu"}, "spec": {"hard": {"requests.nvidia.com/gpu": "0"}}},
        {"metadata": {"name": "other"}, "spec": {"hard": {"pods": "0"}, "scopes": ["NotTerminating"]}},
        {"metadata": {"name": "others"}, "spec": {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions":
            [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}}}]});
    let (_, probe) = Server::probe(quotas, Standing::Installed, Ok);
    let pods = [("a", json!({})), ("b", testing::requesting(&json!({"cpu": "1"})))];
    let plan = probed(&probe, plans(&["cand"], &pods)).await.remove(0).plan;
    let [blocker] = &plan.blockers[..] else { panic!("{:?}", plan.blockers) };
    assert_eq!(blocker.code, Code::PlaceholderRefused);
    assert_eq!(blocker.object, "ResourceQuota kubectl-rotate-room/small");
    assert_eq!(blocker.message, "has no room for all placeholders: pods is 3, 2 are used and 2 are needed");
}

#[tokio::test]
async fn quotas_that_may_not_be_read_are_said() {
    let (_, probe) = Server::probe(refusal(403, "Forbidden", "no"), Standing::Installed, Ok);
    let plan = probed(&probe, plans(&["cand"], &[("web", json!({}))])).await.remove(0).plan;
    assert_eq!(plan.blockers, []);
    assert_eq!(plan.warnings.iter().map(|warning| warning.code).collect::<Vec<_>>(), [Code::NotProbed]);
}

#[tokio::test]
async fn nothing_is_asked_where_nothing_is_reserved() {
    let (server, probe) = Server::probe(no_quotas(), Standing::Installed, Ok);
    probed(&probe, plans(&["cand"], &[])).await;
    assert!(server.asked().is_empty());
}
