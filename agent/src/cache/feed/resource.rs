//! The kinds that are watched: where they are, how they are read and kept.

use crate::cache::decode::{self, Decode, DecodeError, Encoded, Identity};
use crate::cache::index::{Kind, Relist};
use crate::cache::pod::PodView;
use crate::cache::{Node, Pdb, Pod, State};

/// A kind of objects that is watched.
pub(in crate::cache) trait Resource: Send + 'static {
    /// What is read of an object, with its resourceVersion.
    type View<'a>;
    /// Which kind.
    const KIND: Kind;
    /// Its name in messages.
    const NAME: &'static str;
    /// Where the API server lists all of them.
    const PATH: &'static str;

    /// Reads one.
    fn read(object: Encoded<'_>) -> Result<Self::View<'_>, DecodeError>;
    /// Its UID.
    fn uid<'v>(object: &'v Self::View<'_>) -> &'v str;
    /// Its resourceVersion.
    fn revision<'v>(object: &'v Self::View<'_>) -> Option<&'v str>;
    /// Takes one in, as a part of this list or as news.
    fn apply(state: &mut State, object: Self::View<'_>, relist: Option<&Relist>);
    /// Forgets one.
    fn remove(state: &mut State, object: &Identity);
}

impl Resource for Pod {
    type View<'a> = PodView<'a>;
    const KIND: Kind = Kind::Pods;
    const NAME: &'static str = "Pods";
    const PATH: &'static str = "/api/v1/pods";

    fn read(object: Encoded<'_>) -> Result<PodView<'_>, DecodeError> {
        decode::pod(object)
    }

    fn uid<'v>(object: &'v PodView<'_>) -> &'v str {
        &object.uid
    }

    fn revision<'v>(object: &'v PodView<'_>) -> Option<&'v str> {
        object.revision.as_deref()
    }

    fn apply(state: &mut State, object: PodView<'_>, relist: Option<&Relist>) {
        state.apply_pod(&object);
        mark(state, relist, &object.uid);
    }

    fn remove(state: &mut State, object: &Identity) {
        state.remove_pod(&object.uid);
        state.note_gone(&object.uid, object.revision.as_deref());
    }
}

impl Resource for Node {
    type View<'a> = (Self, Option<Box<str>>);
    const KIND: Kind = Kind::Nodes;
    const NAME: &'static str = "nodes";
    const PATH: &'static str = "/api/v1/nodes";

    fn read(object: Encoded<'_>) -> Result<Self::View<'_>, DecodeError> {
        Self::decode(object)
    }

    fn uid<'v>((node, _): &'v Self::View<'_>) -> &'v str {
        &node.uid
    }

    fn revision<'v>((_, revision): &'v Self::View<'_>) -> Option<&'v str> {
        revision.as_deref()
    }

    fn apply(state: &mut State, (node, _): Self::View<'_>, relist: Option<&Relist>) {
        let uid = node.uid.clone();
        state.apply_node(node);
        mark(state, relist, &uid);
    }

    fn remove(state: &mut State, object: &Identity) {
        state.remove_node(&object.name, &object.uid);
    }
}

impl Resource for Pdb {
    type View<'a> = (Self, Option<Box<str>>);
    const KIND: Kind = Kind::Pdbs;
    const NAME: &'static str = "disruption budgets";
    const PATH: &'static str = "/apis/policy/v1/poddisruptionbudgets";

    fn read(object: Encoded<'_>) -> Result<Self::View<'_>, DecodeError> {
        Self::decode(object)
    }

    fn uid<'v>((pdb, _): &'v Self::View<'_>) -> &'v str {
        &pdb.uid
    }

    fn revision<'v>((_, revision): &'v Self::View<'_>) -> Option<&'v str> {
        revision.as_deref()
    }

    fn apply(state: &mut State, (pdb, _): Self::View<'_>, relist: Option<&Relist>) {
        let uid = pdb.uid.clone();
        state.apply_pdb(pdb);
        mark(state, relist, &uid);
    }

    fn remove(state: &mut State, object: &Identity) {
        state.remove_pdb(&object.uid);
    }
}

/// Marks what a list held.
pub(super) fn mark(state: &mut State, relist: Option<&Relist>, uid: &str) {
    if let Some(relist) = relist {
        state.mark_seen(relist, uid);
    }
}
