//! One Pod, as everything that decides sees it.

use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;

use super::selector::Labels;
use super::shape::Shape;

mod view;

pub use view::PodView;

/// Annotation of a static Pod's mirror in the API.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
/// The annotations of a Pod that somebody reads: they become fields of its [`Shape`].
pub(super) const KEPT_ANNOTATIONS: &[&str] =
    &[MIRROR, rotate_shared::names::KARPENTER_DO_NOT_DISRUPT, rotate_shared::names::SAFE_TO_EVICT];

/// A Pod, trimmed to what is decided on. Cheap to clone. The index keeps something smaller and builds this on request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.namespace`.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.creationTimestamp`, by the API server's clock, whole seconds.
    pub created: Timestamp,
    /// `metadata.deletionTimestamp`: set once it is shutting down.
    pub deleted: Option<Timestamp>,
    /// `spec.nodeName`.
    pub node: Option<Arc<str>>,
    /// `status.nominatedNodeName`: where the scheduler intends to put it.
    pub nominated: Option<Arc<str>>,
    /// The owner reference with `controller: true`.
    pub owner: Option<Owner>,
    /// `status.phase`.
    pub phase: PodPhase,
    /// The Ready condition is True.
    pub ready: bool,
    /// The message of a False `PodScheduled` condition; kept for placeholders only.
    pub unschedulable: Option<Arc<str>>,
    /// Labels.
    pub labels: Arc<Labels>,
    /// Names of the PersistentVolumeClaims it mounts (ephemeral ones included), in its namespace.
    pub claims: Arc<[Box<str>]>,
    /// What it shares with its siblings.
    pub shape: Arc<Shape>,
}

/// A controlling owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner<S = Arc<str>> {
    /// `apps/v1` and the like.
    pub api_version: S,
    /// `ReplicaSet` and the like.
    pub kind: S,
    /// Its name.
    pub name: S,
    /// Its UID.
    pub uid: S,
}

impl<S: Deref<Target = str>> Owner<S> {
    /// The same with another kind of text.
    pub fn map<'a, T>(&'a self, text: impl Fn(&'a str) -> T) -> Owner<T> {
        Owner {
            api_version: text(&self.api_version),
            kind: text(&self.kind),
            name: text(&self.name),
            uid: text(&self.uid),
        }
    }

    /// Whether it is a `DaemonSet` of the `apps` group.
    #[must_use]
    pub fn is_daemon_set(&self) -> bool {
        &*self.kind == "DaemonSet" && self.api_version.starts_with("apps/")
    }
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    /// Accepted, not started.
    #[default]
    Pending,
    /// Started.
    Running,
    /// All containers ended well.
    Succeeded,
    /// A container ended badly and none will be restarted.
    Failed,
    /// The node does not report.
    Unknown,
}

impl PodPhase {
    /// Whether it has ended: its room is free.
    #[must_use]
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl Pod {
    /// `namespace/name`.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether it is a placeholder of ours.
    #[must_use]
    pub fn is_placeholder(&self) -> bool {
        &*self.namespace == rotate_shared::names::ROOM_NAMESPACE
            && self.labels.contains_key(rotate_shared::names::ROTATION)
    }

    /// Whether every node has one of its own: static, or of a `DaemonSet`.
    #[must_use]
    pub fn comes_with_its_node(&self) -> bool {
        self.shape.mirror || self.owner.as_ref().is_some_and(Owner::is_daemon_set)
    }

    /// Whether it takes room on its node: bound and not finished.
    #[must_use]
    pub fn holds_room(&self) -> bool {
        self.node.is_some() && !self.phase.is_finished()
    }
}
