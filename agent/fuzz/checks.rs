//! What must hold for any bytes. The fuzz targets run it, and an ordinary test of the agent, on the corpus.

use rotate_agent::cache::decode::{self, Encoded, protobuf as wire};
use rotate_agent::cache::{Node, Pdb, State};

/// What a fuzz target does with any bytes.
pub(crate) fn check(target: &str, bytes: &[u8]) {
    match target {
        "decode_json" => json(bytes),
        "decode_protobuf" => protobuf(bytes),
        _ => panic!("no target {target}"),
    }
}

/// As JSON.
fn json(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        object(Encoded::Json(text));
        // These have no protobuf reader.
        let _ = decode::claim(text);
        let _ = decode::volume(text);
        let _ = decode::workload(text);
    }
}

/// As protobuf: as a message, and as all that is around messages.
fn protobuf(bytes: &[u8]) {
    object(Encoded::Protobuf(bytes));
    if let Ok(event) = wire::watch_event(bytes) {
        object(Encoded::Protobuf(event.object.message));
    }
    let message = wire::envelope(bytes).map_or(bytes, |envelope| envelope.message);
    if let Ok(list) = wire::list(message) {
        list.items.into_iter().for_each(|item| object(Encoded::Protobuf(item)));
    }
    let _ = wire::status(message);
    object(Encoded::Protobuf(message));
}

/// Whatever can be read goes into a state and comes out of it as it was, and leaves nothing behind.
fn object(object: Encoded<'_>) {
    let (identity, node) = decode::fragment(object);
    if let Ok(whole) = decode::identity(object) {
        assert_eq!(whole, identity, "of a whole object, a fragment is the whole");
    }
    let _ = decode::bookmark(object);
    let mut state = State::default();
    if let Ok(view) = decode::pod(object) {
        assert_eq!((&*view.name, &*view.uid), (&*identity.name, &*identity.uid));
        assert_eq!(view.node.as_deref(), node.as_deref());
        assert!(view.labels.is_sorted_by(|(one, _), (next, _)| one < next), "each label once, by key");
        assert!(view.shape.requests.milli_cpu >= 0 && view.shape.requests.memory >= 0);
        state.apply_pod(&view);
        state.apply_pod(&view);
        let mut pod = view.to_pod();
        let mut kept = state.pod(&pod.uid).expect("what was taken in is there");
        // The index keeps whole seconds.
        (pod.created, kept.created) = (kept.created, kept.created);
        assert_eq!(kept, pod);
        state.remove_pod(&pod.uid);
    }
    if let Ok(Node { name, uid, .. }) = decode::node(object).inspect(|node| state.apply_node(node.clone())) {
        assert!(state.node(&name).is_some());
        state.remove_node(&name, &uid);
    }
    if let Ok(Pdb { uid, .. }) = decode::pdb(object).inspect(|pdb| state.apply_pdb(pdb.clone())) {
        state.remove_pdb(&uid);
    }
    assert_eq!(state.counts(), State::default().counts(), "nothing is left behind");
}
