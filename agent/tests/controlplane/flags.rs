//! What each component is started with.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::credentials::{self, User};
use super::ports::claim;

/// The audit log's file name.
pub(crate) const AUDIT_LOG: &str = "audit.log";

/// The stage of kwok's own that one of ours stands for.
const REPLACED: &str = "pod-delete.yaml";
/// The stages of kwok that the tests add to kwok's own: see each file.
const STAGES: [&str; 8] = [
    include_str!("stages/job-slow.yaml"),
    include_str!("stages/node-booting.yaml"),
    include_str!("stages/node-slow.yaml"),
    include_str!("stages/pod-delete.yaml"),
    include_str!("stages/pod-graceful.yaml"),
    include_str!("stages/pod-ready-again.yaml"),
    include_str!("stages/pod-slow.yaml"),
    include_str!("stages/pod-unready.yaml"),
];

/// The loopback ports of one control plane.
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) apiserver: u16,
    pub(crate) controller_manager: u16,
    pub(crate) scheduler: u16,
    pub(crate) kwok: u16,
    /// For the agent under test.
    pub(crate) agent: u16,
}

/// The URL of a loopback port.
pub(crate) fn url(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

// === impl Ports ===

impl Ports {
    /// Ports of this control plane's own.
    pub(crate) fn free() -> Result<Self> {
        Ok(Self {
            etcd: claim()?,
            etcd_peer: claim()?,
            apiserver: claim()?,
            controller_manager: claim()?,
            scheduler: claim()?,
            kwok: claim()?,
            agent: claim()?,
        })
    }

    /// The API server's URL.
    pub(crate) fn server(&self) -> String {
        url(self.apiserver)
    }

    /// etcd: data that nobody needs after the test, so nothing is synced to disk.
    pub(crate) fn etcd_flags(&self, dir: &Path) -> Vec<String> {
        let client = format!("http://127.0.0.1:{}", self.etcd);
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer);
        vec![
            format!("--data-dir={}", dir.join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--unsafe-no-fsync".to_owned(),
        ]
    }

    /// kube-apiserver: RBAC, static tokens, an audit log.
    pub(crate) fn apiserver_flags(&self, dir: &Path) -> Result<Vec<String>> {
        let policy = dir.join("audit-policy.json");
        fs::write(&policy, serde_json::to_vec(&audit_policy())?)?;
        let file = |name: &str| dir.join(name).display().to_string();
        Ok(vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.apiserver),
            format!("--tls-cert-file={}", file(credentials::SERVING_CERTIFICATE)),
            format!("--tls-private-key-file={}", file(credentials::SERVING_KEY)),
            format!("--cert-dir={}", dir.display()),
            "--authorization-mode=RBAC".to_owned(),
            format!("--token-auth-file={}", file(credentials::TOKENS)),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", file(credentials::SERVICE_ACCOUNT_PUBLIC_KEY)),
            format!("--service-account-signing-key-file={}", file(credentials::SERVICE_ACCOUNT_KEY)),
            "--service-cluster-ip-range=10.96.0.0/24".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--feature-gates=ShardedListAndWatch=true".to_owned(),
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", file(AUDIT_LOG)),
        ])
    }

    /// kube-controller-manager: all its controllers.
    pub(crate) fn controller_manager_flags(&self, dir: &Path) -> Vec<String> {
        let mut flags = serving_flags(dir, self.controller_manager, User::ControllerManager);
        flags.extend([
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
            "--node-monitor-period=2s".to_owned(),
            // kwok renews no Lease by default, and its heartbeats are minutes apart: every node would be taken for lost after
            // 50 s. A test that wants a lost node says so (`nodes::lose`).
            "--node-monitor-grace-period=1h".to_owned(),
            format!("--service-account-private-key-file={}", dir.join(credentials::SERVICE_ACCOUNT_KEY).display()),
            format!("--root-ca-file={}", dir.join(credentials::CA).display()),
        ]);
        flags
    }

    /// kube-scheduler, as it is by default.
    pub(crate) fn scheduler_flags(&self, dir: &Path) -> Vec<String> {
        serving_flags(dir, self.scheduler, User::Scheduler)
    }

    /// kwok: kubelet for every node, with a kubelet's port for port-forwards.
    pub(crate) fn kwok_flags(&self, dir: &Path, binaries: &Path) -> Result<Vec<String>> {
        let configuration = dir.join("kwok.yaml");
        fs::write(&configuration, self.kwok_configuration(&binaries.join("stages"))?)?;
        Ok(vec![
            format!("--kubeconfig={}", dir.join(User::Kwok.kubeconfig()).display()),
            format!("--config={}", configuration.display()),
            "--manage-all-nodes".to_owned(),
            "--cidr=10.244.0.0/16".to_owned(),
            "--node-ip=127.0.0.1".to_owned(),
            format!("--node-port={}", self.kwok),
            format!("--server-address=127.0.0.1:{}", self.kwok),
            format!("--tls-cert-file={}", dir.join(credentials::SERVING_CERTIFICATE).display()),
            format!("--tls-private-key-file={}", dir.join(credentials::SERVING_KEY).display()),
        ])
    }

    fn kwok_configuration(&self, upstream: &Path) -> Result<String> {
        let mut documents: Vec<_> = STAGES.iter().map(|&stage| stage.to_owned()).collect();
        for stage in ["node/fast", "node/heartbeat-with-lease", "pod/fast"] {
            for file in fs::read_dir(upstream.join(stage))? {
                let path = file?.path();
                if path.file_name().is_some_and(|name| name != REPLACED) {
                    documents.push(fs::read_to_string(path)?);
                }
            }
        }
        let forward = json!({
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "ClusterPortForward",
            "metadata": {"name": "agent"},
            "spec": {"forwards": [{"ports": [8470], "target": {"address": "127.0.0.1", "port": self.agent}}]},
        });
        documents.push(forward.to_string());
        Ok(documents.join("\n---\n"))
    }
}

fn serving_flags(dir: &Path, port: u16, user: User) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", dir.join(user.kubeconfig()).display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", dir.join(credentials::SERVING_CERTIFICATE).display()),
        format!("--tls-private-key-file={}", dir.join(credentials::SERVING_KEY).display()),
        "--leader-elect=false".to_owned(),
    ]
}

/// One line a request; bodies only of what somebody other than a component writes.
fn audit_policy() -> serde_json::Value {
    let components = [User::ControllerManager, User::Scheduler, User::Kwok, User::Karpenter].map(User::name);
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": true,
        "rules": [
            {"level": "None", "users": ["system:apiserver"]},
            {"level": "Metadata", "users": components},
            {"level": "RequestResponse", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
            {"level": "Metadata"},
        ],
    })
}
