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
            let replacements = if owner.pending == 1 { "replacement is" } else { "replacements are" };
            let message = format!("{} {replacements} not running yet", owner.pending);
            self.waiting.push(notice(Code::WaitingForReplacement, &owner.path, message));
        }
    }

    pub(super) fn wait_shutting_down(&mut self) {
        let leaving = self.seen.leaving.iter().filter(|pod| pod.terminating);
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
