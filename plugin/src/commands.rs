//! The verbs: one file each. [`main`] parses, runs one, and turns what came of it into an exit code.

mod cancel;
mod completion;
mod demo;
mod each;
mod fleet;
mod follow;
mod hold;
mod install;
mod names;
mod node;
mod plan;
mod status;
mod uninstall;
mod version;

use std::ffi::OsString;

use clap::{CommandFactory, Parser};
use rotate_shared::exit;

use crate::called::Called;
use crate::cli::{Cli, Verb};
use crate::complete;
use crate::failure::Failure;
use crate::output::Console;
use crate::session::Session;
use crate::usage;

/// What a command ends with: an exit code from [`exit`], or a failure that has one.
type Ended = Result<u8, Failure>;

/// Runs a command line; gives its exit code.
pub(crate) fn main(line: impl IntoIterator<Item = OsString>) -> u8 {
    let line: Vec<OsString> = line.into_iter().collect();
    let called = Called::by(line.first());
    let console = Console::of_process(called);
    if let Some(completed) = complete::asked(&line, console) {
        return completed;
    }
    let ended = match Cli::try_parse_from(called.meant(line, &Cli::command())) {
        Ok(cli) => run(cli, console),
        // Help is an answer and no mistake.
        Err(error) if !error.use_stderr() => console.data(&error.to_string()).map(|()| exit::DONE),
        Err(error) => {
            console.note(&usage::explain(&error));
            Ok(exit::USAGE)
        }
    };
    ended.unwrap_or_else(|failure| told(console, &failure))
}

/// Says why a command failed; gives its exit code.
fn told(console: Console, failure: &Failure) -> u8 {
    console.failure(failure);
    failure.exit_code()
}

fn run(mut cli: Cli, console: Console) -> Ended {
    // As kubectl takes an empty --server; and an empty variable is the usual way to switch one off.
    cli.agent.agent_url.take_if(|url| url.is_empty());
    let connection = cli.connection.meant();
    let Some(verb) = cli.verb else {
        console.data(&Cli::command().render_help().to_string())?;
        return Ok(exit::DONE);
    };
    log(connection.verbosity);
    let console = if connection.verbosity > 0 { console.without_live() } else { console };
    let console = console.leading_by(cli.agent.again() + &connection.again());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::Other(format!("start the runtime: {error}")))?;
    let ended = runtime.block_on(async {
        let session = Session::new(console, cli.agent, connection);
        let ended = match verb {
            Verb::Plan(args) => session.until_interrupted("", plan::run(&session, args)).await,
            Verb::Node(args) => node::run(&session, args).await,
            Verb::Status(args) => status::run(&session, &args).await,
            Verb::Cancel(args) => cancel::run(&session, &args).await,
            Verb::Pause(args) => hold::run(&session, &args, hold::Hold::Pause).await,
            Verb::Resume(args) => hold::run(&session, &args, hold::Hold::Resume).await,
            Verb::Fleet(args) => session.until_interrupted("", fleet::run(&session, &args)).await,
            Verb::Install(args) => install::run(&session, args).await,
            Verb::Uninstall(args) => uninstall::run(&session, &args).await,
            Verb::Demo(_) => session.until_interrupted("", demo::run(&session)).await,
            Verb::Version(args) => session.until_interrupted("", version::run(&session, &args)).await,
            Verb::Completion(args) => completion::run(&session, &args),
            Verb::Names(args) => session.until_interrupted("", names::run(&session, &args)).await,
        };
        let interrupts = session.interrupts.clone();
        let once_more = interrupts.so_far() + 1;
        tokio::select! {
            () = session.end() => {}
            () = interrupts.times(once_more) => {}
        }
        ended
    });
    // A read of stdin that nobody will answer must not hold the exit up.
    runtime.shutdown_background();
    Ok(ended.unwrap_or_else(|failure| told(console, &failure)))
}

/// Logs to stderr as `-v` asks: requests from 6, their bodies from 8.
fn log(verbosity: u8) {
    let filter = match verbosity {
        0 => return,
        1..=5 => "warn",
        6..=7 => "warn,kubectl_rotate=debug,rotate_agent=info",
        _ => "info,kubectl_rotate=trace,rotate_agent=debug",
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_target(false)
        // Where stderr is closed it cannot be told that nothing can be told: it would be a panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .finish();
    // Only a second call could fail, and there is none.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
