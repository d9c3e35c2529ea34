use super::*;

fn draining() -> Case {
    Case::in_phase(Phase::Draining)
}

fn budget(allowed: i32) -> Budget {
    let closed =
        notice(Code::PodDisruptionBudget, "PodDisruptionBudget shop/cart", "needs 3 healthy, has 3 (allows 0)");
    Budget { allowed, closed, poll_at: Some(at(80)) }
}

#[test]
fn covered_pods_are_evicted_one_after_another_with_their_uids() {
    let case = draining().covered(&["p1", "p2"]);
    let eviction = |uid: &str| {
        Effect::Evict(Eviction {
            namespace: "shop".to_owned(),
            name: uid.to_owned(),
            uid: uid.to_owned(),
            grace_period_seconds: None,
            bypass: false,
        })
    };
    assert_eq!(case.effects(), [eviction("p1")]);
    let on_its_way = case.with(|case| {
        case.seen.leaving[0].terminating = true;
        case.seen.needs[0].pending = Some(Pending::default());
    });
    assert_eq!(on_its_way.effects(), []);
    let landed = on_its_way.with(|case| {
        case.seen.needs.remove(0);
        case.seen.room.remove(0);
    });
    assert_eq!(landed.effects(), [eviction("p2")], "although the first is still shutting down");
}

#[test]
fn the_options_decide_on_grace_and_on_budgets() {
    let case = draining().covered(&["p1"]).with(|case| {
        case.record.options.grace_period_seconds = 5;
        case.record.options.disable_eviction = true;
        case.seen.leaving[0].budget = Some(0);
        case.seen.budgets = vec![budget(0)];
    });
    let effects = case.effects();
    let [Effect::Evict(eviction)] = &effects[..] else { panic!("one eviction") };
    assert_eq!((eviction.grace_period_seconds, eviction.bypass), (Some(5), true));
}

#[test]
fn a_replacement_that_the_scheduler_passes_over_gets_its_room_released() {
    let pending = Pending { pod: Some("shop/new".to_owned()), stuck: true, ..Pending::default() };
    let case = draining().covered(&["p1"]).moving(&["p1", "p2"]).with(|case| {
        case.seen.room.push(held("p2"));
        case.seen.needs.push(Need { pending: Some(pending), ..need("p2", &["p2"]) });
    });
    assert_eq!(released(&case.effects()), ["room-p2"]);
    let does_not_exist = case.with(|case| case.seen.needs[1].pending.as_mut().unwrap().pod = None);
    assert_eq!(released(&does_not_exist.effects()), Vec::<&str>::new());
}

#[test]
fn a_pod_without_room_is_not_evicted_and_gets_a_placeholder() {
    let case = draining().covered(&["p1", "p2"]).with(|case| {
        case.seen.room.remove(1);
        case.seen.needs[1].serves.clear();
    });
    let effects = case.effects();
    assert_eq!(evicted(&effects), ["p1"]);
    assert_eq!(reserved(&effects), ["p2"]);
    assert_eq!(case.message(), "re-reserving 1 of 2");
}

#[test]
fn nothing_is_evicted_while_a_replacement_on_its_way_has_no_room() {
    let case = draining().covered(&["p1", "p2"]).with(|case| {
        case.seen.leaving.remove(1);
        case.seen.needs[1] = pending("p2", &[]);
        case.seen.room.remove(1);
    });
    let effects = case.effects();
    assert_eq!(evicted(&effects), Vec::<&str>::new());
    assert_eq!(reserved(&effects), ["p2"]);
    assert_eq!(case.message(), "re-reserving 1 of 2; the replacement of shop/p2 has no room held");
}

#[test]
fn a_replacement_on_its_way_wins_the_last_placeholder() {
    // One placeholder serves both: p1 still runs, p2's replacement is on its way.
    let case = draining().covered(&["p1"]).moving(&["p1", "p2"]).with(|case| {
        case.seen.needs = vec![need("p1", &["p1"]), pending("p2", &["p1"])];
    });
    let effects = case.effects();
    assert_eq!(evicted(&effects), Vec::<&str>::new());
    assert_eq!(reserved(&effects), ["p1"]);
}

#[test]
fn room_taken_by_others_between_two_evictions_stops_them_until_it_is_reserved_anew() {
    let taken = draining().covered(&["p1", "p2", "p3"]).with(|case| {
        case.seen.leaving.remove(0);
        case.seen.needs[0] = pending("p1", &[]);
        case.seen.room.clear();
        for need in &mut case.seen.needs {
            need.serves.clear();
            need.attempt = 1;
        }
    });
    let effects = taken.effects();
    assert_eq!((evicted(&effects), reserved(&effects)), (vec![], vec!["p1", "p2", "p3"]));
    assert!(taken.waits().contains(&Code::ReReserving));
}

