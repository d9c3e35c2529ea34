//! `kubectl rotate node`: rotates nodes, waits, shows progress.

use rotate_shared::plan::PlanRequest;
use rotate_shared::rotation::NODES_A_REQUEST;
use rotate_shared::{OptionsRequest, Plan, Rotation, RotationRequest, exit};

use super::follow::{self, Followed};
use super::{Ended, plan, status};
use crate::args;
use crate::args::Printing;
use crate::cli::NodeArgs;
use crate::connect::Connected;
use crate::connect::embedded::{self, Embedded, Role};
use crate::failure::Failure;
use crate::output::plan as text;
use crate::output::{Console, Format, escape, rotation};
use crate::session::{Session, UNBEGUN};

/// More sentences than these about a node each nobody reads before they answer: a table instead.
const FEW: usize = 5;

pub(super) async fn run(session: &Session, args: NodeArgs) -> Ended {
    let args = args.resolve()?;
    if let Some(dry_run) = args.dry_run {
        let plan = args::Plan {
            target: args.target,
            source: args::Source::Cluster,
            exit_code: false,
            ask_evictions: dry_run == args::DryRun::Server,
            options: args.options,
            printing: args.printing,
        };
        return session.until_interrupted("", plan::show(session, plan)).await;
    }
    if session.agent.embedded && !args.wait {
        return Err(Failure::Usage(
            "--embedded with --wait=false would end the agent at once: nothing would happen".to_owned(),
        ));
    }
    let request = PlanRequest {
        nodes: args.target.names(),
        selector: args.target.selector(),
        options: args.options.clone(),
        ask_evictions: false,
    };
    // What is refused leaves nothing behind, the agent's own namespaces included.
    if session.agent.embedded
        && session.agent.agent_url.is_none()
        && session.until_interrupted(UNBEGUN, Embedded::must_create(session)).await?
    {
        let plans = session.until_interrupted(UNBEGUN, Embedded::plan(session, &request, NODES_A_REQUEST)).await?;
        if plans.is_empty() {
            session.console.note("No nodes found");
            return Ok(exit::DONE);
        }
        not_blocked(&session.console, &plans)?;
    }
    let connected = session.connect(Role::Act { consent: args.yes }).await?;
    if connected.embedded {
        let taken_up = embedded::resume(session, &connected.agent, &args.target, &args.options);
        let meaning = "while what was left was taken up; the same command again goes on";
        if let Some(rotations) = session.until_interrupted(meaning, taken_up).await? {
            return wait(session, &connected, rotations, &args).await;
        }
    }
    let plans = session.until_interrupted(session.unbegun(), connected.agent.plan(&request, NODES_A_REQUEST)).await?;
    if plans.is_empty() {
        session.console.note("No nodes found");
        return Ok(exit::DONE);
    }
    consent(session, &plans, args.yes).await?;
    let request = to_begin(&plans, &args.options, std::env::var("USER").ok());
    let again = session.flags_again();
    let meaning = format!("while it was begun; whether it was, kubectl rotate status{again} shows");
    let rotations = session.until_interrupted(&meaning, connected.agent.rotate(&request)).await;
    if let Err(Failure::AgentUnreachable(_)) = rotations {
        session.console.note(&format!("Whether it was begun, kubectl rotate status{again} shows."));
    }
    let rotations = rotations?;
    if !args.wait {
        match args.printing {
            Printing { format: Format::Table, .. } => {
                for created in &rotations {
                    session.console.data(&format!("rotation/{} created\n", created.id))?;
                }
                follow::say_how_to_follow(session, &connected, &rotations);
            }
            printing => {
                let now = session.clock.now();
                status::print(&session.console, &rotations, args.target.is_single(), printing, now)?;
            }
        }
        return Ok(exit::DONE);
    }
    wait(session, &connected, rotations, &args).await
}

