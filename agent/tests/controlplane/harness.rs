//! A real control plane for tests: etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback, with
//! kwok in the place of the kubelets.
//!
//! ```text
//!  test ──▶ kube-apiserver ──▶ etcd          temp dir: certificates, tokens, kubeconfigs,
//!             ▲   ▲    ▲                               one log each, the audit log
//!  controller-┘   │    └─ kwok: nodes Ready, Pods Running, port-forward
//!  manager    scheduler
//! ```
//!
//! The binaries come from `agent/tests/controlplane/build`. Everything stops when the [`ControlPlane`] is dropped; if the
//! test process dies first, a watchdog stops it (see [`process`]).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tempfile::TempDir;

pub(crate) mod audit;
pub(crate) mod autoscaler;
pub(crate) mod credentials;
pub(crate) mod flags;
pub(crate) mod manifests;
pub(crate) mod nodes;
pub(crate) mod ports;
pub(crate) mod process;
pub(crate) mod proxy;
pub(crate) mod wait;
pub(crate) mod workloads;

use audit::AuditLog;
use credentials::{Credentials, User};
use process::{Component, Watchdog};

/// How long one component may take to get ready: ten times what it takes alone on two cores.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A running control plane. Fields drop in order: the watchdog goes first, so that it never signals a pid that is no
/// longer ours, the directory last.
pub(crate) struct ControlPlane {
    watchdog: Watchdog,
    components: Vec<Component>,
    ports: flags::Ports,
    credentials: Credentials,
    dir: TempDir,
}

/// The directory of the built binaries, or `None` where `agent/tests/controlplane/build` has not been run.
pub(crate) fn binaries() -> Option<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agent/tests/controlplane/build");
    let printed = Command::new(script).arg("--print-dir").output().ok()?;
    let path = String::from_utf8(printed.stdout).ok()?;
    printed.status.success().then(|| PathBuf::from(path.trim_end()))
}

// === impl ControlPlane ===

impl ControlPlane {
    /// Starts everything and returns once Pods can be created, scheduled and run.
    pub(crate) async fn start() -> Result<Self> {
        let Some(binaries) = binaries() else {
            bail!("the control plane is not built: run agent/tests/controlplane/build");
        };
        // A second call finds the provider installed, which is as good.
        drop(rustls::crypto::ring::default_provider().install_default());

        let mut dir = tempfile::Builder::new().prefix("rotate-controlplane-").tempdir()?;
        let keep = std::env::var_os("ROTATE_CONTROLPLANE_KEEP").is_some();
        dir.disable_cleanup(keep);
        let ports = flags::Ports::free()?;
        let credentials = Credentials::write(dir.path(), &ports.server())?;
        let watchdog = Watchdog::spawn((!keep).then(|| dir.path()))?;
        let mut plane = Self { watchdog, components: Vec::new(), ports, credentials, dir };

        plane.spawn("etcd", &binaries, plane.ports.etcd_flags(plane.dir()))?;
        plane.spawn("kube-apiserver", &binaries, plane.ports.apiserver_flags(plane.dir())?)?;
        plane.ready("kube-apiserver", plane.ports.apiserver, "/readyz").await?;

        plane.spawn("kube-controller-manager", &binaries, plane.ports.controller_manager_flags(plane.dir()))?;
        plane.spawn("kube-scheduler", &binaries, plane.ports.scheduler_flags(plane.dir()))?;
        plane.spawn("kwok", &binaries, plane.ports.kwok_flags(plane.dir(), &binaries)?)?;
        // The controller manager has no /readyz.
        plane.ready("kube-controller-manager", plane.ports.controller_manager, "/healthz").await?;
        plane.ready("kube-scheduler", plane.ports.scheduler, "/readyz").await?;
        plane.ready("kwok", plane.ports.kwok, "/healthz").await?;
        workloads::default_service_account(&plane.client().await?, "default").await?;
        Ok(plane)
    }

    /// Kills the API server and waits until a new one serves the same data on the same port. Not for a control plane that
    /// other tests share.
    pub(crate) async fn restart_apiserver(&mut self) -> Result<()> {
        let name = "kube-apiserver";
        let component = self.components.iter_mut().find(|component| component.name() == name);
        let component = component.context("the API server was started")?;
        component.restart()?;
        self.watchdog.mind(component.pid())?;
        self.ready(name, self.ports.apiserver, "/readyz").await
    }

    /// The same with these feature gates.
    pub(crate) async fn restart_apiserver_with(&mut self, feature_gates: &str) -> Result<()> {
        let name = "kube-apiserver";
        let at = self.components.iter().position(|component| component.name() == name);
        drop(self.components.remove(at.context("the API server was started")?));
        let mut flags = self.apiserver_flags()?;
        flags.retain(|flag| !flag.starts_with("--feature-gates="));
        flags.push(format!("--feature-gates={feature_gates}"));
        let binaries = binaries().context("the control plane is built")?;
        self.spawn(name, &binaries, flags)?;
        self.ready(name, self.ports.apiserver, "/readyz").await
    }