#[test]
fn a_replacement_that_the_scheduler_has_made_room_for_is_covered() {
    let case = draining().covered(&["p1"]).moving(&["p1", "p2"]).with(|case| {
        // Overdue, so that it does not hold the others up by itself.
        let nominated =
            Pending { pod: Some("shop/new".to_owned()), nominated: true, overdue: true, ..Pending::default() };
        case.seen.needs.push(Need { pending: Some(nominated), ..need("p2", &[]) });
        case.seen.leaving.push(terminating("p2", 0));
    });
    let effects = case.effects();
    assert_eq!((evicted(&effects), reserved(&effects)), (vec!["p1"], vec![]));
}

#[test]
fn a_placeholder_being_preempted_for_a_replacement_is_not_replaced_yet_but_covers_nobody() {
    let case = draining().covered(&["p1"]).moving(&["p1", "p2"]).with(|case| {
        case.seen.room.push(in_state("p2", RoomState::Ending));
        case.seen.needs.push(Need { coming: uids(&["p2"]), ..pending("p2", &[]) });
    });
    assert_eq!(case.effects(), []);
    assert!(case.waits().contains(&Code::ReReserving));
}

#[test]
fn a_replacement_that_has_just_appeared_is_given_a_moment_to_land_before_room_is_reserved_anew() {
    // The placeholder that it preempts is gone already; the other one would do for either.
    let landing = Pending { pod: Some("shop/new".to_owned()), landing: true, ..Pending::default() };
    let case = draining().covered(&["p1", "p2"]).with(|case| {
        case.seen.leaving.remove(0);
        case.seen.room.remove(0);
        case.seen.needs = vec![Need { pending: Some(landing), ..need("p1", &["p2"]) }, need("p2", &["p2"])];
    });
    assert_eq!(case.effects(), []);
    let one_more = case.clone().with(|case| case.seen.needs.push(need("p3", &[])));
    assert_eq!(reserved(&one_more.effects()), ["p2", "p3"], "it cannot have taken both");
    let long_ago = case.with(|case| case.seen.needs[0].pending.as_mut().unwrap().landing = false);
    assert_eq!((evicted(&long_ago.effects()), reserved(&long_ago.effects())), (vec![], vec!["p2"]));
}

#[test]
fn a_landed_replacement_releases_exactly_one_placeholder() {
    // p1 landed elsewhere, its placeholder is left over; p2 still runs.
    let case = draining().covered(&["p1", "p2"]).with(|case| {
        case.seen.leaving = vec![leaving("p2", 0)];
        case.seen.needs = vec![need("p2", &["p1", "p2"])];
        case.seen.owners = vec![cart(1, 1, 1)];
    });
    let effects = case.effects();
    assert_eq!(released(&effects).len(), 1);
    assert_eq!(evicted(&effects), ["p2"]);
}

#[test]
fn a_foreign_pod_releases_none() {
    let case = draining().covered(&["p1", "p2"]).with(|case| case.seen.budgets = vec![budget(0)]).with(|case| {
        case.seen.leaving.iter_mut().for_each(|pod| pod.budget = Some(0));
    });
    assert_eq!(released(&case.effects()), Vec::<&str>::new());
}

#[test]
fn a_replacement_that_cannot_preempt_gets_its_room_released_once_it_exists() {
    let cannot =
        |pod: Option<&str>| Pending { pod: pod.map(str::to_owned), cannot_preempt: true, ..Pending::default() };
    let case = draining().covered(&["p1"]).moving(&["p1", "p2"]).with(|case| {
        case.seen.room.push(held("p2"));
        case.seen.needs.push(Need { pending: Some(cannot(None)), ..need("p2", &["p2"]) });
    });
    assert_eq!(released(&case.effects()), Vec::<&str>::new());
    let exists = case.with(|case| case.seen.needs[1].pending = Some(cannot(Some("shop/new"))));
    let effects = exists.effects();
    assert_eq!(released(&effects), ["room-p2"]);
    assert_eq!(evicted(&effects), Vec::<&str>::new(), "its room is given up: nobody else goes until it has landed");
    let gone = exists.with(|case| {
        case.seen.room.pop();
        case.seen.needs[1].serves.clear();
    });
    assert_eq!(reserved(&gone.effects()), Vec::<&str>::new(), "a new placeholder would only be in its way");
}

