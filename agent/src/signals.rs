//! What ends a process from outside: SIGTERM and Ctrl-C; on Windows, which has no SIGTERM, what its console sends.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown,
};

/// Listens from when it is made, so that what is sent before anybody waits is not lost. The kernel drops a signal that process
/// 1 of a container does not listen to.
#[cfg(unix)]
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

#[cfg(unix)]
impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// The system lets nobody listen.
    pub fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Listens from when it is made, so that what is sent before anybody waits is not lost.
#[cfg(windows)]
#[derive(Debug)]
pub struct Signals {
    ctrl_c: CtrlC,
    ctrl_break: CtrlBreak,
    close: CtrlClose,
    shutdown: CtrlShutdown,
}

#[cfg(windows)]
impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// The system lets nobody listen.
    pub fn new() -> io::Result<Self> {
        Ok(Self { ctrl_c: ctrl_c()?, ctrl_break: ctrl_break()?, close: ctrl_close()?, shutdown: ctrl_shutdown()? })
    }

    /// Waits for one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.ctrl_c.recv() => {}
            _ = self.ctrl_break.recv() => {}
            _ = self.close.recv() => {}
            _ = self.shutdown.recv() => {}
        }
    }
}
