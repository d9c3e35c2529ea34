//! The kinds of object this cluster keeps, by the names their API paths have.

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Namespace,
    Node,
    Pod,
    ConfigMap,
    Secret,
    Service,
    PersistentVolumeClaim,
    PersistentVolume,
    ServiceAccount,
    Event,
    ReplicaSet,
    Deployment,
    StatefulSet,
    DaemonSet,
    Job,
    PodDisruptionBudget,
    Lease,
    PriorityClass,
    StorageClass,
    EventV1,
    ClusterRole,
    ClusterRoleBinding,
    Role,
    RoleBinding,
    NodePool,
    NodeClaim,
    Machine,
}

struct Row {
    kind: Kind,
    name: &'static str,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    namespaced: bool,
}

const fn row(
    kind: Kind,
    name: &'static str,
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    namespaced: bool,
) -> Row {
    Row { kind, name, group, version, plural, namespaced }
}

/// In the order of the enum.
const ROWS: &[Row] = &[
    row(Kind::Namespace, "Namespace", "", "v1", "namespaces", false),
    row(Kind::Node, "Node", "", "v1", "nodes", false),
    row(Kind::Pod, "Pod", "", "v1", "pods", true),
    row(Kind::ConfigMap, "ConfigMap", "", "v1", "configmaps", true),
    row(Kind::Secret, "Secret", "", "v1", "secrets", true),
    row(Kind::Service, "Service", "", "v1", "services", true),
    row(Kind::PersistentVolumeClaim, "PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", true),
    row(Kind::PersistentVolume, "PersistentVolume", "", "v1", "persistentvolumes", false),
    row(Kind::ServiceAccount, "ServiceAccount", "", "v1", "serviceaccounts", true),
    row(Kind::Event, "Event", "", "v1", "events", true),
    row(Kind::ReplicaSet, "ReplicaSet", "apps", "v1", "replicasets", true),
    row(Kind::Deployment, "Deployment", "apps", "v1", "deployments", true),
    row(Kind::StatefulSet, "StatefulSet", "apps", "v1", "statefulsets", true),
    row(Kind::DaemonSet, "DaemonSet", "apps", "v1", "daemonsets", true),
    row(Kind::Job, "Job", "batch", "v1", "jobs", true),
    row(Kind::PodDisruptionBudget, "PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets", true),
    row(Kind::Lease, "Lease", "coordination.k8s.io", "v1", "leases", true),
    row(Kind::PriorityClass, "PriorityClass", "scheduling.k8s.io", "v1", "priorityclasses", false),
    row(Kind::StorageClass, "StorageClass", "storage.k8s.io", "v1", "storageclasses", false),
    row(Kind::EventV1, "Event", "events.k8s.io", "v1", "events", true),
    row(Kind::ClusterRole, "ClusterRole", "rbac.authorization.k8s.io", "v1", "clusterroles", false),
    row(
        Kind::ClusterRoleBinding,
        "ClusterRoleBinding",
        "rbac.authorization.k8s.io",
        "v1",
        "clusterrolebindings",
        false,
    ),
    row(Kind::Role, "Role", "rbac.authorization.k8s.io", "v1", "roles", true),
    row(Kind::RoleBinding, "RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings", true),
    row(Kind::NodePool, "NodePool", "karpenter.sh", "v1", "nodepools", false),
    row(Kind::NodeClaim, "NodeClaim", "karpenter.sh", "v1", "nodeclaims", false),
    row(Kind::Machine, "Machine", "cluster.x-k8s.io", "v1beta1", "machines", true),
];

impl Kind {
    fn row(self) -> &'static Row {
        ROWS.iter().find(|row| row.kind == self).expect("every kind has a row")
    }

    /// By the segments of a path.
    pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<Self> {
        let row = ROWS.iter().find(|row| row.group == group && row.version == version && row.plural == plural)?;
        Some(row.kind)
    }

    /// By an object's `apiVersion` and `kind`.
    pub(crate) fn of(api_version: &str, name: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.name == name && row.kind.api_version() == api_version).map(|row| row.kind)
    }

    /// `Pod`.
    pub(crate) fn name(self) -> &'static str {
        self.row().name
    }

    /// `apps`; empty for the core group.
    pub(crate) fn group(self) -> &'static str {
        self.row().group
    }

    /// `apps/v1`.
    pub(crate) fn api_version(self) -> String {
        let row = self.row();
        if row.group.is_empty() { row.version.to_owned() } else { format!("{}/{}", row.group, row.version) }
    }

    /// `pods`.
    pub(crate) fn plural(self) -> &'static str {
        self.row().plural
    }

    /// `replicasets.apps`, as error messages have it.
    pub(crate) fn qualified(self) -> String {
        let row = self.row();
        if row.group.is_empty() { row.plural.to_owned() } else { format!("{}.{}", row.plural, row.group) }
    }

    pub(crate) fn namespaced(self) -> bool {
        self.row().namespaced
    }

    /// Whether its objects count the changes of their spec.
    pub(crate) fn has_generation(self) -> bool {
        matches!(
            self,
            Self::Pod
                | Self::ReplicaSet
                | Self::Deployment
                | Self::StatefulSet
                | Self::DaemonSet
                | Self::Job
                | Self::PodDisruptionBudget
                | Self::PriorityClass
                | Self::NodePool
                | Self::NodeClaim
                | Self::Machine
        )
    }

    pub(crate) fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.kind)
    }
}
