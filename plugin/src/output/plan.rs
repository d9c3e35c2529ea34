//! A plan as text: the verdict first and last, since one is read first and the other is what the terminal still shows.

use std::collections::BTreeMap;
use std::time::Duration;

use rotate_shared::options::Then;
use rotate_shared::plan::{Class, Disposition, GroupSize, Notice, PlannedPod, PodReason, Provider};
use rotate_shared::{Amounts, Code, Plan};

use super::console;
use super::table::Table;
use super::{age, escape};

/// What plans of several nodes do not promise.
pub(crate) const EACH_BY_ITSELF: &str = "Each node is planned by itself, as if the others stayed as they are.";

/// How one plan is written for people.
pub(crate) fn text(plan: &Plan, wide: bool) -> String {
    let mut text = format!("node/{} ({})\n\n", escape::line(&plan.node), provider(plan));
    text.push_str(&pods(plan, wide));
    text.push_str(&room(plan));
    text.push_str(&groups(plan));
    notices(&mut text, "WARNINGS", &plan.warnings);
    notices(&mut text, "BLOCKERS", &plan.blockers);
    text.push('\n');
    text.push_str(&verdict(plan));
    text.push('\n');
    text
}

/// The plan in a sentence.
pub(crate) fn verdict(plan: &Plan) -> String {
    let node = escape::line(&plan.node);
    match plan.blockers.len() {
        0 => {
            let moves = count(plan, Disposition::Evict);
            let estimate = &plan.estimate;
            let work = match moves {
                0 => "nothing has to move".to_owned(),
                _ => format!("{} to move, {}{}", plural(moves, "Pod"), reserved(plan), lost(plan)),
            };
            let mut text = format!("node/{node} can be rotated: {work}");
            let seconds = estimate.surge_seconds + estimate.drain_seconds;
            if new_nodes(plan) && plan.provider == Provider::Unmanaged {
                // How long that takes, only its owner knows.
                text.push_str("; a new node has to join first");
            } else if not_looked(plan) {
                text.push_str("; where that room is was not looked at");
            } else if seconds > 0 {
                text.push_str(&format!("; about {}", span(seconds)));
                if estimate.extra_node_seconds > 0 {
                    text.push_str(&format!(", with {} of extra node time", span(estimate.extra_node_seconds)));
                }
            }
            text.push_str(match plan.then {
                Some(Then::Delete) => "; then the node is deleted",
                Some(Then::Keep) if is_taken(plan) => {
                    "; then the empty node is left to its autoscaler, which takes it away"
                }
                Some(Then::Keep) => "; then the node stays, cordoned",
                Some(Then::Uncordon) if plan.cordoned => "; then the node stays cordoned, as it was found",
                Some(Then::Uncordon) => "; then the node is uncordoned",
                None => "",
            });
            text.push('.');
            text
        }
        blockers => format!("node/{node} cannot be rotated as asked: {} (above).", plural(blockers, "blocker")),
    }
}

/// For how many Pods there is room before they go.
fn reserved(plan: &Plan) -> String {
    let without = plan.pods.iter().filter(|pod| pod.disposition == Disposition::Evict && !pod.reserved).count();
    let first = || format!("room for {} is reserved first ({})", plan.totals.pods, amounts(&plan.totals.reserved));
    match (without, plan.totals.pods) {
        (0, _) => first(),
        (_, 0) => "without any room reserved first".to_owned(),
        (1, _) => format!("{}, 1 has none", first()),
        (without, _) => format!("{}, {without} have none", first()),
    }
}

/// What nobody brings back.
fn lost(plan: &Plan) -> String {
    let evicted =
        |reason| plan.pods.iter().filter(move |pod| pod.disposition == Disposition::Evict && pod.reason == reason);
    let mut lost = String::new();
    match evicted(PodReason::Bare).count() {
        0 => {}
        1 => lost.push_str(", 1 is gone for good"),
        bare => lost.push_str(&format!(", {bare} are gone for good")),
    }
    match evicted(PodReason::LocalStorage).count() {
        0 => {}
        1 => lost.push_str(", 1 loses its emptyDir data"),
        storing => lost.push_str(&format!(", {storing} lose their emptyDir data")),
    }
    lost
}

/// Whether the autoscaler takes the empty node away by itself: the group that loses a node is the candidate's.
fn is_taken(plan: &Plan) -> bool {
    plan.groups.iter().any(|group| group.after < group.during)
}

