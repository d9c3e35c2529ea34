//! Server-side apply of all objects: asked for as a dry run first, so that nothing is left half done.

use std::collections::BTreeSet;

use rotate_shared::names;
use serde_json::Value;

use crate::connect::objects::{Conflicts, Found, Objects};
use crate::failure::Failure;
use crate::manifests::{self, Kind, Object};
use crate::output::Format;
use crate::session::{Session, UNBEGUN};

/// How to apply.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    /// What becomes of fields that somebody else has written.
    pub(super) conflicts: Conflicts,
    /// Whether a newer version may be replaced.
    pub(super) downgrade: bool,
    /// Only ask.
    pub(super) dry_run: bool,
}

/// Applies, says so object by object, and removes what an earlier version had and this one has not. The objects as they are now;
/// of a dry run those that could be asked about.
pub(super) async fn apply(
    session: &Session,
    server: &Objects,
    objects: &[Object],
    order: &Order,
    format: Option<Format>,
) -> Result<Vec<Value>, Failure> {
    let asked = session.until_interrupted(UNBEGUN, try_first(session, server, objects, order));
    let (answers, pruned) = asked.await?;
    let meaning = "midway: what is told above was applied; the same command again goes on";
    let applied = session.until_interrupted(meaning, really(session, server, objects, &pruned, order, format)).await?;
    Ok(if order.dry_run { answers } else { applied })
}

/// Asks about everything that would be done. What the API server makes of the objects, and what is no longer wanted.
async fn try_first(
    session: &Session,
    server: &Objects,
    objects: &[Object],
    order: &Order,
) -> Result<(Vec<Value>, Vec<Found>), Failure> {
    let missing = missing_namespaces(session, server).await?;
    no_downgrade(server, order.downgrade).await?;
    let pruned =
        if missing.contains(names::NAMESPACE) { Vec::new() } else { no_longer_wanted(server, objects).await? };
    let answers = try_all(session, server, objects, &missing, order).await?;
    for found in &pruned {
        server.delete(found, true).await?;
    }
    Ok((answers, pruned))
}

/// Does it, or says what would be done.
async fn really(
    session: &Session,
    server: &Objects,
    objects: &[Object],
    pruned: &[Found],
    order: &Order,
    format: Option<Format>,
) -> Result<Vec<Value>, Failure> {
    let mut answers = Vec::new();
    let say = |told: &str, done: &str| match format {
        None if order.dry_run => session.console.data(&format!("{told} {done} (server dry run)\n")),
        None => session.console.data(&format!("{told} {done}\n")),
        Some(Format::Name) => session.console.data(&format!("{told}\n")),
        Some(_) => Ok(()),
    };
    for object in objects {
        if !order.dry_run {
            answers.push(
                server.apply(object, order.conflicts, false).await.map_err(|error| midway(server, object, error))?,
            );
        }
        say(&object.told(), "serverside-applied")?;
    }
    for found in pruned {
        if order.dry_run || server.delete(found, false).await? {
            say(&found.told(), "pruned")?;
        }
    }
    Ok(answers)
}

/// The namespaces that are not there yet.
async fn missing_namespaces(session: &Session, server: &Objects) -> Result<BTreeSet<&'static str>, Failure> {
    let kind = Kind::named("Namespace").expect("namespaces are installed");
    let mut missing = BTreeSet::new();
    for name in [names::NAMESPACE, names::ROOM_NAMESPACE] {
        match server.get(&kind.path(None, name)).await? {
            None => drop(missing.insert(name)),
            Some(found) if found["status"]["phase"] == "Terminating" => {
                return Err(Failure::Blocked(format!(
                    "namespace {name} is being deleted: wait until it is gone, as in: kubectl wait --for=delete namespace/{name}{}",
                    session.cluster_again()
                )));
            }
            Some(_) => {}
        }
    }
    Ok(missing)
}

