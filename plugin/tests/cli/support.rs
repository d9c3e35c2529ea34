//! Running the real binary, away from this machine's own configuration.

use std::io::Write;
use std::process::{Child, Stdio};

use assert_cmd::Command;
use tempfile::{NamedTempFile, TempDir};

/// What a run left.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit code.
    pub(crate) code: Option<i32>,
    /// Data.
    pub(crate) stdout: String,
    /// Everything else.
    pub(crate) stderr: String,
}

/// Runs `kubectl-rotate` to its end.
pub(crate) fn rotate(line: &[&str]) -> Run {
    rotate_with(line, "")
}

/// Runs `kubectl-rotate` with this on stdin.
pub(crate) fn rotate_with(line: &[&str], stdin: &str) -> Run {
    let home = TempDir::new().expect("a temporary directory");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-rotate"));
    command.env_clear().env("HOME", home.path()).args(line).write_stdin(stdin);
    let output = command.output().expect("the binary runs");
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// Starts `kubectl-rotate`, to be interrupted.
pub(crate) fn started(line: &[&str]) -> Child {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-rotate"));
    command.env_clear().args(line).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary runs")
}

/// Sends a signal.
pub(crate) fn signal(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    let killed = std::process::Command::new("kill").args([signal, &pid]).status().expect("kill exists");
    assert!(killed.success());
}

/// Ctrl-C, then the end.
pub(crate) fn interrupted(child: Child) -> Run {
    signalled(child, "-INT")
}

/// A signal, then the end.
pub(crate) fn signalled(child: Child, name: &str) -> Run {
    signal(&child, name);
    let output = child.wait_with_output().expect("it ends");
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// A file with this in it.
pub(crate) fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("it can be written");
    file
}
