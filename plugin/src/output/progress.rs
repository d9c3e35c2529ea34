//! Progress of rotations on stderr: lines that change in place on a terminal, one plain line a change elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use jiff::Timestamp;
use rotate_shared::Rotation;

use super::console::Console;
use super::{age, escape, rotation};

/// More waits than these would push each other off the screen.
const SHOWN_WAITS: usize = 4;

/// What was last said of each rotation.
#[derive(Debug)]
pub(crate) struct Progress {
    console: Console,
    live: Option<Live>,
    said: BTreeMap<String, Vec<String>>,
}

#[derive(Debug)]
struct Live {
    lines: MultiProgress,
    bars: BTreeMap<String, ProgressBar>,
}

impl Progress {
    /// Nothing said yet.
    pub(crate) fn new(console: Console) -> Self {
        let live = console.is_live().then(|| Live { lines: MultiProgress::new(), bars: BTreeMap::new() });
        Self { console, live, said: BTreeMap::new() }
    }

    /// Shows the present state.
    pub(crate) fn update(&mut self, rotation: &Rotation, now: Timestamp) {
        let lines = plain(rotation, now);
        let keys: Vec<String> = lines.iter().map(|line| line.key.clone()).collect();
        let before = self.said.insert(rotation.id.clone(), keys).unwrap_or_default();
        if self.live.is_none() {
            for line in lines.iter().filter(|line| !before.contains(&line.key)) {
                self.console.note(&line.text);
            }
            return;
        }
        self.redraw(rotation, now);
    }

    /// Lets ages grow on a terminal; elsewhere nothing is said between changes.
    pub(crate) fn tick(&mut self, rotations: &BTreeMap<String, Rotation>, now: Timestamp) {
        for rotation in rotations.values().filter(|rotation| !rotation.phase.is_terminal()) {
            if self.live.is_some() {
                self.redraw(rotation, now);
            }
        }
    }

    /// Takes the changing lines away.
    pub(crate) fn finish(&mut self) {
        if let Some(live) = self.live.take() {
            for bar in live.bars.values() {
                bar.finish_and_clear();
            }
            // The terminal may be full or gone; then there is nothing to take away.
            let _ = live.lines.clear();
        }
    }

    fn redraw(&mut self, rotation: &Rotation, now: Timestamp) {
        let Some(live) = &mut self.live else { return };
        let bar = live.bars.entry(rotation.id.clone()).or_insert_with(|| {
            let style = ProgressStyle::with_template("{spinner:.cyan} {msg}");
            let style = style.expect("the template is well formed");
            let bar = live.lines.add(ProgressBar::new_spinner().with_style(style));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if rotation.phase.is_terminal() {
            bar.finish_and_clear();
            let text = escape::line(&ended(rotation, now));
            live.lines.suspend(|| self.console.note(&text));
            return;
        }
        let mut message = escape::line(&format!(
            "node/{} {}, {} ({})",
            rotation.node,
            rotation::phase(rotation).to_lowercase(),
            rotation::progress(rotation),
            age::since(rotation.created_at, now)
        ));
        for waiting in rotation.waiting.iter().take(SHOWN_WAITS) {
            message.push_str("\n    ");
            message.push_str(&escape::line(&rotation::wait(waiting, now)));
        }
        let more = rotation.waiting.len().saturating_sub(SHOWN_WAITS);
        if more > 0 {
            message.push_str(&format!("\n    and {more} more: kubectl rotate status {}", rotation.id));
        }
        bar.set_message(message);
    }
}

/// A line, and what makes it another one than before: ages grow without anything having changed.
struct Line {
    key: String,
    text: String,
}

/// All there is to say of a rotation in its present state.
fn plain(rotation: &Rotation, now: Timestamp) -> Vec<Line> {
    let node = &rotation.node;
    if rotation.phase.is_terminal() {
        let text = escape::line(&ended(rotation, now));
        return vec![Line { key: text.clone(), text }];
    }
    let state = format!("{}: {}", rotation::phase(rotation).to_lowercase(), rotation::progress(rotation));
    let state = escape::line(&format!("node/{node} {state}"));
    let mut lines = vec![Line { key: state.clone(), text: state }];
    for waiting in &rotation.waiting {
        lines.push(Line {
            key: format!("{} {} {}", waiting.code, waiting.object, waiting.message),
            text: escape::line(&format!("node/{node} {}", rotation::wait(waiting, now))),
        });
    }
    for warning in &rotation.warnings {
        let text = escape::line(&format!("Warning: node/{node} {}: {}", warning.object, warning.message));
        lines.push(Line { key: text.clone(), text });
    }
    lines
}

fn ended(rotation: &Rotation, now: Timestamp) -> String {
    let finished = rotation.phases.last().map_or(now, |span| span.finished_at.unwrap_or(span.started_at));
    let took = age::since(rotation.created_at, finished);
    let message = rotation.outcome.as_ref().map(|outcome| format!(": {}", outcome.message)).unwrap_or_default();
    format!("node/{} {} after {took}{message}", rotation.node, rotation.phase.to_string().to_lowercase())
}

#[cfg(test)]
mod tests;