/// What stands in the way of one node, with the remedies.
pub(crate) fn blocked(plan: &Plan) -> String {
    let mut text = format!("node/{} is blocked:", escape::line(&plan.node));
    for blocker in &plan.blockers {
        text.push('\n');
        text.push_str(&console::notice(blocker));
    }
    text
}

/// One line a plan, for several nodes.
pub(crate) fn table(plans: &[Plan], headers: bool) -> String {
    let mut table = Table::new(&["NODE", "PROVIDER", "MOVE", "STAY", "BLOCKERS", "RESERVE", "NEW-NODES"]);
    for plan in plans {
        let stay = count(plan, Disposition::Stay) + count(plan, Disposition::Gone);
        table.row([
            plan.node.clone(),
            provider(plan),
            count(plan, Disposition::Evict).to_string(),
            stay.to_string(),
            plan.blockers.len().to_string(),
            amounts(&plan.totals.reserved),
            match () {
                () if not_looked(plan) => "?",
                () if new_nodes(plan) => "yes",
                () => "no",
            }
            .to_owned(),
        ]);
    }
    table.render(headers, "")
}

/// `cpu 2100m, memory 2688Mi`, or `nothing`.
pub(crate) fn amounts(amounts: &Amounts) -> String {
    if amounts.is_empty() {
        return "nothing".to_owned();
    }
    let parts: Vec<_> = amounts.iter().map(|(name, quantity)| format!("{name} {quantity}")).collect();
    parts.join(", ")
}

/// `1 Pod`, `2 Pods`.
pub(crate) fn plural(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn span(seconds: u64) -> String {
    age::of(Duration::from_secs(seconds))
}

fn provider(plan: &Plan) -> String {
    super::rotation::provider(plan.provider).to_owned()
}

fn count(plan: &Plan, disposition: Disposition) -> usize {
    plan.pods.iter().filter(|pod| pod.disposition == disposition).count()
}

fn new_nodes(plan: &Plan) -> bool {
    plan.classes.iter().flat_map(|class| &class.room).any(|room| room.new_node.is_some())
}

/// Whether the agent does not read the nodes that might have the room.
fn not_looked(plan: &Plan) -> bool {
    plan.warnings.iter().any(|warning| warning.code == Code::NotLookedAt)
}

/// Pods by what happens to them; those that stay only counted unless `wide`, for they are nobody's worry.
fn pods(plan: &Plan, wide: bool) -> String {
    let mut groups: BTreeMap<u8, Vec<&PlannedPod>> = BTreeMap::new();
    for pod in &plan.pods {
        groups.entry(rank(pod.disposition)).or_default().push(pod);
    }
    if groups.is_empty() {
        return "PODS\n  none\n".to_owned();
    }
    let mut table = Table::new(&["ACTION", "POD", "REQUESTS", "CLASS", "WHY"]);
    let mut quiet: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in groups.values().flatten() {
        if !wide && matches!(pod.disposition, Disposition::Stay | Disposition::Gone) {
            *quiet.entry(why(pod.reason)).or_default() += 1;
            continue;
        }
        table.row([
            action(pod).to_owned(),
            format!("{}/{}", pod.namespace, pod.name),
            amounts(&pod.requests),
            pod.class.clone().unwrap_or_else(|| "-".to_owned()),
            stands_in_the_way(pod, plan).unwrap_or_else(|| why(pod.reason)).to_owned(),
        ]);
    }
    let mut text = String::from("PODS\n");
    let mut and = "";
    if quiet.values().sum::<usize>() < plan.pods.len() {
        text.push_str(&table.render(true, "  "));
        and = "and ";
    }
    for (why, number) in quiet {
        text.push_str(&format!("  {and}{} left alone: {why}\n", plural(number, "Pod")));
        and = "and ";
    }
    text
}

fn rank(disposition: Disposition) -> u8 {
    match disposition {
        Disposition::Block => 0,
        Disposition::Evict => 1,
        Disposition::Wait => 2,
        Disposition::Stay => 3,
        Disposition::Gone => 4,
    }
}

fn action(pod: &PlannedPod) -> &'static str {
    match (pod.disposition, pod.reserved) {
        (Disposition::Evict, true) => "move",
        (Disposition::Evict, false) => "evict without room",
        (Disposition::Stay, _) => "stay",
        (Disposition::Wait, _) => "wait for its end",
        (Disposition::Gone, _) if pod.reason == PodReason::Terminating => "not waited for",
        (Disposition::Gone, _) => "finished",
        (Disposition::Block, _) => "BLOCKS",
    }
}

