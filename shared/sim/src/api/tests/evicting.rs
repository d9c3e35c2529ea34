//! Evictions, case by case.

use super::*;

struct Shop {
    sim: Sim,
}

impl Shop {
    /// Pods `web` behind these budgets.
    async fn open(replicas: u32, budgets: &[Value]) -> Self {
        let sim = web(replicas).await;
        for budget in budgets {
            sim.create(budget.clone());
        }
        sim.run_for(Duration::from_secs(1)).await;
        Self { sim }
    }

    fn pod(&self, at: usize) -> Value {
        self.sim.list("pods").remove(at)
    }

    async fn evict(&self, pod: &Value, options: Value) -> (u16, Value) {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options,
        });
        post(&self.sim, &format!("/api/v1/namespaces/default/pods/{name}/eviction"), &eviction).await
    }

    fn allowed(&self) -> i64 {
        let budget = self.sim.list("poddisruptionbudgets").remove(0);
        budget["status"]["disruptionsAllowed"].as_i64().unwrap()
    }
}

fn budget(name: &str, min: i64) -> Value {
    disruption_budget(name, "default", "web", "minAvailable", json!(min))
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_goes_with_its_grace_and_says_why() {
    let shop = Shop::open(2, &[]).await;
    let pod = shop.pod(0);
    let (code, status) = shop.evict(&pod, Value::Null).await;
    assert_eq!((code, &status["status"]), (201, &json!("Success")));
    let name = pod["metadata"]["name"].as_str().unwrap();
    let going = shop.sim.get("pods", "default", name).unwrap();
    assert_eq!(going["metadata"]["deletionGracePeriodSeconds"], 30);
    let conditions = going["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|c| c["type"] == "DisruptionTarget" && c["reason"] == "EvictionByEvictionAPI"));
    shop.sim.run_for(Duration::from_secs(30)).await;
    assert!(shop.sim.get("pods", "default", name).is_none());
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let log = shop.sim.log();
    let position = |wanted: Event| log.iter().position(|entry| entry.event == wanted).unwrap();
    let (evicted, deleted) = (Event::PodEvicted { uid: uid.to_owned() }, Event::PodDeleted { uid: uid.to_owned() });
    assert!(position(evicted) < position(deleted));
}

#[tokio::test(start_paused = true)]
async fn a_budget_with_nothing_to_give_answers_429_with_its_cause_and_no_retry_after() {
    let shop = Shop::open(6, &[budget("a", 6)]).await;
    let (code, status) = shop.evict(&shop.pod(0), Value::Null).await;
    assert_eq!(code, 429);
    assert_eq!(status["reason"], "TooManyRequests");
    assert_eq!(status["message"], "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(
        status["details"],
        json!({"causes": [{
            "reason": "DisruptionBudget",
            "message": "The disruption budget a needs 6 healthy pods and has 6 currently",
        }]})
    );
}

#[tokio::test(start_paused = true)]
async fn a_throttling_server_says_when_to_come_back_and_names_no_budget() {
    let shop = Shop::open(1, &[]).await;
    shop.sim.faults().add(crate::Fault {
        method: "POST".to_owned(),
        path: "/eviction".to_owned(),
        times: 1,
        effect: crate::Effect::Status { code: 429, retry_after: Some(3) },
    });
    let (code, status) = shop.evict(&shop.pod(0), Value::Null).await;
    assert_eq!((code, &status["details"]), (429, &json!({"retryAfterSeconds": 3})));
}

#[tokio::test(start_paused = true)]
async fn two_budgets_over_a_pod_answer_500() {
    let shop = Shop::open(3, &[budget("a", 1), budget("b", 1)]).await;
    let (code, status) = shop.evict(&shop.pod(0), Value::Null).await;
    assert_eq!(code, 500);
    assert_eq!(
        status["message"],
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
}

#[tokio::test(start_paused = true)]
async fn a_wrong_uid_answers_409_and_the_pod_stays() {
    let shop = Shop::open(1, &[]).await;
    let pod = shop.pod(0);
    let (code, status) = shop.evict(&pod, json!({"preconditions": {"uid": "somebody-else"}})).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    assert_eq!(shop.pod(0)["metadata"]["resourceVersion"], pod["metadata"]["resourceVersion"]);
    let right = json!({"preconditions": {"uid": pod["metadata"]["uid"]}});
    assert_eq!(shop.evict(&pod, right).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn a_misspelt_precondition_is_ignored() {
    let shop = Shop::open(1, &[]).await;
    let name = shop.pod(0)["metadata"]["name"].as_str().unwrap().to_owned();
    let eviction = json!({"metadata": {"name": name}, "delete_options": {"preconditions": {"uid": "somebody-else"}}});
    let path = format!("/api/v1/namespaces/default/pods/{name}/eviction");
    assert_eq!(post(&shop.sim, &path, &eviction).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_answers_404() {
    let shop = Shop::open(0, &[]).await;
    let gone = json!({"metadata": {"name": "gone"}});
    let (code, status) = shop.evict(&gone, Value::Null).await;
    assert_eq!((code, &status["message"]), (404, &json!("pods \"gone\" not found")));
}

#[tokio::test(start_paused = true)]
async fn a_webhook_refuses_in_its_own_words() {
    let shop = Shop::open(1, &[]).await;
    shop.sim.faults().deny("POST", "/eviction", "the operator is rolling this Pod", 1);
    let (code, status) = shop.evict(&shop.pod(0), Value::Null).await;
    assert_eq!(code, 403);
    assert!(status["message"].as_str().unwrap().ends_with("denied the request: the operator is rolling this Pod"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_evicted_from_a_namespace_that_is_going() {
    let shop = Shop::open(1, &[]).await;
    shop.sim.edit("namespaces", "", "default", |namespace| {
        namespace["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    let (code, status) = shop.evict(&shop.pod(0), Value::Null).await;
    assert_eq!((code, &status["details"]["causes"][0]["reason"]), (403, &json!("NamespaceTerminating")));
}

#[tokio::test(start_paused = true)]
async fn the_budget_is_spent_at_once_and_given_back_when_the_replacement_is_ready() {
    let shop = Shop::open(4, &[budget("a", 2)]).await;
    assert_eq!(shop.allowed(), 2);
    // No controller runs between these requests.
    let store_only = |at: usize| shop.evict_now(at);
    assert_eq!(store_only(0).await, 201);
    assert_eq!(store_only(1).await, 201);
    assert_eq!(store_only(2).await, 429);
    shop.sim.run_for(Duration::from_millis(500)).await;
    assert_eq!(shop.allowed(), 0, "replacements start for 1 s");
    shop.sim.run_for(Duration::from_secs(5)).await;
    assert_eq!(shop.allowed(), 2);
}

impl Shop {
    async fn evict_now(&self, at: usize) -> u16 {
        let pod = self.pod(at);
        self.evict(&pod, Value::Null).await.0
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_asks_the_budget_and_spends_nothing() {
    let open = Shop::open(3, &[budget("a", 2)]).await;
    let dry = json!({"dryRun": ["All"]});
    assert_eq!(open.evict(&open.pod(0), dry.clone()).await.0, 201);
    assert_eq!(open.evict(&open.pod(1), dry.clone()).await.0, 201);
    assert_eq!(open.allowed(), 1);
    assert_eq!(open.sim.list("pods").len(), 3);
    let closed = Shop::open(2, &[budget("a", 2)]).await;
    assert_eq!(closed.evict(&closed.pod(0), dry).await.0, 429);
}

#[tokio::test(start_paused = true)]
async fn pending_ended_and_terminating_pods_go_whatever_the_budget_says() {
    let shop = Shop::open(1, &[budget("a", 1)]).await;
    assert_eq!(shop.evict(&shop.pod(0), Value::Null).await.0, 429);
    for change in [json!({"phase": "Pending"}), json!({"phase": "Failed"}), json!({"phase": "Succeeded"})] {
        let shop = Shop::open(1, &[budget("a", 1)]).await;
        let pod = shop.pod(0);
        let name = pod["metadata"]["name"].as_str().unwrap();
        shop.sim.edit("pods", "default", name, |pod| pod["status"]["phase"] = change["phase"].clone());
        assert_eq!(shop.evict(&pod, Value::Null).await.0, 201, "{change}");
    }
    let pod = shop.pod(0);
    shop.sim.delete("pods", "default", pod["metadata"]["name"].as_str().unwrap());
    assert_eq!(shop.evict(&pod, Value::Null).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn an_unready_pod_goes_only_where_the_policy_or_enough_healthy_ones_let_it() {
    let unready = |shop: &Shop| {
        let pod = shop.pod(0);
        shop.sim.edit("pods", "default", pod["metadata"]["name"].as_str().unwrap(), |pod| {
            for condition in pod["status"]["conditions"].as_array_mut().unwrap() {
                if condition["type"] == "Ready" {
                    condition["status"] = json!("False");
                }
            }
            pod["metadata"]["annotations"][crate::READY_AFTER] = json!("never");
        });
        pod
    };
    let mut always = budget("a", 2);
    always["spec"]["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow");
    for (budget, expected) in [(budget("a", 2), 429), (always, 201), (budget("a", 1), 201)] {
        let shop = Shop::open(2, std::slice::from_ref(&budget)).await;
        let pod = unready(&shop);
        shop.sim.run_for(Duration::from_millis(10)).await;
        assert_eq!(shop.evict(&pod, Value::Null).await.0, expected, "{budget}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_nobody_has_looked_at_yet_asks_to_come_back() {
    let shop = Shop::open(2, &[]).await;
    shop.sim.create(budget("new", 1));
    let (code, status) = shop.evict(&shop.pod(0), Value::Null).await;
    assert_eq!(code, 429);
    assert_eq!(status["details"]["retryAfterSeconds"], 10);
    assert_eq!(
        status["details"]["causes"][0]["message"],
        "The disruption budget new is still being processed by the server."
    );
}
