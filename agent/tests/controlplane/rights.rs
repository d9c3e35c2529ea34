//! The agent's rights, one by one, against what it asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleBinding};
use kube::Client;
use kube::api::{Api, DeleteParams, PostParams};
use rotate_shared::names;
use serde_json::Value;

use crate::harness::audit::Request;
use crate::harness::manifests;
use crate::harness::wait::eventually;

/// What can be taken from a rule: one verb on one resource, of one namespace or of all, of one name or of any.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Right {
    namespace: Option<String>,
    group: String,
    resource: String,
    verb: String,
    name: Option<String>,
}

/// Every right was used, and was needed: of all that was asked for, nothing is granted twice. Since rights only add up, without
/// any one of them the same requests would have been refused.
pub(crate) fn all_are_used(requests: &[Request]) -> Result<()> {
    let mut used: BTreeMap<Right, usize> = rights()?.into_iter().map(|right| (right, 0)).collect();
    for request in requests {
        let granted: Vec<Right> = used.keys().filter(|right| right.grants(request)).cloned().collect();
        // What every authenticated user may is granted elsewhere.
        ensure!(granted.len() <= 1, "{} {} is granted twice: {granted:?}", request.verb, request.uri);
        for right in granted {
            *used.entry(right).or_default() += 1;
        }
    }
    let idle: Vec<String> = used.into_iter().filter(|(_, times)| *times == 0).map(|(right, _)| right.told()).collect();
    ensure!(idle.is_empty(), "rights that nothing uses:\n{}", idle.join("\n"));
    Ok(())
}

/// The API server grants each right, and none of them without the bindings of the manifests: what is used is there because of
/// them.
pub(crate) async fn nothing_else_grants_them(client: &Client) -> Result<()> {
    let rights = rights()?;
    for right in &rights {
        ensure!(right.is_granted(client).await?, "{} is not granted", right.told());
    }
    let options = DeleteParams::default();
    Api::<ClusterRoleBinding>::all(client.clone()).delete(names::AGENT, &options).await?;
    for namespace in [names::NAMESPACE, names::ROOM_NAMESPACE, "kube-system"] {
        Api::<RoleBinding>::namespaced(client.clone(), namespace).delete(names::AGENT, &options).await?;
    }
    for right in &rights {
        eventually(&format!("{} to be withdrawn", right.told()), Duration::from_secs(10), async || {
            Ok((!right.is_granted(client).await?).then_some(()))
        })
        .await?;
    }
    Ok(())
}

/// The rights of the agent's roles in the manifests.
fn rights() -> Result<Vec<Right>> {
    let mut rights = Vec::new();
    for role in manifests::objects("agent-rbac")? {
        let namespace = role["metadata"]["namespace"].as_str().filter(|_| role["kind"] == "Role");
        for rule in role["rules"].as_array().into_iter().flatten() {
            for (group, resource, verb) in each(rule)? {
                let right = |name| Right {
                    namespace: namespace.map(ToOwned::to_owned),
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                    name,
                };
                match words(&rule["resourceNames"]) {
                    Ok(names) => rights.extend(names.into_iter().map(|name| right(Some(name)))),
                    Err(_) => rights.push(right(None)),
                }
            }
        }
    }
    ensure!(rights.iter().any(|right| right.resource == "pods/eviction"), "{rights:?}");
    Ok(rights)
}

fn each(rule: &Value) -> Result<Vec<(String, String, String)>> {
    let mut each = Vec::new();
    for group in words(&rule["apiGroups"])? {
        for resource in words(&rule["resources"])? {
            each.extend(words(&rule["verbs"])?.into_iter().map(|verb| (group.clone(), resource.clone(), verb)));
        }
    }
    Ok(each)
}

fn words(list: &Value) -> Result<Vec<String>> {
    let words = list.as_array().with_context(|| format!("a list of {}", names::AGENT))?;
    words.iter().map(|word| Ok(word.as_str().context("a word")?.to_owned())).collect()
}

// === impl Right ===

impl Right {
    fn grants(&self, request: &Request) -> bool {
        self.group == request.group()
            && self.resource == request.resource()
            && self.verb == request.verb
            && self.namespace.as_ref().is_none_or(|namespace| namespace == request.namespace())
            && self.name.as_ref().is_none_or(|name| name == request.name())
    }

    /// Whether the API server lets the agent.
    async fn is_granted(&self, client: &Client) -> Result<bool> {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (&*self.resource, None),
        };
        let attributes = ResourceAttributes {
            group: Some(self.group.clone()),
            resource: Some(resource.to_owned()),
            subresource,
            verb: Some(self.verb.clone()),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..ResourceAttributes::default()
        };
        let user = format!("system:serviceaccount:{}:{}", names::NAMESPACE, names::AGENT);
        let groups = ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:kubectl-rotate"];
        let spec = SubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            user: Some(user),
            groups: Some(groups.map(ToOwned::to_owned).to_vec()),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = Api::<SubjectAccessReview>::all(client.clone()).create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    fn told(&self) -> String {
        let Self { namespace, group, resource, verb, name } = self;
        let (name, namespace) = (name.as_deref().unwrap_or("*"), namespace.as_deref().unwrap_or("*"));
        format!("{verb} {resource}.{group} {namespace}/{name}")
    }
}
