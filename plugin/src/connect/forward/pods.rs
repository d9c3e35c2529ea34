//! The agent's Pods, and lines to them.

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use rotate_agent::clock::Clock;
use rotate_shared::names;
use tokio::io::{AsyncRead, AsyncWrite};

use super::super::api_server::ApiServer;
use super::super::{cluster, token};
use crate::failure::Failure;

/// Bytes to and from a Pod.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection to the control port of a Pod.
pub(super) struct Line {
    /// What goes to and fro.
    pub(super) stream: Box<dyn Stream>,
    /// What is said of it when it breaks.
    pub(super) last_words: BoxFuture<'static, Option<String>>,
}

/// Where agents are.
pub(super) trait Pods: Send + Sync {
    /// The Pods that answer. At least one.
    fn ready(&self) -> BoxFuture<'_, Result<Vec<String>, Failure>>;

    /// A connection to one of them.
    fn open<'a>(&'a self, pod: &'a str) -> BoxFuture<'a, Result<Line, Failure>>;
}

/// Those of a cluster.
pub(super) struct KubePods {
    cluster: ApiServer,
    namespace: String,
    role: &'static str,
    needed: bool,
}

impl KubePods {
    /// In this namespace, for somebody who is meant to be bound to this Role; whether nothing goes on without one of them.
    pub(super) fn new(cluster: ApiServer, namespace: String, role: &'static str, needed: bool) -> Self {
        Self { cluster, namespace, role, needed }
    }

    /// How many Pods its Deployment wants; `None`: there is none, or none that the caller may see.
    async fn wanted(&self) -> Option<i32> {
        let deployments: Api<Deployment> = Api::namespaced(self.cluster.client.clone(), &self.namespace);
        let agent = deployments.get_opt(names::AGENT).await.ok().flatten()?;
        Some(agent.spec.and_then(|spec| spec.replicas).unwrap_or(1))
    }

    /// What the API server does not let the caller do, and what would.
    fn refused(&self, message: &str) -> Failure {
        token::forbidden(message, self.role, &self.namespace)
    }
}

impl Pods for KubePods {
    fn ready(&self) -> BoxFuture<'_, Result<Vec<String>, Failure>> {
        async move {
            let pods: Api<Pod> = Api::namespaced(self.cluster.client.clone(), &self.namespace);
            let agents = ListParams::default().labels(names::AGENT_SELECTOR);
            let listed = cluster::patiently(Clock::system(), || pods.list(&agents)).await;
            let listed = listed.map_err(|error| match error {
                kube::Error::Api(status) if status.code == 403 => self.refused(&status.message),
                error => cluster::refused(error, &self.cluster.server),
            })?;
            // Only where that is the end of the command: a plan goes on without an agent.
            if listed.items.is_empty()
                && self.needed
                && let Some(replicas) = self.wanted().await
            {
                return Err(no_pods(replicas, &self.namespace, &self.cluster.again));
            }
            answering(&listed.items, &self.namespace, &self.cluster.again)
        }
        .boxed()
    }

    fn open<'a>(&'a self, pod: &'a str) -> BoxFuture<'a, Result<Line, Failure>> {
        async move {
            let pods: Api<Pod> = Api::namespaced(self.cluster.patient.clone(), &self.namespace);
            let forwarder = pods.portforward(pod, &[names::CONTROL_PORT]).await;
            let mut forwarder = forwarder.map_err(|error| match error {
                kube::Error::Api(status) if status.code == 403 => self.refused(&status.message),
                kube::Error::Api(status) => Failure::AgentUnreachable(status.message),
                error => cluster::refused(error, &self.cluster.server),
            })?;
            let stream = forwarder.take_stream(names::CONTROL_PORT);
            let last_words = forwarder.take_error(names::CONTROL_PORT);
            let (Some(stream), Some(last_words)) = (stream, last_words) else {
                return Err(Failure::Other("the port-forward has no stream".to_owned()));
            };
            Ok(Line { stream: Box::new(stream), last_words: last_words.boxed() })
        }
        .boxed()
    }
}

/// The names of those that are ready and not about to go.
///
/// # Errors
///
/// There is none: says what to do.
fn answering(pods: &[Pod], namespace: &str, again: &str) -> Result<Vec<String>, Failure> {
    let ready = |pod: &&Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        pod.metadata.deletion_timestamp.is_none()
            && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    let names: Vec<String> = pods.iter().filter(ready).filter_map(|pod| pod.metadata.name.clone()).collect();
    match (pods.len(), names.is_empty()) {
        (_, false) => Ok(names),
        (0, true) => Err(Failure::AgentUnreachable(format!(
            "no agent in namespace {namespace}: install it with kubectl rotate install --apply{again}, or run one inside this \
             command with --embedded"
        ))),
        (count, true) => Err(Failure::AgentUnreachable(format!(
            "{}: see why with kubectl -n {namespace} \
             describe pods -l {}{again}, or run an agent inside this command with --embedded",
            match count {
                1 => format!("the only Pod of the agent in namespace {namespace} is not ready"),
                _ => format!("none of the {count} Pods of the agent in namespace {namespace} is ready"),
            },
            names::AGENT_SELECTOR
        ))),
    }
}

/// It is installed, and has no Pods: installing it is no way out.
fn no_pods(wanted: i32, namespace: &str, again: &str) -> Failure {
    let agent = names::AGENT;
    let why = match wanted {
        0 => format!("is scaled to 0: kubectl -n {namespace} scale deploy/{agent} --replicas=1{again}"),
        _ => format!("has no Pods: see why with kubectl -n {namespace} describe deploy/{agent}{again}"),
    };
    Failure::AgentUnreachable(format!(
        "the agent in namespace {namespace} {why}, or run one inside this command with --embedded"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, ready: &str, leaving: bool) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]},
        });
        if leaving {
            pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z".into();
        }
        serde_json::from_value(pod).expect("a Pod")
    }

    #[test]
    fn only_pods_that_are_ready_and_stay_are_asked() {
        let pods = [pod("a", "True", true), pod("b", "False", false), pod("c", "True", false), pod("d", "True", false)];
        assert_eq!(answering(&pods, "x", "").expect("two"), ["c", "d"]);
    }

    #[test]
    fn an_agent_without_pods_is_not_to_be_installed() {
        assert_eq!(
            no_pods(0, "x", " --context blue").to_string(),
            "the agent in namespace x is scaled to 0: kubectl -n x scale deploy/rotate-agent --replicas=1 --context blue, or \
             run one inside this command with --embedded"
        );
        let none = no_pods(2, "x", "").to_string();
        assert!(none.contains("x has no Pods: see why with kubectl -n x describe deploy/rotate-agent, or"), "{none}");
    }

    #[test]
    fn no_agent_and_none_that_is_ready_are_told_apart() {
        let none = answering(&[], "x", " --context blue").expect_err("there is none");
        assert_eq!(
            (none.exit_code(), none.to_string().as_str()),
            (
                8,
                "no agent in namespace x: install it with kubectl rotate install --apply --context blue, or run one inside \
                 this command with --embedded"
            )
        );
        let unready =
            answering(&[pod("a", "False", false), pod("b", "False", false)], "x", "").expect_err("none is ready");
        assert!(
            unready.to_string().starts_with("none of the 2 Pods of the agent in namespace x is ready: see"),
            "{unready}"
        );
        let unready = answering(&[pod("a", "False", false)], "x", "").expect_err("it is not ready");
        assert_eq!(unready.exit_code(), 8);
        assert!(
            unready.to_string().starts_with("the only Pod of the agent in namespace x is not ready: see why with "),
            "{unready}"
        );
    }
}
