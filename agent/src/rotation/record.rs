//! What is written down about a rotation: enough to go on after a crash, and nothing that the cluster itself tells.
//!
//! A record is written on a change of phase and where the set of Pods to move changes: at most about ten times. How far
//! the Pods are is read off the cluster each time (`progress.rs`), so that a new leader starts from the truth.

use jiff::Timestamp;
use rotate_shared::plan::{Notice, Provider};
use rotate_shared::rotation::{Outcome, PhaseSpan, Progress, RequestedBy, Waiting};
use rotate_shared::{API_VERSION, Amounts, CancelRequest, Code, Options, Phase, Rotation};
use serde::{Deserialize, Serialize};

use crate::cache::Owner;
use crate::provider::{Order, Removal};
use crate::surge::constraints::Placement;

/// The engine's own word on a rotation. Only the engine's task changes it; it is kept as JSON in a `ConfigMap`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// See [`rotate_shared::names::rotation_id`].
    pub id: String,
    /// Which rotation of this node it is, from 0.
    pub attempt: u32,
    /// The batch it was asked for in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// How many nodes were asked for together. Records of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<usize>,
    /// The candidate.
    pub node: String,
    /// The candidate's UID.
    #[serde(rename = "nodeUID")]
    pub node_uid: String,
    /// What stands behind the candidate.
    pub provider: Provider,
    /// What was asked for.
    pub options: Options,
    /// Who asked.
    #[serde(default)]
    pub requested_by: RequestedBy,
    /// The key that a repeated request carries, so that it is answered with this rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// When it was asked for, by the agent's clock.
    pub created_at: Timestamp,
    /// Phases so far, oldest first; never empty. The last one is the present one.
    pub phases: Vec<PhaseSpan>,
    /// Set once the Pods to move are known. The room for them is reserved from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surge: Option<Surge>,
    /// How it is being wound up, where that is not the ordinary way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// How the empty candidate is taken away: settled when its removal begins, so that it is known when the Node is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
    /// What was ordered for it, because no placeholder brings it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// The candidate's boot ID when it was empty first: another one shows that it was rebooted since.
    #[serde(rename = "bootID", default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// What deserved a look on the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Notice>,
    /// How it ended, or why it is being rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The last counts; set at the end, when the cluster no longer tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// Pods that left the candidate, `namespace/name`; set at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<String>,
}

/// The Pods to move and what is needed to hold room for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Surge {
    /// The Pods to move, in the order in which they were found.
    pub moves: Vec<Move>,
    /// The kinds of room they need.
    pub classes: Vec<RoomClass>,
    /// Pods of the same owners that stood elsewhere already and must not be taken for replacements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<String>,
}

/// A Pod that leaves the candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// Its UID.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its controlling owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The class of its room; `None`: no room is reserved for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// It was bound here after the owner's first Pod had been evicted from here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub returned: bool,
}

/// Room of one kind: all that is needed to create a placeholder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoomClass {
    /// Short name within the rotation: `a`, `b`, …
    pub id: String,
    /// Effective requests.
    pub requests: Amounts,
    /// Where it may be.
    pub placement: Placement,
}

/// The way to an end other than `Succeeded` and `RolledBack`: replacements that are on the way are waited for, then
/// everything of ours is removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ending {
    /// `Stopped`, `Superseded` or `Failed`.
    pub phase: Phase,
    /// Since when.
    pub since: Timestamp,
    /// Whether our cordon is lifted.
    pub uncordon: bool,
}

/// What people ask of a running rotation. Written by HTTP handlers, only read by the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Nothing goes forward while set; what is held stays held.
    #[serde(default)]
    pub paused: bool,
    /// Since when it is paused. Records of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Timestamp>,
    /// When it was last resumed: timeouts start over there, so that a pause does not count as a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Timestamp>,
    /// Its end was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelRequest>,
    /// Its end was asked for because the others of its batch could not be begun: whoever asked was told that nothing is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken_back: bool,
}

/// A rotation to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRotation {
    /// The candidate.
    pub node: String,
    /// The candidate's UID.
    pub node_uid: String,
    /// The batch it is asked for in.
    pub batch: Option<String>,
    /// How many nodes are asked for together, this one included.
    pub batch_size: usize,
    /// What stands behind the candidate.
    pub provider: Provider,
    /// What is asked for.
    pub options: Options,
    /// Who asks.
    pub requested_by: RequestedBy,
    /// The key that a repeated request carries.
    pub idempotency_key: Option<String>,
    /// Now.
    pub created_at: Timestamp,
}

