//! The ways in which a command fails that we expect, each with its documented exit code.

use rotate_shared::plan::Notice;
use rotate_shared::{Code, Problem, exit};

use crate::output::escape;

/// Why a command ends without having done what it was asked. Anything else is a defect and ends with 1.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The command line cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// The agent refused.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// No such node: found without an agent.
    #[error("nodes {0:?} not found")]
    NoSuchNode(String),
    /// A blocker or another holder stands in the way; nothing was touched.
    #[error("{0}")]
    Blocked(String),
    /// Nobody could be asked.
    #[error("{0}")]
    AgentUnreachable(String),
    /// The agent answers, but as another version.
    #[error("{0}")]
    OtherVersion(String),
    /// The kubeconfig, or what it points to, is of no use.
    #[error("{0}")]
    Cluster(String),
    /// The agent wants to know who calls, and nobody vouches for the caller.
    #[error("{0}")]
    Unauthenticated(String),
    /// The API server does not know the caller.
    #[error("You must be logged in to the server ({0})")]
    NotLoggedIn(String),
    /// The API server refused the caller.
    #[error("{0}")]
    NotAuthorised(String),
    /// A file cannot be used.
    #[error("{0}")]
    File(String),
    /// A person wanted out: what that means, and nothing where it means nothing.
    #[error("interrupted {0}")]
    Interrupted(String),
    /// Nobody reads our output any more, which is what they wanted.
    #[error("the output was closed")]
    ClosedPipe,
    /// Any other failure.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// The exit code it ends with.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => exit::USAGE,
            // Of a code that we don't know only the status says whose fault it was.
            Self::Problem(problem) if problem.code == Code::Unknown && problem.status >= 500 => exit::ERROR,
            Self::Problem(problem) => problem.code.exit_code(),
            Self::Blocked(_) => exit::BLOCKED,
            Self::AgentUnreachable(_) => exit::AGENT_UNREACHABLE,
            Self::Unauthenticated(_) => exit::NOT_AUTHORISED,
            Self::NotLoggedIn(_) | Self::NotAuthorised(_) => exit::NOT_AUTHORISED,
            Self::Interrupted(_) => exit::INTERRUPTED,
            Self::ClosedPipe => exit::DONE,
            Self::NoSuchNode(_) | Self::OtherVersion(_) | Self::Cluster(_) | Self::File(_) | Self::Other(_) => {
                exit::ERROR
            }
        }
    }

    /// The line on stderr: kubectl's wording where kubectl has one. `None` where there is nothing to say.
    pub(crate) fn line(&self) -> Option<String> {
        let text = match self {
            Self::ClosedPipe => return None,
            // As kubectl's commands that only look end.
            Self::Interrupted(meaning) if meaning.is_empty() => return None,
            Self::NoSuchNode(_) => format!("Error from server (NotFound): {self}"),
            Self::NotAuthorised(_) => format!("Error from server (Forbidden): {self}"),
            Self::Problem(problem) => match problem.code {
                Code::NotFound => format!("Error from server (NotFound): {problem}"),
                Code::Forbidden => format!("Error from server (Forbidden): {problem}"),
                _ => format!("error: {problem}"),
            },
            _ => format!("error: {self}"),
        };
        // One line, whatever the other side wrote.
        Some(escape::line(&text))
    }

    /// What stands in the way, where the agent named it.
    pub(crate) fn blockers(&self) -> &[Notice] {
        match self {
            Self::Problem(problem) => &problem.blockers,
            _ => &[],
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

/// Writing to stdout: a reader that went away (`| head`) has seen enough.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::ClosedPipe,
            _ => Self::Other(format!("write the output: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_node_is_worded_as_kubectl_words_it() {
        let failure = Failure::NoSuchNode("x".to_owned());
        assert_eq!(failure.line().as_deref(), Some("Error from server (NotFound): nodes \"x\" not found"));
        assert_eq!(failure.exit_code(), 1);
    }

    #[test]
    fn a_failure_stays_on_one_line_and_harmless() {
        let failure = Failure::Other("a\n\u{1b}[2Jb".to_owned());
        assert_eq!(failure.line().as_deref(), Some("error: a\\n\\u{1b}[2Jb"));
    }

    #[test]
    fn an_agent_that_failed_for_a_reason_of_another_version_did_not_say_that_nothing_was_touched() {
        let problem = |status| Problem { status, ..Problem::new(Code::Unknown, "x") };
        assert_eq!(Failure::from(problem(500)).exit_code(), 1);
        assert_eq!(Failure::from(problem(422)).exit_code(), 3);
    }

    #[test]
    fn a_closed_pipe_is_success_without_a_word() {
        let failure = Failure::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit_code(), failure.line()), (0, None));
    }
}