/// What blocks a Pod that would be started anew: its reason would only tell that.
fn stands_in_the_way(pod: &PlannedPod, plan: &Plan) -> Option<&'static str> {
    if pod.disposition != Disposition::Block || pod.reason != PodReason::Replicated {
        return None;
    }
    let name = format!("Pod {}/{}", pod.namespace, pod.name);
    let own = plan.blockers.iter().find(|blocker| blocker.object == name).map(|blocker| blocker.code);
    // Of several Pods with one budget, or of one class without room, the blocker names one.
    let has = |code| plan.blockers.iter().any(|blocker| blocker.code == code);
    let class = plan.classes.iter().find(|class| Some(&class.id) == pod.class.as_ref());
    Some(match own {
        Some(Code::NoRoom) => "no room",
        Some(Code::MultiplePodDisruptionBudgets) => "in several PodDisruptionBudgets",
        Some(_) => "see below",
        None if has(Code::NoRoom) && class.is_some_and(|class| nowhere(class) > 0) => "no room",
        None if has(Code::PodDisruptionBudgetNever) => "its PodDisruptionBudget never lets it go",
        None => "see below",
    })
}

fn why(reason: PodReason) -> &'static str {
    match reason {
        PodReason::Replicated => "its controller starts it anew",
        PodReason::Daemonset => "of a DaemonSet",
        PodReason::Mirror => "static, of the kubelet",
        PodReason::Completed => "has finished",
        PodReason::Pinned => "can run only on this node",
        PodReason::Bare => "no controller would start it anew",
        PodReason::Terminating => "is shutting down already",
        PodReason::Placeholder => "our own placeholder",
        PodReason::DoNotDisrupt => "marked as not to be disrupted",
        PodReason::LocalStorage => "has emptyDir data on disk",
        PodReason::ToleratesCordon => "tolerates the cordon, may come back",
        PodReason::NotSelected => "not selected by --pod-selector",
        PodReason::SchedulerUnsupported => "not placed by the default scheduler alone",
    }
}

/// Class by class: how much, where it would come from, and under which constraints.
fn room(plan: &Plan) -> String {
    if plan.classes.is_empty() {
        return String::new();
    }
    let mut text = format!("\nROOM to be reserved: {} in all\n", amounts(&plan.totals.reserved));
    for class in &plan.classes {
        let pods = usize::try_from(class.pods).unwrap_or(usize::MAX);
        text.push_str(&format!("  class {}: {}, {} each\n", class.id, plural(pods, "Pod"), amounts(&class.requests)));
        for origin in origins(class) {
            text.push_str(&format!("      {}\n", escape::line(&origin)));
        }
        if let nowhere @ 1.. = nowhere(class) {
            text.push_str(&format!("      {nowhere} nowhere\n"));
        }
        for constraint in &class.constraints {
            text.push_str(&format!("      constraint: {}\n", escape::line(constraint)));
        }
    }
    text
}

/// For how many Pods of a class there is no room.
fn nowhere(class: &Class) -> u32 {
    class.pods.saturating_sub(class.room.iter().map(|room| room.count).sum())
}

fn origins(class: &Class) -> Vec<String> {
    class
        .room
        .iter()
        .map(|room| match (&room.node, &room.new_node) {
            (Some(node), _) => format!("{} on node/{node}", room.count),
            (None, Some(kind)) if kind.is_empty() => format!("{} on a new node", room.count),
            (None, Some(kind)) => format!("{} on a new node ({kind})", room.count),
            (None, None) => format!("{} where there is room: the scheduler will find out", room.count),
        })
        .collect()
}

/// What becomes of the sizes of groups.
fn groups(plan: &Plan) -> String {
    if plan.groups.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nGROUPS\n");
    for group in &plan.groups {
        let GroupSize { name, nodes, min, max, during, after, .. } = group;
        let course = match (during == nodes, after == nodes) {
            (true, true) => ", and so it stays".to_owned(),
            (true, false) => format!(", {after} in the end"),
            (false, _) => format!(", {during} while rotating, then {after}"),
        };
        text.push_str(&format!("  {}: {nodes} of {min}..{max} nodes{course}\n", escape::line(name)));
    }
    text
}

fn notices(text: &mut String, heading: &str, notices: &[Notice]) {
    if notices.is_empty() {
        return;
    }
    text.push_str(&format!("\n{heading}\n"));
    for notice in notices {
        text.push_str(&console::notice(notice));
        text.push('\n');
    }
}

#[cfg(test)]
pub(crate) mod tests;
