//! The agent in its Pods, reached as people reach it: through the API server, with the rights of the manifests.
//!
//! ```text
//!  binary ──▶ (a proxy that can be cut) ──▶ kube-apiserver ──▶ kwok, the kubelet of both Pods ──▶ the agent
//! ```

use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use rotate_agent::client::production;
use rotate_agent::clock::Clock;
use rotate_agent::{Agent, Config, Listen};
use rotate_shared::names;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::harness::ControlPlane;
use crate::harness::audit::{Mark, Request};
use crate::harness::credentials::User;
use crate::harness::manifests::{IMAGE, create, install, token};
use crate::harness::nodes::{FakeNode, READY_AFTER};
use crate::harness::proxy::Proxy;
use crate::harness::wait::eventually;
use crate::harness::workloads::{self, Workload};
use crate::{SOON, started};

/// Long enough that a rotation is still waited for while its connection is cut, and goes on.
const SLOW_START: &str = "6";

pub(crate) async fn the_agent_is_reached_through_the_api_server() -> Result<()> {
    let plane = ControlPlane::start().await?;
    let client = plane.client().await?;
    for name in ["one", "two", "three"] {
        FakeNode::new(name).create_ready(&client).await?;
    }
    install(&client).await?;
    let installed = Installed::start(&plane, &client).await?;
    a_status_costs_three_requests(&installed).await?;
    what_is_not_allowed_is_named(&installed).await?;
    a_rotation_is_followed_from_pod_to_pod(&installed).await?;
    Ok(())
}

/// The agent and the people who use it.
pub(crate) struct Installed<'a> {
    plane: &'a ControlPlane,
    client: &'a Client,
    _agent: Agent,
}

impl<'a> Installed<'a> {
    /// Starts it and waits until it and its Pods are ready.
    pub(crate) async fn start(plane: &'a ControlPlane, client: &'a Client) -> Result<Self> {
        let own = plane.kubeconfig_with_token(names::AGENT, &token(client, names::AGENT, None).await?)?;
        let own =
            kube::Config::from_custom_kubeconfig(Kubeconfig::read_from(own)?, &KubeConfigOptions::default()).await?;
        let config = Config { placeholder_image: IMAGE.to_owned(), ..Config::default() };
        let mut agent = Agent::start(config, production(own)?, Clock::system());
        let control = ([127, 0, 0, 1], plane.agent_port()).into();
        let ops = ([127, 0, 0, 1], 0).into();
        agent.listen(Listen { control, authenticate: true, ops }).await?;
        agent.ready().await;
        agent.leads(SOON).await?;
        agents(client, 2).await?;
        Ok(Self { plane, client, _agent: agent })
    }

    /// The kubeconfig of a service account that stands for a person, bound to a Role in the agent's namespace.
    pub(crate) async fn person(&self, name: &str, role: &str) -> Result<PathBuf> {
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), "default");
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        accounts.create(&PostParams::default(), &ServiceAccount { metadata, ..ServiceAccount::default() }).await?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": names::NAMESPACE},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        });
        create(self.client, &binding).await?;
        let token = accounts.create_token_request(name, &PostParams::default(), &Default::default()).await?;
        self.plane.kubeconfig_with_token(name, &token.status.context("a token")?.token)
    }

    /// What that person asked of the API server.
    fn asked(&self, name: &str, since: Mark) -> Result<Vec<Request>> {
        self.plane.audit().of(&format!("system:serviceaccount:default:{name}"), since)
    }
}

async fn a_status_costs_three_requests(installed: &Installed<'_>) -> Result<()> {
    let viewer = installed.person("viewer", "rotate-view").await?;
    for line in [&["status"][..], &["fleet", "-o", "name"], &["plan", "node", "one", "-o", "name"]] {
        let before = installed.plane.audit().mark()?;
        let run = run(&viewer, line).await?;
        ensure!(run.status.success(), "{line:?}: {}", errors(&run));
        let asked = installed.asked("viewer", before)?;
        let mut seen: Vec<_> = asked.iter().map(|request| (request.resource(), request.name())).collect();
        seen.sort();
        ensure!(seen.len() == 3, "{line:?} costs {seen:?}");
        ensure!(seen[0] == ("pods".to_owned(), "") && seen[2] == ("serviceaccounts/token".to_owned(), "rotate-viewer"));
        ensure!(seen[1].0 == "pods/portforward" && seen[1].1.starts_with("rotate-agent-"), "{seen:?}");
        ensure!(asked.iter().all(|request| request.namespace() == names::NAMESPACE), "{asked:?}");
    }
    Ok(())
}

