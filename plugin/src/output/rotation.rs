//! Rotations as tables, in detail, and in one line.

use jiff::Timestamp;
use rotate_shared::options::{SurgeMode, Then};
use rotate_shared::plan::Provider;
use rotate_shared::rotation::Waiting;
use rotate_shared::{Phase, Rotation};

use super::table::Table;
use super::{age, console, escape};

/// A table, one line a rotation.
pub(crate) fn table(rotations: &[Rotation], now: Timestamp, wide: bool, headers: bool) -> String {
    let mut columns = vec!["ID", "NODE", "PHASE", "MOVED", "AGE"];
    if wide {
        columns.extend(["BATCH", "PROVIDER", "REQUESTED-BY", "REASON"]);
    }
    columns.push("MESSAGE");
    let mut table = Table::new(&columns);
    for rotation in rotations {
        let mut row = vec![
            rotation.id.clone(),
            rotation.node.clone(),
            phase(rotation),
            moved(rotation),
            age::since(rotation.created_at, now),
        ];
        if wide {
            row.push(rotation.batch.clone().unwrap_or_else(|| "-".to_owned()));
            row.push(provider(rotation.provider).to_owned());
            row.push(rotation.requested_by.claimed.clone().unwrap_or_else(|| "-".to_owned()));
            row.push(rotation.options.reason.clone().unwrap_or_else(|| "-".to_owned()));
        }
        row.push(match (&rotation.outcome, rotation.waiting.first()) {
            (Some(outcome), _) => outcome.message.clone(),
            (None, Some(waiting)) => wait(waiting, now),
            (None, None) => "-".to_owned(),
        });
        table.row(row);
    }
    table.render(headers, "")
}

/// One rotation in detail.
pub(crate) fn detail(rotation: &Rotation, now: Timestamp) -> String {
    let mut text = String::new();
    let mut field = |name: &str, value: &str| {
        text.push_str(&format!("{:<13}{}\n", format!("{name}:"), escape::line(value)));
    };
    field("Rotation", &rotation.id);
    if let Some(batch) = &rotation.batch {
        field("Batch", batch);
    }
    field("Node", &format!("{} ({})", rotation.node, provider(rotation.provider)));
    field("Phase", &phase(rotation));
    field("Progress", &progress(rotation));
    field("Age", &age::since(rotation.created_at, now));
    let surge = match rotation.options.surge {
        SurgeMode::PerPod => "room reserved for each Pod",
        SurgeMode::Single => "room reserved for all Pods together",
        SurgeMode::None => "no room reserved",
    };
    let then = match rotation.options.then {
        Some(Then::Delete) => "then delete the node",
        Some(Then::Keep) => "then keep the node, cordoned",
        Some(Then::Uncordon) => "then uncordon the node",
        None => "then as its provider does",
    };
    field("Asked for", &format!("{surge}, {then}"));
    if let Some(reason) = &rotation.options.reason {
        field("Reason", reason);
    }
    if let Some(claimed) = &rotation.requested_by.claimed {
        field("Asked by", &format!("{claimed} (as they say)"));
    }
    if let Some(outcome) = &rotation.outcome {
        field("Outcome", &outcome.message);
    }
    if !rotation.phases.is_empty() {
        text.push_str("\nPHASES\n");
        let mut table = Table::new(&["PHASE", "STARTED", "TOOK"]);
        for span in &rotation.phases {
            let took = match span.finished_at {
                Some(finished) => age::since(span.started_at, finished),
                None if span.phase.is_terminal() => "-".to_owned(),
                None => format!("{} so far", age::since(span.started_at, now)),
            };
            table.row([span.phase.to_string(), span.started_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), took]);
        }
        text.push_str(&table.render(true, "  "));
    }
    if !rotation.waiting.is_empty() {
        text.push_str("\nWAITING\n");
        for waiting in &rotation.waiting {
            text.push_str(&format!("  {}\n", escape::line(&wait(waiting, now))));
            if !waiting.remedy.is_empty() {
                text.push_str(&format!("      → {}\n", escape::line(&waiting.remedy)));
            }
        }
    }
    if !rotation.warnings.is_empty() {
        text.push_str("\nWARNINGS\n");
        for warning in &rotation.warnings {
            text.push_str(&console::notice(warning));
            text.push('\n');
        }
    }
    if !rotation.moved.is_empty() {
        text.push_str("\nMOVED\n");
        for pod in &rotation.moved {
            text.push_str(&format!("  {}\n", escape::line(pod)));
        }
    }
    text
}

