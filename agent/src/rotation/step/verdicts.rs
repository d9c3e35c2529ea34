//! Taking Pods that have to move into the record.

use rotate_shared::Code;

use super::{Turn, notice};
use crate::rotation::effect::Effect;
use crate::rotation::observation::Fresh;
use crate::rotation::record::{Move, RoomClass, Surge};
use crate::surge::moves::class_id;

/// How often Pods of one owner may come back to the candidate and be evicted again.
const RETURNS: u32 = 2;

impl Turn<'_> {
    /// Writes down the Pods that are to move and are not in the record. Whether everything is in there.
    pub(super) fn take_in_verdicts(&mut self) -> bool {
        let verdicts = &self.seen.verdicts;
        if !verdicts.unknown_claims.is_empty() {
            self.effects.push(Effect::ReadVolumes(verdicts.unknown_claims.clone()));
            return false;
        }
        let mut complete = self.record.surge.is_some();
        if self.record.surge.is_none() {
            // Nothing is half planned: with a blocker there will be no surge at all.
            if !verdicts.blockers.is_empty() {
                return true;
            }
            self.record.surge = Some(Surge::default());
        }
        for warning in &verdicts.warnings {
            self.record.warn(warning.clone());
        }
        // Judged before any is taken in: the Pods of one look do not replace each other.
        let known: Vec<_> =
            verdicts.fresh.iter().map(|fresh| (self.replaces_an_evicted_pod(fresh), self.is_known(fresh))).collect();
        for (fresh, (returned, owner_is_known)) in verdicts.fresh.iter().zip(known) {
            complete &= !self.take_in(fresh, returned);
            // Of an owner that is known already, young Pods elsewhere are the replacements themselves.
            if let Some(surge) = self.record.surge.as_mut().filter(|_| !owner_is_known) {
                let new: Vec<_> = fresh.siblings.iter().filter(|uid| !surge.known.contains(uid)).cloned().collect();
                surge.known.extend(new);
            }
        }
        complete
    }

    /// Whether the Pod was taken in.
    fn take_in(&mut self, fresh: &Fresh, returned: bool) -> bool {
        if returned && self.returns_of(fresh) >= RETURNS {
            let message = format!("it came back to node {} again and again", self.record.node);
            let mut blocker = notice(Code::ReturnsToNode, &format!("Pod {}/{}", fresh.namespace, fresh.name), message);
            blocker.remedy = "remove its toleration of unschedulable nodes, or cancel".to_owned();
            self.waiting.push(blocker);
            return false;
        }
        let reserves = self.reserves();
        let Some(surge) = &mut self.record.surge else { return false };
        let room = fresh.room.as_ref().filter(|_| reserves);
        let class = room.map(|(requests, placement)| {
            let same = |class: &&RoomClass| class.requests == *requests && class.placement == *placement;
            if let Some(class) = surge.classes.iter().find(same) {
                return class.id.clone();
            }
            let id = class_id(surge.classes.len());
            surge.classes.push(RoomClass { id: id.clone(), requests: requests.clone(), placement: placement.clone() });
            id
        });
        surge.moves.push(Move {
            uid: fresh.uid.clone(),
            namespace: fresh.namespace.clone(),
            name: fresh.name.clone(),
            owner: fresh.owner.clone(),
            class,
            returned,
        });
        true
    }

    /// Whether the owner had lost a Pod here when this one came: then this one is its replacement, on the wrong node.
    fn replaces_an_evicted_pod(&self, fresh: &Fresh) -> bool {
        let owner = fresh.owner.as_ref();
        owner.is_some()
            && self.record.moves().iter().any(|moved| {
                let here = self.seen.leaving.iter().any(|pod| pod.uid == moved.uid && !pod.terminating);
                moved.namespace == fresh.namespace && moved.owner.as_ref() == owner && !here
            })
    }

    fn is_known(&self, fresh: &Fresh) -> bool {
        self.record.moves().iter().any(|moved| moved.namespace == fresh.namespace && moved.owner == fresh.owner)
    }

    fn returns_of(&self, fresh: &Fresh) -> u32 {
        let of_owner = |moved: &&Move| moved.namespace == fresh.namespace && moved.owner == fresh.owner;
        let returns = self.record.moves().iter().filter(of_owner).filter(|moved| moved.returned).count();
        u32::try_from(returns).unwrap_or(u32::MAX)
    }
}