#[test]
fn the_big_one_goes_first_and_the_small_ones_wait_until_it_has_landed() {
    let big_and_small = draining().covered(&["big", "small"]).with(|case| {
        let surge = case.record.surge.as_mut().unwrap();
        surge.classes.push(class("b"));
        surge.moves[1].class = Some("b".to_owned());
        case.seen.leaving[1].rank = 1;
        case.seen.leaving[1].class = Some("b".to_owned());
        case.seen.needs[1].class = "b".to_owned();
    });
    assert_eq!(evicted(&big_and_small.effects()), ["big"]);

    let big_is_on_its_way = big_and_small.with(|case| {
        case.seen.leaving[0].terminating = true;
        case.seen.needs[0].pending = Some(Pending::default());
        case.seen.owners = vec![cart(1, 0, 0)];
    });
    assert_eq!(evicted(&big_is_on_its_way.effects()), Vec::<&str>::new());
    assert!(big_is_on_its_way.waits().contains(&Code::WaitingForReplacement));

    let big_has_left = big_is_on_its_way.with(|case| {
        case.seen.leaving.remove(0);
    });
    assert_eq!(evicted(&big_has_left.effects()), Vec::<&str>::new());

    let overdue = big_has_left.clone().with(|case| case.seen.needs[0].pending.as_mut().unwrap().overdue = true);
    assert_eq!(evicted(&overdue.effects()), ["small"], "what never comes does not hold up the rest for ever");

    let big_has_landed = big_has_left.with(|case| {
        case.seen.needs.remove(0);
        case.seen.room.remove(0);
    });
    assert_eq!(evicted(&big_has_landed.effects()), ["small"]);
}

#[test]
fn a_budget_lets_as_many_go_as_it_allows() {
    let under = |allowed| {
        // Without a surge, so that they need not wait for each other.
        draining().covered(&["p1", "p2", "p3"]).with(|case| {
            case.record.options.surge = SurgeMode::None;
            case.seen.needs.clear();
            case.seen.room.clear();
            for pod in &mut case.seen.leaving {
                pod.class = None;
                pod.budget = Some(0);
            }
            case.seen.budgets = vec![budget(allowed)];
        })
    };
    assert_eq!(evicted(&under(2).effects()), ["p1", "p2"]);
    assert_eq!(evicted(&under(0).effects()), Vec::<&str>::new());
    assert_eq!(evicted(&under(-1).effects()), Vec::<&str>::new());
    let notices = under(0).step().waiting;
    assert_eq!(notices.len(), 1, "one wait, not one a Pod");
    assert_eq!(notices[0].object, "PodDisruptionBudget shop/cart");
    assert_eq!(notices[0].message, "needs 3 healthy, has 3 (allows 0)");
}

#[test]
fn a_closed_budget_is_asked_all_the_same_after_a_while_by_one_pod() {
    let case = draining().covered(&["p1", "p2"]).with(|case| {
        case.seen.leaving.iter_mut().for_each(|pod| pod.budget = Some(0));
        case.seen.budgets = vec![budget(0)];
        case.now = at(80);
    });
    assert_eq!(evicted(&case.effects()), ["p1"]);
}

#[test]
fn a_pod_whose_budget_is_closed_is_skipped_over() {
    let case = draining().covered(&["p1", "p2"]).with(|case| {
        case.seen.leaving[0].budget = Some(0);
        case.seen.budgets = vec![budget(0)];
        case.seen.leaving[1].rank = 1;
    });
    assert_eq!(evicted(&case.effects()), ["p2"]);
}

#[test]
fn a_pod_under_several_budgets_is_never_asked_for() {
    let several = notice(Code::MultiplePodDisruptionBudgets, "Pod shop/p1", "is selected by 2 disruption budgets");
    let case = draining().covered(&["p1"]).with(|case| case.seen.leaving[0].several_budgets = Some(several));
    assert_eq!(case.effects(), []);
    assert_eq!(case.waits(), [Code::MultiplePodDisruptionBudgets]);
    let bypass = case.with(|case| case.record.options.disable_eviction = true);
    assert_eq!(evicted(&bypass.effects()), ["p1"]);
}

#[test]
fn a_refused_eviction_is_not_asked_for_again_too_soon() {
    use crate::rotation::observation::Refused;
    let refused =
        Refused { until: at(25), notice: notice(Code::EvictionRefused, "Pod shop/p1", "refused (500): moving it") };
    let case = draining().covered(&["p1"]).with(|case| case.seen.leaving[0].refused = Some(refused));
    assert_eq!(case.effects(), []);
    assert_eq!(case.waits(), [Code::EvictionRefused]);
    assert_eq!(evicted(&case.with(|case| case.now = at(25)).effects()), ["p1"]);
}

