//! `kubectl rotate uninstall`: takes away everything that was installed, and what is left of rotations.
//!
//! ```text
//! what is there ──▶ live rotations? ──▶ may I? ──▶ [y/N] ──▶ agents, marks, namespaces, the rest ──▶ until it is gone
//! ```

mod left;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use rotate_shared::exit;
use serde_json::Value;

use super::{Ended, install};
use crate::cli::install::{DryRun, UninstallArgs};
use crate::connect::objects::{Found, Objects};
use crate::failure::Failure;
use crate::output::plan::plural;
use crate::output::{age, format};
use crate::session::{Session, UNBEGUN};
use left::Left;

/// How often it is looked.
const LOOK: Duration = Duration::from_millis(500);
/// How often the same is said again.
const AGAIN: Duration = Duration::from_secs(30);

pub(super) async fn run(session: &Session, args: &UninstallArgs) -> Ended {
    install::in_its_namespace(session)?;
    let format = args.output.as_deref().filter(|text| !text.is_empty());
    let names_only = format.map(|text| format::among(format::NAMES, text)).transpose()?.is_some();
    let server = session.until_interrupted(UNBEGUN, Objects::connect(session)).await?;
    let found = to_delete(session.until_interrupted(UNBEGUN, server.ours()).await?);
    if found.is_empty() {
        session.console.note(&format!("kubectl-rotate is not installed in the cluster at {}", server.server()));
        return Ok(exit::DONE);
    }
    let left = session.until_interrupted(UNBEGUN, may_go(session, &server, &found)).await?;
    let removal = Removal { session, server: &server, names_only, dry_run: args.dry_run, waiting: RefCell::default() };
    if args.dry_run != DryRun::None {
        return session.until_interrupted(UNBEGUN, removal.show(&found, &left)).await;
    }
    confirm(session, &server, &found, &left, args.yes).await?;
    let timeout = Some(args.timeout.0).filter(|timeout| !timeout.is_zero());
    removal.run(&found, left, timeout).await
}

/// Ends here where something would be left to itself or could not be deleted. What rotations have left.
async fn may_go(session: &Session, server: &Objects, found: &[Found]) -> Result<Left, Failure> {
    let left = Left::read(server).await?;
    left.nothing_is_live(&session.flags_again())?;
    may_all(session, server, found, &left).await?;
    Ok(left)
}

/// What has to be deleted by name: what is in a namespace that goes, goes with it. But the agents go first.
fn to_delete(found: Vec<Found>) -> Vec<Found> {
    let goes = |name: &str| found.iter().any(|found| found.kind.name == "Namespace" && found.name() == name);
    let by_name: Vec<bool> =
        found.iter().map(|found| found.kind.name == "Deployment" || !found.namespace().is_some_and(goes)).collect();
    found.into_iter().zip(by_name).filter_map(|(found, by_name)| by_name.then_some(found)).collect()
}

/// Shows what goes and asks.
async fn confirm(session: &Session, server: &Objects, found: &[Found], left: &Left, yes: bool) -> Result<(), Failure> {
    let console = &session.console;
    console.note(&format!("From the cluster at {} these go:", server.server()));
    for found in found {
        let with = if found.kind.name == "Namespace" { ", with everything in it" } else { "" };
        let place = found.namespace().map(|name| format!(" in namespace {name}")).unwrap_or_default();
        console.note(&format!("  {}{place}{with}", found.told()));
    }
    if left.records > 0 {
        console.note(&format!("With them goes the history of {}.", plural(left.records, "rotation")));
    }
    if yes || session.confirm("Delete all of it?").await? {
        Ok(())
    } else {
        Err(Failure::Usage("not confirmed; nothing was changed".to_owned()))
    }
}

/// Ends here where something could not be deleted: nothing is begun that cannot be finished.
async fn may_all(session: &Session, server: &Objects, found: &[Found], left: &Left) -> Result<(), Failure> {
    let mut asked = BTreeSet::new();
    let mut refused = Vec::new();
    for found in found {
        if asked.insert((found.kind.plural, found.namespace()))
            && !server.may("delete", found.kind, found.namespace()).await?
        {
            let place = found.namespace().map(|name| format!(" in namespace {name}")).unwrap_or_default();
            refused.push(format!("  you may not delete {}{place}", found.kind.plural));
        }
    }
    if !left.marked.is_empty() && !left.may_unmark(server).await? {
        refused.push("  you may not patch nodes, and some carry marks of ours".to_owned());
    }
    if refused.is_empty() {
        return Ok(());
    }
    for line in &refused {
        session.console.note(line);
    }
    Err(Failure::NotAuthorised("not everything could be deleted; nothing was changed".to_owned()))
}

