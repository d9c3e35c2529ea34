//! Progress of rotations on stderr: lines that change in place on a terminal, one plain line a change elsewhere.
//!
//! ```text
//! rotations ──▶ plain ──▶ what is new of it ──▶ lines (above the frame, where there is one)
//!          └──▶ frame ──▶ indicatif ──▶ screen
//! ```

mod frame;
mod screen;

use std::collections::BTreeMap;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use rotate_shared::Rotation;
use rotate_shared::plan::Notice;

use self::frame::Size;
use self::screen::Screen;
use super::console::Console;
use super::{age, escape, live, rotation};

/// More frames in a second than these nobody can read.
const FRAMES: u8 = 10;

/// The rotations as they were last known, and what was said of each.
#[derive(Debug)]
pub(crate) struct Progress {
    console: Console,
    frame: Option<ProgressBar>,
    said: BTreeMap<String, Vec<String>>,
    /// In the order in which they were first told of.
    states: Vec<Rotation>,
}

impl Progress {
    /// Nothing said yet.
    pub(crate) fn new(console: Console) -> Self {
        let frame = console.is_live().then(|| {
            let target = ProgressDrawTarget::term_like_with_hz(Box::new(Screen::stderr()), FRAMES);
            let style = ProgressStyle::with_template("{msg}").expect("the template is well formed");
            ProgressBar::with_draw_target(None, target).with_style(style)
        });
        live::show(frame.clone());
        Self { console, frame, said: BTreeMap::new(), states: Vec::new() }
    }

    /// Shows the present state. Whether it is another one than before.
    pub(crate) fn update(&mut self, rotation: &Rotation, now: Timestamp) -> bool {
        match self.states.iter_mut().find(|known| known.id == rotation.id) {
            Some(known) if known == rotation => return false,
            Some(known) => known.clone_from(rotation),
            None => self.states.push(rotation.clone()),
        }
        let lines = plain(rotation, now);
        let keys: Vec<String> = lines.iter().map(|line| line.key.clone()).collect();
        let before = self.said.insert(rotation.id.clone(), keys).unwrap_or_default();
        self.redraw(now);
        for line in lines.iter().filter(|line| !before.contains(&line.key)) {
            // Where lines change in place, only what lasts is said.
            if self.frame.is_none() || line.lasts {
                self.console.prose(self.console.led(&line.text).into_owned());
            }
        }
        true
    }

    /// The last known states, in the order in which the rotations were first told of.
    pub(crate) fn states(&self) -> &[Rotation] {
        &self.states
    }

    /// Lets ages grow on a terminal; elsewhere nothing is said between changes.
    pub(crate) fn tick(&self, now: Timestamp) {
        self.redraw(now);
    }

    /// Takes the changing lines away.
    pub(crate) fn finish(&mut self) {
        live::show(None);
        if let Some(frame) = self.frame.take() {
            frame.finish_and_clear();
        }
    }

    fn redraw(&self, now: Timestamp) {
        let Some(shown) = &self.frame else { return };
        let (rows, columns) = screen::size();
        let lines: Vec<String> = frame::frame(&self.states, now, Size { rows, columns })
            .into_iter()
            .map(|line| {
                // A line that breaks is not taken away whole: where its longer form has no room it stays as it is.
                let led = self.console.led(&line);
                let worded = self.console.worded(&led);
                if worded.chars().count() < columns { worded.into_owned() } else { line }
            })
            .collect();
        shown.set_message(lines.join("\n"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A line, and what makes it another one than before: ages grow without anything having changed.
struct Line {
    key: String,
    text: String,
    /// It is worth keeping on the screen.
    lasts: bool,
}

/// All there is to say of a rotation in its present state.
fn plain(rotation: &Rotation, now: Timestamp) -> Vec<Line> {
    let node = &rotation.node;
    let mut lines = Vec::new();
    for warning in &rotation.warnings {
        let text = warned(node, warning);
        lines.push(Line { key: text.clone(), text, lasts: true });
    }
    if rotation.phase.is_terminal() {
        let text = escape::line(&ended(rotation, now));
        lines.push(Line { key: text.clone(), text, lasts: true });
        return lines;
    }
    let state = format!("{}: {}", rotation::phase_in_words(rotation), rotation::progress(rotation));
    let state = escape::line(&format!("node/{node} {state}"));
    lines.push(Line { key: state.clone(), text: state, lasts: false });
    for waiting in &rotation.waiting {
        lines.push(Line {
            key: format!("{} {} {}", waiting.code, waiting.object, waiting.message),
            text: escape::line(&format!("node/{node} {}", rotation::wait(waiting, now))),
            lasts: false,
        });
    }
    lines
}

/// A warning with its remedy below.
fn warned(node: &str, warning: &Notice) -> String {
    let object = match warning.object == format!("Node {node}") {
        true => String::new(),
        false => format!("{}: ", warning.object),
    };
    let mut text = escape::line(&format!("Warning: node/{node}: {object}{}", warning.message));
    if !warning.remedy.is_empty() {
        text.push_str("\n      → ");
        text.push_str(&escape::line(&warning.remedy));
    }
    text
}

fn ended(rotation: &Rotation, now: Timestamp) -> String {
    let finished = rotation.phases.last().map_or(now, |span| span.finished_at.unwrap_or(span.started_at));
    let took = age::since(rotation.created_at, finished);
    // What was a warning already, and will be the last word too, is not said a third time.
    let is_told = |message: &str| rotation.warnings.iter().any(|warning| message.contains(&warning.message));
    let outcome = rotation.outcome.as_ref().filter(|outcome| !is_told(&outcome.message));
    let message = outcome.map(|outcome| format!(": {}", outcome.message)).unwrap_or_default();
    format!("node/{} {} after {took}{message}", rotation.node, rotation::phase_in_words(rotation))
}

#[cfg(test)]
mod tests;