async fn what_is_not_allowed_is_named(installed: &Installed<'_>) -> Result<()> {
    let stranger = installed.plane.kubeconfig_of(User::Nobody);
    refused(&stranger, &["status"], "cannot list resource \"pods\"", "rotate-view").await?;

    let viewer = installed.plane.dir().join("viewer.kubeconfig");
    let refusal = "cannot create resource \"serviceaccounts/token\"";
    refused(&viewer, &["node", "one", "--yes"], refusal, "rotate-operate").await?;

    let half = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": "half", "namespace": names::NAMESPACE},
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
            {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
        ],
    });
    create(installed.client, &half).await?;
    let half = installed.person("half", "half").await?;
    refused(&half, &["status"], "resource \"pods/portforward\"", "rotate-view").await?;

    let elsewhere = run(&installed.plane.kubeconfig_path(), &["status", "--agent-namespace", "default"]).await?;
    ensure!(elsewhere.status.code() == Some(8), "{}", errors(&elsewhere));
    ensure!(errors(&elsewhere).starts_with("error: no agent in namespace default: "), "{}", errors(&elsewhere));
    Ok(())
}

/// A person is told in one line what they may not do, and which Role allows it.
async fn refused(kubeconfig: &Path, line: &[&str], what: &str, role: &str) -> Result<()> {
    let run = run(kubeconfig, line).await?;
    let errors = errors(&run);
    ensure!(run.status.code() == Some(7), "{line:?}: {}: {errors}", run.status);
    ensure!(errors.starts_with("Error from server (Forbidden): ") && errors.lines().count() == 1, "{errors}");
    ensure!(errors.contains(what) && errors.contains(&format!("Role {role} of namespace kubectl-rotate")), "{errors}");
    Ok(())
}

async fn a_rotation_is_followed_from_pod_to_pod(installed: &Installed<'_>) -> Result<()> {
    let client = installed.client;
    let operator = installed.person("operator", "rotate-operate").await?;
    workloads::namespace(client, "shop").await?;
    Workload::new("shop", "web", 2).annotation(READY_AFTER, SLOW_START).deployment(client).await?;
    let pods = workloads::running(client, "shop", "web", 2, SOON).await?;
    let candidate = workloads::node_of(&pods[0]);

    let before = installed.plane.audit().mark()?;
    let proxy = Proxy::to(&installed.plane.server()).await?;
    let mut command = started(&operator, &["node", &candidate, "--yes", "--server", &proxy.url()]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn()?;
    let mut said = BufReader::new(child.stderr.take().context("it is piped")?).lines();
    let mut lines = Vec::new();
    // Room is reserved: whoever follows has the stream of events by now.
    while !lines.last().is_some_and(|line: &String| line.contains(" draining: ")) {
        let line = tokio::time::timeout(SOON, said.next_line()).await.context("no line came")??;
        lines.push(line.with_context(|| format!("it ended: {lines:?}"))?);
    }
    let forwarded = |asked: &[Request]| -> Vec<String> {
        let forwards = asked.iter().filter(|request| request.resource() == "pods/portforward");
        forwards.map(|request| request.name().to_owned()).collect()
    };
    let first = forwarded(&installed.asked("operator", before)?).first().cloned().context("a forward")?;
    let pods = Api::<Pod>::namespaced(client.clone(), names::NAMESPACE);
    pods.delete(&first, &DeleteParams::default().grace_period(0)).await?;
    ensure!(proxy.cut() > 0, "nothing was open");

    while let Some(line) = tokio::time::timeout(SOON, said.next_line()).await.context("no line came")?? {
        lines.push(line);
    }
    let output = child.wait_with_output().await?;
    let done = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && done == format!("node/{candidate} rotated\n"), "{done} {lines:#?}");
    let times = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    ensure!(times("The connection to the agent broke, trying to go on: ") == 1, "{lines:#?}");
    ensure!(times("Following again.") == 1, "{lines:#?}");

    let asked = installed.asked("operator", before)?;
    let last = forwarded(&asked).pop().context("a forward")?;
    ensure!(last != first, "another Pod answers: {asked:#?}");
    let tokens = asked.iter().filter(|request| request.resource() == "serviceaccounts/token").count();
    ensure!(tokens == 1, "one token serves the whole command: {asked:#?}");
    ensure!(asked.iter().all(|request| request.namespace() == names::NAMESPACE), "no discovery: {asked:#?}");
    Ok(())
}

async fn run(kubeconfig: &Path, line: &[&str]) -> Result<Output> {
    let output = started(kubeconfig, line).output();
    Ok(tokio::time::timeout(SOON, output).await.with_context(|| format!("{line:?} takes too long"))??)
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for that many Pods of the agent.
async fn agents(client: &Client, count: usize) -> Result<()> {
    let pods = Api::<Pod>::namespaced(client.clone(), names::NAMESPACE);
    let labels = ListParams::default().labels(names::AGENT_SELECTOR);
    eventually("the agents' Pods", SOON, async || {
        let listed = pods.list(&labels).await?;
        let running = listed.iter().filter(|pod| workloads::is_running(pod));
        Ok((running.count() == count).then_some(()))
    })
    .await
}
