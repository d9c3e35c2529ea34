//! The objects that must be there before the first rotation: two namespaces and the placeholders' priority.
//!
//! In a cluster they come from `manifests/`, which a test holds to the same content. `--embedded` and the demo create
//! them, the former after asking.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::{Client, ResourceExt};
use rotate_shared::names;

use crate::client::said;

/// An object to be there.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// One of [`names::NAMESPACE`] and [`names::ROOM_NAMESPACE`].
    Namespace(Namespace),
    /// [`names::PRIORITY_CLASS`].
    PriorityClass(PriorityClass),
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(namespace) => write!(f, "Namespace {}", namespace.name_any()),
            Self::PriorityClass(class) => write!(f, "PriorityClass {}", class.name_any()),
        }
    }
}

/// Why they cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BootstrapError {
    /// The API server did not answer as expected.
    #[error("{doing} {object}: {}", said(source))]
    Api {
        /// What was tried.
        doing: &'static str,
        /// With which object.
        object: String,
        /// Why it failed.
        #[source]
        source: kube::Error,
    },
    /// It is there, but it is not ours, and it cannot be changed.
    #[error("use PriorityClass {name}: its value is {value} and must be {expected}; delete it and try again")]
    OtherPriority {
        /// Its name.
        name: String,
        /// Its value.
        value: i32,
        /// Ours.
        expected: i32,
    },
}

/// All of them.
#[must_use]
pub fn objects() -> Vec<Object> {
    vec![
        Object::Namespace(namespace(names::NAMESPACE, "restricted")),
        // Host ports are refused by everything stricter; what may be in there is for admission policies.
        Object::Namespace(namespace(names::ROOM_NAMESPACE, "privileged")),
        Object::PriorityClass(priority_class()),
    ]
}

/// Those that are not there.
///
/// # Errors
///
/// The API server did not answer as expected, or holds a `PriorityClass` of our name with another value.
pub async fn missing(client: &Client) -> Result<Vec<Object>, BootstrapError> {
    let mut missing = Vec::new();
    for object in objects() {
        let failed = |source| BootstrapError::Api { doing: "look for", object: object.to_string(), source };
        let there = match &object {
            Object::Namespace(namespace) => {
                let api = Api::<Namespace>::all(client.clone());
                api.get_opt(&namespace.name_any()).await.map_err(failed)?.is_some()
            }
            Object::PriorityClass(class) => {
                let api = Api::<PriorityClass>::all(client.clone());
                let found = api.get_opt(&class.name_any()).await.map_err(failed)?;
                found.map(|found| same_priority(class, &found)).transpose()?.is_some()
            }
        };
        if !there {
            missing.push(object);
        }
    }
    Ok(missing)
}

/// Creates them; one that has appeared meanwhile is fine.
///
/// # Errors
///
/// The API server did not answer as expected.
pub async fn create(client: &Client, objects: &[Object]) -> Result<(), BootstrapError> {
    let params = PostParams::default();
    for object in objects {
        let created = match object {
            Object::Namespace(namespace) => Api::all(client.clone()).create(&params, namespace).await.map(drop),
            Object::PriorityClass(class) => Api::all(client.clone()).create(&params, class).await.map(drop),
        };
        match created {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(source) => return Err(BootstrapError::Api { doing: "create", object: object.to_string(), source }),
            Ok(()) => {}
        }
    }
    Ok(())
}

fn same_priority(ours: &PriorityClass, found: &PriorityClass) -> Result<(), BootstrapError> {
    if found.value == ours.value {
        return Ok(());
    }
    Err(BootstrapError::OtherPriority { name: found.name_any(), value: found.value, expected: ours.value })
}

fn labels(more: &[(&str, &str)]) -> Option<BTreeMap<String, String>> {
    let common = [("app.kubernetes.io/name", names::NAMESPACE)];
    Some(common.iter().chain(more).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

fn namespace(name: &str, level: &str) -> Namespace {
    let labels = labels(&[("pod-security.kubernetes.io/enforce", level)]);
    Namespace {
        metadata: ObjectMeta { name: Some(name.to_owned()), labels, ..ObjectMeta::default() },
        ..Namespace::default()
    }
}

fn priority_class() -> PriorityClass {
    PriorityClass {
        metadata: ObjectMeta {
            name: Some(names::PRIORITY_CLASS.to_owned()),
            labels: labels(&[]),
            ..ObjectMeta::default()
        },
        value: names::PLACEHOLDER_PRIORITY,
        global_default: Some(false),
        // A placeholder waits for room; it never takes a running Pod's.
        preemption_policy: Some("Never".to_owned()),
        description: Some(
            "Pods that hold room for the workload of a node being rotated; any workload may take it.".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests;
