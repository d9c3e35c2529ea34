//! What a rotation moves, with room found for all of it: one home for the plan and for the engine.
//!
//! ```text
//! moves ──▶ room::preview ──▶ enough for every class: that is it
//!   ▲                    └──▶ not enough ──▶ not in the candidate's zone: elsewhere ──────┐
//!   │                                  ├──▶ Pods on their way out: not reserved, warned ──┤
//!   │                                  ├──▶ --force: the class is not reserved, warned ───┤
//!   └───────────────────────────────────────────────────────────────────────────────────┘
//!                                      └──▶ otherwise: a blocker for the class
//! ```

use rotate_shared::plan::{Disposition, Notice};
use rotate_shared::{Code, Options};

use super::classify::Context;
use super::constraints;
use super::moves::{self, Found, Moves};
use super::room::{self, Missing, Preview};
use crate::cache::State;
use crate::provider::{self, Headroom, ProviderObjects};

/// What moves, and where its room would come from.
#[derive(Debug)]
pub(crate) struct Promise {
    /// Everything on the node, judged. What has no room is a blocker or is not reserved.
    pub(crate) moves: Moves,
    /// Where the room would come from.
    pub(super) preview: Preview,
}

/// Judges a node, everything on it, and whether there is room for what moves.
pub(crate) fn promise(state: &State, context: &Context<'_>, objects: &ProviderObjects) -> Promise {
    let headroom = provider::headroom(state, objects, context.now);
    match objects.unseen[..] {
        [] => promise_within(state, context, &headroom),
        [..] => settle(state, context, &headroom, false),
    }
}

/// The same where these nodes may be had.
pub(super) fn promise_within(state: &State, context: &Context<'_>, headroom: &[Headroom]) -> Promise {
    settle(state, context, headroom, true)
}

/// The same; where not all pools and groups are known, nobody can say that there is no room.
fn settle(state: &State, context: &Context<'_>, headroom: &[Headroom], all_known: bool) -> Promise {
    let mut found = Found::default();
    // Ends: each turn lets a Pod go further, or takes one off those that room is reserved for.
    loop {
        let mut moves = moves::moves(state, context, &found);
        let mut preview = room::preview(state, context.node, context.volumes, &moves, headroom);
        let (mut further, mut given_up) = (false, false);
        for missing in &preview.missing {
            let members = || moves.pods.iter().filter(|judged| judged.class.as_ref() == Some(&missing.class));
            let stayed = members().filter(|judged| found.elsewhere.insert(judged.pod.uid.to_string())).count();
            if stayed > 0 {
                further = true;
                continue;
            }
            if !all_known {
                continue;
            }
            let notice = no_room(missing, &moves, headroom, context.options);
            for judged in members().filter(|judged| context.options.force || judged.disposition == Disposition::Wait) {
                found.unreserved.insert(judged.pod.uid.to_string(), notice.clone());
                given_up = true;
            }
        }
        if !further && !given_up && !all_known {
            preview.leave_open(&moves);
            return Promise { moves, preview };
        }
        if !further && !given_up {
            for missing in &preview.missing {
                moves.blockers.push(no_room(missing, &moves, headroom, context.options));
                let members = moves.pods.iter_mut().filter(|judged| judged.class.as_ref() == Some(&missing.class));
                members.for_each(|judged| judged.disposition = Disposition::Block);
            }
            return Promise { moves, preview };
        }
    }
}

fn no_room(missing: &Missing, moves: &Moves, headroom: &[Headroom], options: &Options) -> Notice {
    let all = moves.pods.iter().filter(|judged| judged.class.as_ref() == Some(&missing.class)).count();
    let class = moves.classes.iter().find(|class| class.id == missing.class);
    let needs = class.map_or_else(String::new, |class| {
        let amounts = class.requests.to_amounts().into_iter().map(|(name, amount)| format!("{name} {amount}"));
        let words: Vec<_> = amounts.chain(constraints::describe(&class.placement)).collect();
        if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
    });
    let help = match (options.force, headroom.is_empty()) {
        (true, _) => "",
        (_, true) => "add a node or make room on one; --force evicts them without room reserved",
        (_, false) => "raise the limit, or make room on a node; --force evicts them without room reserved",
    };
    Notice {
        code: Code::NoRoom,
        object: format!("Pod {}", missing.pod),
        message: format!("no room for {} of {all} Pods of its class{needs}: {}", missing.pods, missing.why),
        remedy: help.to_owned(),
    }
}
