//! `kubectl rotate cancel`: ends rotations.

use std::time::Duration;

use rotate_shared::rotation::Progress;
use rotate_shared::{CancelRequest, Phase, Rotation, exit};

use super::follow::Followed;
use super::{Ended, each, follow, status};
use crate::args::RotationRef;
use crate::cli::CancelArgs;
use crate::connect::Connected;
use crate::connect::embedded::Role;
use crate::failure::Failure;
use crate::output::Format;
use crate::session::Session;

pub(super) async fn run(session: &Session, args: &CancelArgs) -> Ended {
    let printing = args.output.resolve()?;
    let reference = RotationRef::parse(&args.id)?;
    let connected = session.connect(Role::End).await?;
    let request = CancelRequest { uncordon: args.uncordon };
    let cancel = async |rotation: &Rotation| connected.agent.cancel(&rotation.id, request).await;
    let mut asked = each::ask(session, &connected, &reference, cancel).await?;
    if connected.embedded {
        // Nobody else may be there to carry it out once this command is gone.
        let followed = follow::until_over(session, &connected, asked.done, None, |_| Ok(())).await?;
        asked.done = followed.rotations().to_vec();
        if let Followed::Interrupted(_) = followed {
            session.console.note(&format!("To go on: kubectl rotate cancel {}{}", args.id, session.flags_again()));
            return Ok(exit::INTERRUPTED);
        }
    }
    // An interruption of before is told already.
    let interrupted = !asked.is_interrupted() && {
        let concluded = session.within(Some(CONCLUDES), conclude(session, &connected, &mut asked.done)).await;
        concluded == Err(exit::INTERRUPTED)
    };
    if printing.format == Format::Table {
        for rotation in &asked.done {
            session.console.data(&format!("rotation/{} cancelled\n", rotation.id))?;
            let meaning = meaning(rotation, args.uncordon, &session.cluster_again());
            let of = of(rotation, &meaning, reference.is_batch());
            session.console.note(&format!("{of}{meaning}"));
            for pod in &rotation.moved {
                session.console.note(&format!("  moved: {pod}"));
            }
            if moved_later(rotation) {
                let again = session.flags_again();
                session.console.note(&format!("  what moved: kubectl rotate status {}{again}", rotation.id));
            }
        }
    } else {
        let single = !reference.is_batch();
        status::print(&session.console, &asked.done, single, printing, session.clock.now())?;
    }
    let code = asked.end(&session.console);
    if interrupted {
        let how = format!("kubectl rotate status {}{} shows", args.id, session.flags_again());
        return Err(Failure::Interrupted(format!("before the agent said how it ends, which {how}")));
    }
    Ok(code)
}

/// How long an agent is given to say how it ends what had begun, all of it, and how often it is asked.
const CONCLUDES: Duration = Duration::from_secs(2);
const ASK: Duration = Duration::from_millis(100);

/// Waits for the agent's word on each end: it is the agent that knows whether the cordon is ours to lift.
async fn conclude(session: &Session, connected: &Connected, rotations: &mut [Rotation]) {
    let is_open = |rotation: &Rotation| ends(rotation.phase) && rotation.outcome.is_none();
    while rotations.iter().any(is_open) {
        session.clock.sleep(ASK).await;
        for rotation in rotations.iter_mut().filter(|rotation| is_open(rotation)) {
            let Ok(now) = connected.agent.rotation(&rotation.id).await else { return };
            *rotation = now;
        }
    }
}

/// Whether there may be something that is not put back.
fn ends(phase: Phase) -> bool {
    !matches!(phase, Phase::Queued | Phase::Cancelled | Phase::Surging | Phase::RollingBack | Phase::RolledBack)
}

/// Whose end it is, where several are told of and the text does not say it.
fn of(rotation: &Rotation, meaning: &str, several: bool) -> String {
    let node = format!("node/{}", rotation.node);
    if several && !meaning.contains(&node) { format!("{node}: ") } else { String::new() }
}

