//! Rotations as shown to people: what the engine last said of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use rotate_shared::Rotation;
use tokio::sync::watch;

/// All known rotations by id: a value that never changes, replaced whole.
pub type Shown = Arc<BTreeMap<String, Arc<Rotation>>>;

/// A shared, cheaply cloned handle. Only the engine's task publishes; HTTP handlers read and subscribe.
#[derive(Clone, Debug, Default)]
pub struct Views {
    shown: Arc<watch::Sender<Shown>>,
}

impl Views {
    /// The rotation with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<Rotation>> {
        self.shown.borrow().get(id).cloned()
    }

    /// All rotations, live ones first, then the newest.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Rotation>> {
        let mut rotations: Vec<_> = self.shown.borrow().values().cloned().collect();
        rotations.sort_by(|a, b| {
            let order = |rotation: &Rotation| (rotation.phase.is_terminal(), std::cmp::Reverse(rotation.created_at));
            order(a).cmp(&order(b)).then_with(|| a.node.cmp(&b.node))
        });
        rotations
    }

    /// The live rotation of the node with this UID.
    #[must_use]
    pub fn live(&self, node_uid: &str) -> Option<Arc<Rotation>> {
        let shown = self.shown.borrow();
        shown.values().find(|rotation| rotation.node_uid == node_uid && !rotation.phase.is_terminal()).cloned()
    }

    /// A receiver that sees each change (several may come as one).
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Shown> {
        self.shown.subscribe()
    }

    /// Shows this from now on. A rotation that changed in anything but its revision gets the next revision, whatever it
    /// says itself; one that did not change keeps its own, so that nobody is woken for nothing.
    pub fn publish(&self, rotations: impl IntoIterator<Item = Rotation>) {
        self.shown.send_if_modified(|shown| {
            let mut next = BTreeMap::new();
            let mut changed = false;
            for mut rotation in rotations {
                let old = shown.get(&rotation.id);
                if let Some(old) = old {
                    rotation.revision = old.revision;
                    if **old == rotation {
                        next.insert(rotation.id.clone(), Arc::clone(old));
                        continue;
                    }
                }
                rotation.revision = old.map_or(0, |old| old.revision) + 1;
                changed = true;
                next.insert(rotation.id.clone(), Arc::new(rotation));
            }
            changed |= next.len() != shown.len();
            if changed {
                *shown = Arc::new(next);
            }
            changed
        });
    }
}
