//! Running the real binary, away from this machine's own configuration.

use std::io::Write;

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

/// A file with this in it.
pub(crate) fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("it can be written");
    file
}
