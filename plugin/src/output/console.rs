//! Where output goes: data to stdout, everything else to stderr, and what the terminal can do.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use rotate_shared::plan::Notice;

use super::{Format, escape, fold, live};
use crate::called::Called;
use crate::failure::Failure;

const WARNING: &str = "Warning:";

/// The two streams and what stands behind them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    /// Colour on stderr.
    colour: bool,
    /// Lines that change in place on stderr.
    live: bool,
    /// A person can be asked.
    interactive: bool,
    /// How many columns stdout has, where it is a terminal.
    columns: Option<usize>,
    /// How many stderr has.
    margin: Option<usize>,
    /// How our own commands are told.
    called: Called,
    /// The flags that lead to the same agent again: an agent that names a command does not know them.
    again: &'static str,
}

impl Console {
    /// The process's own streams.
    pub(crate) fn of_process(called: Called) -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let terminal = io::stderr().is_terminal();
        // Where nobody says what the terminal can do, it can do nothing. On Windows nobody ever says.
        let dumb = variable("TERM").map_or(cfg!(unix), |term| term == "dumb");
        let plain = dumb || variable("NO_COLOR").is_some();
        Self {
            colour: terminal && !plain,
            live: terminal && !plain,
            interactive: terminal && io::stdin().is_terminal(),
            columns: columns(&io::stdout(), ::console::Term::stdout()),
            margin: columns(&io::stderr(), ::console::Term::stderr()),
            called,
            again: "",
        }
    }

    /// The same for an agent that these flags lead to.
    pub(crate) fn leading_by(self, again: String) -> Self {
        // There is one session a process.
        Self { again: again.leak(), ..self }
    }

    /// What an agent says, with the flags that lead to it behind each command of ours that it names.
    pub(crate) fn led<'text>(&self, text: &'text str) -> Cow<'text, str> {
        led(text, self.again)
    }

    /// The same without lines that change in place: something else writes there too.
    pub(crate) fn without_live(self) -> Self {
        Self { live: false, ..self }
    }

    /// Whether lines may change in place.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Whether there is a person to ask.
    pub(crate) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Prose as it is best read: folded to the terminal's width. Where nobody looks at it, every line stays whole.
    pub(crate) fn folded(&self, text: String) -> String {
        folded(self.worded(&text).into_owned(), self.columns)
    }

    /// A text with our own commands as they can be typed here.
    pub(crate) fn worded<'text>(&self, text: &'text str) -> Cow<'text, str> {
        self.called.worded(text)
    }

    /// Writes data for a person. Line breaks are kept, other control characters are spelled out.
    ///
    /// # Errors
    ///
    /// [`Failure::ClosedPipe`] where nobody reads any more.
    pub(crate) fn data(&self, text: &str) -> Result<(), Failure> {
        self.object(&self.worded(text))
    }

    /// Writes data in the form that was asked for.
    ///
    /// # Errors
    ///
    /// As [`Console::data`].
    pub(crate) fn formatted(&self, format: Format, text: &str) -> Result<(), Failure> {
        match format {
            Format::Json | Format::Yaml => self.object(text),
            Format::Table | Format::Wide | Format::Name => self.data(text),
        }
    }

    /// Writes objects for programs, which know nothing of the name that this one was called by.
    ///
    /// # Errors
    ///
    /// As [`Console::data`].
    pub(crate) fn object(&self, text: &str) -> Result<(), Failure> {
        live::aside(|| {
            let mut stdout = io::stdout().lock();
            stdout.write_all(escape::text(text).as_bytes())?;
            stdout.flush()?;
            Ok(())
        })
    }

    /// Writes what a shell reads, as it is.
    ///
    /// # Errors
    ///
    /// As [`Console::data`].
    pub(crate) fn raw(&self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()?;
        Ok(())
    }

    /// A line for the person. That nobody reads it is no reason to stop.
    pub(crate) fn note(&self, text: &str) {
        aside(&self.worded(text));
    }

    /// A sentence for the person, folded to the terminal's width.
    pub(crate) fn prose(&self, text: String) {
        self.note(&folded(self.worded(&text).into_owned(), self.margin));
    }

    /// `Warning: …`, as kubectl writes it, folded to the terminal's width.
    pub(crate) fn warning(&self, text: &str) {
        let text = folded(format!("{WARNING} {}", escape::line(&self.worded(text))), self.margin);
        let text = match text.strip_prefix(WARNING).filter(|_| self.colour) {
            Some(text) => format!("\u{1b}[33;1m{WARNING}\u{1b}[0m{text}"),
            None => text,
        };
        live::aside(|| {
            let _ = writeln!(io::stderr().lock(), "{text}");
        });
    }

    /// The failure's line.
    pub(crate) fn failure(&self, failure: &Failure) {
        if let Some(line) = failure.line() {
            self.prose(match failure {
                Failure::Problem(_) => self.led(&line).into_owned(),
                _ => line,
            });
        }
        for blocker in failure.blockers() {
            self.note(&folded(self.worded(&self.led(&notice(blocker))).into_owned(), self.margin));
        }
    }

    /// Asks, with no as the answer to everything but `y` and `yes`.
    ///
    /// # Errors
    ///
    /// A usage failure where there is nobody to ask.
    pub(crate) fn confirm(&self, question: &str) -> Result<bool, Failure> {
        if !self.interactive {
            return Err(Failure::Usage(format!("{question} There is no terminal to ask on: give --yes to go ahead")));
        }
        // Not locked while it waits: whoever ends the waiting has something to say.
        let mut stderr = io::stderr();
        let _ = write!(stderr, "{} [y/N] ", escape::line(question));
        let _ = stderr.flush();
        let mut answer = String::new();
        let read = io::stdin().read_line(&mut answer);
        if read.map_err(|error| Failure::Other(format!("read the answer: {error}")))? == 0 {
            // Nobody has ended the line.
            let _ = writeln!(stderr);
        }
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }
}

