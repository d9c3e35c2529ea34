//! Values of the wire types, as the description shows them.

use jiff::Timestamp;
use rotate_shared::plan::{
    Class, Disposition, Estimate, Notice, PlannedPlaceholder, PlannedPod, PodReason, Provider, Room, Totals,
};
use rotate_shared::rotation::{PhaseSpan, Progress, RequestedBy, Waiting};
use rotate_shared::{
    API_VERSION, Amounts, CacheInfo, Code, FeedInfo, NodeList, NodeSummary, Options, OptionsRequest, Phase, Plan,
    PlanList, PlanRequest, Problem, Rotation, RotationList, RotationRequest, Then,
};

pub(crate) const ID: &str = "3dd09c51ac";
const NODE: &str = "worker-1";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("a time")
}

fn amounts(pairs: &[(&str, &str)]) -> Amounts {
    pairs.iter().map(|(name, quantity)| ((*name).to_owned(), quantity.parse().expect("a quantity"))).collect()
}

pub(crate) fn plan_request() -> PlanRequest {
    let options = OptionsRequest { delete_emptydir_data: Some(true), ..OptionsRequest::default() };
    PlanRequest { nodes: vec![NODE.to_owned()], options, ..PlanRequest::default() }
}

pub(crate) fn rotation_request() -> RotationRequest {
    let options = OptionsRequest {
        reason: Some("kernel update".to_owned()),
        then: Some(Then::Keep),
        ..OptionsRequest::default()
    };
    let claimed_user = Some("ada@example.com".to_owned());
    RotationRequest { nodes: vec![NODE.to_owned()], options, claimed_user, ..RotationRequest::default() }
}

pub(crate) fn selecting() -> RotationRequest {
    let options = OptionsRequest { max_concurrent: Some(2), ..OptionsRequest::default() };
    RotationRequest { selector: Some("pool=web".to_owned()), options, ..RotationRequest::default() }
}

pub(crate) fn plans() -> PlanList {
    let requests = amounts(&[("cpu", "500m"), ("memory", "1Gi")]);
    let plan = Plan {
        api_version: API_VERSION.to_owned(),
        kind: "Plan".to_owned(),
        node: NODE.to_owned(),
        provider: Provider::Karpenter,
        then: Some(Then::Delete),
        cordoned: false,
        totals: Totals { pods: 1, reserved: requests.clone() },
        pods: vec![PlannedPod {
            namespace: "shop".to_owned(),
            name: "cart-7c5f-x2x9".to_owned(),
            uid: "f3b1c1de-0c0b-4f0e-9c55-6b1b1f2f7a10".to_owned(),
            disposition: Disposition::Evict,
            reserved: true,
            reason: PodReason::Replicated,
            class: Some("a".to_owned()),
            requests: requests.clone(),
        }],
        classes: vec![Class {
            id: "a".to_owned(),
            pods: 1,
            requests: requests.clone(),
            constraints: Vec::new(),
            room: vec![Room { node: Some("worker-2".to_owned()), new_node: None, count: 1 }],
        }],
        placeholders: vec![PlannedPlaceholder {
            class: "a".to_owned(),
            pod: "shop/cart-7c5f-x2x9".to_owned(),
            requests,
        }],
        groups: Vec::new(),
        blockers: vec![blocker()],
        warnings: Vec::new(),
        estimate: Estimate { surge_seconds: 0, drain_seconds: 60, extra_node_seconds: 0 },
    };
    PlanList { api_version: API_VERSION.to_owned(), kind: "PlanList".to_owned(), items: vec![plan] }
}

fn blocker() -> Notice {
    Notice {
        code: Code::BarePod,
        object: "pod shop/once".to_owned(),
        message: "has no controller that would create it anew".to_owned(),
        remedy: "--force".to_owned(),
    }
}

