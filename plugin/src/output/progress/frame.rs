//! The lines that change in place: one rotation with all that it waits for, or one line each and a summary below.

use jiff::Timestamp;
use rotate_shared::{Phase, Rotation};

use crate::output::{age, escape, fold, rotation as text};

/// More waits than these would push each other off the screen.
const SHOWN_WAITS: usize = 4;
/// Columns between those of the table.
const GAP: usize = 3;

/// The terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// How many lines it has.
    pub(super) rows: usize,
    /// How long they are.
    pub(super) columns: usize,
}

/// The lines for these rotations, those that are over included: as many as there is room for, none longer than it.
pub(super) fn frame(rotations: &[Rotation], now: Timestamp, size: Size) -> Vec<String> {
    // A character in the last column makes some terminals wrap.
    let columns = size.columns.saturating_sub(1).max(1);
    let lines = match rotations {
        [rotation] => one(rotation, now, columns),
        rotations => several(rotations, now, size.rows, columns),
    };
    let mut lines: Vec<String> = lines.iter().map(|line| cut(line, columns)).collect();
    // What does not fit is lost at the top, and could never be cleared again.
    lines.truncate(size.rows.saturating_sub(1).max(1));
    lines
}

fn one(rotation: &Rotation, now: Timestamp, columns: usize) -> Vec<String> {
    if rotation.phase.is_terminal() {
        return Vec::new();
    }
    let state = format!(
        "node/{} {}, {} ({})",
        rotation.node,
        text::phase_in_words(rotation),
        text::progress(rotation),
        age::since(rotation.created_at, now)
    );
    let folded = |line: String| fold::fold(&line, columns).lines().map(str::to_owned).collect::<Vec<_>>();
    let mut lines = folded(escape::line(&state));
    for waiting in rotation.waiting.iter().take(SHOWN_WAITS) {
        lines.extend(folded(format!("    {}", escape::line(&text::wait(waiting, now)))));
    }
    let more = rotation.waiting.len().saturating_sub(SHOWN_WAITS);
    if more > 0 {
        lines.push(format!("    and {more} more: kubectl rotate status {}", rotation.id));
    }
    lines
}

fn several(rotations: &[Rotation], now: Timestamp, rows: usize, columns: usize) -> Vec<String> {
    let mut live: Vec<&Rotation> = rotations.iter().filter(|rotation| !rotation.phase.is_terminal()).collect();
    // Those that wait for their turn have nothing to tell.
    live.sort_by_key(|rotation| rotation.phase == Phase::Queued);
    // The summary, the line of what is left out, and one that the cursor may be on.
    let most = rows.saturating_sub(3).max(1);
    let hidden = live.split_off(live.len().min(most));
    let mut lines = table(&live, now, "");
    if lines.iter().any(|line| line.chars().count() > columns) {
        // Names of a cloud's nodes leave no room for what they wait for, and end alike.
        lines = table(&live, now, common_domain(rotations));
    }
    if !hidden.is_empty() {
        let queued = hidden.iter().filter(|rotation| rotation.phase == Phase::Queued).count();
        let what = if queued == hidden.len() { "queued" } else { "not shown" };
        lines.push(format!("and {} more {what}", hidden.len()));
    }
    lines.push(summary(rotations, now));
    lines
}

/// A line each; the names without this at their end.
fn table(rotations: &[&Rotation], now: Timestamp, domain: &str) -> Vec<String> {
    let cells: Vec<[String; 4]> = rotations
        .iter()
        .map(|rotation| {
            [
                escape::line(&format!("node/{}", rotation.node.strip_suffix(domain).unwrap_or(&rotation.node))),
                text::phase_in_words(rotation),
                match rotation.phase {
                    Phase::Queued => "-".to_owned(),
                    Phase::Surging => format!("{}/{} reserved", rotation.progress.reserved, rotation.progress.to_move),
                    _ => format!("{}/{} moved", rotation.progress.landed, rotation.progress.to_move),
                },
                age::since(in_phase_since(rotation), now),
            ]
        })
        .collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 4] = std::array::from_fn(width);
    let line = |(rotation, row): (&&Rotation, &[String; 4])| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:<width$}", width = width + GAP));
        }
        if let Some(waiting) = rotation.waiting.first() {
            line.push_str(&escape::line(&text::wait(waiting, now)));
        }
        line.trim_end().to_owned()
    };
    rotations.iter().zip(&cells).map(line).collect()
}

/// What all names have in common from a dot on to their end, `.eu-west-1.compute.internal`.
fn common_domain(rotations: &[Rotation]) -> &str {
    let Some((first, others)) = rotations.split_first() else { return "" };
    let dots = first.node.match_indices('.').map(|(at, _)| &first.node[at..]);
    let mut domains = dots.filter(|domain| others.iter().all(|other| other.node.ends_with(domain)));
    domains.next().unwrap_or_default()
}

/// `5 nodes: 2 done, 1 in work, 2 queued (3m5s)`, with a bar of how many are over.
fn summary(rotations: &[Rotation], now: Timestamp) -> String {
    const CELLS: usize = 20;
    let count = |holds: fn(&Rotation) -> bool| rotations.iter().filter(|rotation| holds(rotation)).count();
    let done = count(|rotation| rotation.phase == Phase::Succeeded);
    let over = count(|rotation| rotation.phase.is_terminal());
    let parts = [
        (done, "done"),
        (over - done, "not done"),
        (count(|rotation| rotation.phase.is_active()), "in work"),
        (count(|rotation| rotation.phase == Phase::Queued), "queued"),
    ];
    let parts: Vec<_> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    let begun = rotations.iter().map(|rotation| rotation.created_at).min().unwrap_or(now);
    let filled = (over * CELLS).checked_div(rotations.len()).unwrap_or(0);
    format!(
        "[{}{}] {} nodes: {} ({})",
        "#".repeat(filled),
        "-".repeat(CELLS - filled),
        rotations.len(),
        parts.join(", "),
        age::since(begun, now)
    )
}

fn in_phase_since(rotation: &Rotation) -> Timestamp {
    rotation.phases.last().map_or(rotation.created_at, |span| span.started_at)
}

/// A line of at most this many characters.
fn cut(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    let mut short: String = line.chars().take(columns.saturating_sub(1)).collect();
    short.push('…');
    short
}
