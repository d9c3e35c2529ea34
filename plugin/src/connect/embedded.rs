//! `--embedded`: the agent inside this process, with the person's kubeconfig, for as long as the command runs.

mod handover;

use std::time::Duration;

use jiff::SignedDuration;
use kube::Client;
use rotate_agent::bootstrap::{self, BootstrapError, Object};
use rotate_agent::lease::{self, Rival};
use rotate_agent::probe::Standing;
use rotate_agent::{Agent as Engine, AgentError, Config};
use rotate_shared::plan::PlanRequest;
use rotate_shared::{Plan, names};

use super::api_server::ApiServer;
use super::in_process::InProcess;
use super::token::Account;
use super::{Agent, cluster};
use crate::failure::Failure;
use crate::output::age;
use crate::session::{Session, UNBEGUN};
pub(crate) use handover::{leave, resume};

/// How often a state is looked at that no event tells of.
const LOOK: Duration = Duration::from_millis(200);

/// How long an election is waited for before it is looked at who won.
const ELECTION: Duration = Duration::from_millis(500);
/// How often: an API server that answers at all has answered by then.
const ELECTIONS: u32 = 20;

/// An agent that is at work has renewed its Lease by then, and we have seen it.
const RENEWED: SignedDuration = SignedDuration::from_secs(5);
/// A Lease that nobody renews is taken within this time after its end: looks at it are two seconds apart.
const LETS_GO: SignedDuration = SignedDuration::from_secs(10);

/// After two seconds a person wonders.
const SLOW: u32 = 10;
/// Five minutes are enough for any cluster that answers.
const GIVE_UP: u32 = 1500;

/// What an embedded agent is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// To rotate: it takes the Lease.
    Act {
        /// Whether creating what is missing was agreed to on the command line.
        consent: bool,
    },
    /// To end a rotation: it takes the Lease where it is free; otherwise its holder ends the rotation.
    End,
    /// To take in a wish for whoever acts: it changes nothing but a record.
    Wish,
    /// To show.
    Look,
}

impl Role {
    /// Whom a remote agent is called as.
    pub(crate) fn account(self) -> Account {
        match self {
            Self::Act { .. } | Self::End | Self::Wish => Account::Operator,
            Self::Look => Account::Viewer,
        }
    }
}

