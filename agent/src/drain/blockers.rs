//! What disruption budgets say about a Pod.

use rotate_shared::Code;
use rotate_shared::plan::Notice;

use crate::cache::pdbs::Limit;
use crate::cache::{Pdb, Pod, PodPhase};

/// Whether a Pod may be evicted as far as budgets go, judged as the API server does from what was last watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowance<'a> {
    /// Whatever any budget says.
    Free,
    /// As often as this budget allows now.
    Budget {
        /// The budget.
        pdb: &'a Pdb,
        /// How many evictions it allows; 0 while its status is behind its spec.
        allowed: i32,
    },
    /// This budget allows none, and none later unless somebody changes something.
    Never {
        /// The budget.
        pdb: &'a Pdb,
    },
    /// Several budgets select it: the API server refuses every eviction with a 500.
    Many {
        /// All of them.
        pdbs: Vec<&'a Pdb>,
    },
}

/// Judges a Pod by the budgets that select it ([`crate::cache::State::pdbs_selecting`]).
#[must_use]
pub fn allowance<'a>(pod: &Pod, pdbs: &[&'a Pdb]) -> Allowance<'a> {
    // The order is that of the API server's eviction handler: such Pods go before any budget is asked.
    if pod.deleted.is_some() || pod.phase.is_finished() || pod.phase == PodPhase::Pending {
        return Allowance::Free;
    }
    let pdb = match pdbs {
        [] => return Allowance::Free,
        [pdb] => *pdb,
        several => return Allowance::Many { pdbs: several.to_vec() },
    };
    if !pod.ready && (pdb.unhealthy_always || (pdb.current && pdb.healthy >= pdb.desired && pdb.desired > 0)) {
        return Allowance::Free;
    }
    if pdb.allowed <= 0 && never_allows(pdb) {
        return Allowance::Never { pdb };
    }
    Allowance::Budget { pdb, allowed: if pdb.current { pdb.allowed.max(0) } else { 0 } }
}

/// Whether a budget never allows an eviction, however healthy its Pods are.
#[must_use]
pub fn never_allows(pdb: &Pdb) -> bool {
    let by_spec = match &pdb.limit {
        Limit::MaxUnavailable(limit) => matches!(&**limit, "0" | "0%"),
        Limit::MinAvailable(limit) => &**limit == "100%",
    };
    by_spec || (pdb.current && pdb.expected > 0 && pdb.desired >= pdb.expected)
}

/// What a plan says about a budget that lets a Pod not go now: a blocker where it never will.
#[must_use]
pub fn notice(pod: &Pod, allowance: &Allowance<'_>) -> Option<(Severity, Notice)> {
    match allowance {
        Allowance::Free => None,
        Allowance::Budget { allowed, .. } if *allowed > 0 => None,
        Allowance::Budget { pdb, .. } => Some((Severity::Warning, closed(pod, pdb))),
        Allowance::Never { pdb } => Some((Severity::Blocker, never(pod, pdb))),
        Allowance::Many { pdbs } => Some((Severity::Blocker, many(pod, pdbs))),
    }
}

/// Whether a notice stops a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It does.
    Blocker,
    /// It is waited for.
    Warning,
}

/// `PodDisruptionBudget namespace/name`.
#[must_use]
pub fn object(pdb: &Pdb) -> String {
    format!("PodDisruptionBudget {}/{}", pdb.namespace, pdb.name)
}

/// The numbers of a budget: `needs 3 healthy, has 3 (allows 0)`.
#[must_use]
pub fn numbers(pdb: &Pdb) -> String {
    format!("needs {} healthy, has {} (allows {})", pdb.desired, pdb.healthy, pdb.allowed.max(0))
}

