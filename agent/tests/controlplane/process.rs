//! Child processes that never outlive the test.
//!
//! A component is killed when its [`Component`] is dropped. A test process that is killed, or that keeps the control plane
//! in a static, drops nothing; so a [`Watchdog`] waits for the end of a pipe that only the test process holds open.
//! All of them are in process groups of their own: Ctrl-C reaches the test alone.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// How much of a log an error shows: enough for a Go panic's first goroutine.
const TAIL_LINES: usize = 25;

/// One running component, with its output in a file.
pub(crate) struct Component {
    name: &'static str,
    command: Command,
    child: Child,
    log: PathBuf,
}

/// Kills what it minds, and removes the directory, once this process is gone.
pub(crate) struct Watchdog(Child);

/// Where a component of this name logs to.
pub(crate) fn log_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.log"))
}

/// The end of a log, as a block of text for an error.
pub(crate) fn tail(log: &Path) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    let name = log.file_name().unwrap_or_default().display().to_string();
    format!("the end of {name}:\n{}", last.join("\n"))
}

// === impl Component ===

impl Component {
    /// Starts a binary with an empty environment but for a `HOME` in the directory.
    pub(crate) fn spawn(name: &'static str, binary: &Path, flags: &[String], dir: &Path) -> Result<Self> {
        Self::spawn_with(name, binary, flags, &[], dir)
    }

    /// The same with more variables.
    pub(crate) fn spawn_with(
        name: &'static str,
        binary: &Path,
        flags: &[String],
        variables: &[(&str, String)],
        dir: &Path,
    ) -> Result<Self> {
        let log = log_path(dir, name);
        let out = OpenOptions::new().create(true).append(true).open(&log)?;
        let mut command = Command::new(binary);
        command.args(flags).env_clear().env("HOME", dir).envs(variables.iter().cloned()).current_dir(dir);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).process_group(0);
        let child = command.spawn().with_context(|| format!("failed to start {name}"))?;
        Ok(Self { name, command, child, log })
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Kills it, if it runs, and starts it again with the same flags, under another process id.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.kill()?;
        self.child = self.command.spawn().with_context(|| format!("failed to start {} again", self.name))?;
        Ok(())
    }

    /// The binary's name.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Fails with the end of the log if the process has ended.
    pub(crate) fn still_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended ({status}); {}", self.name, tail(&self.log)),
        }
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        // Fails only where the process has ended by itself, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

// === impl Watchdog ===

impl Watchdog {
    /// Starts it; the directory, if any, is removed with what is minded.
    pub(crate) fn spawn(dir: Option<&Path>) -> Result<Self> {
        let script = r#"
            while read -r pid; do pids="$pids $pid"; done
            kill -9 $pids 2>/dev/null
            [ -z "$1" ] || rm -rf -- "$1""#;
        let child = Command::new("/bin/sh")
            .args(["-c", script, "watchdog"])
            .arg(dir.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("failed to start the watchdog")?;
        Ok(Self(child))
    }

    /// Minds one more process.
    pub(crate) fn mind(&mut self, pid: u32) -> Result<()> {
        let pipe = self.0.stdin.as_mut().context("the watchdog has no pipe")?;
        writeln!(pipe, "{pid}").context("the watchdog is gone")
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
