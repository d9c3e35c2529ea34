//! A list that grows in pieces: nothing is moved or allocated twice when it grows, and what is freed is used again.

use super::Id;

/// Elements in a piece. The last piece is the only one that is not full: this bounds what is held in vain.
const PIECE: usize = 512;

/// Values by small numbers.
#[derive(Debug)]
pub(super) struct Slab<T> {
    pieces: Vec<Vec<T>>,
    free: Vec<Id>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
    /// Keeps a value. Answers its number.
    pub(super) fn put(&mut self, value: T) -> Id {
        if let Some(id) = self.free.pop() {
            *self.get_mut(id) = value;
            return id;
        }
        if self.pieces.last().is_none_or(|piece| piece.len() == PIECE) {
            // The first piece grows as it is filled: most lists are short.
            let size = if self.pieces.is_empty() { 0 } else { PIECE };
            self.pieces.push(Vec::with_capacity(size));
        }
        let before = (self.pieces.len() - 1) * PIECE;
        let last = self.pieces.last_mut().expect("just made");
        last.push(value);
        number(before + last.len() - 1)
    }

    /// Forgets a value: its number will stand for another.
    pub(super) fn take(&mut self, id: Id) -> T {
        let value = std::mem::take(self.get_mut(id));
        self.free.push(id);
        if self.free.len() == self.pieces.last().map_or(0, Vec::len) + (self.pieces.len() - 1) * PIECE {
            *self = Self::default();
        }
        value
    }
}

impl<T> Slab<T> {
    pub(super) fn get(&self, id: Id) -> &T {
        &self.pieces[id as usize / PIECE][id as usize % PIECE]
    }

    pub(super) fn get_mut(&mut self, id: Id) -> &mut T {
        &mut self.pieces[id as usize / PIECE][id as usize % PIECE]
    }
}

/// A place in a list as a small number.
pub(super) fn number(at: usize) -> Id {
    u32::try_from(at).expect("fewer than four billion of anything")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_is_used_again_and_nothing_is_left_of_nothing() {
        let mut slab = Slab::default();
        let ids: Vec<_> = (0..1_300_u32).map(|value| slab.put(value)).collect();
        assert!(ids.iter().all(|id| slab.get(*id) == id));
        assert_eq!(slab.take(700), 700);
        assert_eq!(slab.put(7), 700);
        assert_eq!(*slab.get(700), 7);
        assert_eq!(ids.iter().map(|id| u64::from(slab.take(*id))).sum::<u64>(), (0..1_300).sum::<u64>() - 700 + 7);
        assert!(slab.pieces.is_empty() && slab.free.is_empty());
    }
}