fn closed(pod: &Pod, pdb: &Pdb) -> Notice {
    let behind = if pdb.current { "" } else { "; its status is behind its spec" };
    let (message, remedy) = if pod.ready {
        (format!("{}{behind}", numbers(pdb)), "")
    } else {
        let message = format!("{}{behind}; Pod {} is not Ready and may hold it for ever", numbers(pdb), pod.path());
        (message, "unhealthyPodEvictionPolicy: AlwaysAllow on the budget lets Pods go that are not Ready")
    };
    Notice { code: Code::PodDisruptionBudget, object: object(pdb), message, remedy: remedy.to_owned() }
}

const PAST_BUDGETS: &str = "--disable-eviction deletes Pods past any budget, where the agent may delete them";

fn never(pod: &Pod, pdb: &Pdb) -> Notice {
    let limit = match &pdb.limit {
        Limit::MinAvailable(limit) => format!("minAvailable {limit}"),
        Limit::MaxUnavailable(limit) => format!("maxUnavailable {limit}"),
    };
    let of = if pdb.expected > 0 { format!(" of {} Pods", pdb.expected) } else { String::new() };
    let unhealthy = if pod.ready { "" } else { "; unhealthyPodEvictionPolicy: AlwaysAllow would let this one go" };
    Notice {
        code: Code::PodDisruptionBudgetNever,
        object: object(pdb),
        message: format!("never allows an eviction: {limit}{of}, {}; it selects Pod {}", numbers(pdb), pod.path()),
        remedy: format!("add a replica or loosen the budget{unhealthy}; {PAST_BUDGETS}"),
    }
}

