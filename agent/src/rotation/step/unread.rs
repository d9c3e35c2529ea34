//! What can be decided while the Pods that a rotation is judged by are not read: to wait, and to give up in time.

use rotate_shared::{Code, Phase};

use super::{Turn, duration, seconds};
use crate::rotation::observation::{NodeSeen, Unread};

impl Turn<'_> {
    /// Nothing is taken for gone, moved or empty because it is not seen. Before the first eviction a cancel and the
    /// surge timeout hold as always; afterwards the room stays held until the Pods can be read, or until what winds the
    /// rotation up has waited long enough.
    pub(super) fn unread(&mut self, unread: &Unread) {
        let why = unread.error.as_ref().map(|error| format!(": failed to {error}")).unwrap_or_default();
        let message = format!("the Pods of {} are still being read{why}", unread.scope);
        let phase = self.record.phase();
        if let Some(ending) = self.record.ending.clone() {
            let timeout = seconds(self.record.options.settle_timeout_seconds);
            if self.now.duration_since(ending.since) > timeout {
                let uncordon = ending.uncordon || self.request.cancel.is_some_and(|cancel| cancel.uncordon);
                if self.clean(uncordon) {
                    self.finish(ending.phase);
                }
                return;
            }
        } else if phase == Phase::Surging {
            if self.seen.node == NodeSeen::Gone {
                return self.lose_node();
            }
            if self.request.cancel.is_some() {
                self.record.conclude(None, "cancelled before anything was evicted");
                return self.record.enter(Phase::RollingBack, self.now);
            }
            let timeout = self.record.options.surge_timeout_seconds;
            if !self.request.paused && self.waited() > seconds(timeout) {
                let message = format!("no room within {}: {message}", duration(timeout));
                self.record.conclude(Some(Code::NotReady), message);
                return self.record.enter(Phase::RollingBack, self.now);
            }
        }
        if self.request.paused {
            self.wait_paused();
        }
        self.wait(Code::NotReady, "the agent's cache", message);
    }
}
