//! Plans without an agent: from saved objects, or from the cluster read once with the person's kubeconfig.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use jiff::Timestamp;
use kube::Client;
use rotate_agent::Config;
use rotate_agent::cache::selector::Selector;
use rotate_agent::cache::snapshot::{COMMAND, Snapshot, SnapshotError};
use rotate_agent::cache::{State, feed};
use rotate_agent::drain::ask;
use rotate_agent::probe::{Probe, Standing};
use rotate_agent::provider::Reader;
use rotate_agent::surge::plan;
use rotate_shared::plan::Notice;
use rotate_shared::{Code, OptionsRequest, Plan};
use serde::Deserialize;

use super::api_server::ApiServer;
use super::cluster;
use crate::args::Target;
use crate::failure::Failure;
use crate::session::Session;

/// What is listed whole: room may be on any node, and what repels a Pod may be in any namespace.
const LISTS: [&str; 3] = ["/api/v1/nodes", "/api/v1/pods", "/apis/policy/v1/poddisruptionbudgets"];

/// Plans from saved objects; `-` is stdin.
///
/// # Errors
///
/// The file cannot be read, is not what `kubectl get -o yaml` writes, or does not hold the node.
pub(crate) fn plan_file(
    path: &Path,
    target: &Target,
    options: &OptionsRequest,
    now: Timestamp,
) -> Result<Vec<Plan>, Failure> {
    let from_stdin = path == Path::new("-");
    let name = if from_stdin { "stdin".to_owned() } else { path.display().to_string() };
    let unreadable = |error: &dyn std::error::Error| Failure::File(format!("{name}: failed to {error}"));
    let reader: Box<dyn Read> = if from_stdin {
        Box::new(io::stdin().lock())
    } else {
        let opened = File::open(path).and_then(|file| file.metadata().map(|metadata| (file, metadata)));
        let (file, metadata) = opened.map_err(|error| Failure::File(format!("{name}: {error}")))?;
        if metadata.is_dir() {
            return Err(Failure::File(format!("{name}: is a directory")));
        }
        // Refused before anything of it is read.
        if metadata.len() > Snapshot::LIMIT {
            return Err(unreadable(&SnapshotError::TooLarge));
        }
        Box::new(file)
    };
    let Snapshot { state, volumes, objects, .. } = Snapshot::read_from(reader).map_err(|error| unreadable(&error))?;
    let counts = state.counts();
    // Every node runs some: that nothing has to move would be a promise that nobody can keep.
    if counts.pods == 0 {
        return Err(Failure::File(format!(
            "{name}: there are no Pods among the saved objects; save them with `{}`",
            COMMAND
        )));
    }
    let options = options.clone().resolve();
    let one = |node: String| {
        let plan = plan::plan(&state, &node, &volumes, &objects, &options, now);
        let mut plan = plan.ok_or(Failure::NoSuchNode(node))?;
        if counts.pdbs == 0 && plan.totals.pods > 0 {
            plan.warnings.push(no_budgets());
        }
        Ok(plan)
    };
    names(&state, target)?.into_iter().map(one).collect()
}

/// A file without budgets may be of a cluster that has none.
fn no_budgets() -> Notice {
    Notice {
        code: Code::NotLookedAt,
        object: "PodDisruptionBudgets".to_owned(),
        message: "none are in the file: what they would refuse is not known, unless the cluster has none".to_owned(),
        remedy: format!("save them, too: {}", COMMAND),
    }
}

/// Plans from the cluster as it is now. Reads named paths only, in pages, and changes nothing.
///
/// # Errors
///
/// The cluster cannot be reached or refuses, or there is no such node.
pub(crate) async fn plan_cluster(
    session: &Session,
    target: &Target,
    options: &OptionsRequest,
    ask_evictions: bool,
) -> Result<Vec<Plan>, Failure> {
    let ApiServer { client, server, .. } = ApiServer::connect(&session.connection).await?;
    let mut text = String::new();
    for path in LISTS {
        list(&client, path, session.agent.chunk_size, &mut text)
            .await
            .map_err(|error| cluster::refused(error, &server))?;
    }
    let read = Snapshot::read(&text);
    let Snapshot { state, .. } =
        read.map_err(|error| Failure::Other(format!("the API server at {server}: failed to {error}")))?;
    drop(text);
    let options = options.clone().resolve();
    let objects = Reader::new(client.clone(), session.clock).read().await;
    let objects = objects.map_err(|error| Failure::Other(format!("failed to read {error}")))?;
    let mut plans = Vec::new();
    for node in names(&state, target)? {
        let volumes = feed::volumes(&client, &state.pods_on(&node)).await;
        let volumes = volumes.map_err(|error| Failure::Other(format!("failed to {error}")))?;
        let planned = plan::planned(&state, &node, &volumes, &objects, &options, session.clock.now());
        plans.push(planned.ok_or(Failure::NoSuchNode(node))?);
    }
    let probe = Probe::new(client.clone(), Config::PAUSE_IMAGE.to_owned(), Standing::Person, session.clock);
    probe.probe(&mut plans, &options).await.map_err(|error| Failure::Other(format!("failed to {error}")))?;
    let mut plans: Vec<Plan> = plans.into_iter().map(|planned| planned.plan).collect();
    if ask_evictions {
        let asked = ask::ask(&client, &mut plans, &options).await;
        asked.map_err(|error| Failure::Other(format!("failed to {error}")))?;
    }
    Ok(plans)
}

/// The beginning of a list: where to go on.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    r#continue: String,
}

/// Appends every page of a list, one document after another.
async fn list(client: &Client, path: &str, page: u32, text: &mut String) -> kube::Result<()> {
    let mut next = String::new();
    loop {
        let go_on = if next.is_empty() { String::new() } else { format!("&continue={}", super::api::encoded(&next)) };
        let request = http::Request::get(format!("{path}?limit={page}{go_on}"));
        let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
        let answer = client.request_text(request).await?;
        next = serde_json::from_str::<Page>(&answer).map_err(kube::Error::SerdeError)?.metadata.r#continue;
        text.push_str(&answer);
        text.push('\n');
        if next.is_empty() {
            return Ok(());
        }
    }
}

/// The names of the nodes that are meant.
fn names(state: &State, target: &Target) -> Result<Vec<String>, Failure> {
    match target {
        Target::Names(_) => Ok(target.names()),
        Target::Selector(text) => {
            let selector = Selector::parse(text)
                .map_err(|error| Failure::Usage(format!("the selector {text:?} cannot be read: {error}")))?;
            let selected = state.nodes().filter(|node| selector.matches(&node.labels));
            let mut names: Vec<String> = selected.map(|node| node.name.to_string()).collect();
            names.sort();
            Ok(names)
        }
    }
}