fn many(pod: &Pod, pdbs: &[&Pdb]) -> Notice {
    let names: Vec<_> = pdbs.iter().map(|pdb| format!("{}/{}", pdb.namespace, pdb.name)).collect();
    Notice {
        code: Code::MultiplePodDisruptionBudgets,
        object: format!("Pod {}", pod.path()),
        message: format!(
            "is selected by {} disruption budgets, so that the API server refuses its eviction: {}",
            names.len(),
            names.join(", ")
        ),
        remedy: format!("narrow or delete all but one of them; {PAST_BUDGETS}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surge::testing;

    fn pdb(name: &str, limit: Limit, [expected, desired, healthy, allowed]: [i32; 4]) -> Pdb {
        Pdb {
            namespace: "shop".into(),
            name: name.into(),
            uid: name.into(),
            selector: Some(crate::cache::selector::Selector::default()),
            limit,
            unhealthy_always: false,
            allowed,
            healthy,
            desired,
            expected,
            current: true,
        }
    }

    fn min(limit: &str, numbers: [i32; 4]) -> Pdb {
        pdb("cart", Limit::MinAvailable(limit.into()), numbers)
    }

    fn max(limit: &str, numbers: [i32; 4]) -> Pdb {
        pdb("cart", Limit::MaxUnavailable(limit.into()), numbers)
    }

    fn ready() -> Pod {
        Pod { ready: true, phase: PodPhase::Running, ..testing::pod("shop", "cart-1", &serde_json::json!({})) }
    }

    fn unready() -> Pod {
        Pod { ready: false, ..ready() }
    }

    #[test]
    fn without_a_budget_a_pod_may_go() {
        assert_eq!(allowance(&ready(), &[]), Allowance::Free);
    }

    #[test]
    fn an_open_budget_says_how_many_may_go() {
        let pdb = max("2", [6, 4, 6, 2]);
        assert_eq!(allowance(&ready(), &[&pdb]), Allowance::Budget { pdb: &pdb, allowed: 2 });
        assert_eq!(notice(&ready(), &allowance(&ready(), &[&pdb])), None);
    }

    #[test]
    fn a_closed_budget_is_a_warning_with_its_numbers() {
        let pdb = min("3", [4, 3, 3, 0]);
        let (severity, notice) = notice(&ready(), &allowance(&ready(), &[&pdb])).unwrap();
        assert_eq!(severity, Severity::Warning);
        assert_eq!(notice.object, "PodDisruptionBudget shop/cart");
        assert_eq!(notice.message, "needs 3 healthy, has 3 (allows 0)");
    }

    #[test]
    fn a_budget_whose_status_is_behind_its_spec_allows_nothing_yet() {
        let pdb = Pdb { current: false, ..max("2", [6, 4, 6, 2]) };
        assert_eq!(allowance(&ready(), &[&pdb]), Allowance::Budget { pdb: &pdb, allowed: 0 });
    }

    #[test]
    fn budgets_that_can_never_allow_anything_are_called_so() {
        let budgets = [
            max("0", [3, 3, 3, 0]),
            max("0%", [3, 3, 3, 0]),
            min("100%", [3, 3, 3, 0]),
            min("3", [3, 3, 3, 0]),
            min("5", [3, 5, 3, 0]),
            min("90%", [5, 5, 5, 0]),
            Pdb { current: false, ..max("0", [0, 0, 0, 0]) },
        ];
        for pdb in &budgets {
            assert_eq!(allowance(&ready(), &[pdb]), Allowance::Never { pdb }, "{:?}", pdb.limit);
            let (severity, notice) = notice(&ready(), &allowance(&ready(), &[pdb])).unwrap();
            assert_eq!((severity, notice.code), (Severity::Blocker, Code::PodDisruptionBudgetNever));
            assert!(notice.message.starts_with("never allows an eviction"));
        }
    }

    #[test]
    fn a_single_replica_that_must_stay_up_is_never_and_not_merely_not_now() {
        let pdb = min("1", [1, 1, 1, 0]);
        assert_eq!(allowance(&ready(), &[&pdb]), Allowance::Never { pdb: &pdb });
    }

    #[test]
    fn two_budgets_are_both_named() {
        let (one, other) = (max("1", [3, 2, 3, 1]), pdb("all", Limit::MaxUnavailable("1".into()), [9, 8, 9, 1]));
        let (severity, notice) = notice(&ready(), &allowance(&ready(), &[&one, &other])).unwrap();
        assert_eq!((severity, notice.code), (Severity::Blocker, Code::MultiplePodDisruptionBudgets));
        assert!(notice.message.ends_with("shop/cart, shop/all"), "{}", notice.message);
    }

    #[test]
    fn pods_that_are_pending_finished_or_shutting_down_may_go_whatever_budgets_say() {
        let never = max("0", [3, 3, 3, 0]);
        let mut gone = ready();
        gone.deleted = Some(jiff::Timestamp::UNIX_EPOCH);
        let of_phase = |phase| Pod { phase, ..unready() };
        for pod in [gone, of_phase(PodPhase::Pending), of_phase(PodPhase::Succeeded), of_phase(PodPhase::Failed)] {
            assert_eq!(allowance(&pod, &[&never]), Allowance::Free);
            assert_eq!(allowance(&pod, &[&never, &never]), Allowance::Free);
        }
    }

    #[test]
    fn always_allow_lets_an_unready_pod_go_past_a_closed_budget_but_not_a_ready_one() {
        let pdb = Pdb { unhealthy_always: true, ..max("0", [3, 3, 2, 0]) };
        assert_eq!(allowance(&unready(), &[&pdb]), Allowance::Free);
        assert_eq!(allowance(&ready(), &[&pdb]), Allowance::Never { pdb: &pdb });
    }

    #[test]
    fn if_healthy_budget_lets_an_unready_pod_go_only_while_enough_others_are_healthy() {
        let enough = min("2", [3, 2, 2, 0]);
        assert_eq!(allowance(&unready(), &[&enough]), Allowance::Free);
        let too_few = min("2", [3, 2, 1, 0]);
        assert_eq!(allowance(&unready(), &[&too_few]), Allowance::Budget { pdb: &too_few, allowed: 0 });
        let (_, notice) = notice(&unready(), &allowance(&unready(), &[&too_few])).unwrap();
        assert!(notice.remedy.contains("AlwaysAllow"), "{}", notice.remedy);
    }
}
