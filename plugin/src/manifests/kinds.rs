//! The kinds of what is installed, and where the API server keeps them: nobody is asked to discover them.

use serde_json::Value;

/// A kind of object that is installed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its API group, empty for the core.
    pub(crate) group: &'static str,
    /// The version of it that is spoken.
    version: &'static str,
    /// Its plural in paths and in roles.
    pub(crate) plural: &'static str,
    /// Whether its objects are in namespaces.
    pub(crate) namespaced: bool,
}

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// In the order in which they are taken away: who acts first, and last what others lean on.
const KINDS: [Kind; 13] = [
    kind("Deployment", "apps", "deployments", true),
    kind("PodDisruptionBudget", "policy", "poddisruptionbudgets", true),
    kind("Service", "", "services", true),
    kind("NetworkPolicy", "networking.k8s.io", "networkpolicies", true),
    kind("RoleBinding", RBAC, "rolebindings", true),
    kind("Role", RBAC, "roles", true),
    kind("ServiceAccount", "", "serviceaccounts", true),
    kind("ClusterRoleBinding", RBAC, "clusterrolebindings", false),
    kind("ClusterRole", RBAC, "clusterroles", false),
    kind("Namespace", "", "namespaces", false),
    kind("ValidatingAdmissionPolicyBinding", ADMISSION, "validatingadmissionpolicybindings", false),
    kind("ValidatingAdmissionPolicy", ADMISSION, "validatingadmissionpolicies", false),
    kind("PriorityClass", "scheduling.k8s.io", "priorityclasses", false),
];

const fn kind(name: &'static str, group: &'static str, plural: &'static str, namespaced: bool) -> Kind {
    Kind { name, group, version: "v1", plural, namespaced }
}

impl Kind {
    /// All of them, in the order in which they are taken away.
    pub(crate) fn all() -> impl Iterator<Item = &'static Self> {
        KINDS.iter()
    }

    /// The kind of an object.
    pub(crate) fn of(object: &Value) -> Option<&'static Self> {
        let version = object["apiVersion"].as_str()?;
        KINDS.iter().find(|kind| object["kind"] == kind.name && kind.api_version() == version)
    }

    /// The kind of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// `v1`, `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `deployment.apps/NAME`, as kubectl writes it.
    pub(crate) fn told(&self, name: &str) -> String {
        format!("{}/{name}", self.told_kind())
    }

    /// `deployment.apps`.
    pub(crate) fn told_kind(&self) -> String {
        let kind = self.name.to_lowercase();
        if self.group.is_empty() { kind } else { format!("{kind}.{}", self.group) }
    }

    /// Where all of them are, those of one namespace where it has namespaces and one is given.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let namespace = namespace.filter(|_| self.namespaced).map(|name| format!("namespaces/{name}/"));
        format!("/{root}/{}/{}{}", self.api_version(), namespace.unwrap_or_default(), self.plural)
    }

    /// Where one of them is.
    pub(crate) fn path(&self, namespace: Option<&str>, name: &str) -> String {
        format!("{}/{name}", self.collection(namespace))
    }
}
