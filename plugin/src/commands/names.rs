//! The hidden verb that names what completion offers: of the kubeconfig, or of the cluster with one small request.

use rotate_shared::exit;
use serde::Deserialize;

use super::Ended;
use crate::cli::{NamesArgs, NamesOf};
use crate::connect::api_server::ApiServer;
use crate::connect::cluster;
use crate::connect::token::Account;
use crate::failure::Failure;
use crate::session::Session;

/// More names than these nobody chooses from.
const MOST: u32 = 1000;
/// Names and labels of objects without the rest: a node is 10 KB, of which its name is what is wanted.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

pub(super) async fn run(session: &Session, args: &NamesArgs) -> Ended {
    let names = match args.what {
        NamesOf::Nodes => nodes(session).await?,
        NamesOf::Contexts => cluster::names(&session.connection, |config| {
            config.contexts.iter().map(|context| context.name.clone()).collect()
        })?,
        NamesOf::Clusters => cluster::names(&session.connection, |config| {
            config.clusters.iter().map(|cluster| cluster.name.clone()).collect()
        })?,
        NamesOf::Users => cluster::names(&session.connection, |config| {
            config.auth_infos.iter().map(|user| user.name.clone()).collect()
        })?,
    };
    session.console.data(&names.iter().map(|name| format!("{name}\n")).collect::<String>())?;
    Ok(exit::DONE)
}

#[derive(Deserialize)]
struct Listed {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

/// Who may use the agent need not be let list nodes; the agent then tells their names.
async fn nodes(session: &Session) -> Result<Vec<String>, Failure> {
    match listed(session).await {
        Err(failure @ Failure::NotAuthorised(_)) => match session.remote_agent(Account::Viewer).await? {
            Some(agent) => Ok(agent.nodes(None).await?.items.into_iter().map(|node| node.name).collect()),
            None => Err(failure),
        },
        listed => listed,
    }
}

async fn listed(session: &Session) -> Result<Vec<String>, Failure> {
    let ApiServer { client, server, .. } = ApiServer::connect(&session.connection).await?;
    let request = http::Request::get(format!("/api/v1/nodes?limit={MOST}")).header(http::header::ACCEPT, METADATA);
    let request = request.body(Vec::new()).map_err(|error| Failure::Other(format!("ask for the nodes: {error}")))?;
    let listed: Listed = client.request(request).await.map_err(|error| cluster::refused(error, &server))?;
    Ok(listed.items.into_iter().map(|item| item.metadata.name).collect())
}