/// An older program does not know what a newer one has written.
async fn no_downgrade(server: &Objects, allowed: bool) -> Result<(), Failure> {
    let kind = Kind::named("Deployment").expect("it is installed");
    let Some(agent) = server.get(&kind.path(Some(names::NAMESPACE), names::AGENT)).await? else { return Ok(()) };
    let (ours, theirs) = (env!("CARGO_PKG_VERSION"), manifests::version(&agent).unwrap_or_default());
    if allowed || !is_newer(theirs, ours) {
        return Ok(());
    }
    Err(Failure::OtherVersion(format!(
        "the agent that is installed is version {theirs}, this is kubectl-rotate {ours}: upgrade this program (kubectl krew \
         upgrade rotate), or give --allow-downgrade; nothing was changed"
    )))
}

/// Whether the first of two versions is the newer one. What is not a version is not newer than anything.
fn is_newer(one: &str, other: &str) -> bool {
    let parts = |text: &str| -> Option<Vec<u64>> {
        text.split(['-', '+']).next()?.split('.').map(|part| part.parse().ok()).collect()
    };
    parts(one).zip(parts(other)).is_some_and(|(one, other)| one > other)
}

/// What we applied once and what is no longer among the objects.
async fn no_longer_wanted(server: &Objects, objects: &[Object]) -> Result<Vec<Found>, Failure> {
    let wanted = |found: &Found| {
        objects.iter().any(|object| object.told() == found.told() && object.namespace() == found.namespace())
    };
    let found = server.ours().await?.into_iter();
    Ok(found.filter(|found| found.was_applied_by_us() && !wanted(found)).collect())
}

/// Asks about every object. Where its namespace is still to be made only the caller's rights can be asked for.
async fn try_all(
    session: &Session,
    server: &Objects,
    objects: &[Object],
    missing: &BTreeSet<&str>,
    order: &Order,
) -> Result<Vec<Value>, Failure> {
    let mut answers = Vec::new();
    let mut asked = BTreeSet::new();
    let mut refusals: Vec<String> = Vec::new();
    let (mut forbidden, mut conflicts) = (false, false);
    for object in objects {
        let namespace = object.namespace();
        if namespace.is_some_and(|namespace| missing.contains(namespace)) {
            for verb in ["create", "patch"] {
                let kind = object.kind();
                if asked.insert((kind.plural, namespace, verb)) && !server.may(verb, kind, namespace).await? {
                    forbidden = true;
                    let namespace = namespace.unwrap_or_default();
                    let resource = kind.plural;
                    refusals.push(format!("{}: you may not {verb} {resource} in namespace {namespace}", object.told()));
                }
            }
            continue;
        }
        match server.apply(object, order.conflicts, true).await {
            Ok(answer) => answers.push(answer),
            Err(kube::Error::Api(status)) => {
                forbidden |= matches!(status.code, 401 | 403);
                conflicts |= status.code == 409;
                refusals.push(format!("{}: {}", object.told(), status.message));
            }
            Err(error) => return Err(server.refused(error)),
        }
    }
    if refusals.is_empty() {
        return Ok(answers);
    }
    for refusal in &refusals {
        session.console.note(&format!("  {}", crate::output::escape::line(refusal)));
    }
    let summary = format!("{} of {} objects cannot be applied; nothing was changed", refusals.len(), objects.len());
    Err(match (forbidden, conflicts) {
        (true, _) => Failure::NotAuthorised(format!("{summary}: who installs must have every right that is installed")),
        (false, true) => Failure::Blocked(format!(
            "{summary}: somebody else has written these fields; --force-conflicts takes them over"
        )),
        (false, false) => Failure::Blocked(summary),
    })
}

/// What the dry run let through is refused all the same.
fn midway(server: &Objects, object: &Object, error: kube::Error) -> Failure {
    let rest = "what comes before it was applied; the same command again goes on";
    match server.refused(error) {
        Failure::NotAuthorised(message) => Failure::NotAuthorised(format!("{}: {message}; {rest}", object.told())),
        failure => Failure::Other(format!("{}: {failure}; {rest}", object.told())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(is_newer("0.10.0", "0.9.1"));
        assert!(is_newer("1.0.0", "0.99.99"));
        assert!(!is_newer("0.1.0", "0.1.0"));
        assert!(!is_newer("0.0.9", "0.1.0"));
        assert!(!is_newer("latest", "0.1.0"));
        assert!(!is_newer("", "0.1.0"));
    }
}
