//! `rotate-agent pause`: what every placeholder Pod runs, as process 1 of its container, with nothing around it.

use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rotate_agent::clock::Clock;
use tokio::io::AsyncReadExt as _;

#[tokio::test]
async fn a_placeholder_needs_nothing_takes_next_to_no_memory_and_ends_at_once() {
    let mut pause = tokio::process::Command::new(env!("CARGO_BIN_EXE_rotate-agent"));
    let mut pause = pause.arg("pause").env_clear().current_dir("/").stderr(Stdio::piped()).spawn().unwrap();
    let pid = pause.id().unwrap();
    let listening = || std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| catches(&status, 15));
    for _ in 0..2_000 {
        if listening() {
            break;
        }
        Clock::system().sleep(Duration::from_millis(5)).await;
    }
    assert!(listening(), "it does not listen to SIGTERM, which process 1 of a container would then never get");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let kilobytes: u64 = field(&status, "RssAnon:").trim_end_matches(" kB").parse().unwrap();
    // Two thirds of it are relocations, of which a release has a third.
    assert!(kilobytes < 3 * 1024, "{kilobytes} kB");
    assert!(terminate(pid).success());
    let ended = tokio::time::timeout(Duration::from_secs(5), pause.wait()).await.expect("it ends").unwrap();
    assert!(ended.success(), "{ended}");
    let mut said = String::new();
    pause.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "");
}

/// A field of `/proc/PID/status`.
fn field<'status>(status: &'status str, name: &str) -> &'status str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim()
}

/// Whether a process has a handler for this signal.
fn catches(status: &str, signal: u32) -> bool {
    u64::from_str_radix(field(status, "SigCgt:"), 16).unwrap() & (1 << (signal - 1)) != 0
}

fn terminate(pid: u32) -> ExitStatus {
    Command::new("kill").args(["-TERM", &pid.to_string()]).status().unwrap()
}