#[test]
fn that_the_api_server_was_busy_or_a_budget_closed_is_told_no_longer_than_it_is_waited_for() {
    use crate::rotation::observation::Refused;
    for code in [Code::Throttled, Code::PodDisruptionBudget] {
        let refused = Refused { until: at(25), notice: notice(code, "Pod shop/p1", "not now") };
        let case = draining().covered(&["p1"]).with(|case| case.seen.leaving[0].refused = Some(refused));
        assert!(case.waits().contains(&code));
        assert!(!case.with(|case| case.now = at(25)).waits().contains(&code));
    }
}

#[test]
fn a_refusal_stands_until_there_is_another_answer() {
    use crate::rotation::observation::Refused;
    let refused = Refused { until: at(25), notice: notice(Code::EvictionRefused, "Pod shop/p1", "refused (403): no") };
    let case = draining().covered(&["p1"]).with(|case| {
        case.seen.leaving[0].refused = Some(refused);
        case.now = at(25);
    });
    assert_eq!(case.waits(), [Code::EvictionRefused], "it is being asked for at this moment");
    let asked = case.clone().with(|case| {
        case.seen.leaving[0].terminating = true;
        case.seen.leaving[0].asked = true;
        case.seen.needs[0].pending = Some(Pending::default());
        case.seen.owners = vec![cart(1, 0, 0)];
    });
    assert_eq!(asked.effects(), []);
    assert_eq!(asked.waits(), [Code::EvictionRefused], "nothing shuts down, and no replacement is on its way");
    let leaves = asked.with(|case| case.seen.leaving[0].asked = false);
    assert_eq!(leaves.waits(), [Code::WaitingForReplacement, Code::Terminating]);

    let others_go_first = case.with(|case| {
        case.seen.needs.push(pending("p2", &["p2"]));
        case.seen.room.push(held("p2"));
    });
    assert_eq!(others_go_first.waits(), [Code::EvictionRefused]);
}

#[test]
fn a_budget_that_is_asked_all_the_same_is_closed_until_it_answers() {
    let closed =
        notice(Code::PodDisruptionBudget, "PodDisruptionBudget shop/cart", "needs 3 healthy, has 3 (allows 0)");
    let asked = draining().covered(&["p1"]).with(|case| {
        case.seen.budgets = vec![Budget { allowed: -1, closed, poll_at: None }];
        case.seen.leaving[0] = Leaving { asked: true, budget: Some(0), ..terminating("p1", 0) };
        case.seen.needs[0].pending = Some(Pending::default());
        case.seen.owners = vec![cart(1, 0, 0)];
    });
    assert_eq!(asked.waits(), [Code::PodDisruptionBudget]);
    let allowed = asked.with(|case| case.seen.budgets[0].allowed = 0);
    assert!(!allowed.waits().contains(&Code::PodDisruptionBudget));
}

#[test]
fn a_pod_that_became_untouchable_is_left_alone_and_named() {
    let marked = notice(Code::DoNotDisrupt, "Pod shop/p1", "is marked");
    let case = draining().covered(&["p1"]).with(|case| case.seen.leaving[0].blocked = vec![marked]);
    assert_eq!(case.effects(), []);
    assert_eq!(case.waits(), [Code::DoNotDisrupt]);
}

#[test]
fn without_a_surge_pods_are_evicted_without_room() {
    let case = draining().covered(&["p1"]).with(|case| {
        case.record.options.surge = SurgeMode::None;
        case.seen.leaving =
            vec![Leaving { class: None, ..leaving("p1", 0) }, Leaving { class: None, ..leaving("p2", 1) }];
        case.seen.needs.clear();
        case.seen.room.clear();
    });
    assert_eq!(evicted(&case.effects()), ["p1", "p2"]);
}

#[test]
fn a_late_pod_gets_its_place_in_the_record_and_then_room_before_it_is_evicted() {
    let case = draining().covered(&["p1"]).with(|case| case.seen.verdicts.fresh = vec![fresh("late")]);
    let record = case.step().record.unwrap();
    assert_eq!(record.moves()[1].uid, "late");
    assert!(!record.moves()[1].returned);
    let case = case.with(|case| {
        case.record = record;
        case.seen.verdicts.fresh.clear();
        case.seen.leaving.push(leaving("late", 0));
        case.seen.needs.push(need("late", &[]));
    });
    let effects = case.effects();
    assert_eq!((evicted(&effects), reserved(&effects)), (vec!["p1"], vec!["late"]));
}

