//! Has a node taken away.

use http::Request;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, Preconditions};
use serde_json::json;

use super::{ExecuteError, Executor, Subject, gone_is_fine};
use crate::provider::Removal;
use crate::provider::cluster_api::{Key, Management};

impl Executor {
    /// Asks for the removal; what comes of it shows in the cluster.
    pub(super) async fn remove(
        &self,
        subject: &Subject,
        node: &str,
        node_uid: &str,
        removal: &Removal,
    ) -> Result<(), ExecuteError> {
        match removal {
            Removal::NodeObject => {
                let nodes: Api<Node> = Api::all(self.client.clone());
                let preconditions = Preconditions { uid: Some(node_uid.to_owned()), resource_version: None };
                let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                Ok(gone_is_fine(nodes.delete(node, &params).await.map(drop))?)
            }
            Removal::NodeClaim { name, uid } => self.delete_claim(name, uid).await,
            Removal::Machine { .. } => Ok(self.management()?.remove(&subject.rotation, removal).await?),
            Removal::Hook { .. } | Removal::Left { .. } => Err(ExecuteError::NoCall),
        }
    }

    /// Settles what a rotation that does not live any more has on loan.
    pub(in crate::rotation) async fn settle_leftover(
        &self,
        rotation: &str,
        deployment: &Key,
        back: bool,
    ) -> Result<(), ExecuteError> {
        let settled = self.management()?.settle_leftover(rotation, deployment, back);
        Ok(tokio::time::timeout(self.timeout, settled).await.map_err(|_| ExecuteError::TimedOut(self.timeout))??)
    }

    /// The way to the management cluster.
    pub(super) fn management(&self) -> Result<&Management, ExecuteError> {
        self.reader.management().ok_or(ExecuteError::NoManagement)
    }

    async fn delete_claim(&self, name: &str, uid: &str) -> Result<(), ExecuteError> {
        let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": { "uid": uid } });
        let request = Request::delete(format!("/apis/karpenter.sh/v1/nodeclaims/{name}"));
        let request = request.header("content-type", "application/json").body(serde_json::to_vec(&options)?)?;
        Ok(gone_is_fine(self.client.request_text(request).await.map(drop))?)
    }
}
