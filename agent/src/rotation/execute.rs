//! Carries effects out. Each is one call or a few; what came of it goes into [`super::memory::Memory`] (`answers`).

mod answers;
pub(super) mod gate;
mod listen;
pub(super) mod marks;
mod remove;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use rotate_shared::{Amounts, names};
use serde_json::Value;

use self::gate::Gate;
use super::effect::{Effect, Reservation};
use super::observation::PassedOver;
use super::progress;
use super::record::{Record, RoomClass};
use crate::cache::decode::{self, DecodeError, Workload};
use crate::cache::feed::{self, FeedError};
use crate::cache::volumes::{AttachLimits, Claim, ClaimKey};
use crate::cache::{Owner, Pod, Resources};
use crate::client::said;
use crate::clock::Clock;
use crate::drain::evict::{self, Answer, EvictError, Eviction};
use crate::provider::cluster_api::{self, ManagementError};
use crate::provider::cluster_autoscaler::hook::{Hook, Refusal};
use crate::provider::{About, Order, ProviderObjects, ReadError, Reader, Removal};
use crate::surge::classify;
use crate::surge::constraints::Placement;
use crate::surge::placeholder::{self, Placeholder};
use crate::surge::told::AllTold;

/// How often it is looked whether the Pod that wakes the scheduler is bound, and how many times: 3 s in all.
const WAKE_EVERY: Duration = Duration::from_millis(50);
const WAKE_LOOKS: u32 = 60;

