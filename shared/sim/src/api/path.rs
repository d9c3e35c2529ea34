//! What a path of the API is about.

use crate::kind::Kind;

/// A collection, an object or a subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    /// `None` for cluster-wide kinds, and for lists over all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Target {
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            _ => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some((*name).to_owned()), None),
            [plural, name, subresource] => (*plural, Some((*name).to_owned()), Some((*subresource).to_owned())),
            _ => return None,
        };
        let kind = Kind::find(group, version, plural)?;
        if namespace.is_some() != kind.namespaced() && (namespace.is_some() || name.is_some()) {
            return None;
        }
        Some(Self { kind, namespace, name, subresource })
    }

    /// Namespace and name, as the store keys objects.
    pub(crate) fn key(&self) -> (String, String) {
        (self.namespace.clone().unwrap_or_default(), self.name.clone().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_collections_objects_and_subresources() {
        let target = |kind, namespace: Option<&str>, name: Option<&str>, subresource: Option<&str>| {
            Some(Target {
                kind,
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
                subresource: subresource.map(str::to_owned),
            })
        };
        for (path, expected) in [
            ("/api/v1/pods", target(Kind::Pod, None, None, None)),
            ("/api/v1/namespaces", target(Kind::Namespace, None, None, None)),
            ("/api/v1/namespaces/shop", target(Kind::Namespace, None, Some("shop"), None)),
            ("/api/v1/namespaces/shop/pods", target(Kind::Pod, Some("shop"), None, None)),
            ("/api/v1/namespaces/shop/pods/a/eviction", target(Kind::Pod, Some("shop"), Some("a"), Some("eviction"))),
            ("/apis/apps/v1/replicasets", target(Kind::ReplicaSet, None, None, None)),
            ("/api/v1/nodes/n1/status", target(Kind::Node, None, Some("n1"), Some("status"))),
            ("/api/v1/pods/a", None),
            ("/api/v1/namespaces/shop/nodes", None),
            ("/apis/apps/v1", None),
            ("/apis/example.com/v1/things", None),
        ] {
            assert_eq!(Target::parse(path), expected, "{path}");
        }
    }
}
