//! Rotations as shown to people: what the engine last said of each.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use rotate_shared::Rotation;
use tokio::sync::watch;

/// All known rotations by id: a value that never changes, replaced whole. `None`: the records were not read yet.
pub type Shown = Option<Arc<BTreeMap<String, Arc<Rotation>>>>;

/// A shared, cheaply cloned handle. Only the engine's task publishes; HTTP handlers read and subscribe.
#[derive(Clone, Debug)]
pub struct Views {
    shown: Arc<watch::Sender<Shown>>,
    /// Whose revisions these are: every agent counts its own from 1.
    source: u64,
}

impl Default for Views {
    fn default() -> Self {
        // The system seeds it.
        Self { shown: Arc::default(), source: RandomState::new().build_hasher().finish() }
    }
}

impl Views {
    /// The id of the event that tells of a rotation's state: no other agent gives it to another state.
    #[must_use]
    pub fn event_id(&self, rotation: &Rotation) -> String {
        format!("{:016x}-{}", self.source, rotation.revision)
    }

    /// The revision in an id that came from here.
    #[must_use]
    pub fn revision_of(&self, event_id: &str) -> Option<u64> {
        let (source, revision) = event_id.split_once('-')?;
        (u64::from_str_radix(source, 16) == Ok(self.source)).then(|| revision.parse().ok())?
    }

    /// Whether the records were read: before, that a rotation is not here means nothing.
    #[must_use]
    pub fn loaded(&self) -> bool {
        self.shown.borrow().is_some()
    }

    /// The rotation with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Arc<Rotation>> {
        self.shown.borrow().as_ref()?.get(id).cloned()
    }

    /// All rotations, live ones first, then the newest.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Rotation>> {
        let mut rotations: Vec<_> = self.shown.borrow().iter().flat_map(|shown| shown.values()).cloned().collect();
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
        shown
            .as_ref()?
            .values()
            .find(|rotation| rotation.node_uid == node_uid && !rotation.phase.is_terminal())
            .cloned()
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
            let mut changed = shown.is_none();
            let before = shown.take().unwrap_or_default();
            for mut rotation in rotations {
                let old = before.get(&rotation.id);
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
            changed |= next.len() != before.len();
            *shown = Some(if changed { Arc::new(next) } else { before });
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use rotate_shared::Phase;

    use super::*;
    use crate::http::testing;

    fn rotation(id: &str, phase: Phase) -> Rotation {
        testing::rotation(id, id, phase)
    }

    #[test]
    fn nothing_is_known_until_the_first_word_of_the_engine() {
        let views = Views::default();
        assert!(!views.loaded());
        views.publish([]);
        assert!(views.loaded());
    }

    #[test]
    fn only_a_change_raises_the_revision_and_wakes_the_followers() {
        let views = Views::default();
        views.publish([rotation("a", Phase::Queued), rotation("b", Phase::Queued)]);
        let follower = views.subscribe();
        views.publish([rotation("a", Phase::Queued), rotation("b", Phase::Queued)]);
        assert!(!follower.has_changed().unwrap());
        views.publish([rotation("a", Phase::Surging), rotation("b", Phase::Queued)]);
        assert!(follower.has_changed().unwrap());
        assert_eq!(views.get("a").unwrap().revision, 2);
        assert_eq!(views.get("b").unwrap().revision, 1);
    }

    #[test]
    fn a_rotation_that_is_no_longer_published_is_gone() {
        let views = Views::default();
        views.publish([rotation("a", Phase::Queued), rotation("b", Phase::Queued)]);
        let follower = views.subscribe();
        views.publish([rotation("b", Phase::Queued)]);
        assert!(follower.has_changed().unwrap());
        assert!(views.get("a").is_none());
    }

    #[test]
    fn live_rotations_are_listed_first_then_the_newest() {
        let views = Views::default();
        let at = |seconds, mut rotation: Rotation| {
            rotation.created_at = jiff::Timestamp::from_second(seconds).unwrap();
            rotation
        };
        views.publish([
            at(1, rotation("old", Phase::Succeeded)),
            at(3, rotation("new", Phase::Failed)),
            at(2, rotation("live", Phase::Draining)),
        ]);
        let ids: Vec<_> = views.list().iter().map(|rotation| rotation.id.clone()).collect();
        assert_eq!(ids, ["live", "new", "old"]);
    }

    #[test]
    fn a_node_has_a_live_rotation_only_while_it_is_not_over() {
        let views = Views::default();
        views.publish([rotation("a", Phase::Succeeded), rotation("b", Phase::Settling)]);
        assert!(views.live("uid-a").is_none());
        assert_eq!(views.live("uid-b").unwrap().id, "b");
    }
}
