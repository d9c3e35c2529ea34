//! `kubectl rotate version`: of this program, and of the agent where one is named.

use rotate_shared::{VersionInfo, exit};
use serde::Serialize;

use super::Ended;
use super::session::Session;
use crate::cli::VersionArgs;
use crate::connect::Agent;
use crate::connect::url::Url;
use crate::failure::Failure;
use crate::output::{Format, format};

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
    let agent_version = match &session.agent.agent_url {
        Some(url) if !args.client => Some(
            Agent::new(Url::new(url, None, None)?, session.clock)
                .patient(session.connection.request_timeout.map(|timeout| timeout.0))
                .version()
                .await?,
        ),
        _ => None,
    };
    let versions = Versions { client_version: VersionInfo::current(), agent_version };
    session.console.data(&match printing.format {
        Format::Json => format::json(&versions),
        Format::Yaml => format::yaml(&versions),
        Format::Table | Format::Wide | Format::Name => {
            let mut text = format!("Client Version: v{}\n", versions.client_version.version);
            if let Some(agent) = &versions.agent_version {
                text.push_str(&format!("Agent Version: v{}\n", agent.version));
            }
            text
        }
    })?;
    Ok(exit::DONE)
}
