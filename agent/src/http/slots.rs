//! How much may be open at once: in all, by each token, and by each account, whose owner may have any number of tokens.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// SHA-256 of a token, or of an account's name.
pub(super) type Key = [u8; 32];

/// Whose a place is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) token: Key,
    pub(super) account: Key,
}

/// How many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub(super) all: usize,
    /// Less than all: one account cannot take what others need.
    pub(super) account: usize,
    pub(super) token: usize,
}

/// So many at once.
#[derive(Debug)]
pub(super) struct Slots {
    bound: Bound,
    // Written by request handlers, and where a slot is dropped; each for a moment.
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    tokens: HashMap<Key, usize>,
    accounts: HashMap<Key, usize>,
}

/// Why there is no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// All are taken.
    All,
    /// This account has as many as it may have.
    Account,
    /// This token has as many as it may have.
    Token,
}

/// One of them, until dropped.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    owner: Owner,
}

// === impl Slots ===

impl Slots {
    pub(super) fn new(bound: Bound) -> Arc<Self> {
        Arc::new(Self { bound, taken: Mutex::default() })
    }

    pub(super) fn take(self: &Arc<Self>, owner: Owner) -> Result<Slot, Full> {
        let mut taken = self.taken.lock();
        let of = |taken: &HashMap<Key, usize>, key| taken.get(key).copied().unwrap_or_default();
        if of(&taken.tokens, &owner.token) >= self.bound.token {
            return Err(Full::Token);
        }
        if of(&taken.accounts, &owner.account) >= self.bound.account {
            return Err(Full::Account);
        }
        if taken.all >= self.bound.all {
            return Err(Full::All);
        }
        taken.all += 1;
        *taken.tokens.entry(owner.token).or_default() += 1;
        *taken.accounts.entry(owner.account).or_default() += 1;
        Ok(Slot { slots: Arc::clone(self), owner })
    }
}

// === impl Slot ===

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock();
        taken.all -= 1;
        give_back(&mut taken.tokens, &self.owner.token);
        give_back(&mut taken.accounts, &self.owner.account);
    }
}

fn give_back(taken: &mut HashMap<Key, usize>, key: &Key) {
    let left = taken.get_mut(key).map(|mine| {
        *mine -= 1;
        *mine
    });
    if left == Some(0) {
        taken.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound { all: 4, account: 3, token: 2 };

    fn owner(account: u8, token: u8) -> Owner {
        Owner { token: [token; 32], account: [account; 32] }
    }

    #[test]
    fn slots_run_out_for_each_and_for_all_and_come_back() {
        let slots = Slots::new(BOUND);
        let mine = [slots.take(owner(100, 1)).unwrap(), slots.take(owner(100, 1)).unwrap()];
        assert_eq!(slots.take(owner(100, 1)).unwrap_err(), Full::Token);
        let others = [slots.take(owner(101, 2)).unwrap(), slots.take(owner(102, 3)).unwrap()];
        assert_eq!(slots.take(owner(103, 4)).unwrap_err(), Full::All);
        drop(mine);
        assert!(slots.take(owner(103, 4)).is_ok());
        drop(others);
        let taken = slots.taken.lock();
        assert_eq!(
            (taken.all, taken.tokens.len(), taken.accounts.len()),
            (0, 0, 0),
            "nothing is kept of those that have none"
        );
    }

    #[test]
    fn many_tokens_of_one_account_leave_places_to_other_accounts() {
        let slots = Slots::new(BOUND);
        let held: Vec<_> = (1..=3).map(|token| slots.take(owner(100, token)).unwrap()).collect();
        assert_eq!(slots.take(owner(100, 4)).unwrap_err(), Full::Account);
        assert!(slots.take(owner(101, 5)).is_ok());
        drop(held);
        assert!(slots.take(owner(100, 4)).is_ok());
    }
}
