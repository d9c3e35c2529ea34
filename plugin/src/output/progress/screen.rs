//! A terminal for indicatif on which lines stay whole when its size changes.
//!
//! indicatif fills every line with spaces up to the terminal's width and lets the terminal wrap, so that all lines are one
//! long line to the terminal: made wider or narrower, it lays them out anew, and the next frame is drawn over the wrong
//! rows. Here each line ends where its text ends; and where the terminal has become narrower since, the rows that the last
//! frame takes up now are counted before it is cleared.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use console::{Term, measure_text_width};
use indicatif::TermLike;

/// The width that indicatif believes in: no text is as long, and spaces up to there are told apart from text.
const ENDLESS: u16 = 10_000;

/// Where frames are drawn.
pub(super) struct Screen {
    size: Box<dyn Fn() -> (usize, usize) + Send + Sync>,
    frame: Mutex<Frame>,
}

struct Frame {
    out: Box<dyn Write + Send>,
    /// The lengths of the lines that stand on the terminal.
    drawn: Vec<usize>,
    /// The last frame is cleared, and this one not yet written.
    begun: bool,
    pending: String,
}

/// Rows and columns of the terminal behind stderr.
pub(super) fn size() -> (usize, usize) {
    let (rows, columns) = Term::stderr().size_checked().unwrap_or((24, 80));
    // A terminal that does not know its size says that it has none.
    let known = |length: u16, usual: usize| if length == 0 { usual } else { usize::from(length) };
    (known(rows, 24), known(columns, 80))
}

// === impl Screen ===

impl Screen {
    /// The terminal behind stderr.
    pub(super) fn stderr() -> Self {
        Self::new(Box::new(io::stderr()), Box::new(size))
    }

    /// Writes there; `size` tells rows and columns.
    pub(super) fn new(out: Box<dyn Write + Send>, size: Box<dyn Fn() -> (usize, usize) + Send + Sync>) -> Self {
        Self { size, frame: Mutex::new(Frame { out, drawn: Vec::new(), begun: false, pending: String::new() }) }
    }

    fn with<R>(&self, act: impl FnOnce(&mut Frame) -> R) -> R {
        act(&mut self.frame.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl Frame ===

impl Frame {
    /// Clears the last frame, once.
    fn begin(&mut self, columns: usize) {
        if self.begun {
            return;
        }
        self.begun = true;
        let rows: usize = self.drawn.iter().map(|length| length.div_ceil(columns.max(1)).max(1)).sum();
        if rows > 1 {
            self.pending.push_str(&format!("\u{1b}[{}A", rows - 1));
        }
        if rows > 0 {
            self.pending.push_str("\r\u{1b}[J");
        }
        self.drawn.clear();
    }

    fn text(&mut self, text: &str) {
        if !self.drawn.is_empty() {
            self.pending.push_str("\r\n");
        }
        self.pending.push_str(text);
        self.drawn.push(measure_text_width(text));
    }

    fn flush(&mut self) -> io::Result<()> {
        self.begun = false;
        let pending = std::mem::take(&mut self.pending);
        self.out.write_all(pending.as_bytes())?;
        self.out.flush()
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        ENDLESS
    }

    fn height(&self) -> u16 {
        u16::MAX
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        let (_, columns) = (self.size)();
        self.with(|frame| frame.begin(columns));
        Ok(())
    }

    // The last frame is cleared as a whole.
    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        // The longest line that we make is as long as a terminal is wide.
        let filler = text.len() > usize::from(ENDLESS) / 2 && text.bytes().all(|byte| byte == b' ');
        if !filler && text != "\r" {
            self.with(|frame| frame.text(text));
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.with(Frame::flush)
    }
}

impl fmt::Debug for Screen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Screen").finish_non_exhaustive()
    }
}
