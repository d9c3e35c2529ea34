//! Complete lists: what of the present knowledge a list confirms, and what it refutes.
//!
//! ```text
//! begin_relist(kind, partition) ─▶ Relist ─ mark_seen(uid) … ─▶ end_relist: what lies in the partition and was not seen is gone
//!                                    └─ dropped: nothing is forgotten
//! ```
//!
//! A feed reads the whole cluster or a [`Partition`] of it; several feeds read theirs at the same time into one state.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use super::{Id, Kind, NONE, State, Unreadable};

/// The part of a kind's objects that one feed reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Partition {
    /// All of them.
    All,
    /// Pods bound to the node with this name; the node itself.
    Node(Box<str>),
    /// What is in this namespace.
    Namespace(Box<str>),
    /// What has a UID whose [`shard_hash`] lies in this range.
    Shard(ShardRange),
}

/// A part of the space of hashes that shards divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardRange {
    /// The lowest hash in it.
    pub first: u64,
    /// The highest hash in it.
    pub last: u64,
}

/// What a partition looks at.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// `metadata.namespace`; empty where the kind has none.
    pub namespace: &'a str,
    /// The node that a Pod is bound to, or the name of the node itself.
    pub node: Option<&'a str>,
    /// `metadata.uid`.
    pub uid: &'a str,
}

/// A complete list that is being taken in. Dropped before its end it says nothing about what it did not hold.
#[derive(Debug)]
pub struct Relist {
    kind: Kind,
    partition: Partition,
    open: usize,
    token: Arc<()>,
}

/// What the lists that are being taken in have held so far.
#[derive(Debug, Default)]
pub(super) struct Relists(Vec<Open>);

#[derive(Debug)]
struct Open {
    /// Dead once the list has ended or was given up.
    token: Weak<()>,
    seen: Seen,
}

#[derive(Debug, Default)]
struct Seen {
    /// A bit for each Pod that is kept.
    pods: Vec<u64>,
    /// UIDs of everything else: nodes, budgets, what cannot be read.
    others: HashSet<Box<str>>,
}

// === impl Partition ===

impl Partition {
    /// Whether an object lies in it.
    #[must_use]
    pub fn holds(&self, object: &Held<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Node(node) => object.node == Some(node),
            Self::Namespace(namespace) => *object.namespace == **namespace,
            Self::Shard(ShardRange { first, last }) => (*first..=*last).contains(&shard_hash(object.uid)),
        }
    }
}

