//! Any situation at all.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;
use crate::cache::Partition;
use crate::rotation::observation::{Refused, Unread};

const PODS: [&str; 4] = ["p1", "p2", "p3", "p4"];

fn phases() -> impl Strategy<Value = Phase> {
    let others: Vec<Phase> = Phase::ALL.into_iter().filter(|phase| *phase != Phase::Draining).collect();
    // Where Pods are evicted there is the most to go wrong.
    prop_oneof![1 => Just(Phase::Draining), 1 => prop::sample::select(others)]
}

fn states() -> impl Strategy<Value = RoomState> {
    prop_oneof![
        4 => any::<bool>().prop_map(|misfit| RoomState::Held {
            node: "b".to_owned(),
            misfit: misfit.then(|| "port".to_owned()),
        }),
        1 => any::<bool>().prop_map(|message| RoomState::Coming { message: message.then(|| "no cpu".to_owned()) }),
        1 => Just(RoomState::Lost { why: "lost".to_owned() }),
        1 => Just(RoomState::Ending),
        1 => Just(RoomState::Creating),
    ]
}

fn subset() -> impl Strategy<Value = BTreeSet<String>> {
    prop::collection::vec(any::<bool>(), 4).prop_map(|picked| {
        let names: Vec<_> = PODS.iter().zip(picked).filter(|(_, picked)| *picked).map(|(name, _)| *name).collect();
        uids(&names)
    })
}

prop_compose! {
    fn pendings()(pod in any::<bool>(), nominated in any::<bool>(), cannot_preempt in any::<bool>(), stuck in any::<bool>(), landing in any::<bool>(), overdue in any::<bool>()) -> Pending {
        Pending { pod: pod.then(|| "shop/new".to_owned()), nominated, landing, cannot_preempt, stuck, overdue }
    }
}

prop_compose! {
    /// One Pod to move: whether it is here, and what is held for it.
    fn pods(name: &'static str)(
        here in any::<bool>(),
        terminating in any::<bool>(),
        rank in 0..3_usize,
        reserved in prop::bool::weighted(0.8),
        budget in prop::option::of(0..3_usize),
        refused in prop::option::of(0..40_i64),
        needed in prop::bool::weighted(0.9),
        on_its_way in prop::option::of(pendings()),
        serves in subset(),
        coming in subset(),
    ) -> (Option<Leaving>, Option<Need>) {
        let refused = refused.map(|until| Refused { until: at(until), notice: notice(Code::Throttled, "x", "y") });
        let class = reserved.then(|| "a".to_owned());
        let leaving = here.then(|| Leaving { terminating, class, budget, refused, ..leaving(name, rank) });
        let pending = if here && !terminating { None } else { Some(on_its_way.unwrap_or_default()) };
        let need = (needed && reserved).then(|| Need { pending, coming, ..Need { serves, ..need(name, &[]) } });
        (leaving, need)
    }
}

prop_compose! {
    fn cases()(
        phase in phases(),
        pods in (pods("p1"), pods("p2"), pods("p3"), pods("p4")),
        rooms in prop::collection::vec(states(), 0..5),
        (synced, marked, traces, deleting, gone, passed) in
            (prop::bool::weighted(0.9), prop::bool::weighted(0.8), any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.1), any::<bool>()),
        (paused, cancel, planned, ending) in
            (prop::bool::weighted(0.2), prop::option::weighted(0.2, any::<bool>()), prop::bool::weighted(0.9), prop::bool::weighted(0.1)),
        allowed in prop::collection::vec(-1..3_i32, 0..3),
        late in prop::bool::weighted(0.2),
        blocked in prop::bool::weighted(0.1),
        then in prop::sample::select(vec![None, Some(Then::Delete), Some(Then::Keep), Some(Then::Uncordon)]),
        (none, unread) in (prop::bool::weighted(0.1), prop::bool::weighted(0.1)),
        now in 0..2000_i64,
    ) -> Case {
        let mut case = if planned { Case::in_phase(phase).moving(&PODS) } else { Case::in_phase(phase) };
        if phase.is_terminal() {
            case.record.enter(phase, at(12));
        }
        for (leaving, need) in [pods.0, pods.1, pods.2, pods.3] {
            case.seen.leaving.extend(leaving);
            case.seen.needs.extend(need);
        }
        case.seen.room = PODS.iter().zip(rooms).map(|(name, state)| in_state(name, state)).collect();
        case.seen.synced = synced;
        case.seen.node = if gone { NodeSeen::Gone } else { NodeSeen::Here { marked, traces, deleting } };
        case.seen.barrier = if passed { Barrier::Passed } else { Barrier::Open };
        let closed = notice(Code::PodDisruptionBudget, "PodDisruptionBudget shop/cart", "closed");
        case.seen.budgets =
            allowed.into_iter().map(|allowed| Budget { allowed, closed: closed.clone(), poll_at: None }).collect();
        case.seen.owners = vec![cart(4, 2, 1)];
        if late {
            case.seen.verdicts.fresh = vec![fresh("late")];
        }
        if blocked {
            case.seen.verdicts.blockers = vec![notice(Code::BarePod, "Pod shop/bare", "bare")];
        }
        case.request.paused = paused;
        case.request.cancel = cancel.map(|uncordon| CancelRequest { uncordon });
        case.record.options.then = then;
        if none {
            case.record.options.surge = SurgeMode::None;
        }
        if ending {
            case.record.ending = Some(Ending { phase: Phase::Stopped, since: at(15), uncordon: false });
        }
        case.seen.unread = unread.then(|| Unread { scope: Partition::node("cand"), error: None });
        case.now = at(now);
        case
    }
}