#[test]
fn a_pod_that_comes_back_is_moved_twice_and_then_named() {
    let back = |returns: usize| {
        draining().moving(&["p1"]).with(|case| {
            for _ in 0..returns {
                let surge = case.record.surge.as_mut().unwrap();
                let mut moved = surge.moves[0].clone();
                moved.uid = format!("back{}", surge.moves.len());
                moved.returned = true;
                surge.moves.push(moved);
            }
            case.seen.verdicts.fresh = vec![fresh("again")];
        })
    };
    let record = back(1).step().record.unwrap();
    assert!(record.moves().last().unwrap().returned);
    let waits = back(2);
    assert_eq!(waits.waits(), [Code::ReturnsToNode]);
    assert_eq!(waits.effects(), []);
}

#[test]
fn young_pods_of_an_owner_met_late_are_no_replacements_and_those_of_a_known_one_are() {
    let case = draining().moving(&["p1"]).with(|case| {
        let siblings = vec!["young".to_owned()];
        case.seen.verdicts.fresh = vec![Fresh { siblings, ..fresh("late") }];
    });
    assert_eq!(case.step().record.unwrap().surge.unwrap().known, Vec::<String>::new());
    let case = case.with(|case| case.seen.verdicts.fresh[0].owner = Some(owner("other")));
    assert_eq!(case.step().record.unwrap().surge.unwrap().known, ["young"]);
}

#[test]
fn a_pod_replaced_under_its_name_is_another_pod() {
    // p1 is gone; a new one of the same name was bound here. It is judged, recorded and covered like any late Pod.
    let case = draining().moving(&["p1"]).with(|case| {
        case.seen.verdicts.fresh = vec![Fresh { uid: "other".to_owned(), ..fresh("p1") }];
    });
    let step = case.step();
    assert_eq!(step.effects, []);
    assert_eq!(step.record.unwrap().moves()[1].uid, "other");
}

#[test]
fn a_bare_pod_that_comes_late_holds_the_drain_up_and_is_named() {
    let bare = notice(Code::BarePod, "Pod shop/bare", "has no controller");
    let case = draining().moving(&["p1"]).with(|case| case.seen.verdicts.blockers = vec![bare]);
    assert_eq!(case.waits(), [Code::BarePod]);
}

#[test]
fn pods_shutting_down_are_waited_for() {
    let case = draining().moving(&["p1", "p2"]).with(|case| {
        case.seen.leaving = vec![terminating("p1", 0), terminating("p2", 0)];
        case.seen.shutting_down = vec!["shop/bare".to_owned()];
    });
    let step = case.step();
    assert_eq!(step.waiting[0].object, "Pod shop/p1");
    assert_eq!(step.waiting[0].message, "it and 2 more Pods are shutting down");
    assert_eq!(step.progress.evicted, 2);
}

#[test]
fn an_empty_node_settles() {
    let case = draining().moving(&["p1"]).with(|case| case.seen.owners = vec![cart(1, 0, 0)]);
    assert_eq!(case.next(), Phase::Settling);
}

#[test]
fn a_cordon_lifted_by_others_is_set_again_before_anything_is_evicted() {
    let case = draining().covered(&["p1"]).with(|case| {
        case.seen.node = NodeSeen::Here { marked: false, traces: true, deleting: false };
    });
    assert_eq!(case.effects(), [Effect::Mark]);
}

#[test]
fn a_pause_stops_evictions_and_keeps_the_room() {
    let case = draining().covered(&["p1", "p2"]).paused().with(|case| {
        case.seen.leaving = vec![leaving("p1", 0)];
        case.seen.needs = vec![need("p1", &["p1"]), pending("p2", &[])];
        case.seen.room = vec![held("p1")];
    });
    let effects = case.effects();
    assert_eq!((evicted(&effects), reserved(&effects), released(&effects)), (vec![], vec!["p2"], vec![]));
    assert_eq!(case.waits(), [Code::Paused]);
}

#[test]
fn owners_that_keep_us_waiting_are_asked_what_they_want() {
    let case = draining().moving(&["p1"]).with(|case| {
        case.seen.leaving = vec![terminating("p1", 0)];
        let ask = Some(("shop".to_owned(), owner("cart")));
        case.seen.owners = vec![OwnerSeen { ask, ..cart(1, 0, 0) }];
    });
    let asked = Effect::ReadOwner { namespace: "shop".to_owned(), owner: owner("cart") };
    assert_eq!(case.effects(), [asked]);
    assert_eq!(case.message(), "1 replacement is not running yet");
}
