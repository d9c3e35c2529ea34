//! The lines that change in place, and everything else that is printed meanwhile: it goes above them.

use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;

/// What is on the terminal now. Whoever prints must know, wherever they are: there is one terminal.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// From now on these lines are there, or none.
pub(crate) fn show(lines: Option<ProgressBar>) {
    *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = lines;
}

/// Prints with the changing lines out of the way.
pub(crate) fn aside<R>(print: impl FnOnce() -> R) -> R {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match shown {
        Some(lines) => lines.suspend(print),
        None => print(),
    }
}
