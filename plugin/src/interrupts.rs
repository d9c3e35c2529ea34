//! Ctrl-C and whatever else ends a process from outside, counted from the beginning of a command to its end.
//!
//! Once a program listens to a signal, the kernel never ends it by that signal again: so everything that takes time has to be
//! given up by it, and what cannot be is ended with the process.

use rotate_agent::signals::Signals;
use rotate_shared::exit;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Who asks this often is not kept waiting by anything: a file that is read may hold up the whole command.
const AT_ONCE: u32 = 3;

/// How often a person wanted out.
#[derive(Clone, Debug)]
pub(crate) struct Interrupts {
    count: watch::Receiver<u32>,
}

impl Interrupts {
    /// Listens from now on. Where that cannot be, the process ends at once as without us.
    pub(crate) fn listen() -> Self {
        let (sender, count) = watch::channel(0);
        if let Ok(mut signals) = Signals::new() {
            let mut hangup = Hangup::listen();
            tokio::spawn(async move {
                while *sender.borrow() < AT_ONCE {
                    tokio::select! {
                        () = signals.next() => sender.send_modify(|count| *count += 1),
                        // The kernel and the shell may each tell of the same end of a terminal: nobody is in a hurry.
                        () = hangup.once() => sender.send_modify(|count| *count = (*count).max(1)),
                    }
                }
                std::process::exit(exit::INTERRUPTED.into());
            });
        }
        Self { count }
    }

    /// How many there were.
    pub(crate) fn so_far(&self) -> u32 {
        *self.count.borrow()
    }

    /// Waits until there were so many; those of before count.
    pub(crate) async fn times(&self, times: u32) {
        if self.count.clone().wait_for(|count| *count >= times).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The end of the terminal. On Windows that is among the other signals.
struct Hangup {
    #[cfg(unix)]
    signal: Option<Signal>,
}

#[cfg(unix)]
impl Hangup {
    /// Listens, unless the command is to outlive its terminal.
    fn listen() -> Self {
        Self { signal: if is_ignored() { None } else { signal(SignalKind::hangup()).ok() } }
    }

    /// Waits for one.
    async fn once(&mut self) {
        match &mut self.signal {
            Some(signal) => _ = signal.recv().await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(not(unix))]
impl Hangup {
    fn listen() -> Self {
        Self {}
    }

    async fn once(&mut self) {
        std::future::pending().await
    }
}

/// Whether the command was begun with `nohup`: listening would undo that.
#[cfg(target_os = "linux")]
fn is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}

/// Whether the command was begun with `nohup`, which leaves it no terminal: listening would undo that.
#[cfg(all(unix, not(target_os = "linux")))]
fn is_ignored() -> bool {
    use std::io::IsTerminal;

    !(std::io::stdin().is_terminal() || std::io::stdout().is_terminal() || std::io::stderr().is_terminal())
}
