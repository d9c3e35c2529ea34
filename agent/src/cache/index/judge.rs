//! Which sums of its node a Pod is in.

use rotate_shared::names::{ROOM_NAMESPACE, ROTATION};

use super::codec::{Reader, Text};
use super::entry::Part;
use super::node::{NodeSlot, Sums};
use super::{Id, NONE, State, shape, told};
use crate::cache::pod::PodView;
use crate::cache::{Node, Owner, Shape};
use crate::surge::classify::Subject;

/// Judges a Pod as it comes in. `node` is the node that it is bound to, as far as known.
pub(super) fn incoming(pod: &PodView<'_>, node: Option<&Node>) -> Part {
    if pod.node.is_none() {
        return Part::default();
    }
    let placeholder = &*pod.namespace == ROOM_NAMESPACE && pod.label(ROTATION).is_some();
    let (phase, leaving) = (pod.phase, pod.deleted.is_some());
    part(&Subject { phase, owner: pod.owner.as_ref(), shape: &pod.shape, placeholder, leaving }, node)
}

fn part<S: Text, T: Text>(subject: &Subject<'_, S, T>, node: Option<&Node>) -> Part {
    Part {
        usage: !subject.phase.is_finished(),
        movable: subject.counts(node),
        real: subject.is_real(),
        blocked: subject.blocked(node),
    }
}

impl State {
    /// Judges a Pod that is kept, on its node.
    pub(super) fn judge(&self, id: Id, slot: &NodeSlot) -> Part {
        let (templates, entry) = (&self.templates, self.pods.get(id));
        let key = &templates.get(entry.template).key;
        let shape: Shape<&str> = shape::read(Reader::new(templates.shapes.get(key.shape), &slot.name));
        let owner = (key.owner_kind != NONE).then(|| {
            let mut kind = Reader::new(templates.kinds.get(key.owner_kind), "");
            Owner { api_version: kind.text(), kind: kind.text(), name: "", uid: "" }
        });
        let in_room = || &**templates.namespaces.name(key.namespace) == ROOM_NAMESPACE;
        let placeholder = in_room() && told::kept(templates.labels.get(key.labels)).any(|(key, _)| key == ROTATION);
        let (phase, has_extras) = (entry.place().phase(), entry.place().has_extras());
        let leaving = has_extras && self.extras.get(&id).is_some_and(|extras| extras.deleted.is_some());
        let subject = Subject { phase, owner: owner.as_ref(), shape: &shape, placeholder, leaving };
        part(&subject, slot.object.as_deref())
    }

    /// The sums of a node, counted from its Pods as they were judged.
    pub(super) fn recount(&self, slot: &NodeSlot) -> Sums {
        let mut sums = Sums::default();
        for id in slot.pods.all() {
            let entry = self.pods.get(*id);
            let shape = self.templates.get(entry.template).key.shape;
            sums.add(entry.place().part(), &shape::requests(self.templates.shapes.get(shape)));
        }
        sums
    }
}
