//! The agent of kubectl-rotate.

use std::process::ExitCode;

use clap::Parser as _;
use rotate_agent::cli::Cli;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    rustls::crypto::ring::default_provider().install_default().expect("nothing has installed another one");
    match rotate_agent::serve::run(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The log may not be set up yet: whoever started this must see it anyway.
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("error: {}\n", rotate_shared::causes::whole(&*error)),
            );
            ExitCode::FAILURE
        }
    }
}