/// Begins what was shown. Nodes are named although they were selected: one that came since was not shown, and of a
/// selector an agent cannot tell, once its answer is lost, if all that it meant was begun.
fn to_begin(plans: &[Plan], options: &OptionsRequest, user: Option<String>) -> RotationRequest {
    RotationRequest {
        nodes: plans.iter().map(|plan| plan.node.clone()).collect(),
        selector: None,
        options: options.clone(),
        claimed_user: user.filter(|user| !user.is_empty()),
    }
}

/// Ends here where something stands in the way.
fn not_blocked(console: &Console, plans: &[Plan]) -> Result<(), Failure> {
    let blocked: Vec<&Plan> = plans.iter().filter(|plan| !plan.blockers.is_empty()).collect();
    if blocked.is_empty() {
        return Ok(());
    }
    for plan in blocked.iter().take(FEW) {
        console.prose(console.led(&text::blocked(plan)).into_owned());
    }
    let names: Vec<_> = blocked.iter().take(FEW).map(|plan| format!("node/{}", plan.node)).collect();
    let mut names = names.join(", ");
    if blocked.len() > FEW {
        names.push_str(&format!(" and {} more", blocked.len() - FEW));
        console.prose("What stands in the way of the others, the same command shows with --dry-run.".to_owned());
    }
    Err(Failure::Blocked(format!("{names} cannot be rotated as asked; nothing was touched")))
}

/// Shows what is about to happen; ends here where something stands in the way or consent is not given.
async fn consent(session: &Session, plans: &[Plan], yes: bool) -> Result<(), Failure> {
    let console = &session.console;
    not_blocked(console, plans)?;
    if plans.len() > FEW {
        console.note(text::table(plans, true).trim_end());
    }
    for plan in plans {
        if plans.len() <= FEW {
            console.prose(console.led(&text::verdict(plan)).into_owned());
        }
        for warning in &plan.warnings {
            console.warning(&format!("{}: {}", warning.object, warning.message));
        }
    }
    let question = match plans {
        [plan] => format!("Rotate node/{}?", plan.node),
        plans => {
            console.note(text::EACH_BY_ITSELF);
            format!("Rotate these {} nodes?", plans.len())
        }
    };
    if yes || session.confirm(&question).await? { Ok(()) } else { Err(session.unconfirmed()) }
}

async fn wait(session: &Session, connected: &Connected, rotations: Vec<Rotation>, args: &args::Node) -> Ended {
    let console = &session.console;
    let each = |rotation: &Rotation| status::state(console, rotation, args.printing);
    let followed = follow::until_over(session, connected, rotations, args.timeout, each).await?;
    let code = match followed {
        Followed::Over(ref rotations) => follow::exit_code(rotations),
        Followed::TimedOut(_) => exit::TIMED_OUT,
        Followed::Interrupted(_) => exit::INTERRUPTED,
    };
    let rotations = followed.rotations();
    match args.printing {
        Printing { format: Format::Table, .. } => {
            for rotation in rotations.iter().filter(|rotation| rotation.phase.is_terminal()) {
                let result = escape::line(&format!("node/{} {}", rotation.node, rotation::result(rotation)));
                console.data(&console.folded(format!("{result}\n")))?;
            }
        }
        printing if status::is_streamed(printing) => {}
        printing => status::print(console, rotations, args.target.is_single(), printing, session.clock.now())?,
    }
    follow::say_how_to_go_on(session, connected, &followed);
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::plan::tests::plan;

    fn plans(count: usize) -> Vec<Plan> {
        (0..count).map(|number| Plan { node: format!("worker-{number}"), ..plan() }).collect()
    }

    #[test]
    fn what_was_shown_is_begun_by_name() {
        let request = to_begin(&plans(2), &OptionsRequest::default(), Some(String::new()));
        assert_eq!((request.nodes, request.selector), (vec!["worker-0".to_owned(), "worker-1".to_owned()], None));
        assert_eq!(request.claimed_user, None);
    }
}
