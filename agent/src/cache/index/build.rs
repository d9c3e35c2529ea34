//! Pods as people ask for them, put together from what is kept.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use jiff::Timestamp;

use super::codec::Reader;
use super::entry::{Entry, NONE};
use super::template::Key;
use super::{Id, State, shape, told};
use crate::cache::selector::Labels;
use crate::cache::{Owner, Pod, Shape};

/// Builds Pods, and builds once what they share.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    state: &'a State,
    templates: HashMap<Id, Shared, RandomState>,
    labels: HashMap<Id, Arc<Labels>, RandomState>,
    shapes: HashMap<Id, Arc<Shape>, RandomState>,
}

/// What Pods of one template share.
#[derive(Clone, Debug)]
struct Shared {
    owner: Option<Owner>,
    /// `None` where each Pod's own name is in it.
    labels: Option<Arc<Labels>>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(state: &'a State) -> Self {
        Self { state, templates: HashMap::default(), labels: HashMap::default(), shapes: HashMap::default() }
    }

    /// These Pods, by namespace and name.
    fn build_all(&mut self, ids: impl IntoIterator<Item = Id>) -> Vec<Pod> {
        let mut pods: Vec<_> = ids.into_iter().map(|id| self.build(id)).collect();
        pods.sort_unstable_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        pods
    }

    /// The Pod that an entry stands for.
    pub(super) fn build(&mut self, id: Id) -> Pod {
        let state = self.state;
        let entry = state.pods.get(id);
        let key = &state.templates.get(entry.template).key;
        let place = entry.place();
        let name = state.templates.name(key, entry.tail);
        let Shared { owner, labels } = self.shared(entry.template, key);
        let labels = labels.unwrap_or_else(|| Arc::new(labels_of(state, key, &name, owner.as_ref())));
        let node = (place.node() != NONE).then(|| Arc::clone(&state.nodes.get(place.node()).name));
        let extras = if place.has_extras() { state.extras.get(&id) } else { None };
        let created = extras.and_then(|extras| extras.created).unwrap_or(i64::from(entry.created));
        Pod {
            namespace: Arc::clone(state.templates.namespaces.name(key.namespace)),
            uid: Arc::from(&*state.uids.text(entry.uid)),
            created: Timestamp::from_second(created).unwrap_or(Timestamp::UNIX_EPOCH),
            deleted: extras.and_then(|extras| extras.deleted),
            nominated: extras.and_then(|extras| extras.nominated).map(|node| Arc::clone(&state.nodes.get(node).name)),
            owner,
            phase: place.phase(),
            ready: place.ready(),
            unschedulable: extras.and_then(super::entry::Extras::message),
            labels,
            claims: told::read_claims::<Vec<_>>(state.templates.claims.get(key.claims), &name).into(),
            shape: self.shape(key.shape, node.as_deref()),
            node,
            name: name.into(),
        }
    }

    fn shared(&mut self, id: Id, key: &Key) -> Shared {
        let state = self.state;
        let labels_by_id = &mut self.labels;
        let shared = self.templates.entry(id).or_insert_with(|| {
            let owner = state.owner(key);
            let read = || Arc::new(labels_of(state, key, "", owner.as_ref()));
            let labels = match key.told {
                0 => Some(Arc::clone(labels_by_id.entry(key.labels).or_insert_with(read))),
                told => (!told::by_name(told)).then(read),
            };
            Shared { owner, labels }
        });
        shared.clone()
    }

    fn shape(&mut self, id: Id, node: Option<&str>) -> Arc<Shape> {
        let bytes = self.state.templates.shapes.get(id);
        if shape::names_node(bytes) {
            return Arc::new(shape::read(Reader::new(bytes, node.unwrap_or_default())));
        }
        Arc::clone(self.shapes.entry(id).or_insert_with(|| Arc::new(shape::read(Reader::new(bytes, "")))))
    }
}

/// The labels of a Pod with this name.
pub(super) fn labels_of(state: &State, key: &Key, name: &str, owner: Option<&Owner>) -> Labels {
    told::read_labels(state.templates.labels.get(key.labels), key.told, name, owner)
}

impl State {
    pub(super) fn owner(&self, key: &Key) -> Option<Owner> {
        if key.owner_kind == NONE {
            return None;
        }
        let mut kind = Reader::new(self.templates.kinds.get(key.owner_kind), "");
        let mut name = String::new();
        self.templates.write_owner_name(key, &mut name);
        Some(Owner {
            api_version: kind.text().into(),
            kind: kind.text().into(),
            name: name.into(),
            uid: Arc::from(&*self.uids.text(key.owner_uid)),
        })
    }

    /// These Pods, by namespace and name.
    pub(super) fn build_all(&self, ids: impl IntoIterator<Item = Id>) -> Vec<Pod> {
        Builder::new(self).build_all(ids)
    }

    /// Pods of a template.
    pub(super) fn pods_of(&self, template: &super::template::Template) -> impl Iterator<Item = (Id, &Entry)> {
        let from = |id: Id| (id != NONE).then(|| (id, self.pods.get(id)));
        std::iter::successors(from(template.pods.head), move |(_, entry)| from(entry.link.next))
    }
}
