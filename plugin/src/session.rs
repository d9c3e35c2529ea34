//! What every verb starts from: the console, the clock, and the flags that lead to an agent. How it is reached by them is
//! [`connect`](crate::connect)'s business.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rotate_agent::PodCache;
use rotate_agent::clock::Clock;
use rotate_shared::exit;

use crate::cli::{AgentFlags, ConnectionFlags};
use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::output::Console;

/// The surroundings of one command.
pub(crate) struct Session {
    /// Where output goes.
    pub(crate) console: Console,
    /// What time it is.
    pub(crate) clock: Clock,
    /// Where the agent is said to be.
    pub(crate) agent: AgentFlags,
    /// Where the cluster is said to be.
    pub(crate) connection: ConnectionFlags,
    /// Whether a person wants out.
    pub(crate) interrupts: Interrupts,
    /// Whether objects for an agent in this process were created.
    created: AtomicBool,
    at_end: Mutex<Vec<BoxFuture<'static, ()>>>,
}

/// What an interruption means as long as nothing was changed.
pub(crate) const UNBEGUN: &str = "before anything was begun";

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("agent", &self.agent)
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// A session over these flags, which can be interrupted from now on.
    pub(crate) fn new(console: Console, agent: AgentFlags, connection: ConnectionFlags) -> Self {
        Self {
            console,
            clock: Clock::system(),
            agent,
            connection,
            interrupts: Interrupts::listen(),
            created: AtomicBool::new(false),
            at_end: Mutex::default(),
        }
    }

    /// Asks, with no as the answer to everything but `y` and `yes`.
    ///
    /// # Errors
    ///
    /// A usage failure where there is nobody to ask; Ctrl-C, which must not keep an agent in this process from giving
    /// its Lease up.
    pub(crate) async fn confirm(&self, question: &str) -> Result<bool, Failure> {
        let (console, question) = (self.console, question.to_owned());
        let asked = tokio::task::spawn_blocking(move || console.confirm(&question));
        tokio::select! {
            answer = asked => answer.unwrap_or_else(|error| Err(Failure::Other(format!("read the answer: {error}")))),
            () = self.interrupts.times(1) => {
                self.console.note("");
                Err(Failure::Interrupted(self.unbegun().to_owned()))
            }
        }
    }

    /// From now on there are objects in the cluster that were not there before.
    pub(crate) fn has_created(&self) {
        self.created.store(true, Ordering::Relaxed);
    }

    /// What an interruption means as long as no rotation was begun.
    pub(crate) fn unbegun(&self) -> &'static str {
        match self.created.load(Ordering::Relaxed) {
            true => "before a rotation was begun; the objects that the agent needs were created and stay",
            false => UNBEGUN,
        }
    }

    /// What a no to the question means as long as no rotation was begun.
    pub(crate) fn unconfirmed(&self) -> Failure {
        Failure::Usage(match self.created.load(Ordering::Relaxed) {
            true => "not confirmed; no rotation was begun, the objects that the agent needs were created and stay"
                .to_owned(),
            false => "not confirmed; nothing was touched".to_owned(),
        })
    }

    /// Takes a step, until a person wants out of it: then it is given up, and this is what that means. It may be nothing.
    ///
    /// # Errors
    ///
    /// The step's own, and the interruption.
    pub(crate) async fn until_interrupted<T>(
        &self,
        meaning: &str,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let interrupted = || Err(Failure::Interrupted(meaning.to_owned()));
        tokio::select! {
            biased;
            () = self.interrupts.times(1) => interrupted(),
            done = step => match done {
                // Ctrl-C ends a credential plugin first, and with it the step.
                Err(_) if self.interrupts.so_far() > 0 => interrupted(),
                done => done,
            },
        }
    }

    /// Takes a step that goes on in the cluster without us, until a person wants out of it or its time is over; `None`: as
    /// long as it takes.
    ///
    /// # Errors
    ///
    /// The exit code of what ended the waiting for it.
    pub(crate) async fn within<T>(&self, timeout: Option<Duration>, step: impl Future<Output = T>) -> Result<T, u8> {
        let time_is_up = async {
            match timeout {
                Some(timeout) => self.clock.sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.interrupts.times(1) => Err(exit::INTERRUPTED),
            done = step => Ok(done),
            () = time_is_up => Err(exit::TIMED_OUT),
        }
    }

    /// Which Pods an agent in this process reads: a laptop must not stream all of a large cluster unasked.
    pub(crate) fn pod_cache(&self) -> PodCache {
        self.agent.pod_cache.unwrap_or(PodCache::Scoped)
    }

    /// Has this done at the end of the command, however it ends.
    pub(crate) fn at_end(&self, act: impl Future<Output = ()> + Send + 'static) {
        self.at_end.lock().expect("nobody panics while holding it").push(act.boxed());
    }

    /// Does what is to be done at the end.
    pub(crate) async fn end(self) {
        let acts = self.at_end.into_inner().expect("nobody panics while holding it");
        for act in acts {
            act.await;
        }
    }

    /// The flags that lead to the same agent again, for a command to type next. Secrets are left out.
    pub(crate) fn flags_again(&self) -> String {
        self.agent.again() + &self.connection.again()
    }

    /// The flags that lead to the same cluster again, for a command that asks no agent, as those of kubectl.
    pub(crate) fn cluster_again(&self) -> String {
        self.connection.again()
    }
}
