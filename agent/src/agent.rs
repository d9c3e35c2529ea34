//! The agent as one value: it owns every task; dropping it ends them all.

/// How an agent is set up.
#[derive(Clone, Debug, Default)]
pub struct Config {}

/// A running agent.
#[derive(Debug)]
pub struct Agent {}