pub(crate) fn rotation() -> Rotation {
    Rotation {
        api_version: API_VERSION.to_owned(),
        kind: "Rotation".to_owned(),
        id: ID.to_owned(),
        batch: None,
        node: NODE.to_owned(),
        node_uid: "8f0f7c0e-2a53-4d33-9b0e-6d4f7c2f7c11".to_owned(),
        provider: Provider::Karpenter,
        phase: Phase::Surging,
        paused: false,
        cancelling: false,
        options: Options { then: Some(Then::Delete), reason: Some("kernel update".to_owned()), ..Options::default() },
        created_at: at(0),
        phases: vec![
            PhaseSpan { phase: Phase::Queued, started_at: at(0), finished_at: Some(at(1)) },
            PhaseSpan { phase: Phase::Surging, started_at: at(1), finished_at: None },
        ],
        progress: Progress { to_move: 4, reserved: 3, evicted: 0, landed: 0, uncounted: false },
        waiting: vec![Waiting {
            code: Code::Reserving,
            object: "node worker-1".to_owned(),
            message: "3 of 4 placeholders are running".to_owned(),
            since: at(1),
            remedy: String::new(),
        }],
        warnings: Vec::new(),
        moved: Vec::new(),
        outcome: None,
        requested_by: RequestedBy {
            claimed: Some("ada@example.com".to_owned()),
            credential_id: Some("JTI=2f0d7a5c-61c7-4dd0-8e5c-04d0f3c1a9be".to_owned()),
        },
        revision: 7,
    }
}

pub(crate) fn rotations() -> RotationList {
    RotationList { api_version: API_VERSION.to_owned(), kind: "RotationList".to_owned(), items: vec![rotation()] }
}

pub(crate) fn node() -> NodeSummary {
    NodeSummary {
        name: NODE.to_owned(),
        created_at: at(-86_400),
        ready: true,
        schedulable: true,
        provider: Provider::Karpenter,
        movable_pods: Some(4),
        pods: Some(9),
        movable: Some(amounts(&[("cpu", "2"), ("memory", "4Gi")])),
        allocatable: amounts(&[("cpu", "3920m"), ("memory", "14Gi"), ("pods", "110")]),
        blockers: Some(0),
        rotation: Some(ID.to_owned()),
        pods_revision: Some("84213".to_owned()),
    }
}

pub(crate) fn nodes() -> NodeList {
    NodeList { api_version: API_VERSION.to_owned(), kind: "NodeList".to_owned(), items: vec![node()] }
}

pub(crate) fn cache() -> CacheInfo {
    CacheInfo {
        api_version: API_VERSION.to_owned(),
        kind: "Cache".to_owned(),
        synced: true,
        pods: 4000,
        nodes: 120,
        disruption_budgets: 35,
        shapes: 210,
        label_sets: 190,
        feeds: vec![FeedInfo {
            kind: "pods".to_owned(),
            scope: None,
            synced: true,
            connected: true,
            reading: None,
            objects: 5310,
            revision: Some("84213".to_owned()),
            age_seconds: Some(0),
            lists: 1,
            stalls: 0,
            errors: 0,
            last_error: None,
            last_status: None,
            unreadable: 0,
            unknown: 0,
        }],
    }
}

pub(crate) fn already_rotating() -> Problem {
    let detail = format!("node {NODE:?} is being rotated already; follow it with: kubectl rotate status {ID} -w");
    Problem { rotation: Some(ID.to_owned()), ..Problem::new(Code::AlreadyRotating, detail) }
}

pub(crate) fn over() -> Problem {
    Problem { rotation: Some(ID.to_owned()), ..Problem::new(Code::WrongPhase, format!("rotation {ID:?} is over")) }
}

pub(crate) fn blocked() -> Problem {
    let blocker = blocker();
    let detail = format!("node {NODE} cannot be rotated: {}: {}", blocker.object, blocker.message);
    Problem { blockers: vec![blocker], ..Problem::new(Code::Blocked, detail) }
}
