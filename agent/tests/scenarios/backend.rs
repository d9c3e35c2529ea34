//! The two clusters that a scenario runs on. Everything a scenario does goes through the API; what only one of them
//! needs stays in here.

use anyhow::{Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rotate_agent::clock::Clock;
use rotate_agent::provider::cluster_api::Management;
use rotate_sim::{RequestEntry, Settings, Sim};
use tokio::task::JoinHandle;

use crate::booting::boot_nodes;
use crate::fake::Fake;
use crate::harness::ControlPlane;
use crate::harness::audit::{self, Mark};
use crate::harness::credentials::User;
use crate::karpenter;
use crate::management::{self, ManagementPlane};

/// A cluster.
pub(crate) enum Backend {
    /// In process; time stands still while everything waits. The task is [`boot_nodes`].
    Simulator(Sim, JoinHandle<()>),
    /// Real components on loopback.
    ControlPlane(Box<ControlPlane>, Client),
}

/// A cluster that Cluster API's objects are in, beside the one of the workloads.
pub(crate) struct ManagementCluster {
    /// A client with all rights.
    pub(crate) client: Client,
    /// How an agent reaches it.
    pub(crate) management: Management,
    /// How an agent does not.
    pub(crate) cut_off: Management,
    _plane: Option<ManagementPlane>,
}

impl Backend {
    pub(crate) fn simulator() -> Self {
        let sim = Sim::start(Settings::default());
        let booting = tokio::spawn(boot_nodes(sim.clone()));
        Self::Simulator(sim, booting)
    }

    pub(crate) async fn control_plane() -> Result<Self> {
        let plane = ControlPlane::start().await?;
        let client = plane.client().await?;
        Ok(Self::ControlPlane(Box::new(plane), client))
    }

    /// A client with all rights.
    pub(crate) fn client(&self) -> Client {
        match self {
            Self::Simulator(sim, _) => Client::new(sim.router(), "default"),
            Self::ControlPlane(_, client) => client.clone(),
        }
    }

    /// The client of the agent under test: with all rights, and known to the audit log by its own name.
    pub(crate) async fn agent_client(&self) -> Result<Client> {
        match self {
            Self::Simulator(..) => Ok(self.client()),
            Self::ControlPlane(plane, _) => plane.client_of(User::Agent).await,
        }
    }

    /// Karpenter, in this cluster from now on.
    pub(crate) async fn karpenter(&self) -> Result<Karpenter> {
        match self {
            Self::Simulator(sim, _) => {
                let mut karpenter = Karpenter::Simulated(sim.clone());
                karpenter.restart().await?;
                Ok(karpenter)
            }
            Self::ControlPlane(plane, _) => Ok(Karpenter::Real(Box::new(karpenter::Karpenter::start(plane).await?))),
        }
    }

    /// A management cluster that serves this version of Cluster API.
    pub(crate) async fn management_cluster(&self, version: &'static str) -> Result<ManagementCluster> {
        let Self::ControlPlane(plane, _) = self else {
            let (fake, broken) = (Fake::serving(&[version]), Fake::serving(&[version]));
            broken.fail_with(Some(503));
            return Ok(ManagementCluster {
                client: fake.client(),
                management: Management::client(fake.client()),
                cut_off: Management::client(broken.client()),
                _plane: None,
            });
        };
        let second = ManagementPlane::start(plane, version).await?;
        let nowhere = management::kubeconfig(plane, "nowhere", &management::nobody()?)?;
        Ok(ManagementCluster {
            client: second.client.clone(),
            management: Management::file(&second.kubeconfig),
            cut_off: Management::file(&nowhere),
            _plane: Some(second),
        })
    }

    /// A client as the agent makes it for itself. In process there is no HTTP client whose retries could matter.
    pub(crate) async fn production_client(&self) -> Result<Client> {
        match self {
            Self::Simulator(..) => Ok(self.client()),
            Self::ControlPlane(plane, _) => {
                let kubeconfig = Kubeconfig::read_from(plane.kubeconfig_path())?;
                let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
                Ok(rotate_agent::client::production(config)?)
            }
        }
    }

    /// How many evictions of this Pod the API server has been asked for, and was answered.
    pub(crate) fn evictions_of(&self, name: &str) -> Result<usize> {
        match self {
            Self::Simulator(sim, _) => {
                let path = format!("/pods/{name}/eviction");
                Ok(sim.requests().iter().filter(|request| request.path.ends_with(&path)).count())
            }
            Self::ControlPlane(plane, _) => {
                let uri = format!("/pods/{name}/eviction");
                Ok(plane.audit().since(Mark::default())?.iter().filter(|request| request.uri.contains(&uri)).count())
            }
        }
    }

    /// How often the agent has asked for the end of this NodeClaim: of none but the one with this UID, where the log tells.
    pub(crate) fn claims_deleted(&self, name: &str, uid: &str) -> Result<usize> {
        match self {
            Self::Simulator(sim, _) => {
                let path = format!("/nodeclaims/{name}");
                let is_it = |request: &&RequestEntry| request.method == "DELETE" && request.path.ends_with(&path);
                Ok(sim.requests().iter().filter(is_it).count())
            }
            Self::ControlPlane(plane, _) => {
                let requests = plane.audit().of(User::Agent.name(), Mark::default())?;
                let of_it = |request: &&audit::Request| {
                    request.verb == "delete" && request.resource() == "nodeclaims" && request.name() == name
                };
                let is_it = |request: &&audit::Request| request.request_object["preconditions"]["uid"] == uid;
                Ok(requests.iter().filter(of_it).filter(is_it).count())
            }
        }
    }

    /// A place in the log of what the API server was asked for.
    pub(crate) fn mark(&self) -> Result<Mark> {
        match self {
            Self::Simulator(..) => bail!("the simulator keeps no audit log"),
            Self::ControlPlane(plane, _) => plane.audit().mark(),
        }
    }

    /// What the agent has asked for since then.
    pub(crate) fn agents_requests(&self, since: Mark) -> Result<Vec<audit::Request>> {
        match self {
            Self::Simulator(..) => bail!("the simulator keeps no audit log"),
            Self::ControlPlane(plane, _) => plane.audit().of(User::Agent.name(), since),
        }
    }

    /// The clock that the agent runs by.
    pub(crate) fn clock(&self) -> Clock {
        match self {
            Self::Simulator(sim, _) => Clock::starting_at(sim.now()),
            Self::ControlPlane(..) => Clock::system(),
        }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Self::Simulator(sim, booting) = self {
            booting.abort();
            sim.shutdown();
        }
    }
}

/// A running Karpenter.
pub(crate) enum Karpenter {
    /// The simulator's own.
    Simulated(Sim),
    /// Karpenter itself; killed when this is dropped.
    Real(Box<karpenter::Karpenter>),
}

impl Karpenter {
    /// Kills it.
    pub(crate) fn kill(&mut self) -> Result<()> {
        match self {
            Self::Simulated(sim) => {
                sim.stop_karpenter();
                Ok(())
            }
            Self::Real(karpenter) => karpenter.kill(),
        }
    }

    /// Starts it again, and waits until it works.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        match self {
            Self::Simulated(sim) => {
                // Its nodes get Ready as all others do, by their annotation.
                sim.start_karpenter(rotate_sim::Karpenter { boot: None, ..Default::default() });
                Ok(())
            }
            Self::Real(karpenter) => karpenter.restart().await,
        }
    }
}