// === impl Record ===

impl Record {
    /// The first word on a rotation.
    #[must_use]
    pub fn new(new: NewRotation, attempt: u32) -> Self {
        Self {
            id: rotate_shared::names::rotation_id(&new.node_uid, attempt),
            attempt,
            batch: new.batch,
            batch_size: Some(new.batch_size),
            node: new.node,
            node_uid: new.node_uid,
            provider: new.provider,
            options: new.options,
            requested_by: new.requested_by,
            idempotency_key: new.idempotency_key,
            created_at: new.created_at,
            phases: vec![PhaseSpan { phase: Phase::Queued, started_at: new.created_at, finished_at: None }],
            surge: None,
            ending: None,
            removal: None,
            order: None,
            boot_id: None,
            warnings: Vec::new(),
            outcome: None,
            progress: None,
            moved: Vec::new(),
        }
    }

    /// Where it stands.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phases.last().map_or(Phase::Queued, |span| span.phase)
    }

    /// When the present phase began.
    #[must_use]
    pub fn phase_since(&self) -> Timestamp {
        self.phases.last().map_or(self.created_at, |span| span.started_at)
    }

    /// Whether something may still happen.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.phase().is_terminal()
    }

    /// The Pods to move; empty until they are known.
    #[must_use]
    pub fn moves(&self) -> &[Move] {
        self.surge.as_ref().map_or(&[], |surge| &surge.moves)
    }

    /// The room of this class.
    #[must_use]
    pub fn class(&self, id: &str) -> Option<&RoomClass> {
        self.surge.as_ref()?.classes.iter().find(|class| class.id == id)
    }

    /// Goes over to a phase.
    pub(crate) fn enter(&mut self, phase: Phase, now: Timestamp) {
        if let Some(span) = self.phases.last_mut() {
            span.finished_at = Some(now);
        }
        let finished_at = phase.is_terminal().then_some(now);
        self.phases.push(PhaseSpan { phase, started_at: now, finished_at });
    }

    /// Adds a warning, once for each code and object.
    pub(crate) fn warn(&mut self, warning: Notice) {
        if !self.warnings.iter().any(|known| known.code == warning.code && known.object == warning.object) {
            self.warnings.push(warning);
        }
    }

    /// Whether it is what this first record of it has become: no two requests are made at the same nanosecond.
    pub(super) fn is_begun_as(&self, first: &Self) -> bool {
        self.id == first.id
            && self.created_at == first.created_at
            && self.idempotency_key == first.idempotency_key
            && self.batch == first.batch
    }

    /// Whether it ends because a person wanted it to: others end because the node is taken, or what was asked failed.
    fn is_stopping(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| ending.phase == Phase::Stopped)
    }

    /// Says how it ends.
    pub(crate) fn conclude(&mut self, code: Option<Code>, message: impl Into<String>) {
        self.outcome = Some(Outcome { code, message: message.into() });
    }

    /// The rotation as shown to people. The revision is set by who publishes it.
    #[must_use]
    pub fn view(&self, request: &Request, progress: Progress, waiting: Vec<Waiting>) -> Rotation {
        let live = self.is_live();
        let to_move = u32::try_from(self.moves().len()).unwrap_or(u32::MAX);
        let progress =
            if live { progress } else { self.progress.unwrap_or(Progress { to_move, uncounted: true, ..progress }) };
        Rotation {
            api_version: API_VERSION.to_owned(),
            kind: "Rotation".to_owned(),
            id: self.id.clone(),
            batch: self.batch.clone(),
            node: self.node.clone(),
            node_uid: self.node_uid.clone(),
            provider: self.provider,
            phase: self.phase(),
            paused: live && request.paused,
            cancelling: live && (request.cancel.is_some() || self.is_stopping()),
            options: self.options.clone(),
            created_at: self.created_at,
            phases: self.phases.clone(),
            progress,
            waiting: if live { waiting } else { Vec::new() },
            warnings: self.warnings.clone(),
            moved: self.moved.clone(),
            outcome: self.outcome.clone(),
            requested_by: self.requested_by.clone(),
            revision: 0,
        }
    }
}