/// A line for the person that names no command of ours, from where no console is known.
pub(crate) fn aside(text: &str) {
    live::aside(|| {
        let _ = writeln!(io::stderr().lock(), "{}", escape::text(text));
    });
}

/// How many columns a stream has; `None`: it is no terminal.
fn columns(stream: &impl IsTerminal, terminal: ::console::Term) -> Option<usize> {
    let (_, columns) = terminal.size_checked().filter(|_| stream.is_terminal())?;
    Some(columns.into())
}

fn folded(text: String, columns: Option<usize>) -> String {
    match columns {
        Some(columns) => fold::fold(&text, columns),
        None => text,
    }
}

/// Commands that need an agent, which these flags lead to.
const ASKING: [&str; 7] = ["node", "status", "cancel", "pause", "resume", "plan", "fleet"];

/// A text with these flags behind each command of ours that asks an agent.
fn led<'text>(text: &'text str, again: &str) -> Cow<'text, str> {
    const COMMAND: &str = "kubectl rotate ";
    if again.is_empty() || !text.contains(COMMAND) {
        return Cow::Borrowed(text);
    }
    let mut pieces = text.split(COMMAND);
    let mut led = pieces.next().unwrap_or_default().to_owned();
    for after in pieces {
        led.push_str(COMMAND);
        let verb = after.split(|next: char| !next.is_alphanumeric()).next().unwrap_or_default();
        // A command ends with its line, or where a sentence goes on.
        let ends = after.find(['\n', ';', ',', ')', '\'', '"']).unwrap_or(after.len());
        let command = after[..ends].trim_end_matches(['.', ' ']);
        let again = if ASKING.contains(&verb) { again } else { "" };
        led.push_str(&format!("{command}{again}{}", &after[command.len()..]));
    }
    Cow::Owned(led)
}

/// A blocker or warning on a line, with its remedy below.
pub(crate) fn notice(notice: &Notice) -> String {
    let mut text = format!("  {}: {}: {}", notice.code, escape::line(&notice.object), escape::line(&notice.message));
    if !notice.remedy.is_empty() {
        text.push_str("\n      → ");
        text.push_str(&escape::line(&notice.remedy));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_an_agent_are_told_with_the_flags_that_lead_to_it() {
        let again = " --embedded --context a";
        for (said, told) in [
            ("kubectl rotate resume ccaa5a43cb", "kubectl rotate resume ccaa5a43cb --embedded --context a"),
            (
                "see it with: kubectl rotate status 1 -w; or wait",
                "see it with: kubectl rotate status 1 -w --embedded --context a; or wait",
            ),
            ("a (kubectl rotate cancel 1).\nb", "a (kubectl rotate cancel 1 --embedded --context a).\nb"),
            // It asks no agent.
            ("kubectl rotate install --apply", "kubectl rotate install --apply"),
            ("kubectl uncordon a", "kubectl uncordon a"),
        ] {
            assert_eq!(led(said, again), told);
            assert_eq!(led(said, ""), said);
        }
    }
}