/// What is under way.
struct Removal<'a> {
    session: &'a Session,
    server: &'a Objects,
    names_only: bool,
    dry_run: DryRun,
    /// What is waited for.
    waiting: RefCell<String>,
}

impl Removal<'_> {
    /// Says what would go.
    async fn show(&self, found: &[Found], left: &Left) -> Ended {
        for found in found {
            if self.dry_run == DryRun::Client || self.server.delete(found, true).await? {
                self.say(found)?;
            }
        }
        left.tell(self.session);
        Ok(exit::DONE)
    }

    async fn run(&self, found: &[Found], left: Left, timeout: Option<Duration>) -> Ended {
        let console = &self.session.console;
        let code = match self.session.within(timeout, self.remove(found, left)).await {
            Ok(ended) => return ended.map(|()| exit::DONE),
            Err(code) => code,
        };
        if code == exit::TIMED_OUT {
            let timeout = age::of(timeout.unwrap_or_default());
            console.note(&format!("error: not everything is gone after {timeout}: {}", self.waiting.borrow()));
        }
        console.note(&format!("To go on: kubectl rotate uninstall{}", self.session.cluster_again()));
        Ok(code)
    }

    async fn remove(&self, found: &[Found], left: Left) -> Result<(), Failure> {
        let (agents, rest): (Vec<&Found>, Vec<&Found>) =
            found.iter().partition(|found| found.kind.name == "Deployment");
        self.delete(&agents).await?;
        self.until_gone("its agents", async || left::agents(self.server).await).await?;
        // With nobody there to begin another one.
        let left = if agents.is_empty() { left } else { Left::read(self.server).await? };
        left.nothing_is_live(&self.session.flags_again()).map_err(|failure| {
            let again = self.session.cluster_again();
            Failure::Blocked(format!(
                "{failure} (it was begun meanwhile; the agents are deleted: kubectl rotate install --apply{again} brings \
                 them back)"
            ))
        })?;
        left.unmark(&self.session.console, self.server).await?;
        // What is in a namespace goes with it; what is cluster-wide goes once nothing leans on it any more.
        let (first, last): (Vec<&Found>, Vec<&Found>) =
            rest.into_iter().partition(|found| found.kind.namespaced || found.kind.name == "Namespace");
        self.delete(&first).await?;
        self.until_gone("the namespaces", async || left::namespaces(self.server).await).await?;
        self.delete(&last).await?;
        left.tell(self.session);
        Ok(())
    }

    async fn delete(&self, found: &[&Found]) -> Result<(), Failure> {
        for found in found {
            self.waiting.replace(format!("{} is being deleted", found.told()));
            if self.server.delete(found, false).await? {
                self.say(found)?;
            }
        }
        Ok(())
    }

    /// As kubectl delete says it.
    fn say(&self, found: &Found) -> Result<(), Failure> {
        let dry_run = match self.dry_run {
            DryRun::None => "",
            DryRun::Client => " (dry run)",
            DryRun::Server => " (server dry run)",
        };
        self.session.console.data(&if self.names_only {
            format!("{}\n", found.told())
        } else {
            format!("{} \"{}\" deleted{dry_run}\n", found.kind.told_kind(), found.name())
        })
    }

    /// Waits until nothing is there any more.
    async fn until_gone(
        &self,
        what: &str,
        mut there: impl AsyncFnMut() -> Result<Vec<String>, Failure>,
    ) -> Result<(), Failure> {
        let clock = self.session.clock;
        let began = clock.now();
        let mut said = Duration::ZERO;
        loop {
            let there = there().await?;
            if there.is_empty() {
                return Ok(());
            }
            let waiting = format!("for {what} to go: {}", there.join("; "));
            let waited = Duration::try_from(clock.now().duration_since(began)).unwrap_or_default();
            if waited >= LOOK.saturating_mul(4) && (said.is_zero() || waited.saturating_sub(said) >= AGAIN) {
                self.session.console.note(&format!("waiting {}: {waiting}", age::of(waited)));
                said = waited;
            }
            self.waiting.replace(format!("it waits {waiting}"));
            clock.sleep(LOOK).await;
        }
    }
}

/// A text of an object.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