    /// The API server's URL.
    pub(crate) fn server(&self) -> String {
        self.ports.server()
    }

    /// What its API server was started with.
    pub(crate) fn apiserver_flags(&self) -> Result<Vec<String>> {
        self.ports.apiserver_flags(self.dir())
    }

    /// Writes an object past the API server, as one that an older version of it took.
    pub(crate) async fn put_into_etcd(&self, key: &str, object: &serde_json::Value) -> Result<()> {
        let etcd = Client::try_from(Config::new(format!("http://127.0.0.1:{}", self.ports.etcd).parse()?))?;
        let bytes = |text: String| k8s_openapi::ByteString(text.into_bytes());
        let body = serde_json::json!({ "key": bytes(key.to_owned()), "value": bytes(object.to_string()) });
        let request = http::Request::post("/v3/kv/put").header("content-type", "application/json");
        etcd.request_text(request.body(body.to_string().into_bytes())?).await?;
        Ok(())
    }

    /// The kubeconfig of a member of `system:masters`.
    pub(crate) fn kubeconfig_path(&self) -> PathBuf {
        self.kubeconfig_of(User::Admin)
    }

    /// The kubeconfig of one of the fixed users.
    pub(crate) fn kubeconfig_of(&self, user: User) -> PathBuf {
        self.dir().join(user.kubeconfig())
    }

    /// Writes a kubeconfig for a token obtained elsewhere (a service account's, from TokenRequest).
    pub(crate) fn kubeconfig_with_token(&self, name: &str, token: &str) -> Result<PathBuf> {
        self.credentials.write_kubeconfig(self.dir(), name, &self.server(), token)
    }

    /// The bearer token of a member of `system:masters`.
    pub(crate) fn admin_token(&self) -> &str {
        self.credentials.token(User::Admin)
    }

    /// The PEM file of the authority that signed the API server's certificate.
    pub(crate) fn certificate_authority(&self) -> PathBuf {
        self.dir().join(credentials::CA)
    }

    /// A loopback port that is free for the agent under test: a port-forward to port 8470 of any Pod ends here.
    pub(crate) fn agent_port(&self) -> u16 {
        self.ports.agent
    }

    /// The audit log: every request of everybody, and the bodies of those who aren't a component.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.dir().join(flags::AUDIT_LOG)
    }

    /// The audit log, to be read.
    pub(crate) fn audit(&self) -> AuditLog {
        AuditLog::new(self.audit_log())
    }

    /// The controller manager's log.
    pub(crate) fn controller_manager_log(&self) -> PathBuf {
        self.log("kube-controller-manager")
    }

    /// The log of the component of this name.
    pub(crate) fn log(&self, component: &str) -> PathBuf {
        process::log_path(self.dir(), component)
    }

    /// The process ids of the components, for measurements.
    pub(crate) fn pids(&self) -> Vec<(&'static str, u32)> {
        self.components.iter().map(|component| (component.name(), component.pid())).collect()
    }

    /// A client of a member of `system:masters`. It belongs to the current runtime: each test makes its own.
    pub(crate) async fn client(&self) -> Result<Client> {
        self.client_of(User::Admin).await
    }

    /// A client of one of the fixed users, without kube's own retries: a 429 is seen at once.
    pub(crate) async fn client_of(&self, user: User) -> Result<Client> {
        self.client_to(user, self.server()).await
    }

    /// A client of a member of `system:masters` that reaches the API server by another way.
    pub(crate) async fn client_through(&self, server: String) -> Result<Client> {
        self.client_to(User::Admin, server).await
    }

    async fn client_to(&self, user: User, server: String) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig_of(user))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.cluster_url = server.parse()?;
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    /// Where everything of this control plane is.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn spawn(&mut self, name: &'static str, binaries: &Path, flags: Vec<String>) -> Result<()> {
        let component = Component::spawn(name, &binaries.join(name), &flags, self.dir.path())?;
        self.watchdog.mind(component.pid())?;
        self.components.push(component);
        Ok(())
    }

    /// Waits until the path answers with 200; fails at once when any component has ended.
    async fn ready(&mut self, name: &str, port: u16, path: &str) -> Result<()> {
        let client = self.client_to(User::Admin, flags::url(port)).await?;
        let components = &mut self.components;
        let what = format!("{name} to get ready");
        let waited = wait::eventually(&what, READY_WITHIN, async || {
            for component in components.iter_mut() {
                component.still_running()?;
            }
            let asked = http::Request::get(path).body(Vec::new())?;
            Ok(client.request_text(asked).await.ok())
        });
        let waited = waited.await.map(drop);
        waited.map_err(|error| anyhow!("{error:#}; {}", process::tail(&self.log(name))))
    }
}
