//! Disruption budgets by namespace.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cache::Pdb;

/// Budgets by UID.
type ByUid = BTreeMap<Arc<str>, Pdb>;

/// All budgets.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    by_namespace: BTreeMap<Arc<str>, ByUid>,
    namespaces: HashMap<Arc<str>, Arc<str>>,
}

impl Budgets {
    pub(super) fn apply(&mut self, pdb: Pdb) {
        let namespace = Arc::clone(&pdb.namespace);
        let uid = Arc::clone(&pdb.uid);
        self.namespaces.insert(Arc::clone(&uid), Arc::clone(&namespace));
        self.by_namespace.entry(namespace).or_default().insert(uid, pdb);
    }

    pub(super) fn remove(&mut self, uid: &str) {
        let Some(namespace) = self.namespaces.remove(uid) else { return };
        if let Some(budgets) = self.by_namespace.get_mut(&namespace) {
            budgets.remove(uid);
            if budgets.is_empty() {
                self.by_namespace.remove(&namespace);
            }
        }
    }

    pub(super) fn of(&self, namespace: &str) -> impl Iterator<Item = &Pdb> {
        self.by_namespace.get(namespace).into_iter().flat_map(ByUid::values)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Pdb> {
        self.by_namespace.values().flat_map(ByUid::values)
    }

    pub(super) fn len(&self) -> usize {
        self.namespaces.len()
    }
}
