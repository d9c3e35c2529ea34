//! The closed set of codes that problems, blockers, warnings and waits carry.

use serde::{Deserialize, Serialize};

/// Why something is refused, waits, or deserves a warning. Stable: scripts and the runbook rely on the spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Code {
    // -- requests --
    /// The request cannot be read, or asks for something that does not exist.
    BadRequest,
    /// No token, or one the API server does not accept for our audience.
    Unauthenticated,
    /// The caller may not do this.
    Forbidden,
    /// More than the agent answers to one credential, or at once; try again after a while.
    TooManyRequests,
    /// No such node, rotation or batch.
    NotFound,
    /// The node has a live rotation already.
    AlreadyRotating,
    /// The rotation is in a phase in which this cannot be done.
    WrongPhase,
    /// The cache has not seen the whole cluster yet; try again.
    NotReady,
    /// The API server did not answer as expected.
    UpstreamFailed,
    /// The agent itself failed.
    Internal,
    // -- blockers of a plan --
    /// Blockers stand in the way; the problem lists them.
    Blocked,
    /// A Pod without a controller would not come back.
    BarePod,
    /// A Pod that can run only on this node.
    PinnedPod,
    /// A Pod whose emptyDir data would be lost.
    LocalStorage,
    /// A Pod or node marked as not to be disrupted.
    DoNotDisrupt,
    /// A Pod that the default scheduler does not place by itself.
    SchedulerUnsupported,
    /// A constraint for which room cannot be promised.
    ConstraintUnsupported,
    /// Neither a node nor a pool or group that may grow has room for it.
    NoRoom,
    /// A `DaemonSet` Pod, with `--ignore-daemonsets=false`.
    DaemonSetPod,
    /// The node runs the control plane.
    ControlPlaneNode,
    /// The node runs Windows.
    WindowsNode,
    /// The node is being deleted already.
    NodeDeleting,
    /// A disruption budget that never allows an eviction.
    PodDisruptionBudgetNever,
    /// A disruption budget that allows no eviction now.
    PodDisruptionBudget,
    /// Two disruption budgets select the same Pod: the API server refuses every eviction of it.
    MultiplePodDisruptionBudgets,
    /// A Pod that came back to the cordoned node again and again.
    ReturnsToNode,
    /// A Pod that cannot be read: what it needs is unknown.
    UnreadablePod,
    /// The provider of this node is not driven yet.
    ProviderUnsupported,
    /// What the provider keeps of its nodes cannot be read.
    ProviderUnreadable,
    /// The provider's objects are paused: nothing would be brought, and nothing taken away.
    ProviderPaused,
    /// The API server refuses or changes our placeholder.
    PlaceholderRefused,
    // -- waits --
    /// Other rotations use the allowed concurrency.
    WaitingForSlot,
    /// A person paused it.
    Paused,
    /// Placeholders are not running yet.
    Reserving,
    /// Room was lost to other Pods and is being reserved anew.
    ReReserving,
    /// Pods are shutting down.
    Terminating,
    /// Replacements are not running yet.
    WaitingForReplacement,
    /// The scheduler intends to place a Pod on this node.
    ArrivingPod,
    /// The API server is throttling us.
    Throttled,
    /// An admission webhook refuses an eviction.
    EvictionRefused,
    /// The node or machine is going away.
    NodeLeaving,
    /// An API call failed and is tried again.
    ApiError,
    /// The empty node is to be rebooted.
    WaitingForReboot,
    /// What stands behind the node is not taken away.
    RemovalFailed,
    // -- warnings --
    /// A Job's Pod: its eviction may count against the Job's backoff limit.
    JobPod,
    /// A Pod that cannot preempt a placeholder; we release room for it.
    CannotPreempt,
    /// A Pod that tolerates the cordon and may come back here.
    ToleratesCordon,
    /// Room for this class is not reserved.
    NotReserved,
    /// Replacements did not become Ready in time.
    SettleTimedOut,
    /// The machine behind the node runs on.
    MachineRunsOn,
    /// A node without the NodeClaim that should stand behind it, or a NodeClaim without its node.
    NodeClaimUnmatched,
    /// Karpenter takes the node away at a set time.
    NodeExpires,
    /// A node that came for the surge and was not used stays.
    NotGivenBack,
    /// The node's group cannot grow, or would not shrink.
    GroupAtLimit,
    /// The provider is replacing the nodes of this group anyway.
    RolloutInProgress,
    /// The autoscaler does not tell of this node's group: nobody is known to bring or take nodes.
    AutoscalerUnseen,
    /// A group that is at its minimum: the autoscaler takes no node away.
    GroupAtMinimum,
    /// A group without nodes grows by what its cloud says of it, which may lack resources.
    GroupEmpty,
    /// What nodes of a group are like is known from long ago only, or not at all.
    StaleTemplate,
    /// Nodes and Pods that were not looked at, because the agent reads only what it works on.
    NotLookedAt,
    /// What the API server makes of placeholders was not asked, or could not be.
    NotProbed,
    /// The API server changes our placeholder, which does no harm.
    PlaceholderChanged,
    /// A code of another version.
    #[serde(other)]
    Unknown,
}

impl Code {
    /// The HTTP status that a problem with this code is answered with.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::TooManyRequests => 429,
            Self::NotFound => 404,
            Self::AlreadyRotating | Self::WrongPhase => 409,
            Self::NotReady => 503,
            Self::UpstreamFailed => 502,
            Self::Internal => 500,
            _ => 422,
        }
    }

    /// Whether it says why an eviction would be refused.
    #[must_use]
    pub fn is_refused_eviction(self) -> bool {
        matches!(
            self,
            Self::PodDisruptionBudget | Self::MultiplePodDisruptionBudgets | Self::Throttled | Self::EvictionRefused
        )
    }

    /// The exit code that a command refused with this code ends with.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::BadRequest => crate::exit::USAGE,
            Self::Unauthenticated | Self::Forbidden => crate::exit::NOT_AUTHORISED,
            Self::NotFound | Self::UpstreamFailed | Self::Internal | Self::WrongPhase => crate::exit::ERROR,
            Self::TooManyRequests | Self::NotReady => crate::exit::AGENT_UNREACHABLE,
            _ => crate::exit::BLOCKED,
        }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}
