//! Whether a Pod, or the volume it mounts, can be on one node only.
//!
//! Pins compare with the node's `kubernetes.io/hostname` *label*, which need not be the node's name. In doubt a Pod is
//! not pinned: it counts, and too much room is reserved rather than too little.

use std::ops::Deref;

use rotate_shared::names::HOSTNAME;

use crate::cache::selector::{Expression, NodeTerm, Operator};
use crate::cache::volumes::Claim;
use crate::cache::{Node, Pod, Shape, Volumes};

const NAME_FIELD: &str = "metadata.name";

/// Where a requirement lets a Pod be, seen from one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Nowhere: it contradicts itself.
    Nowhere,
    /// On this node only.
    Here,
    /// On others, or nothing is said.
    Elsewhere,
}

impl Reach {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nowhere, _) | (_, Self::Nowhere) => Self::Nowhere,
            (Self::Here, _) | (_, Self::Here) => Self::Here,
            _ => Self::Elsewhere,
        }
    }
}

/// Whether the Pod's own node selector and required affinity leave it no other node. Allocates nothing: the cache asks
/// on every event.
pub(crate) fn is_pinned<S: Deref<Target = str>>(shape: &Shape<S>, node: &Node) -> bool {
    let selector = &shape.node_selector;
    match shape.node_affinity.as_deref() {
        // Most Pods: nothing is said, and the node's labels need not be searched.
        None | Some([]) if selector.is_empty() => false,
        None | Some([]) => reach_of_labels(selector, &[], node) == Reach::Here,
        Some(terms) => all_here(terms.iter().map(|term| reach_of_term(selector, term, node))),
    }
}

/// The claim whose bound volume is on this node only, if there is one.
pub(crate) fn pinning_claim<'a>(pod: &'a Pod, node: &Node, volumes: &'a Volumes) -> Option<(&'a str, &'a str)> {
    pod.claims.iter().find_map(|claim| match volumes.claims.get(&(Box::from(&*pod.namespace), claim.clone()))? {
        Claim::Bound { volume, terms: Some(terms), .. }
            if all_here(terms.iter().map(|term| reach_of_volume(term, node))) =>
        {
            Some((&**claim, &**volume))
        }
        _ => None,
    })
}

/// Terms are ORed: one that can't be met adds nothing, one that leads elsewhere unpins.
fn all_here(terms: impl Iterator<Item = Reach>) -> bool {
    let mut here = false;
    for reach in terms {
        match reach {
            Reach::Nowhere => {}
            Reach::Here => here = true,
            Reach::Elsewhere => return false,
        }
    }
    here
}

fn reach_of_term<S: Deref<Target = str>>(selector: &[Expression<S>], term: &NodeTerm<S>, node: &Node) -> Reach {
    if term.expressions.is_empty() && term.fields.is_empty() {
        return Reach::Nowhere;
    }
    let by_name = reach(&[], &term.fields, NAME_FIELD, Some(&*node.name));
    reach_of_labels(selector, &term.expressions, node).and(by_name)
}

fn reach_of_labels<S: Deref<Target = str>>(
    selector: &[Expression<S>],
    expressions: &[Expression<S>],
    node: &Node,
) -> Reach {
    reach(selector, expressions, HOSTNAME, node.hostname())
}

/// Volumes of one machine name it by a label of their driver's (`topology.topolvm.io/node`), whose value is the node's
/// name or host name.
fn reach_of_volume(term: &NodeTerm, node: &Node) -> Reach {
    let names_node =
        |key: &str| node.label(key).is_some_and(|value| value == &*node.name || Some(value) == node.hostname());
    let by_driver = term
        .expressions
        .iter()
        .filter(|expression| names_node(&expression.key))
        .map(|expression| reach(&[], &term.expressions, &expression.key, node.label(&expression.key)))
        .fold(Reach::Elsewhere, Reach::and);
    reach_of_term(&[], term, node).and(by_driver)
}

/// The values of `key` that all expressions on it allow: none, only `here`, or others too.
fn reach<S: Deref<Target = str>>(
    selector: &[Expression<S>],
    expressions: &[Expression<S>],
    key: &str,
    here: Option<&str>,
) -> Reach {
    let on_key = || selector.iter().chain(expressions).filter(|expression| &*expression.key == key);
    let Some(listed) = on_key().find(|expression| expression.operator == Operator::In) else {
        return Reach::Elsewhere;
    };
    let mut reach = Reach::Nowhere;
    for value in &listed.values {
        if on_key().all(|expression| expression.matches(Some(value))) {
            if Some(&**value) != here {
                return Reach::Elsewhere;
            }
            reach = Reach::Here;
        }
    }
    reach
}