/// Whether each of the needs could be served by a held placeholder of its own, by trying everything.
fn servable(needs: &[&Need], held: &BTreeSet<&str>) -> bool {
    let [need, rest @ ..] = needs else { return true };
    if need.pending.as_ref().is_some_and(|pending| pending.nominated) && servable(rest, held) {
        return true;
    }
    need.serves.iter().filter(|uid| held.contains(&***uid)).any(|uid| {
        let mut left = held.clone();
        left.remove(&**uid);
        servable(rest, &left)
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_pod_is_evicted_without_room_for_it_and_for_all_that_are_on_their_way(case in cases()) {
        let step = case.step();
        let leaves: BTreeSet<&str> = evicted(&step.effects).into_iter().collect();
        let released: BTreeSet<String> = step.effects.iter().filter_map(|effect| match effect {
            Effect::Release { uid, .. } => Some(uid.clone()),
            _ => None,
        }).collect();
        let held: BTreeSet<&str> = case.seen.room.iter()
            .filter(|room| matches!(room.state, RoomState::Held { .. }) && !released.contains(&room.uid))
            .map(|room| &*room.uid)
            .collect();
        if !leaves.is_empty() && case.record.options.surge != SurgeMode::None {
            let needs: Vec<&Need> = case.seen.needs.iter()
                .filter(|need| need.pending.is_some() || leaves.contains(&*need.uid))
                .collect();
            prop_assert!(servable(&needs, &held), "{:?} leave, held {held:?}", leaves);
            for pod in case.seen.leaving.iter().filter(|pod| leaves.contains(&*pod.uid) && pod.class.is_some()) {
                prop_assert!(needs.iter().any(|need| need.uid == pod.uid), "{} has a need", pod.uid);
            }
        }
        prop_assert!(case.seen.leaving.iter().filter(|pod| pod.terminating).all(|pod| !leaves.contains(&*pod.uid)));
        if !leaves.is_empty() {
            prop_assert_eq!(case.record.phase(), Phase::Draining);
            prop_assert!(!case.request.paused && case.request.cancel.is_none() && case.record.ending.is_none());
        }
    }

    #[test]
    fn a_budget_is_never_asked_for_more_than_it_allows(case in cases()) {
        let step = case.step();
        let leaves = evicted(&step.effects);
        for (index, budget) in case.seen.budgets.iter().enumerate() {
            let under = case.seen.leaving.iter().filter(|pod| pod.budget == Some(index) && leaves.contains(&&*pod.uid));
            prop_assert!(i32::try_from(under.count()).unwrap() <= budget.allowed.max(0));
        }
    }

    #[test]
    fn finished_rotations_do_nothing_and_live_ones_move_or_say_why_not(case in cases()) {
        let step = case.step();
        if case.record.phase().is_terminal() {
            prop_assert_eq!(step.record, None);
            prop_assert!(step.effects.is_empty());
        } else {
            let idle = step.record.is_none() && step.effects.is_empty() && step.waiting.is_empty();
            // Placeholders that are ending, or being created, are about to be gone or seen.
            let passing = |room: &Room| matches!(room.state, RoomState::Ending | RoomState::Creating);
            let ending = case.seen.room.iter().any(passing);
            prop_assert!(!idle || ending, "{:?}", case.record.phase());
        }
    }

    #[test]
    fn the_node_is_deleted_only_once_nothing_is_left_to_move_behind_a_consistent_list(case in cases()) {
        if case.step().effects.contains(&Effect::Remove(Removal::NodeObject)) {
            prop_assert_eq!(case.record.phase(), Phase::Removing);
            prop_assert_eq!(case.seen.barrier, Barrier::Passed);
            prop_assert!(case.seen.leaving.is_empty() && case.seen.verdicts.fresh.is_empty());
            prop_assert!(case.seen.arriving.is_empty() && case.seen.verdicts.blockers.is_empty());
        }
    }

    #[test]
    fn nothing_is_evicted_deleted_or_called_moved_while_the_pods_are_not_read(mut case in cases()) {
        case.seen.unread = Some(Unread { scope: Partition::node("cand"), error: None });
        let step = case.step();
        prop_assert!(evicted(&step.effects).is_empty() && !step.effects.contains(&Effect::Remove(Removal::NodeObject)));
        prop_assert!(reserved(&step.effects).is_empty());
        prop_assert_eq!((step.progress.evicted, step.progress.landed), (0, 0));
        if let Some(next) = step.record {
            let ends = matches!(next.phase(), Phase::RollingBack | Phase::Stopped | Phase::Superseded);
            prop_assert!(ends || next.phase() == case.record.phase(), "{:?}", next.phase());
            prop_assert!(next.moved.is_empty());
        }
    }

    #[test]
    fn no_need_gets_two_placeholders_and_no_placeholder_is_released_twice(case in cases()) {
        let keys: Vec<_> = case.step().effects.iter().map(Effect::key).collect();
        let once: BTreeSet<_> = keys.iter().collect();
        prop_assert_eq!(once.len(), keys.len());
    }
}
