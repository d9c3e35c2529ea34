//! Ctrl-C and whatever else ends a process from outside, counted from the beginning of a command to its end.
//!
//! Once a program listens to a signal, the kernel never ends it by that signal again: so everything that takes time has to be
//! given up by it, and what cannot be is ended with the process.

use rotate_agent::signals::Signals;
use rotate_shared::exit;
use tokio::sync::watch;

/// Who asks this often is not kept waiting by anything: a credential plugin may hold up the whole command.
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
            tokio::spawn(async move {
                while *sender.borrow() < AT_ONCE {
                    signals.next().await;
                    sender.send_modify(|count| *count += 1);
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
