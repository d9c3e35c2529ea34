//! Pieces of bytes kept once and counted by reference.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::Id;
use super::entry::NONE;
use super::slab::Slab;

/// Equal bytes are one allocation, freed with its last use. The bytes themselves are the key of the look-up: there is no
/// second copy.
#[derive(Debug, Default)]
pub(super) struct Blobs {
    table: HashTable<Id>,
    slots: Slab<Blob>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Blob {
    bytes: Box<[u8]>,
    uses: u32,
}

impl Blobs {
    /// The number of these bytes, with no use yet where they are new: [`Blobs::retain`] must follow.
    pub(super) fn mention(&mut self, bytes: &[u8]) -> Id {
        let hash = self.hasher.hash_one(bytes);
        if let Some(id) = self.table.find(hash, |id| *self.slots.get(*id).bytes == *bytes) {
            return *id;
        }
        let id = self.slots.put(Blob { bytes: bytes.into(), uses: 0 });
        self.table.insert_unique(hash, id, |id| self.hasher.hash_one(&*self.slots.get(*id).bytes));
        id
    }

    /// As [`Blobs::mention`], where the bytes are likely to be those of a number that is in use.
    pub(super) fn mention_likely(&mut self, likely: Id, bytes: &[u8]) -> Id {
        if likely != NONE && *self.get(likely) == *bytes { likely } else { self.mention(bytes) }
    }

    /// The number of these bytes, if they are kept.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<Id> {
        self.table.find(self.hasher.hash_one(bytes), |id| *self.slots.get(*id).bytes == *bytes).copied()
    }

    /// One use more.
    pub(super) fn retain(&mut self, id: Id) {
        self.slots.get_mut(id).uses += 1;
    }

    /// One use less.
    pub(super) fn release(&mut self, id: Id) {
        let slot = self.slots.get_mut(id);
        slot.uses -= 1;
        if slot.uses == 0 {
            let hash = self.hasher.hash_one(&*slot.bytes);
            self.table.find_entry(hash, |found| *found == id).expect("what is kept is in the table").remove();
            self.slots.take(id);
            if self.table.is_empty() {
                self.table = HashTable::new();
            }
        }
    }

    pub(super) fn get(&self, id: Id) -> &[u8] {
        &self.slots.get(id).bytes
    }

    /// The bytes as the text that they were made of.
    pub(super) fn text(&self, id: Id) -> &str {
        str::from_utf8(self.get(id)).expect("texts are kept as they came")
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_are_kept_once_until_their_last_use() {
        let mut blobs = Blobs::default();
        let ids: Vec<_> = (0..1_000_u32).map(|number| blobs.mention(&number.to_le_bytes())).collect();
        for id in &ids {
            blobs.retain(*id);
            assert_eq!(blobs.mention(&id.to_le_bytes()), *id);
        }
        blobs.retain(7);
        ids.iter().for_each(|id| blobs.release(*id));
        assert_eq!((blobs.len(), blobs.find(&7_u32.to_le_bytes())), (1, Some(7)));
        blobs.release(7);
        assert_eq!((blobs.len(), blobs.find(&7_u32.to_le_bytes())), (0, None));
    }
}
