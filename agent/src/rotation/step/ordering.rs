//! Nodes that no placeholder brings: ordered for a rotation, and settled at its end.

use jiff::SignedDuration;
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Phase};

use super::room::Cover;
use super::{Turn, notice};
use crate::provider::{Loan, Removal, Settlement};
use crate::rotation::effect::Effect;

/// How long the end waits for what was ordered to be readable. What is left then is looked for every few minutes.
const PATIENCE: SignedDuration = SignedDuration::from_mins(15);

impl Turn<'_> {
    /// Orders a node, once, where the scheduler has found no room for a placeholder and nothing else would bring some.
    pub(super) fn order(&mut self, cover: &Cover) {
        if cover.is_complete() || !self.seen.machine.known {
            return;
        }
        let Some(order) = self.record.order.clone() else {
            if self.seen.machine.no_room {
                self.record.order = self.seen.machine.order.clone();
            }
            return;
        };
        let object = order.to_string();
        match &self.seen.machine.loan {
            Loan::Settled if self.seen.machine.order.is_some() => self.effects.push(Effect::Order(order)),
            Loan::Unknown(why) => {
                self.waiting.push(notice(Code::ProviderUnreadable, &object, format!("it cannot be ordered of: {why}")));
            }
            _ => {
                let message = "one replica more is ordered for this rotation";
                self.waiting.push(notice(Code::Reserving, &object, message));
            }
        }
    }

    /// Settles what was ordered: given back where nothing was moved, kept where Pods may run on it. Whether there is
    /// nothing left to settle.
    pub(super) fn settle(&mut self) -> bool {
        let Some(order) = self.record.order.clone() else { return true };
        if !self.seen.machine.known {
            self.effects.push(Effect::ReadProvider);
            self.wait_provider();
            return false;
        }
        // It goes with the candidate's Machine.
        let goes = matches!(self.record.removal, Some(Removal::Machine { shrink: Some(_), .. }));
        if goes && self.is_removing() && !self.seen.machine.gone {
            return true;
        }
        let back = self.record.phase() == Phase::RollingBack;
        let settlement = match self.seen.machine.loan.clone() {
            Loan::Settled => return true,
            Loan::Unknown(why) if self.has_been_ending() <= PATIENCE => {
                let message = format!("the replica that was ordered is to be settled: {why}");
                self.wait(Code::ProviderUnreadable, &order.to_string(), message);
                return false;
            }
            Loan::Unknown(why) => {
                let message = format!("it may keep the replica that was ordered: {why}");
                let remedy = format!("the agent looks again every few minutes; otherwise take one replica off {order}");
                self.record.warn(Notice { remedy, ..notice(Code::NotGivenBack, &order.to_string(), message) });
                return true;
            }
            Loan::Coming if back => Settlement::GiveBack(order),
            Loan::Idle(node, removal) if back => Settlement::Return(node, removal),
            Loan::Coming | Loan::Idle(..) | Loan::InUse => {
                let message = "it keeps the replica that was ordered: Pods may run on its node";
                let remedy = format!("once it is not needed any more, take one replica off {order}");
                self.record.warn(Notice { remedy, ..notice(Code::NotGivenBack, &order.to_string(), message) });
                Settlement::Keep(order)
            }
        };
        self.effects.push(Effect::Settle(settlement));
        false
    }
}
