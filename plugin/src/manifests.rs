//! What is installed in a cluster: the files of `manifests/`, put together as kustomize would.
//!
//! ```text
//! base ──▶ components (resources, patches) ──▶ image, replicas ──▶ replacements ──▶ objects
//! ```
//!
//! What is printed is what a reviewer reads, so that an object that nothing changed is printed with the file's own comments.

mod kinds;
mod kustomize;

use rotate_shared::names;
use serde_json::{Value, json};

pub(crate) use kinds::Kind;

use kustomize::Kustomization;

/// The files, by their path below `manifests/`.
const FILES: [(&str, &str); 12] = [
    ("base/admission.yaml", include_str!("../../manifests/base/admission.yaml")),
    ("base/agent-rbac.yaml", include_str!("../../manifests/base/agent-rbac.yaml")),
    ("base/deployment.yaml", include_str!("../../manifests/base/deployment.yaml")),
    ("base/kustomization.yaml", include_str!("../../manifests/base/kustomization.yaml")),
    ("base/namespaces.yaml", include_str!("../../manifests/base/namespaces.yaml")),
    ("base/people-rbac.yaml", include_str!("../../manifests/base/people-rbac.yaml")),
    ("base/priority-class.yaml", include_str!("../../manifests/base/priority-class.yaml")),
    ("components/ha/kustomization.yaml", include_str!("../../manifests/components/ha/kustomization.yaml")),
    (
        "components/network-policy/kustomization.yaml",
        include_str!("../../manifests/components/network-policy/kustomization.yaml"),
    ),
    (
        "components/network-policy/network-policy.yaml",
        include_str!("../../manifests/components/network-policy/network-policy.yaml"),
    ),
    ("components/tls/kustomization.yaml", include_str!("../../manifests/components/tls/kustomization.yaml")),
    ("components/tls/service.yaml", include_str!("../../manifests/components/tls/service.yaml")),
];

/// What can be added to the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Component {
    /// The API for programs in the cluster, over TLS.
    Tls,
    /// Network policies.
    NetworkPolicy,
    /// Three agents on nodes of their own.
    Ha,
}

/// What is to be installed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// With these.
    pub(crate) with: Vec<Component>,
    /// The agent's image; the released one without it.
    pub(crate) image: Option<String>,
    /// How many agents; as many as the manifests say without it.
    pub(crate) replicas: Option<u32>,
}

/// An object to be there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Object {
    /// As JSON.
    pub(crate) json: Value,
    /// What it was read from, comments included.
    text: &'static str,
    /// As it was read from there.
    read: Value,
}

/// All objects, in an order in which they can be created.
pub(crate) fn objects(wanted: &Wanted) -> Vec<Object> {
    let base = Kustomization::parse(file("base/kustomization.yaml"));
    let mut objects = resources("base", &base);
    for component in Component::ALL.into_iter().filter(|component| wanted.with.contains(component)) {
        let folder = component.folder();
        let kustomization = Kustomization::parse(file(&format!("{folder}/kustomization.yaml")));
        objects.extend(resources(&folder, &kustomization));
        kustomization.patch(objects.iter_mut().map(|object| &mut object.json));
    }
    let agent = objects.iter_mut().find(|object| object.kind().name == "Deployment").expect("the base has it");
    if let Some(image) = &wanted.image {
        agent.json["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    }
    if let Some(replicas) = wanted.replicas {
        agent.json["spec"]["replicas"] = json!(replicas);
    }
    base.replace(&mut objects.iter_mut().map(|object| &mut object.json).collect::<Vec<_>>());
    objects
}

fn resources(folder: &str, kustomization: &Kustomization) -> Vec<Object> {
    let files = kustomization.resources.iter().map(|name| file(&format!("{folder}/{name}")));
    files.flat_map(documents).collect()
}

fn file(path: &str) -> &'static str {
    FILES.iter().find(|(name, _)| *name == path).expect("what a kustomization names is embedded").1
}

/// The documents of a file. Comments above the first belong to it.
fn documents(text: &'static str) -> impl Iterator<Item = Object> {
    text.split("\n---\n").map(|text| {
        let json: Value = serde_saphyr::from_str(text).expect("the manifests are YAML");
        Object { read: json.clone(), json, text }
    })
}

// === impl Component ===

impl Component {
    /// All of them, in the order in which they are added.
    pub(crate) const ALL: [Self; 3] = [Self::Tls, Self::NetworkPolicy, Self::Ha];

    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::NetworkPolicy => "network-policy",
            Self::Ha => "ha",
        }
    }

    fn folder(self) -> String {
        format!("components/{}", self.name())
    }
}

// === impl Object ===

impl Object {
    /// Its kind.
    pub(crate) fn kind(&self) -> &'static Kind {
        Kind::of(&self.json).expect("the manifests hold only known kinds")
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        self.json["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Its namespace, where its kind has one.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.json["metadata"]["namespace"].as_str()
    }

    /// `kind.group/name`, as kubectl writes it.
    pub(crate) fn told(&self) -> String {
        self.kind().told(self.name())
    }

    /// As YAML: with its comments, where nothing was changed.
    pub(crate) fn yaml(&self) -> String {
        if self.json == self.read {
            format!("{}\n", self.text.trim_end())
        } else {
            crate::output::format::yaml(&self.json)
        }
    }
}

/// The version in the labels of an agent's Deployment.
pub(crate) fn version(deployment: &Value) -> Option<&str> {
    deployment["metadata"]["labels"]["app.kubernetes.io/version"].as_str()
}

/// What all our objects are labelled with.
pub(crate) const LABEL: &str = "app.kubernetes.io/name=kubectl-rotate";

/// The namespaces that our objects are in.
pub(crate) const NAMESPACES: [&str; 3] = [names::NAMESPACE, names::ROOM_NAMESPACE, "kube-system"];

#[cfg(test)]
mod tests;
