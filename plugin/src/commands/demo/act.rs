//! One act of the demo: something is done to a world, its log is told as it grows, and figures are drawn from it.

use futures::StreamExt;
use futures::stream::BoxStream;
use rotate_agent::clock::Clock;
use rotate_agent::{Config, bootstrap};
use rotate_shared::options::SurgeMode;
use rotate_shared::plan::PlanRequest;
use rotate_shared::rotation::Progress;
use rotate_shared::{OptionsRequest, Phase, Rotation, RotationRequest};
use rotate_sim::{Figures, Select, figures};

use super::story::{self, Story};
use super::world::{CANDIDATE, World};
use crate::connect::Agent;
use crate::connect::in_process::InProcess;
use crate::failure::Failure;
use crate::output::{plan, rotation as words};

/// Takes lines as they come.
pub(super) type Teller<'a> = &'a mut dyn FnMut(&str) -> Result<(), Failure>;

/// What an act has to say besides the log; it lasts until this ends.
pub(super) type Lines<'a> = BoxStream<'a, Result<Option<String>, Failure>>;

/// Rotates the candidate with a real agent, called in process.
pub(super) async fn rotate(
    world: &World,
    clock: Clock,
    options: OptionsRequest,
    tell: Teller<'_>,
) -> Result<Figures, Failure> {
    let client = world.client();
    bootstrap::create(&client, &bootstrap::objects())
        .await
        .map_err(|error| Failure::Other(format!("failed to {error}")))?;
    let engine = rotate_agent::Agent::start(Config::default(), client, clock);
    engine.ready().await;
    let agent = Agent::new(InProcess::new(engine.router()), clock);
    let nodes = vec![CANDIDATE.to_owned()];
    let request = PlanRequest { nodes: nodes.clone(), options: options.clone(), ..PlanRequest::default() };
    for found in agent.plan(&request, 1).await? {
        tell(&format!("   plan  {}", story::broken(&plan::verdict(&found))))?;
    }
    let request = RotationRequest { nodes, options, ..RotationRequest::default() };
    let begun = agent.rotate(&request).await?;
    let Some(begun) = begun.first() else {
        return Err(Failure::Other(format!("the agent did not begin the rotation of {CANDIDATE}")));
    };
    let mut said = Said::default();
    let events = agent.events(&begun.id, None).await?;
    let lines = events.map(move |told| Ok(said.sentence(&told?.rotation)));
    told(world, lines.boxed(), tell).await
}

/// What was said of the rotation that the log does not say.
#[derive(Debug, Default)]
struct Said {
    placeholders: bool,
    phase: Option<Phase>,
}

impl Said {
    /// What a new state of the rotation means.
    fn sentence(&mut self, rotation: &Rotation) -> Option<String> {
        let Progress { to_move, reserved, .. } = rotation.progress;
        if rotation.phase == Phase::Surging {
            self.phase = Some(rotation.phase);
            let now = to_move > 0 && !std::mem::replace(&mut self.placeholders, to_move > 0);
            let reserves = now && rotation.options.surge == SurgeMode::PerPod;
            return reserves.then(|| {
                format!(
                    "{to_move} placeholder Pods ask for the room of the {to_move} Pods that have to move. They do nothing \
                     but hold it, and give it up to any real Pod."
                )
            });
        }
        if self.phase.replace(rotation.phase) == Some(rotation.phase) {
            return None;
        }
        match rotation.phase {
            Phase::Draining if reserved > 0 => Some(format!(
                "Room for all {to_move} Pods is held. Only now they are evicted, each of them only while its room is held."
            )),
            Phase::Settling => Some("All have left. Waiting until the replacements serve.".to_owned()),
            phase if phase.is_terminal() => Some(format!("node/{} {}.", rotation.node, words::result(rotation))),
            _ => None,
        }
    }
}

/// Tells the log and these lines until they end, and on until the workload is whole again.
pub(super) async fn told(world: &World, mut lines: Lines<'_>, tell: Teller<'_>) -> Result<Figures, Failure> {
    let mut story = Story::begin(CANDIDATE, &world.sim.log(), world.sim.now());
    let mut changes = world.sim.changes();
    changes.mark_changed();
    let mut over = false;
    while !(over && world.is_whole()) {
        tokio::select! {
            biased;
            line = lines.next(), if !over => match line {
                Some(line) => {
                    if let Some(line) = line? {
                        tell(&story.stamped(world.sim.now(), &line))?;
                    }
                }
                None => over = true,
            },
            changed = changes.changed() => {
                if changed.is_err() {
                    return Err(Failure::Other("the simulated cluster ended early".to_owned()));
                }
                for line in story.tell(&world.sim.log()) {
                    tell(&line)?;
                }
            }
        }
    }
    for line in story.tell(&world.sim.log()) {
        tell(&line)?;
    }
    Ok(figures(&world.sim.log(), story.started(), &Select::default()))
}
