//! Hand-built observations, one situation each.

mod draining;
mod ending;
mod lumps;
mod ordering;
mod queue;
mod random;
mod removing;
mod surge_nodes;
mod surging;
mod unread;

use std::collections::BTreeSet;

use jiff::Timestamp;
use rotate_shared::CancelRequest;
use rotate_shared::options::Options;
use rotate_shared::plan::Provider;

use super::*;
use crate::cache::{Owner, Resources};
use crate::drain::evict::Eviction;
use crate::provider::Removal;
use crate::rotation::effect::Reservation;
use crate::rotation::observation::{Asked, Budget, Fresh, Leaving, Machine, Need, Pending, Room, RoomState};
use crate::rotation::record::{Ending, Move, NewRotation, RoomClass, Surge};
use crate::surge::constraints::Placement;

/// A situation: a record, what people ask, what is seen, and the time.
#[derive(Clone, Debug)]
struct Case {
    record: Record,
    request: Request,
    seen: Observation,
    now: Timestamp,
}

/// Seconds since the beginning.
fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn owner(name: &str) -> Owner {
    Owner {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
    }
}

fn class(id: &str) -> RoomClass {
    RoomClass { id: id.to_owned(), requests: Default::default(), placement: Placement::default() }
}

fn fresh(name: &str) -> Fresh {
    Fresh {
        uid: name.to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        owner: Some(owner("cart")),
        room: Some((Default::default(), Placement::default())),
        siblings: Vec::new(),
    }
}

fn held(name: &str) -> Room {
    let state = RoomState::Held { node: "b".to_owned(), misfit: None };
    Room {
        name: format!("room-{name}"),
        uid: format!("uid-{name}"),
        pod_uid: "p1".to_owned(),
        offers: Resources::default(),
        state,
    }
}

fn in_state(name: &str, state: RoomState) -> Room {
    Room { state, ..held(name) }
}

fn uids(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| format!("uid-{name}")).collect()
}

/// A Pod on the candidate in whose favour these placeholders are held.
fn need(pod: &str, serves: &[&str]) -> Need {
    Need {
        uid: pod.to_owned(),
        path: format!("shop/{pod}"),
        class: "a".to_owned(),
        serves: uids(serves),
        ..Need::default()
    }
}

/// A Pod that left, whose replacement has not landed.
fn pending(pod: &str, serves: &[&str]) -> Need {
    Need { pending: Some(Pending::default()), ..need(pod, serves) }
}

fn leaving(pod: &str, rank: usize) -> Leaving {
    Leaving {
        uid: pod.to_owned(),
        namespace: "shop".to_owned(),
        name: pod.to_owned(),
        class: Some("a".to_owned()),
        rank,
        ..Leaving::default()
    }
}

fn terminating(pod: &str, rank: usize) -> Leaving {
    Leaving { terminating: true, ..leaving(pod, rank) }
}

fn cart(gone: u32, landed: u32, ready: u32) -> OwnerSeen {
    OwnerSeen {
        uid: "uid-cart".to_owned(),
        path: "ReplicaSet shop/cart".to_owned(),
        gone,
        landed,
        ready,
        pending: gone - landed,
        ..OwnerSeen::default()
    }
}

impl Case {
    /// A rotation that has just entered this phase, with nothing to move.
    fn in_phase(phase: Phase) -> Self {
        let new = NewRotation {
            node: "cand".to_owned(),
            node_uid: "uid-cand".to_owned(),
            batch: None,
            batch_size: 1,
            provider: Provider::Unmanaged,
            options: Options::default(),
            requested_by: Default::default(),
            idempotency_key: None,
            created_at: at(0),
        };
        let mut record = Record::new(new, 0);
        let path = [Phase::Surging, Phase::Draining, Phase::Settling, Phase::Removing];
        for next in path.into_iter().take_while(|next| *next <= phase && phase <= Phase::Removing) {
            record.enter(next, at(10));
        }
        if phase == Phase::RollingBack {
            record.enter(Phase::RollingBack, at(10));
            record.conclude(Some(Code::Reserving), "no room");
        }
        if phase == Phase::Removing {
            record.removal = Some(Removal::NodeObject);
        }
        if phase > Phase::Surging {
            record.surge = Some(Surge::default());
        }
        let seen = Observation {
            synced: true,
            node: NodeSeen::Here { marked: true, traces: true, deleting: false },
            machine: Machine { known: true, removal: Some(Removal::NodeObject), ..Machine::default() },
            ..Observation::default()
        };
        Self { record, request: Request::default(), seen, now: at(20) }
    }

