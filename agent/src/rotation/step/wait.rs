//! What a rotation says that it waits for.

use rotate_shared::Code;
use rotate_shared::plan::Notice;

use super::{Turn, notice};

impl Turn<'_> {
    pub(super) fn wait(&mut self, code: Code, object: &str, message: impl Into<String>) {
        self.waiting.push(notice(code, object, message));
    }

    pub(super) fn wait_paused(&mut self) {
        let remedy = format!("kubectl rotate resume {}", self.record.id);
        let object = format!("Rotation {}", self.record.id);
        self.waiting.push(Notice { remedy, ..notice(Code::Paused, &object, "paused, nothing goes forward") });
    }

    pub(super) fn wait_replacements(&mut self) {
        for owner in self.seen.owners.iter().filter(|owner| owner.pending > 0) {
            self.ask_owner(owner);
            let pending = owner.pending.saturating_sub(self.asked_again_of(&owner.uid));
            if pending == 0 {
                continue;
            }
            let replacements = if pending == 1 { "replacement is" } else { "replacements are" };
            let message = format!("{pending} {replacements} not running yet");
            self.waiting.push(notice(Code::WaitingForReplacement, &owner.path, message));
        }
    }

    /// How many of the owner's Pods are counted as leaving only because they are asked to once more.
    fn asked_again_of(&self, owner: &str) -> u32 {
        let owned = |uid: &str| {
            let moved = self.record.moves().iter().find(|moved| moved.uid == uid);
            moved.and_then(|moved| moved.owner.as_ref()).is_some_and(|it| &*it.uid == owner)
        };
        let again = self.seen.leaving.iter().filter(|pod| self.holds_up_still(pod).is_some() && owned(&pod.uid));
        u32::try_from(again.count()).unwrap_or(u32::MAX)
    }

    pub(super) fn wait_shutting_down(&mut self) {
        let leaving = self.seen.leaving.iter().filter(|pod| pod.terminating && self.holds_up_still(pod).is_none());
        let leaving = leaving.map(|pod| format!("{}/{}", pod.namespace, pod.name));
        let pods: Vec<_> = leaving.chain(self.seen.shutting_down.iter().cloned()).collect();
        match pods.as_slice() {
            [] => {}
            [pod] => self.wait(Code::Terminating, &format!("Pod {pod}"), "it is shutting down"),
            [pod, rest @ ..] => {
                let pods = if rest.len() == 1 { "Pod" } else { "Pods" };
                let message = format!("it and {} more {pods} are shutting down", rest.len());
                self.wait(Code::Terminating, &format!("Pod {pod}"), message);
            }
        }
    }
}
