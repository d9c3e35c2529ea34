//! `kubectl rotate`: replace a Kubernetes node without the workload losing capacity.

mod args;
mod called;
mod cli;
mod commands;
mod complete;
mod connect;
mod failure;
mod interrupts;
mod manifests;
mod output;
mod secret;
mod session;
mod usage;

use std::process::ExitCode;

fn main() -> ExitCode {
    rustls::crypto::ring::default_provider().install_default().expect("no other provider was installed before");
    ExitCode::from(commands::main(std::env::args_os()))
}
