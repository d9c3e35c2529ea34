//! `kubectl rotate version`: of this program, and of the agent where one is named.

use rotate_shared::{VersionInfo, exit};
use serde::Serialize;

use super::Ended;
use crate::cli::VersionArgs;
use crate::connect::token::Account;
use crate::failure::Failure;
use crate::output::{Format, format};
use crate::session::Session;

/// Both versions, as kubectl version prints them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client_version: VersionInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_version: Option<VersionInfo>,
}

pub(super) async fn run(session: &Session, args: &VersionArgs) -> Ended {
    let printing = args.output.resolve()?;
    if matches!(printing.format, Format::Name | Format::Wide) {
        // Versions are no objects with a name; this is how kubectl version says it.
        return Err(Failure::Usage("--output must be 'yaml' or 'json'".to_owned()));
    }
    // The agent's version is wanted even where it is one that this program would not work with.
    let (agent_version, failure) = match if args.client { Ok(None) } else { of_agent(session).await } {
        Ok(version) => (version, None),
        // What is contradictory is no question.
        Err(failure @ Failure::Usage(_)) => return Err(failure),
        Err(failure) => (None, Some(failure)),
    };
    let versions = Versions { client_version: VersionInfo::current(), agent_version };
    let text = match printing.format {
        Format::Json => format::json(&versions),
        Format::Yaml => format::yaml(&versions),
        Format::Table | Format::Wide | Format::Name => {
            let mut text = format!("Client Version: v{}\n", versions.client_version.version);
            if let Some(agent) = &versions.agent_version {
                text.push_str(&format!("Agent Version: v{}\n", agent.version));
            }
            text
        }
    };
    session.console.formatted(printing.format, &text)?;
    failure.map_or(Ok(exit::DONE), Err)
}

/// The agent's version. That there is no agent, or no cluster, is no failure of this program's own version, and said.
async fn of_agent(session: &Session) -> Result<Option<VersionInfo>, Failure> {
    let asked = async {
        match session.remote_agent(Account::Viewer).await? {
            Some(agent) => agent.version().await.map(Some),
            None => Ok(None),
        }
    };
    match asked.await {
        Err(failure) if session.agent.agent_url.is_none() && !matches!(failure, Failure::Usage(_)) => {
            session.console.note(&format!("The version of the agent is not known: {failure}"));
            Ok(None)
        }
        asked => asked,
    }
}
