//! What a step asks to be done. Each effect is idempotent and carries the preconditions that make it so.

use rotate_shared::names;

use super::observation::PassedOver;
use super::record::RoomClass;
use crate::cache::Owner;
use crate::cache::volumes::ClaimKey;
use crate::drain::evict::Eviction;
use crate::provider::{Order, Removal, Settlement};

/// One call, or a few that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Cordons the node, marks it as ours and protects it from the autoscaler, in one patch.
    Mark,
    /// Takes our marks and our protection off the node.
    Unmark {
        /// Lifts the cordon too, if it is ours.
        uncordon: bool,
    },
    /// Lists the node's Pods consistently: the barrier behind which nothing is overlooked.
    List,
    /// Reads claims and their volumes.
    ReadVolumes(Vec<ClaimKey>),
    /// Reads what an owner wants.
    ReadOwner {
        /// Its namespace.
        namespace: String,
        /// Which.
        owner: Owner,
    },
    /// Creates a placeholder.
    Reserve(Reservation),
    /// Deletes a placeholder.
    Release {
        /// Its name.
        name: String,
        /// Its UID, a precondition.
        uid: String,
    },
    /// Evicts a Pod.
    Evict(Eviction),
    /// Makes the scheduler look again at a Pod that it has passed over.
    Wake(PassedOver),
    /// Reads what the scheduler, autoscalers and kubelets say of these placeholders, by UID.
    Listen(Vec<String>),
    /// Protects a node that came for this rotation from its autoscaler.
    Protect {
        /// Its name.
        node: String,
        /// Its UID, a precondition.
        uid: String,
    },
    /// Takes this rotation's protection off such a node.
    Unprotect {
        /// Its name.
        node: String,
        /// Its UID, a precondition.
        uid: String,
    },
    /// Has such a node taken away, if a consistent list shows nothing real on it.
    GiveBack {
        /// Its name.
        node: String,
        /// Its UID.
        uid: String,
        /// How.
        removal: Removal,
    },
    /// Reads what the providers say of nodes.
    ReadProvider,
    /// Has the candidate taken away.
    Remove(Removal),
    /// Orders a node.
    Order(Order),
    /// Settles what was ordered.
    Settle(Settlement),
}

/// A placeholder to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its name.
    pub name: String,
    /// The UID of the Pod that it holds room for.
    pub pod_uid: String,
    /// What room.
    pub class: RoomClass,
}

impl Effect {
    /// Tells effects apart: while one is on its way, none with the same key is started.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Mark | Self::Unmark { .. } => "mark".to_owned(),
            Self::List => "list".to_owned(),
            Self::ReadVolumes(_) => "volumes".to_owned(),
            Self::ReadOwner { owner, .. } => format!("owner/{}", owner.uid),
            Self::Reserve(reservation) => format!("reserve/{}", reservation.name),
            Self::Release { uid, .. } => format!("release/{uid}"),
            Self::Evict(eviction) => format!("evict/{}", eviction.uid),
            Self::Wake(_) => "wake".to_owned(),
            Self::Listen(_) => "listen".to_owned(),
            Self::Protect { node, .. } | Self::Unprotect { node, .. } => format!("protect/{node}"),
            Self::GiveBack { node, .. } => format!("give-back/{node}"),
            Self::ReadProvider => "provider".to_owned(),
            Self::Remove(_) => "remove".to_owned(),
            Self::Order(_) | Self::Settle(_) => "order".to_owned(),
        }
    }

    /// What it does, for logs and for people who wait: fits after "failed to".
    #[must_use]
    pub fn describe(&self, node: &str) -> String {
        match self {
            Self::Mark => format!("cordon node {node}"),
            Self::Unmark { uncordon: true } => format!("uncordon node {node}"),
            Self::Unmark { uncordon: false } => format!("take our marks off node {node}"),
            Self::List => format!("list the Pods of node {node}"),
            Self::ReadVolumes(claims) => format!("read {} volume claims", claims.len()),
            Self::ReadOwner { namespace, owner } => format!("read {} {namespace}/{}", owner.kind, owner.name),
            Self::Reserve(reservation) => format!("create placeholder {}/{}", names::ROOM_NAMESPACE, reservation.name),
            Self::Release { name, .. } => format!("delete placeholder {}/{name}", names::ROOM_NAMESPACE),
            Self::Evict(eviction) => format!("evict Pod {}/{}", eviction.namespace, eviction.name),
            Self::Wake(pod) => format!("make the scheduler look at Pod {} again", pod.path),
            Self::Listen(_) => format!("read the events of namespace {}", names::ROOM_NAMESPACE),
            Self::Protect { node, .. } => format!("protect node {node}"),
            Self::Unprotect { node, .. } => format!("take our protection off node {node}"),
            Self::GiveBack { node, removal, .. } => format!("give node {node} back: {}", removing(removal, node)),
            Self::ReadProvider => "read the providers' objects".to_owned(),
            Self::Remove(removal) => removing(removal, node),
            Self::Order(order) => format!("order one more replica of {order}"),
            Self::Settle(Settlement::GiveBack(order)) => format!("give back the replica of {order}"),
            Self::Settle(Settlement::Return(node, _)) => format!("give back node {node}"),
            Self::Settle(Settlement::Keep(order)) => format!("take our note off {order}"),
        }
    }
}

/// What a removal does, as [`Effect::describe`].
fn removing(removal: &Removal, node: &str) -> String {
    match removal {
        Removal::Left { to, .. } => format!("leave node {node} to {to}"),
        Removal::NodeObject => format!("delete node {node}"),
        Removal::NodeClaim { name, .. } => format!("delete NodeClaim {name}"),
        Removal::Machine { namespace, name, .. } => format!("delete Machine {namespace}/{name}"),
        Removal::Hook { .. } => format!("have the hook end the machine of node {node}"),
    }
}
