//! Nodes that came for the surge: protected while the rotation lasts, given back where they were not used.

use jiff::SignedDuration;
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Phase};

use super::{Turn, notice, seconds};
use crate::provider::Removal;
use crate::rotation::effect::Effect;
use crate::rotation::observation::SurgeNode;

impl Turn<'_> {
    /// Keeps autoscalers from taking away what has just come: until Pods land it looks unneeded.
    pub(super) fn protect_surge_nodes(&mut self) {
        for node in &self.seen.surge_nodes {
            if node.holds && !node.protected && !node.others && !node.leaving {
                self.effects.push(Effect::Protect { node: node.name.clone(), uid: node.uid.clone() });
            }
        }
    }

    /// Gives back what was not used, and takes our protection off the rest. Only once every placeholder is gone: what a
    /// node is used for shows only then. Whether nothing is left to do.
    pub(super) fn let_go(&mut self) -> bool {
        let mut done = true;
        for node in &self.seen.surge_nodes {
            if !self.give_back(node) {
                done = false;
            } else if node.protected && !node.leaving {
                self.effects.push(Effect::Unprotect { node: node.name.clone(), uid: node.uid.clone() });
                done = false;
            }
        }
        done
    }

    /// Whether the node is as it is to stay, or is on its way out.
    fn give_back(&mut self, node: &SurgeNode) -> bool {
        if node.leaving || node.given_back || node.unused == Some(false) {
            return true;
        }
        let patient = self.has_been_ending() <= seconds(self.record.options.settle_timeout_seconds);
        let object = format!("Node {}", node.name);
        let why = match (&node.removal, node.unused) {
            (_, None) if patient => {
                self.wait(
                    Code::NotReady,
                    &object,
                    "it came for this rotation; whether anything is on it is being read",
                );
                return false;
            }
            (_, None) => "whether anything is on it could not be read",
            // Read it is, or it was there before us.
            (None, _) if self.seen.machine.known => return true,
            (None, _) if patient => {
                self.wait_provider();
                return false;
            }
            (None, _) => "what its provider says of it could not be read",
            (Some(_), _) if node.stale && patient => {
                self.effects.push(Effect::ReadProvider);
                self.wait_provider();
                return false;
            }
            // Left to whoever brought it.
            (Some(Removal::Left { .. } | Removal::NodeObject | Removal::Hook { .. }), _) => return true,
            (Some(removal), _) if patient || !node.failed => {
                let (name, uid) = (node.name.clone(), node.uid.clone());
                self.effects.push(Effect::GiveBack { node: name, uid, removal: removal.clone() });
                return false;
            }
            (Some(_), _) => "its removal is refused",
        };
        let message = format!("it came for this rotation, nothing runs on it, and it is not given back: {why}");
        self.record.warn(Notice {
            remedy: "its autoscaler may still remove it as unneeded".to_owned(),
            ..notice(Code::NotGivenBack, &object, message)
        });
        true
    }

    /// How long the rotation has been coming to its end.
    pub(super) fn has_been_ending(&self) -> SignedDuration {
        let since = match (&self.record.ending, self.record.phase()) {
            (Some(ending), _) => ending.since,
            (None, Phase::RollingBack | Phase::Removing) => self.record.phase_since(),
            (None, _) => self.now,
        };
        self.now.duration_since(since)
    }
}
