//! Which Pods a term of Pod affinity or anti-affinity means.

use std::ops::Deref;

use rotate_shared::names::ROOM_NAMESPACE;

use crate::cache::Pod;
use crate::cache::selector::{Labels, Selector};
use crate::cache::shape::PodTerm;

/// The label that the API server puts on each namespace, with its name: the only one that is known without reading
/// namespaces.
const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// Whether a term means a Pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selected {
    /// It does.
    Yes,
    /// It does if the Pod's namespace has certain labels, which are not known.
    Maybe,
    /// It does not.
    No,
}

/// Whether a term of a Pod of namespace `own` means a Pod of `namespace` with these labels.
pub(crate) fn selects<S: Deref<Target = str>>(
    term: &PodTerm<S>,
    own: &str,
    namespace: &str,
    labels: &Labels,
) -> Selected {
    if !term.selector.as_ref().is_some_and(|selector| selector.matches(labels)) {
        return Selected::No;
    }
    if term.namespaces.iter().any(|listed| &**listed == namespace) {
        return Selected::Yes;
    }
    match &term.namespace_selector {
        None if term.namespaces.is_empty() && own == namespace => Selected::Yes,
        None => Selected::No,
        Some(selector) => namespace_selected(selector, namespace),
    }
}

/// Whether a term of a Pod of namespace `own` means this Pod, as far as is known.
pub(crate) fn may_mean<S: Deref<Target = str>>(term: &PodTerm<S>, own: &str, pod: &Pod) -> bool {
    selects(term, own, &pod.namespace, &pod.labels) != Selected::No
}

fn namespace_selected<S: Deref<Target = str>>(selector: &Selector<S>, namespace: &str) -> Selected {
    let mut selected = Selected::Yes;
    for expression in &selector.expressions {
        if &*expression.key == NAMESPACE_NAME {
            if !expression.matches(Some(namespace)) {
                return Selected::No;
            }
        } else {
            selected = Selected::Maybe;
        }
    }
    selected
}

/// The namespaces of a term, for a person.
pub(crate) fn namespaces_in_words(term: &PodTerm) -> String {
    match &term.namespace_selector {
        Some(selector) if selector.expressions.is_empty() => "all namespaces".to_owned(),
        Some(selector) => format!("namespaces with {selector}"),
        None => {
            let workloads = term.namespaces.iter().filter(|namespace| &***namespace != ROOM_NAMESPACE);
            workloads.map(|namespace| &**namespace).collect::<Vec<_>>().join(", ")
        }
    }
}
