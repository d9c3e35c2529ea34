//! `kubectl rotate plan`: what rotating nodes would do; changes nothing.

use std::collections::BTreeSet;

use rotate_shared::plan::PlanRequest;
use rotate_shared::{API_VERSION, Plan, PlanList, exit};

use super::Ended;
use crate::args;
use crate::args::{Printing, Source, Target};
use crate::cli::PlanArgs;
use crate::connect::embedded::Embedded;
use crate::connect::snapshot;
use crate::connect::token::Account;
use crate::failure::Failure;
use crate::output::{Console, Format, format, plan as text};
use crate::session::Session;

pub(super) async fn run(session: &Session, args: PlanArgs) -> Ended {
    show(session, args.resolve()?).await
}

/// A plan that is resolved already: `node --dry-run=client` is the same.
pub(super) async fn show(session: &Session, args: args::Plan) -> Ended {
    let plans = match &args.source {
        Source::File(path) => {
            let (path, target, options) = (path.clone(), args.target.clone(), args.options.clone());
            let now = session.clock.now();
            // Nobody may ever write to stdin.
            let read = tokio::task::spawn_blocking(move || snapshot::plan_file(&path, &target, &options, now));
            read.await.unwrap_or_else(|error| Err(Failure::Other(format!("read the objects: {error}"))))?
        }
        Source::Cluster => {
            let request = PlanRequest {
                nodes: args.target.names(),
                selector: args.target.selector(),
                options: args.options.clone(),
                ask_evictions: args.ask_evictions,
            };
            match session.remote_agent(Account::Viewer).await? {
                None => Embedded::plan(session, &request, usize::MAX).await?,
                Some(agent) => match agent.plan(&request, usize::MAX).await {
                    Err(failure) if session.agent.agent_url.is_none() && leaves_it_to_us(&failure) => {
                        session.console.prose(format!("Planned with your own kubeconfig: {}", fact(&failure)));
                        snapshot::plan_cluster(session, &args.target, &args.options, args.ask_evictions).await?
                    }
                    plans => plans?,
                },
            }
        }
    };
    if plans.is_empty() {
        session.console.note("No nodes found");
        return Ok(exit::DONE);
    }
    print(&session.console, &plans, &args.target, args.printing)?;
    if args.ask_evictions {
        session.console.note(&asked(&plans));
    }
    if plans.len() > 1 && matches!(args.printing.format, Format::Table | Format::Wide) {
        session.console.note(text::EACH_BY_ITSELF);
    }
    Ok(if args.exit_code { found(&plans) } else { exit::DONE })
}

/// What came of asking for evictions without having them carried out; each refusal is among the plan's warnings.
fn asked(plans: &[Plan]) -> String {
    let evicted = |plan: &Plan| plan.pods.iter().filter(|pod| pod.is_to_evict()).count();
    let asked: usize = plans.iter().map(evicted).sum();
    let mut refused = 0;
    for plan in plans {
        let objects = plan.pods.iter().filter(|pod| pod.is_to_evict());
        let objects: BTreeSet<String> = objects.map(|pod| format!("Pod {}/{}", pod.namespace, pod.name)).collect();
        refused += plan
            .warnings
            .iter()
            .filter(|warning| objects.contains(&warning.object) && warning.code.is_refused_eviction())
            .count();
    }
    let evictions = text::plural(asked, "eviction");
    let answer = match (asked, refused) {
        (0, _) => return "There is no eviction to ask the API server about.".to_owned(),
        (1, 0) => "accept it".to_owned(),
        (1, _) => "refuse it".to_owned(),
        (_, 0) => "accept each of them".to_owned(),
        (_, refused) => format!("refuse {refused} of them"),
    };
    format!("Asked the API server about {evictions}: it would {answer} now (dry run).")
}

/// Why it is us who plan, without what to do about it: nothing has to be done for a plan.
fn fact(failure: &Failure) -> String {
    let said = failure.to_string();
    let advice = [": install it with ", ": see why with "].iter().filter_map(|advice| said.find(advice)).min();
    said[..advice.unwrap_or(said.len())].to_owned()
}

/// Whether there is no agent to ask, or none that this person may ask: their own kubeconfig may still be good for a plan.
fn leaves_it_to_us(failure: &Failure) -> bool {
    matches!(failure, Failure::AgentUnreachable(_) | Failure::NotAuthorised(_) | Failure::Unauthenticated(_))
}

/// What `--exit-code` tells.
fn found(plans: &[Plan]) -> u8 {
    if plans.iter().any(|plan| !plan.blockers.is_empty()) { exit::BLOCKED } else { exit::WORK_PENDING }
}

/// Prints plans as asked: one object for one name, a list otherwise.
pub(super) fn print(console: &Console, plans: &[Plan], target: &Target, printing: Printing) -> Result<(), Failure> {
    let list = || PlanList { api_version: API_VERSION.to_owned(), kind: "PlanList".to_owned(), items: plans.to_vec() };
    let text = match (printing.format, plans) {
        (Format::Json, [plan]) if target.is_single() => format::json(plan),
        (Format::Json, _) => format::json(&list()),
        (Format::Yaml, [plan]) if target.is_single() => format::yaml(plan),
        (Format::Yaml, _) => format::yaml(&list()),
        (Format::Name, plans) => plans.iter().map(|plan| format!("node/{}\n", plan.node)).collect(),
        (Format::Table | Format::Wide, [plan]) => {
            console.folded(console.led(&text::text(plan, printing.format == Format::Wide)).into_owned())
        }
        (Format::Wide, plans) => {
            let texts: Vec<_> =
                plans.iter().map(|plan| console.folded(console.led(&text::text(plan, true)).into_owned())).collect();
            texts.join("\n────\n\n")
        }
        (Format::Table, plans) => {
            let mut text = text::table(plans, printing.headers);
            for plan in plans.iter().filter(|plan| !plan.blockers.is_empty()) {
                text.push_str(&format!("\n{}\n", console.folded(console.led(&text::blocked(plan)).into_owned())));
            }
            text
        }
    };
    console.formatted(printing.format, &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_it_is_us_who_plan_is_told_without_advice() {
        for (said, told) in [
            ("no agent in namespace x: install it with kubectl rotate install --apply", "no agent in namespace x"),
            (
                "the only Pod of the agent is not ready: see why with kubectl describe",
                "the only Pod of the agent is not ready",
            ),
            ("no agent answered at pod/a: connection reset", "no agent answered at pod/a: connection reset"),
        ] {
            assert_eq!(fact(&Failure::AgentUnreachable(said.to_owned())), told);
        }
    }
}