/// What effects are carried out with.
#[derive(Clone)]
pub(super) struct Executor {
    pub(super) client: Client,
    pub(super) reader: Reader,
    /// The image of placeholders.
    pub(super) image: String,
    /// How long one effect may take.
    pub(super) timeout: Duration,
    /// The cache does not read every Pod: what it would miss is asked for.
    pub(super) scoped: bool,
    /// What ends machines, where there is such a hook.
    pub(super) hook: Option<Hook>,
    pub(super) clock: Clock,
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("image", &self.image).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// For which rotation an effect is carried out.
#[derive(Clone, Debug, Default)]
pub(super) struct Subject {
    pub(super) rotation: String,
    pub(super) node: String,
    pub(super) node_uid: String,
    /// Seconds after which placeholders end by themselves.
    pub(super) deadline_seconds: i64,
    /// How the node is being taken away.
    pub(super) removal: Option<Removal>,
    /// What was ordered.
    pub(super) order: Option<Order>,
    /// What its evictions pass.
    pub(super) gate: Gate,
}

impl Subject {
    pub(super) fn of(record: &Record, gate: &Gate) -> Self {
        Self {
            rotation: record.id.clone(),
            node: record.node.clone(),
            node_uid: record.node_uid.clone(),
            deadline_seconds: placeholder::deadline_seconds(&record.options),
            removal: record.removal.clone(),
            order: record.order.clone(),
            gate: gate.clone(),
        }
    }
}

/// What came of an effect.
#[derive(Debug)]
pub(super) enum Done {
    Marked(bool),
    Listed {
        /// UIDs of the Pods that are bound to the node.
        bound: BTreeSet<String>,
        /// `namespace/name` of Pods that the scheduler intends to put there; only what the cache would miss.
        arriving: Vec<String>,
    },
    Volumes(Vec<(ClaimKey, Claim)>, BTreeMap<Box<str>, AttachLimits>),
    Owner(Owner, Option<Workload>),
    Reserved(Reservation, String),
    /// The name is taken: an earlier placeholder that the cache does not show any more, or not yet.
    NameTaken(Reservation),
    Released(String),
    Answered(Eviction, Answer),
    /// It was not asked for: another was refused a moment ago, or it had waited for long.
    Withheld(Eviction),
    Woken(PassedOver),
    Heard(AllTold),
    /// A node that came for us, by UID, carries our protection, or does not any more.
    Protected(String, bool),
    GivenBack(String),
    Provider(Arc<ProviderObjects>),
    /// The removal was accepted.
    Removing,
    /// A node was ordered.
    Ordered,
    /// What was ordered was settled.
    Settled,
}

/// Why an effect failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExecuteError {
    #[error("{}", said(.0))]
    Api(#[from] kube::Error),
    #[error("{0}")]
    Evict(#[from] EvictError),
    #[error("{0}")]
    Feed(#[from] FeedError),
    #[error("{0}")]
    Decode(#[from] DecodeError),
    #[error("{0}")]
    Provider(#[from] ReadError),
    #[error("{0}")]
    Hook(#[from] Refusal),
    #[error("{0}")]
    Management(#[from] ManagementError),
    #[error("no management cluster is known: start the agent with --management-kubeconfig")]
    NoManagement,
    #[error("no call of ours takes it away")]
    NoCall,
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("it is not node {0} that the rotation began with")]
    OtherNode(String),
    #[error("the request cannot be built: {0}")]
    Request(#[from] http::Error),
    #[error("the answer cannot be read: {0}")]
    Json(#[from] serde_json::Error),
}

impl ExecuteError {
    fn status(&self) -> Option<u16> {
        match self {
            Self::Api(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }
}

// === impl Executor ===

impl Executor {
    /// Carries an effect out.
    pub(super) async fn execute(&self, subject: &Subject, effect: &Effect) -> Result<Done, ExecuteError> {
        let work = self.call(subject, effect);
        match tokio::time::timeout(self.timeout, work).await {
            Ok(done) => done,
            Err(_) => Err(ExecuteError::TimedOut(self.timeout)),
        }
    }

    async fn call(&self, subject: &Subject, effect: &Effect) -> Result<Done, ExecuteError> {
        match effect {
            Effect::Mark => {
                self.patch_node(&subject.node, &subject.node_uid, |node| marks::put(node, &subject.rotation)).await?;
                Ok(Done::Marked(true))
            }
            Effect::Unmark { uncordon } => {
                self.patch_node(&subject.node, &subject.node_uid, |node| {
                    marks::take_off(node, &subject.rotation, *uncordon)
                })
                .await?;
                Ok(Done::Marked(false))
            }
            Effect::List => {
                let pods = feed::list_node_pods(&self.client, &subject.node).await?;
                let arriving = if self.scoped { self.arriving(&subject.node).await? } else { Vec::new() };
                Ok(Done::Listed { bound: pods.iter().map(|pod| pod.uid.to_string()).collect(), arriving })
            }
            Effect::ReadVolumes(claims) => {
                let read = feed::claims(&self.client, claims.iter().cloned().collect()).await?;
                // A Pod may outlive its claim. Nothing is known that would keep it here.
                let claims = read.into_iter().map(|(key, claim)| (key, claim.unwrap_or(Claim::Unbound)));
                let claims: Vec<_> = claims.collect();
                let limits = feed::attach_limits(&self.client, claims.iter().map(|(_, claim)| claim)).await?;
                Ok(Done::Volumes(claims, limits))
            }
            Effect::ReadOwner { namespace, owner } => {
                Ok(Done::Owner(owner.clone(), self.read_owner(namespace, owner).await?))
            }
            Effect::Reserve(reservation) => self.reserve(subject, reservation).await,
            Effect::Release { name, uid } => {
                let pods: Api<ApiPod> = Api::namespaced(self.client.clone(), names::ROOM_NAMESPACE);
                let params = DeleteParams {
                    grace_period_seconds: Some(0),
                    preconditions: Some(Preconditions { uid: Some(uid.clone()), resource_version: None }),
                    ..DeleteParams::default()
                };
                gone_is_fine(pods.delete(name, &params).await.map(drop))?;
                Ok(Done::Released(uid.clone()))
            }
            Effect::Evict(eviction) => {
                let Some(pass) = subject.gate.enter(self.clock).await else {
                    return Ok(Done::Withheld(eviction.clone()));
                };
                let answer = evict::evict(&self.client, eviction).await?;
                if answer.is_refusal() {
                    pass.refused(self.clock.now());
                }
                Ok(Done::Answered(eviction.clone(), answer))
            }
            Effect::Wake(pod) => self.wake(subject, pod).await,
            Effect::Listen(uids) => Ok(Done::Heard(listen::listen(&self.client, &subject.rotation, uids).await?)),
            Effect::Protect { node, uid } => {
                self.patch_node(node, uid, |node| marks::protect(node, &subject.rotation)).await?;
                Ok(Done::Protected(uid.clone(), true))
            }
            Effect::Unprotect { node, uid } => {
                self.patch_node(node, uid, |node| marks::take_off(node, &subject.rotation, false)).await?;
                Ok(Done::Protected(uid.clone(), false))
            }
            Effect::GiveBack { node, uid, removal } => {
                // A Pod may have landed since it was last seen, or another rotation's placeholder.
                let others =
                    |pod: &Pod| pod.labels.get(names::ROTATION).is_some_and(|id| id != subject.rotation.as_str());
                let used = |pod: &Pod| classify::is_real(pod) || pod.is_placeholder() && others(pod);
                if !feed::list_node_pods(&self.client, node).await?.iter().any(used) {
                    self.remove(subject, node, uid, removal).await?;
                }
                Ok(Done::GivenBack(uid.clone()))
            }
            Effect::ReadProvider => {
                let nodes = [&*subject.node];
                let (removal, order) = (subject.removal.as_ref(), subject.order.as_ref());
                let objects = self.reader.read_about(&About { nodes: &nodes, removal, order }).await?;
                Ok(Done::Provider(Arc::new(objects)))
            }
            Effect::Remove(Removal::Hook { provider_id }) => {
                let hook = self.hook.as_ref().ok_or(ExecuteError::NoCall)?;
                hook.ask(&subject.node, provider_id, &subject.rotation, self.clock.now()).await?;
                Ok(Done::Removing)
            }
            Effect::Remove(removal) => {
                self.remove(subject, &subject.node, &subject.node_uid, removal).await.map(|()| Done::Removing)
            }
            Effect::Order(order) => {
                let deployment = cluster_api::ordered_of(order);
                self.management()?.order(&subject.rotation, &deployment).await?;
                Ok(Done::Ordered)
            }
            Effect::Settle(settlement) => {
                self.management()?.settle(&subject.rotation, settlement).await?;
                Ok(Done::Settled)
            }
        }
    }

    /// Pods of any namespace that the scheduler intends to put on a node and has not bound.
    async fn arriving(&self, node: &str) -> Result<Vec<String>, ExecuteError> {
        let nominated =
            format!("status.nominatedNodeName={node},spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed");
        let pods = Api::<ApiPod>::all(self.client.clone());
        let pods = pods.list_metadata(&ListParams::default().fields(&nominated)).await?.items.into_iter();
        let pods = pods.filter(|pod| pod.metadata.namespace.as_deref() != Some(names::ROOM_NAMESPACE));
        let path = |pod: PartialObjectMeta<ApiPod>| {
            format!("{}/{}", pod.metadata.namespace.unwrap_or_default(), pod.metadata.name.unwrap_or_default())
        };
        Ok(pods.map(path).collect())
    }

    /// Reads the node, and patches it if there is anything to change. The patch carries the resourceVersion: a cordon
    /// that somebody sets in between is seen.
    async fn patch_node(
        &self,
        name: &str,
        uid: &str,
        change: impl Fn(&Value) -> Option<Value>,
    ) -> Result<(), ExecuteError> {
        let path = format!("/api/v1/nodes/{name}");
        for attempt in 0.. {
            let text = match self.get(&path).await {
                Ok(text) => text,
                // The next observation shows it.
                Err(error) if error.status() == Some(404) => return Ok(()),
                Err(error) => return Err(error),
            };
            let node: Value = serde_json::from_str(&text)?;
            if node["metadata"]["uid"].as_str() != Some(uid) {
                return Err(ExecuteError::OtherNode(name.to_owned()));
            }
            let Some(patch) = change(&node) else { return Ok(()) };
            let request = Request::patch(&path).header("content-type", "application/merge-patch+json");
            let request = request.body(serde_json::to_vec(&patch)?)?;
            match self.client.request_text(request).await {
                Err(kube::Error::Api(status)) if status.code == 409 && attempt < 3 => {}
                done => return Ok(done.map(drop)?),
            }
        }
        Ok(())
    }

    /// What an owner wants. A ReplicaSet of a Deployment wants what the Deployment does: during a rollout its own
    /// replicas sink while another's rise.
    async fn read_owner(&self, namespace: &str, owner: &Owner) -> Result<Option<Workload>, ExecuteError> {
        let Some(path) = progress::path(namespace, owner) else { return Ok(Some(Workload::default())) };
        let workload = match self.get(&path).await {
            Ok(text) => decode::workload(&text)?,
            Err(error) if error.status() == Some(404) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(top) = &workload.owner else { return Ok(Some(workload)) };
        let Some(path) = progress::path(namespace, top) else { return Ok(Some(workload)) };
        match self.get(&path).await {
            Ok(text) => Ok(Some(Workload { owner: workload.owner, ..decode::workload(&text)? })),
            Err(error) if error.status() == Some(404) => Ok(Some(Workload { owner: None, ..workload })),
            Err(error) => Err(error),
        }
    }

    async fn reserve(&self, subject: &Subject, reservation: &Reservation) -> Result<Done, ExecuteError> {
        let pods: Api<ApiPod> = Api::namespaced(self.client.clone(), names::ROOM_NAMESPACE);
        let class = &reservation.class;
        let pod = placeholder::manifest(&Placeholder {
            name: reservation.name.clone(),
            rotation: subject.rotation.clone(),
            class: class.id.clone(),
            pod_uid: reservation.pod_uid.clone(),
            requests: Resources::from(&class.requests),
            placement: class.placement.clone(),
            deadline_seconds: subject.deadline_seconds,
            image: self.image.clone(),
        });
        match pods.create(&PostParams::default(), &pod).await {
            Ok(pod) => Ok(Done::Reserved(reservation.clone(), pod.metadata.uid.unwrap_or_default())),
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(Done::NameTaken(reservation.clone())),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a Pod that asks for nothing, and deletes it once it is bound: the scheduler looks again at Pods that wait
    /// when a bound Pod is deleted.
    async fn wake(&self, subject: &Subject, pod: &PassedOver) -> Result<Done, ExecuteError> {
        let pods: Api<ApiPod> = Api::namespaced(self.client.clone(), names::ROOM_NAMESPACE);
        let name = waking_name(&subject.rotation, pod);
        let class = RoomClass { id: "wake".to_owned(), requests: Amounts::new(), placement: Placement::default() };
        let reservation = Reservation { name: name.clone(), pod_uid: pod.uid.clone(), class };
        self.reserve(subject, &reservation).await?;
        // A list, for which the right is there already.
        let unbound = ListParams::default().fields(&format!("metadata.name={name},spec.nodeName="));
        let mut tick = tokio::time::interval(WAKE_EVERY);
        for _ in 0..WAKE_LOOKS {
            tick.tick().await;
            if pods.list_metadata(&unbound).await?.items.is_empty() {
                break;
            }
        }
        let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        gone_is_fine(pods.delete(&name, &at_once).await.map(drop))?;
        Ok(Done::Woken(pod.clone()))
    }

    async fn get(&self, path: &str) -> Result<String, ExecuteError> {
        Ok(self.client.request_text(Request::get(path).body(Vec::new())?).await?)
    }
}

/// The name of the Pod that wakes the scheduler for another.
fn waking_name(rotation: &str, pod: &PassedOver) -> String {
    names::placeholder_name(rotation, &format!("wake {}", pod.uid), pod.attempt)
}

/// Deleting what is gone, or what another object has replaced under its name, is done.
fn gone_is_fine(result: kube::Result<()>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
