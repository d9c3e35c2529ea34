//! Which scopes are to be read, where not every Pod is: what live rotations need, and what somebody looks at for a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;

use super::Partition;

/// A shared, cheaply cloned handle. The engine's task writes what rotations need; whoever looks at more holds it.
#[derive(Clone, Debug, Default)]
pub struct Wanted(Arc<watch::Sender<Wants>>);

#[derive(Debug, Default)]
struct Wants {
    by_rotations: BTreeSet<Partition>,
    /// How many hold each.
    held: BTreeMap<Partition, u32>,
}

/// Scopes that stay read for as long as this lives.
#[derive(Debug)]
#[must_use]
pub struct Hold {
    wanted: Wanted,
    scopes: BTreeSet<Partition>,
}

// === impl Wanted ===

impl Wanted {
    /// Says what the live rotations need, in the place of what was said before.
    pub(crate) fn by_rotations(&self, scopes: BTreeSet<Partition>) {
        self.0.send_if_modified(|wants| {
            let changed = wants.by_rotations != scopes;
            wants.by_rotations = scopes;
            changed
        });
    }

    /// Has scopes read for as long as the answer lives.
    pub(super) fn hold(&self, scopes: BTreeSet<Partition>) -> Hold {
        self.0.send_modify(|wants| {
            for scope in &scopes {
                *wants.held.entry(scope.clone()).or_insert(0) += 1;
            }
        });
        Hold { wanted: self.clone(), scopes }
    }

    /// Everything that is to be read now.
    pub(super) fn all(&self) -> BTreeSet<Partition> {
        let wants = self.0.borrow();
        let others = wants.by_rotations.iter().chain(wants.held.keys()).cloned();
        others.chain([Partition::room()]).collect()
    }

    /// A receiver that sees each change (several may come as one).
    pub(super) fn subscribe(&self) -> Changes {
        Changes(self.0.subscribe())
    }
}

/// Sees that what is to be read has changed.
#[derive(Debug)]
pub(super) struct Changes(watch::Receiver<Wants>);

impl Changes {
    /// Waits for the next change.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // Nobody is left who could want anything else.
            std::future::pending::<()>().await;
        }
    }
}

// === impl Hold ===

impl Hold {
    /// What is held.
    pub(super) fn scopes(&self) -> impl Iterator<Item = &Partition> {
        self.scopes.iter()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.wanted.0.send_modify(|wants| {
            for scope in &self.scopes {
                if let Some(count) = wants.held.get_mut(scope) {
                    *count -= 1;
                    if *count == 0 {
                        wants.held.remove(scope);
                    }
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_placeholders_are_always_read_and_the_rest_for_as_long_as_somebody_needs_it() {
        let wanted = Wanted::default();
        let (node, shop) = (Partition::node("a"), Partition::namespace("shop"));
        assert_eq!(wanted.all(), [Partition::room()].into());
        wanted.by_rotations([node.clone()].into());
        let one = wanted.hold([node.clone(), shop.clone()].into());
        let other = wanted.hold([shop.clone()].into());
        assert_eq!(wanted.all(), [Partition::room(), node.clone(), shop.clone()].into());
        drop(one);
        assert_eq!(wanted.all(), [Partition::room(), node, shop.clone()].into());
        wanted.by_rotations(BTreeSet::new());
        assert_eq!(wanted.all(), [Partition::room(), shop].into());
        drop(other);
        assert_eq!(wanted.all(), [Partition::room()].into());
    }
}
