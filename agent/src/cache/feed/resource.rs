//! The kinds that are watched: where they are, how they are kept.

use crate::cache::decode::{Decode, Identity};
use crate::cache::index::Kind;
use crate::cache::{Node, Pdb, Pod, State};

/// A kind of objects that is watched.
pub(in crate::cache) trait Resource: Send + 'static {
    /// What is kept of an object.
    type Object: Decode + Send + 'static;
    /// Which kind.
    const KIND: Kind;
    /// Its name in messages.
    const NAME: &'static str;
    /// Where the API server lists all of them.
    const PATH: &'static str;

    /// Its UID.
    fn uid(object: &Self::Object) -> &str;
    /// Takes one in.
    fn apply(state: &mut State, object: Self::Object);
    /// Forgets one.
    fn remove(state: &mut State, object: &Identity);
}

impl Resource for Pod {
    type Object = Self;
    const KIND: Kind = Kind::Pods;
    const NAME: &'static str = "Pods";
    const PATH: &'static str = "/api/v1/pods";

    fn uid(object: &Self) -> &str {
        &object.uid
    }

    fn apply(state: &mut State, object: Self) {
        state.apply_pod(&object.view());
    }

    fn remove(state: &mut State, object: &Identity) {
        state.remove_pod(&object.uid);
        state.note_gone(&object.uid, object.revision.as_deref());
    }
}

impl Resource for Node {
    type Object = Self;
    const KIND: Kind = Kind::Nodes;
    const NAME: &'static str = "nodes";
    const PATH: &'static str = "/api/v1/nodes";

    fn uid(object: &Self) -> &str {
        &object.uid
    }

    fn apply(state: &mut State, object: Self) {
        state.apply_node(object);
    }

    fn remove(state: &mut State, object: &Identity) {
        state.remove_node(&object.name, &object.uid);
    }
}

impl Resource for Pdb {
    type Object = Self;
    const KIND: Kind = Kind::Pdbs;
    const NAME: &'static str = "disruption budgets";
    const PATH: &'static str = "/apis/policy/v1/poddisruptionbudgets";

    fn uid(object: &Self) -> &str {
        &object.uid
    }

    fn apply(state: &mut State, object: Self) {
        state.apply_pdb(object);
    }

    fn remove(state: &mut State, object: &Identity) {
        state.remove_pdb(&object.uid);
    }
}