/// `waiting 2m10s: PodDisruptionBudget shop/cart: needs 3 healthy, has 3 (allows 0)`.
pub(crate) fn wait(waiting: &Waiting, now: Timestamp) -> String {
    let since = age::since(waiting.since, now);
    // Messages name their object themselves where that reads better.
    if waiting.object.is_empty() || waiting.message.contains(&waiting.object) {
        format!("waiting {since}: {}", waiting.message)
    } else {
        format!("waiting {since}: {}: {}", waiting.object, waiting.message)
    }
}

/// The phase with what bends it.
pub(crate) fn phase(rotation: &Rotation) -> String {
    let mut text = rotation.phase.to_string();
    if !rotation.phase.is_terminal() {
        if rotation.cancelling {
            text.push_str(", cancelling");
        }
        if rotation.paused {
            text.push_str(", paused");
        }
    }
    text
}

/// The phase as a part of a sentence.
pub(crate) fn phase_in_words(rotation: &Rotation) -> String {
    phase(rotation).to_lowercase().replace("rolledback", "rolled back").replace("rollingback", "rolling back")
}

/// How far it is, in words that fit the phase.
pub(crate) fn progress(rotation: &Rotation) -> String {
    let progress = &rotation.progress;
    match rotation.phase {
        Phase::Queued => "nothing is touched yet".to_owned(),
        Phase::Cancelled => "nothing was touched".to_owned(),
        Phase::RollingBack | Phase::RolledBack => "no Pod was evicted".to_owned(),
        Phase::Surging if progress.to_move == 0 => "the Pods to move are not counted yet".to_owned(),
        _ if progress.to_move == 0 && is_counted(rotation) => "no Pods to move".to_owned(),
        _ if progress.to_move == 0 => "no Pod was evicted".to_owned(),
        _ if progress.uncounted => {
            format!("{}, how many of them moved is not known", super::plan::plural(pods(progress.to_move), "Pod"))
        }
        Phase::Surging => format!("room reserved for {} of {} Pods", progress.reserved, progress.to_move),
        _ => format!(
            "{} of {} Pods evicted, {} landed, room held for {}",
            progress.evicted, progress.to_move, progress.landed, progress.reserved
        ),
    }
}

/// Whether the Pods to move were counted: that is done in Surging, and what ended there may never have come to it.
fn is_counted(rotation: &Rotation) -> bool {
    let drains = |phase| matches!(phase, Phase::Draining | Phase::Settling | Phase::Removing | Phase::Succeeded);
    drains(rotation.phase) || rotation.phases.iter().any(|span| drains(span.phase))
}

fn pods(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// `2/3`, with `?` for what is not known and `-` before anything is.
fn moved(rotation: &Rotation) -> String {
    let progress = &rotation.progress;
    match progress.to_move {
        0 if !is_counted(rotation) => "-".to_owned(),
        to_move if progress.uncounted => format!("?/{to_move}"),
        to_move => format!("{}/{to_move}", progress.landed),
    }
}

/// What came of it, to follow `node/NAME`.
pub(crate) fn result(rotation: &Rotation) -> String {
    let how = match rotation.phase {
        Phase::Succeeded => "rotated",
        Phase::RolledBack => "not rotated, everything is as it was found",
        Phase::Cancelled => "not rotated, nothing was touched",
        Phase::Stopped => "stopped midway",
        Phase::Superseded => "taken by other hands",
        Phase::Failed => "failed",
        _ => "in work",
    };
    match &rotation.outcome {
        Some(outcome) if rotation.phase != Phase::Succeeded && !outcome.message.is_empty() => {
            format!("{how}: {}", outcome.message)
        }
        _ => how.to_owned(),
    }
}

/// The provider as spelled in the API.
pub(crate) fn provider(provider: Provider) -> &'static str {
    match provider {
        Provider::Karpenter => "karpenter",
        Provider::ClusterAutoscaler => "cluster-autoscaler",
        Provider::ClusterApi => "cluster-api",
        Provider::Unmanaged => "unmanaged",
    }
}

#[cfg(test)]
pub(crate) mod tests;
