//! Ports for the programs that tests start.
//!
//! A port that the system hands out and takes back may go to any outgoing connection before the program listens on it:
//! seen once in some hundred control planes. These lie below the range that systems take such ports from (32768 and up on
//! Linux, 49152 and up elsewhere), and a lock on a file keeps other test processes from choosing the same.

use std::fs::{File, OpenOptions, TryLockError};
use std::net::TcpListener;
use std::ops::Range;
use std::path::PathBuf;
use std::process;
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

const RANGE: Range<u16> = 20_000..32_000;

/// What this process has claimed: kept until it ends, since what listens may end later than the test that started it.
static CLAIMED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A port of loopback on which nobody listens, and which nobody else is going to choose while this process lives.
pub(crate) fn claim() -> Result<u16> {
    let locks = directory()?;
    let mut claimed = CLAIMED.lock().expect("nobody panics with it");
    // Each process begins elsewhere, so that those which run side by side seldom meet.
    let first = usize::try_from(process::id())?.wrapping_mul(97) + claimed.len();
    for port in RANGE.cycle().skip(first % RANGE.len()).take(RANGE.len()) {
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(locks.join(port.to_string()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => return Err(error).context("failed to claim a port"),
        }
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            claimed.push(lock);
            return Ok(port);
        }
    }
    bail!("all ports of {RANGE:?} are taken")
}

/// Where the locks are: empty files of the user's own, which are left.
fn directory() -> Result<PathBuf> {
    let path = std::env::temp_dir().join("kubectl-rotate-test-ports");
    std::fs::create_dir_all(&path)?;
    Ok(path)
}