    /// With these Pods to move, of one owner and one class.
    fn moving(mut self, pods: &[&str]) -> Self {
        let moves = pods.iter().map(|pod| Move {
            uid: (*pod).to_owned(),
            namespace: "shop".to_owned(),
            name: (*pod).to_owned(),
            owner: Some(owner("cart")),
            class: Some("a".to_owned()),
            returned: false,
        });
        let moves = moves.collect();
        self.record.surge = Some(Surge { moves, classes: vec![class("a")], known: Vec::new() });
        self
    }

    /// With these Pods to move, all of them here, each with a held placeholder of its own.
    fn covered(self, pods: &[&str]) -> Self {
        let mut case = self.moving(pods);
        case.seen.leaving = pods.iter().map(|pod| leaving(pod, 0)).collect();
        case.seen.needs = pods.iter().map(|pod| need(pod, &[pod])).collect();
        case.seen.room = pods.iter().map(|pod| held(pod)).collect();
        case
    }

    fn paused(mut self) -> Self {
        self.request.paused = true;
        self
    }

    fn cancelled(mut self) -> Self {
        self.request.cancel = Some(CancelRequest { uncordon: false });
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn step(&self) -> Step {
        step(&self.record, &self.request, &self.seen, self.now)
    }

    /// The phase that the step leads to.
    fn next(&self) -> Phase {
        let step = self.step();
        step.record.expect("the record changes").phase()
    }

    /// The step's effects; the record must not change.
    fn effects(&self) -> Vec<Effect> {
        let step = self.step();
        assert_eq!(step.record, None, "the record does not change");
        step.effects
    }

    /// The waits' codes; the record must not change.
    fn waits(&self) -> Vec<Code> {
        let step = self.step();
        assert_eq!(step.record, None, "the record does not change");
        step.waiting.iter().map(|notice| notice.code).collect()
    }

    /// The message of the first wait.
    fn message(&self) -> String {
        self.step().waiting.first().expect("it waits").message.clone()
    }
}

fn evicted(effects: &[Effect]) -> Vec<&str> {
    let evicted = effects.iter().filter_map(|effect| match effect {
        Effect::Evict(eviction) => Some(&*eviction.uid),
        _ => None,
    });
    evicted.collect()
}

fn released(effects: &[Effect]) -> Vec<&str> {
    let released = effects.iter().filter_map(|effect| match effect {
        Effect::Release { name, .. } => Some(&**name),
        _ => None,
    });
    released.collect()
}

fn reserved(effects: &[Effect]) -> Vec<&str> {
    let reserved = effects.iter().filter_map(|effect| match effect {
        Effect::Reserve(reservation) => Some(&*reservation.pod_uid),
        _ => None,
    });
    reserved.collect()
}

#[test]
fn nothing_is_done_while_the_cache_has_not_seen_the_whole_cluster() {
    for phase in [Phase::Queued, Phase::Surging, Phase::Draining, Phase::Removing, Phase::RollingBack] {
        let case = Case::in_phase(phase).with(|case| case.seen.synced = false);
        assert_eq!(case.waits(), [Code::NotReady]);
        assert_eq!(case.effects(), []);
    }
}

#[test]
fn a_finished_rotation_does_nothing() {
    for phase in
        [Phase::Succeeded, Phase::RolledBack, Phase::Cancelled, Phase::Stopped, Phase::Failed, Phase::Superseded]
    {
        let case = Case::in_phase(Phase::Draining).covered(&["p1"]).with(|case| case.record.enter(phase, at(15)));
        assert_eq!(case.effects(), []);
    }
}

#[test]
fn a_step_that_changes_the_record_asks_for_nothing_yet() {
    let case = Case::in_phase(Phase::Draining).with(|case| {
        *case = case.clone().moving(&["p1"]);
        case.seen.room = vec![held("p1")];
    });
    let step = case.step();
    assert_eq!(step.record.unwrap().phase(), Phase::Settling);
    assert_eq!(step.effects, []);
}

#[test]
fn durations_read_as_in_kubectl() {
    let texts: Vec<_> = [45, 60, 130, 3600, 3900].into_iter().map(duration).collect();
    assert_eq!(texts, ["45s", "1m", "2m10s", "1h", "1h5m"]);
}
