//! The API server as a keeper of objects: read, applied and deleted at named paths.

use http::Request;
use kube::Client;
use rotate_agent::access;
use rotate_shared::names;
use serde_json::{Value, json};

use super::api::encoded;
use super::api_server::ApiServer;
use super::cluster;
use crate::failure::Failure;
use crate::manifests::{Kind, LABEL, NAMESPACES, Object};
use crate::session::Session;

/// Whose fields are ours, as the API server keeps them apart.
const FIELD_MANAGER: &str = "kubectl-rotate";

/// Objects in a page of a list.
const PAGE: u32 = 500;

/// An API server.
pub(crate) struct Objects {
    client: Client,
    server: String,
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").field("server", &self.server).finish_non_exhaustive()
    }
}

/// An object that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Its kind.
    pub(crate) kind: &'static Kind,
    /// The object.
    pub(crate) json: Value,
}

/// What an object says of fields that somebody else has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflicts {
    /// They stay; nothing is written.
    Refuse,
    /// They are taken over.
    Force,
}

impl Objects {
    /// The API server that the flags and the kubeconfig mean.
    ///
    /// # Errors
    ///
    /// There is none, or the configuration is of no use.
    pub(crate) async fn connect(session: &Session) -> Result<Self, Failure> {
        let ApiServer { client, server, .. } = ApiServer::connect(&session.connection).await?;
        Ok(Self { client, server })
    }

    /// Where it is.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// One object; `None`: there is none.
    ///
    /// # Errors
    ///
    /// The API server cannot be asked, or refuses.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, Failure> {
        match self.ask(Request::get(path), Vec::new()).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(self.refused(error)),
        }
    }

    /// All objects of a collection that a label selector chooses, all without one; none where there is no such collection.
    ///
    /// # Errors
    ///
    /// The API server cannot be asked, or refuses.
    pub(crate) async fn list(&self, collection: &str, selector: &str) -> Result<Vec<Value>, Failure> {
        let chosen = if selector.is_empty() { String::new() } else { format!("&labelSelector={}", encoded(selector)) };
        let mut items = Vec::new();
        let mut next = String::new();
        loop {
            let go_on = if next.is_empty() { String::new() } else { format!("&continue={}", encoded(&next)) };
            let path = format!("{collection}?limit={PAGE}{chosen}{go_on}");
            let mut page = match self.get(&path).await? {
                Some(page) => page,
                None => return Ok(items),
            };
            if let Value::Array(found) = page["items"].take() {
                items.extend(found);
            }
            next = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if next.is_empty() {
                return Ok(items);
            }
        }
    }

    /// Everything that is labelled as ours, in the order in which it is taken away.
    ///
    /// # Errors
    ///
    /// The API server cannot be asked, or refuses.
    pub(crate) async fn ours(&self) -> Result<Vec<Found>, Failure> {
        let mut found = Vec::new();
        for kind in Kind::all() {
            let namespaces: Vec<_> = NAMESPACES.into_iter().map(Some).collect();
            for namespace in if kind.namespaced { namespaces } else { vec![None] } {
                let listed = self.list(&kind.collection(namespace), LABEL).await?;
                // A list does not say of each item what it is.
                found.extend(listed.into_iter().map(|mut json| {
                    json["apiVersion"] = json!(kind.api_version());
                    json["kind"] = json!(kind.name);
                    Found { kind, json }
                }));
            }
        }
        Ok(found)
    }

    /// The Pods of the agent.
    ///
    /// # Errors
    ///
    /// The API server cannot be asked, or refuses.
    pub(crate) async fn agents(&self) -> Result<Vec<Value>, Failure> {
        let pods = format!("/api/v1/namespaces/{}/pods", names::NAMESPACE);
        self.list(&pods, names::AGENT_SELECTOR).await
    }

    /// Writes our fields of an object, or with `dry_run` asks whether that would go.
    ///
    /// # Errors
    ///
    /// What the API server says against it.
    pub(crate) async fn apply(&self, object: &Object, conflicts: Conflicts, dry_run: bool) -> kube::Result<Value> {
        let path = object.kind().path(object.namespace(), object.name());
        let force = conflicts == Conflicts::Force;
        let dry_run = if dry_run { "&dryRun=All" } else { "" };
        let path = format!("{path}?fieldManager={FIELD_MANAGER}&force={force}{dry_run}");
        let request = Request::patch(path).header("content-type", "application/apply-patch+yaml");
        self.ask(request, object.json.to_string().into_bytes()).await
    }

    /// Deletes an object, or with `dry_run` asks whether that would go. Whether it was there.
    ///
    /// # Errors
    ///
    /// The API server cannot be asked, or refuses.
    pub(crate) async fn delete(&self, found: &Found, dry_run: bool) -> Result<bool, Failure> {
        let dry_run = if dry_run { vec!["All"] } else { Vec::new() };
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "dryRun": dry_run,
            // Not another one that has taken its place.
            "preconditions": { "uid": found.json["metadata"]["uid"] },
        });
        let request = Request::delete(found.path()).header("content-type", "application/json");
        match self.ask(request, options.to_string().into_bytes()).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
            Err(error) => Err(self.refused(error)),
        }
    }

    /// Changes an object by a merge patch.
    ///
    /// # Errors
    ///
    /// The API server cannot be asked, or refuses.
    pub(crate) async fn patch(&self, path: &str, patch: &Value) -> Result<(), Failure> {
        let request = Request::patch(path).header("content-type", "application/merge-patch+json");
        self.ask(request, patch.to_string().into_bytes()).await.map(drop).map_err(|error| self.refused(error))
    }

    /// Whether the caller may do this with objects of a kind, as far as the API server can say beforehand.
    ///
    /// # Errors
    ///
    /// The API server cannot be asked.
    pub(crate) async fn may(&self, verb: &str, kind: &Kind, namespace: Option<&str>) -> Result<bool, Failure> {
        self.may_with(verb, kind.group, kind.plural, namespace).await
    }

    /// Whether the caller may patch nodes.
    ///
    /// # Errors
    ///
    /// The API server cannot be asked.
    pub(crate) async fn may_patch_nodes(&self) -> Result<bool, Failure> {
        self.may_with("patch", "", "nodes", None).await
    }

    async fn may_with(
        &self,
        verb: &str,
        group: &str,
        resource: &str,
        namespace: Option<&str>,
    ) -> Result<bool, Failure> {
        let allowed = access::may(&self.client, verb, group, resource, namespace).await;
        Ok(allowed.map_err(|error| self.refused(error))?.unwrap_or(false))
    }

    /// What the API server's answer means for the command.
    pub(crate) fn refused(&self, error: kube::Error) -> Failure {
        cluster::refused(error, &self.server)
    }

    async fn ask(&self, request: http::request::Builder, body: Vec<u8>) -> kube::Result<Value> {
        self.client.request(request.body(body).map_err(kube::Error::HttpError)?).await
    }
}

// === impl Found ===

impl Found {
    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.json["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Its namespace.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.json["metadata"]["namespace"].as_str()
    }

    /// Where it is.
    pub(crate) fn path(&self) -> String {
        self.kind.path(self.namespace(), self.name())
    }

    /// `kind.group/name`.
    pub(crate) fn told(&self) -> String {
        self.kind.told(self.name())
    }

    /// Whether it was `install --apply` that made it, and not somebody who uses our label.
    pub(crate) fn was_applied_by_us(&self) -> bool {
        let managers = self.json["metadata"]["managedFields"].as_array();
        managers.into_iter().flatten().any(|entry| entry["manager"] == FIELD_MANAGER && entry["operation"] == "Apply")
    }
}