/// The hash that the API server divides shards by: FNV-1a of 64 bits (KEP-5866).
#[must_use]
pub fn shard_hash(text: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

// === impl Relists ===

impl Relists {
    fn begin(&mut self, kind: Kind, partition: Partition) -> Relist {
        let token = Arc::new(());
        let open = Open { token: Arc::downgrade(&token), seen: Seen::default() };
        let place = match self.0.iter().position(|open| open.token.strong_count() == 0) {
            Some(place) => {
                self.0[place] = open;
                place
            }
            None => {
                self.0.push(open);
                self.0.len() - 1
            }
        };
        Relist { kind, partition, open: place, token }
    }

    /// A Pod id now stands for another Pod, which no list has held yet.
    pub(super) fn forget_pod(&mut self, id: Id) {
        for open in &mut self.0 {
            if let Some(word) = open.seen.pods.get_mut(id as usize / 64) {
                *word &= !(1 << (id % 64));
            }
        }
    }

    fn end(&mut self, relist: &Relist) -> Seen {
        let seen = std::mem::take(&mut self.0[relist.open].seen);
        while self.0.last().is_some_and(|open| open.token.strong_count() == 0) {
            self.0.pop();
        }
        seen
    }
}

impl Seen {
    fn mark_pod(&mut self, id: Id) {
        let word = id as usize / 64;
        if self.pods.len() <= word {
            self.pods.resize(word + 1, 0);
        }
        self.pods[word] |= 1 << (id % 64);
    }

    fn has_pod(&self, id: Id) -> bool {
        self.pods.get(id as usize / 64).is_some_and(|word| word & (1 << (id % 64)) != 0)
    }
}

// === impl State ===

impl State {
    /// A complete list of a partition begins. What it holds must be applied and marked; nothing is forgotten yet, so that
    /// readers never see an empty cache. A list that begins anew is a new token; several may be open at once.
    pub fn begin_relist(&mut self, kind: Kind, partition: Partition) -> Relist {
        self.relists.begin(kind, partition)
    }

    /// The list held the object with this UID, readable or not.
    pub fn mark_seen(&mut self, relist: &Relist, uid: &str) {
        let pod = if relist.kind == Kind::Pods { self.find_pod(uid) } else { None };
        let noted = relist.kind != Kind::Pods || self.unreadable.has(relist.kind, uid);
        let seen = &mut self.relists.0[relist.open].seen;
        if let Some(id) = pod {
            seen.mark_pod(id);
        }
        if noted {
            seen.others.insert(uid.into());
        }
    }

    /// The list has ended: what lies in its partition and was not marked is forgotten. Answers how many.
    pub fn end_relist(&mut self, relist: Relist) -> usize {
        let seen = self.relists.end(&relist);
        let Relist { kind, partition, token, .. } = relist;
        drop(token);
        let held = |note: &Unreadable| partition.holds(&note.held());
        self.unreadable.retain(|note| note.kind != kind || !held(note) || seen.others.contains(&note.object.uid));
        match kind {
            Kind::Pods => {
                let gone = self.pods_among(&partition, |id| !seen.has_pod(id), |held| partition.holds(held));
                gone.iter().for_each(|id| self.remove(*id));
                gone.len()
            }
            Kind::Nodes => {
                let unseen = self.nodes.known().filter(|node| {
                    let held = Held { namespace: "", node: Some(&node.name), uid: &node.uid };
                    partition.holds(&held) && !seen.others.contains(&*node.uid)
                });
                let gone: Vec<_> = unseen.map(Arc::clone).collect();
                gone.iter().for_each(|node| self.remove_node(&node.name, &node.uid));
                gone.len()
            }
            Kind::Pdbs => {
                let unseen = self.budgets.all().filter(|pdb| {
                    let held = Held { namespace: &pdb.namespace, node: None, uid: &pdb.uid };
                    partition.holds(&held) && !seen.others.contains(&*pdb.uid)
                });
                let gone: Vec<_> = unseen.map(|pdb| Arc::clone(&pdb.uid)).collect();
                gone.iter().for_each(|uid| self.remove_pdb(uid));
                gone.len()
            }
        }
    }

    /// Forgets every Pod that lies in none of these partitions: for when a partition is no longer read. Answers how many.
    pub fn drop_uncovered(&mut self, covered: &[Partition]) -> usize {
        let uncovered = |held: &Held<'_>| !covered.iter().any(|partition| partition.holds(held));
        self.unreadable.retain(|note| note.kind != Kind::Pods || !uncovered(&note.held()));
        let gone = self.pods_among(&Partition::All, |_| true, uncovered);
        gone.iter().for_each(|id| self.remove(*id));
        gone.len()
    }

    /// Pods that both are true of. Looks only where Pods of the partition can be, and at Pods only where need be: the
    /// writer holds the lock.
    fn pods_among(
        &self,
        partition: &Partition,
        by_id: impl Fn(Id) -> bool,
        wanted: impl Fn(&Held<'_>) -> bool,
    ) -> Vec<Id> {
        let wanted = |id: &Id| {
            by_id(*id) && {
                let entry = self.pods.get(*id);
                let node = (entry.node() != NONE).then(|| &*self.nodes.get(entry.node()).name);
                let namespace = self.templates.namespaces.name(self.templates.get(entry.template).key.namespace);
                wanted(&Held { namespace, node, uid: &self.uids.text(entry.uid) })
            }
        };
        match partition {
            Partition::Node(name) => {
                let pods = self.nodes.find(name).map_or(&[][..], |slot| slot.pods.all());
                pods.iter().copied().filter(wanted).collect()
            }
            Partition::Namespace(name) => {
                let templates = self.templates.of_namespace(name);
                templates.flat_map(|template| self.pods_of(template)).map(|(id, _)| id).filter(wanted).collect()
            }
            Partition::All | Partition::Shard(_) => self.table.iter().copied().filter(wanted).collect(),
        }
    }
}
