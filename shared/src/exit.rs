//! Exit codes of the plugin, one place for both programs and the documentation.

/// Everything asked for was done.
pub const DONE: u8 = 0;
/// Any failure without a code of its own.
pub const ERROR: u8 = 1;
/// The command line cannot be meant: unknown flag, missing confirmation, contradictory arguments.
pub const USAGE: u8 = 2;
/// A blocker or another holder stands in the way; nothing was touched.
pub const BLOCKED: u8 = 3;
/// Room could not be reserved; the cluster is as it was found.
pub const NO_SURGE: u8 = 4;
/// The wait ended by `--timeout`; the agent goes on.
pub const TIMED_OUT: u8 = 5;
/// Some of several nodes failed, or a rotation was stopped midway.
pub const PARTIAL: u8 = 6;
/// The API server or the agent refused the caller.
pub const NOT_AUTHORISED: u8 = 7;
/// No agent answered.
pub const AGENT_UNREACHABLE: u8 = 8;
/// `plan --exit-code` found work to do.
pub const WORK_PENDING: u8 = 10;
/// Ended by Ctrl-C.
pub const INTERRUPTED: u8 = 130;