/// An agent that lives as long as this value.
pub(crate) struct Embedded {
    agent: Agent,
    engine: Engine,
    client: Client,
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl Embedded {
    /// Starts it: asks before anything is created in the cluster, then waits until it has read the cluster.
    ///
    /// # Errors
    ///
    /// The cluster cannot be reached, consent is not given, or another agent holds the Lease.
    pub(crate) async fn start(session: &Session, role: Role) -> Result<Self, Failure> {
        let (client, server, missing) = session.until_interrupted(UNBEGUN, reach(session)).await?;
        if let Role::Act { consent } = role {
            // What is refused leaves nothing behind.
            if !missing.is_empty() {
                session.until_interrupted(UNBEGUN, idle(session, &client)).await?;
            }
            create(session, &client, &server, &missing, consent).await?;
        }
        // Without a namespace for it there is no Lease to take, and no rotation to end.
        let acts = match role {
            Role::Act { .. } => true,
            Role::End => missing.is_empty(),
            Role::Wish | Role::Look => false,
        };
        // What is missing is created before a rotation begins, and only looked at by who only looks.
        let standing = if acts || missing.is_empty() { Standing::Installed } else { Standing::ToBeInstalled };
        let config = Config {
            acts,
            standing,
            pod_cache: session.pod_cache(),
            chunk_size: session.agent.chunk_size,
            ..Config::default()
        };
        let engine = Engine::start(config, client.clone(), session.clock);
        let agent = Agent::new(InProcess::new(engine.router()), session.clock);
        let takes_up = async {
            if acts {
                match leads(session, &engine).await {
                    Err(Failure::Blocked(_)) if role == Role::End => {}
                    led => led?,
                }
            }
            ready(session, &engine, &agent).await
        };
        if let Err(failure) = session.until_interrupted(session.unbegun(), takes_up).await {
            // The next command need not wait for the Lease.
            engine.shutdown().await;
            return Err(failure);
        }
        Ok(Self { agent, engine, client })
    }

    /// Plans with an agent that only looks and is gone again. None where the selector matches no node.
    ///
    /// # Errors
    ///
    /// The cluster cannot be reached or refuses, or there is no such node.
    pub(crate) async fn plan(session: &Session, request: &PlanRequest, most: usize) -> Result<Vec<Plan>, Failure> {
        let embedded = Self::start(session, Role::Look).await?;
        let plans = embedded.agent.plan(request, most).await;
        embedded.end().await;
        plans
    }

    /// Whether it would have to create something in the cluster first.
    ///
    /// # Errors
    ///
    /// The cluster cannot be reached or refuses.
    pub(crate) async fn must_create(session: &Session) -> Result<bool, Failure> {
        Ok(!reach(session).await?.2.is_empty())
    }

    /// Ends it in order.
    pub(crate) async fn end(self) {
        self.engine.shutdown().await;
    }

    /// Its way to the API server.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Speaks its API.
    pub(crate) fn agent(&self) -> Agent {
        self.agent.clone()
    }
}

/// Waits until the agent has read the cluster, says what that waits for, and gives up where it cannot succeed.
async fn ready(session: &Session, engine: &Engine, agent: &Agent) -> Result<(), Failure> {
    let mut looks = 0;
    loop {
        tokio::select! {
            () = engine.ready() => return Ok(()),
            () = session.clock.sleep(LOOK) => looks += 1,
        }
        let mut troubles = Vec::new();
        for feed in agent.cache().await?.feeds.into_iter().filter(|feed| !feed.synced) {
            match (feed.last_error, feed.last_status) {
                (Some(refused), Some(403)) => return Err(Failure::NotAuthorised(format!("failed to {refused}"))),
                (_, Some(401)) => return Err(Failure::NotLoggedIn("Unauthorized".to_owned())),
                (trouble, _) => troubles.extend(trouble),
            }
        }
        if looks == SLOW {
            let why = if troubles.is_empty() { "the cluster is large".to_owned() } else { troubles.join("; ") };
            session.console.note(&format!("Still reading the cluster: {why}"));
        }
        if looks == GIVE_UP {
            return Err(Failure::Cluster("the cluster and the agent's records could not be read".to_owned()));
        }
    }
}

/// A client of the cluster, where that is, and what the agent needs and the cluster does not have.
async fn reach(session: &Session) -> Result<(Client, String, Vec<Object>), Failure> {
    let ApiServer { client, server, .. } = ApiServer::connect(&session.connection).await?;
    let missing = bootstrap::missing(&client).await.map_err(|error| refused(error, &server))?;
    Ok((client, server, missing))
}

/// How long it takes to see that a Lease is renewed: that is done every two seconds.
const RENEWS: Duration = Duration::from_secs(3);

/// Refuses where another agent renews the Lease. Who may not read it finds out when it is to be taken.
async fn idle(session: &Session, client: &Client) -> Result<(), Failure> {
    let read = async || lease::rival(client.clone(), names::NAMESPACE, names::AGENT).await.ok().flatten();
    let Some(before) = read().await else { return Ok(()) };
    session.clock.sleep(RENEWS).await;
    match read().await {
        Some(rival) if rival != before => Err(at_work(session, &rival.holder)),
        _ => Ok(()),
    }
}

/// What to do depends on whose it is: a command's agent cannot be asked by another one.
fn at_work(session: &Session, holder: &str) -> Failure {
    let installed = holder.strip_prefix(names::AGENT).is_some_and(|rest| rest.starts_with('-'));
    Failure::Blocked(if installed {
        format!("{holder} holds the Lease and renews it: another agent is at work. Use it, without --embedded")
    } else {
        format!(
            "{holder} holds the Lease and renews it: another command with --embedded is at work, and one at a time can be. \
             Wait until it has ended; until then, see what it does with: kubectl rotate status{}",
            session.flags_again()
        )
    })
}

/// Waits for the Lease: from an agent that is at work it is not to be had, but one that died let nobody know.
async fn leads(session: &Session, engine: &Engine) -> Result<(), Failure> {
    let began = session.clock.now();
    let (mut looks, mut told) = (0, false);
    loop {
        looks += 1;
        match engine.leads(ELECTION).await {
            Ok(()) => return Ok(()),
            Err(AgentError::Led(_)) => {}
            Err(error) => return Err(Failure::Other(format!("failed to {error}"))),
        }
        let Some(Rival { holder, renewed, valid, alive }) = engine.rival() else {
            if looks >= ELECTIONS {
                return Err(Failure::Other("the Lease of the agent can be neither taken nor read".to_owned()));
            }
            continue;
        };
        if alive {
            return Err(at_work(session, &holder));
        }
        let now = session.clock.now();
        let waited = now.duration_since(began);
        if waited > valid + LETS_GO {
            return Err(Failure::Blocked(format!(
                "{holder} holds the Lease, and it could not be taken within {} although nobody renews it",
                age::since(began, now)
            )));
        }
        // Clocks differ: what the Lease says of its age is told, but nothing is decided by it.
        let silent = renewed.is_none_or(|renewed| now.duration_since(renewed) > valid);
        if !told && (silent || waited > RENEWED) {
            told = true;
            let heard = renewed
                .filter(|renewed| *renewed <= now)
                .map(|renewed| format!(", which was last heard of {} ago,", age::since(renewed, now)));
            session.console.note(&format!(
                "Waiting up to {} for {holder}{} to let go of the Lease.",
                age::of(valid.unsigned_abs()),
                heard.unwrap_or_default()
            ));
        }
    }
}

/// Creates what the agent needs and the cluster does not have, after asking.
async fn create(
    session: &Session,
    client: &Client,
    server: &str,
    missing: &[Object],
    consent: bool,
) -> Result<(), Failure> {
    if missing.is_empty() {
        return Ok(());
    }
    let console = &session.console;
    console.note(&format!("The agent needs these objects, which the cluster at {server} does not have:"));
    for object in missing {
        console.note(&format!("  {object}"));
    }
    if !consent && !session.confirm("Create them?").await? {
        return Err(Failure::Usage("not confirmed; nothing was touched".to_owned()));
    }
    let created = async { bootstrap::create(client, missing).await.map_err(|error| refused(error, server)) };
    session.until_interrupted("before a rotation was begun; the objects may be there", created).await?;
    session.has_created();
    Ok(())
}

fn refused(error: BootstrapError, server: &str) -> Failure {
    match error {
        BootstrapError::Api { source, .. } => cluster::refused(source, server),
        BootstrapError::OtherPriority { .. } => Failure::Blocked(format!("failed to {error}")),
    }
}