/// Whether the Pods that moved are listed only once the agent has said how it ends.
fn moved_later(rotation: &Rotation) -> bool {
    ends(rotation.phase) && rotation.outcome.is_none() && rotation.progress.evicted > 0 && rotation.moved.is_empty()
}

/// What the end means for the cluster.
fn meaning(rotation: &Rotation, uncordon: bool, again: &str) -> String {
    let Rotation { phase, node, outcome, progress, .. } = rotation;
    if matches!(phase, Phase::Queued | Phase::Cancelled) {
        return "Nothing had been touched.".to_owned();
    }
    if !ends(*phase) {
        return "Nothing had been evicted: the cluster goes back to as it was found.".to_owned();
    }
    let pods = match progress {
        Progress { uncounted: true, .. } => "No more Pods will be evicted.".to_owned(),
        Progress { evicted: 0, .. } => "No Pod had been evicted, and none will be.".to_owned(),
        Progress { evicted, to_move, .. } => {
            format!("{evicted} of {to_move} Pods were evicted already; no more will be.")
        }
    };
    let Some(outcome) = outcome else {
        return format!("{pods} The agent has not said yet what becomes of node/{node}.");
    };
    let node = format!("node/{node} {}.", outcome.message);
    let lift = if uncordon || *phase == Phase::Superseded {
        String::new()
    } else {
        format!(" To lift the cordon: kubectl uncordon {}{again}", rotation.node)
    };
    format!("{pods} {node}{lift}")
}

#[cfg(test)]
mod tests {
    use rotate_shared::rotation::Outcome;

    use super::*;
    use crate::output::rotation::tests::rotation;

    fn stopped(message: &str, evicted: u32) -> Rotation {
        let outcome = Some(Outcome { code: None, message: message.to_owned() });
        let progress = Progress { to_move: 3, evicted, ..Progress::default() };
        Rotation { phase: Phase::Stopped, outcome, progress, ..rotation() }
    }

    #[test]
    fn what_becomes_of_the_cordon_is_the_agents_word_and_not_what_was_asked_for() {
        let found = stopped("cancelled after 2 Pods had moved; the node stays cordoned, as it was found", 2);
        assert_eq!(
            meaning(&found, true, ""),
            "2 of 3 Pods were evicted already; no more will be. node/worker-1 cancelled after 2 Pods had moved; the \
             node stays cordoned, as it was found."
        );
        let silent = Rotation { phase: Phase::Draining, outcome: None, ..found };
        assert_eq!(
            meaning(&silent, true, ""),
            "2 of 3 Pods were evicted already; no more will be. The agent has not said yet what becomes of node/worker-1."
        );
    }

    #[test]
    fn where_no_pod_had_to_go_none_is_counted() {
        let text = meaning(&stopped("cancelled; the node stays cordoned", 0), false, " --context a");
        assert_eq!(
            text,
            "No Pod had been evicted, and none will be. node/worker-1 cancelled; the node stays cordoned. To lift the \
             cordon: kubectl uncordon worker-1 --context a"
        );
    }

    #[test]
    fn of_several_each_is_told_with_its_node() {
        let queued = Rotation { phase: Phase::Cancelled, ..rotation() };
        assert_eq!(of(&queued, &meaning(&queued, false, ""), true), "node/worker-1: ");
        assert_eq!(of(&queued, &meaning(&queued, false, ""), false), "");
        let found = stopped("cancelled; the node stays cordoned", 1);
        assert_eq!(of(&found, &meaning(&found, false, ""), true), "");
    }

    #[test]
    fn where_what_moved_is_not_listed_yet_it_is_said_where_it_will_be() {
        let open = Rotation { phase: Phase::Draining, outcome: None, moved: Vec::new(), ..stopped("", 2) };
        assert!(moved_later(&open));
        assert!(!moved_later(&Rotation { moved: vec!["Pod shop/a".to_owned()], ..open.clone() }));
        assert!(!moved_later(&Rotation { progress: Progress::default(), ..open }));
        assert!(!moved_later(&stopped("cancelled", 2)));
    }
}
