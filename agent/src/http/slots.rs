//! How much may be open at once, in all and by each credential.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// SHA-256 of a token.
pub(super) type Key = [u8; 32];

/// So many at once.
#[derive(Debug)]
pub(super) struct Slots {
    all: usize,
    each: usize,
    // Written by request handlers, and where a slot is dropped; each for a moment.
    taken: Mutex<HashMap<Key, usize>>,
}

/// Why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// All are taken.
    All,
    /// This credential has as many as it may have.
    Each,
}

/// One of them, until dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    key: Key,
}

// === impl Slots ===

impl Slots {
    pub(super) fn new(all: usize, each: usize) -> Arc<Self> {
        Arc::new(Self { all, each, taken: Mutex::default() })
    }

    pub(super) fn take(self: &Arc<Self>, key: Key) -> Result<Slot, Full> {
        let mut taken = self.taken.lock();
        if taken.get(&key).is_some_and(|mine| *mine >= self.each) {
            return Err(Full::Each);
        }
        if taken.values().sum::<usize>() >= self.all {
            return Err(Full::All);
        }
        *taken.entry(key).or_default() += 1;
        Ok(Slot { slots: Arc::clone(self), key })
    }
}

// === impl Slot ===

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        let left = taken.get_mut(&self.key).map(|mine| {
            *mine -= 1;
            *mine
        });
        if left == Some(0) {
            taken.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Key {
        [number; 32]
    }

    #[test]
    fn slots_run_out_for_each_and_for_all_and_come_back() {
        let slots = Slots::new(3, 2);
        let mine = [slots.take(key(1)).unwrap(), slots.take(key(1)).unwrap()];
        assert_eq!(slots.take(key(1)).unwrap_err(), Full::Each);
        let other = slots.take(key(2)).unwrap();
        assert_eq!(slots.take(key(3)).unwrap_err(), Full::All);
        drop(mine);
        assert!(slots.take(key(3)).is_ok());
        drop(other);
        assert!(slots.taken.lock().is_empty(), "nothing is kept of credentials that have none");
    }
}
