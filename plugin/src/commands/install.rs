//! `kubectl rotate install`: prints what belongs into a cluster, or applies it and waits for the agents.

mod apply;
mod rollout;

use serde_json::{Value, json};

use rotate_shared::{exit, names};

use super::Ended;
use crate::cli::install::{self as cli, InstallArgs, ServerDryRun};
use crate::connect::objects::{Conflicts, Objects};
use crate::failure::Failure;
use crate::manifests::{self, Component, Object, Wanted};
use crate::output::{Format, format};
use crate::session::{Session, UNBEGUN};

pub(super) async fn run(session: &Session, args: InstallArgs) -> Ended {
    in_its_namespace(session)?;
    // None: the form that each way of installing has by itself.
    let format = args.output.as_deref().filter(|text| !text.is_empty());
    let format = format.map(|text| format::among(format::OBJECTS, text)).transpose()?;
    let wanted = Wanted {
        with: args.with.iter().map(|component| meant(*component)).collect(),
        image: args.image.clone(),
        replicas: args.replicas,
    };
    let objects = manifests::objects(&wanted);
    if !args.apply {
        if let Some(flag) = needs_apply(&args) {
            return Err(Failure::Usage(format!("{flag} goes with --apply: without it nothing is asked or changed")));
        }
        session.console.formatted(format.unwrap_or(Format::Yaml), &printed(&objects, format))?;
        return Ok(exit::DONE);
    }
    let server = session.until_interrupted(UNBEGUN, Objects::connect(session)).await?;
    let order = apply::Order {
        conflicts: if args.force_conflicts { Conflicts::Force } else { Conflicts::Refuse },
        downgrade: args.allow_downgrade,
        dry_run: args.dry_run == ServerDryRun::Server,
    };
    let applied = apply::apply(session, &server, &objects, &order, format).await?;
    if let Some(Format::Json | Format::Yaml) = format {
        session.console.object(&listed(&applied, format))?;
    }
    if order.dry_run || !args.wait {
        return Ok(exit::DONE);
    }
    let timeout = Some(args.timeout.0).filter(|timeout| !timeout.is_zero());
    let certificate = || {
        let (secret, namespace) = (names::TLS_SECRET, names::NAMESPACE);
        format!("the Secret {secret} must be in namespace {namespace}, with tls.crt and tls.key")
    };
    let hint = wanted.with.contains(&Component::Tls).then(certificate);
    rollout::wait(session, &server, timeout, hint.as_deref()).await
}

/// Nobody installs, or deletes, elsewhere than they have said.
///
/// # Errors
///
/// Another namespace is meant.
pub(super) fn in_its_namespace(session: &Session) -> Result<(), Failure> {
    let own = names::NAMESPACE;
    let meant = [Some(&session.agent.agent_namespace), session.connection.namespace.as_ref()];
    if meant.into_iter().flatten().all(|name| name == own || name.is_empty()) {
        return Ok(());
    }
    Err(Failure::Usage(format!("the agent is installed in namespace {own}: its admission policies and rights name it")))
}

/// The first flag that says something only to `--apply`.
fn needs_apply(args: &InstallArgs) -> Option<&'static str> {
    [
        (args.force_conflicts, "--force-conflicts"),
        (args.allow_downgrade, "--allow-downgrade"),
        (args.dry_run != ServerDryRun::None, "--dry-run"),
        (!args.wait, "--wait"),
    ]
    .into_iter()
    .find_map(|(given, flag)| given.then_some(flag))
}

fn meant(component: cli::Component) -> Component {
    match component {
        cli::Component::Tls => Component::Tls,
        cli::Component::NetworkPolicy => Component::NetworkPolicy,
        cli::Component::Ha => Component::Ha,
    }
}

fn printed(objects: &[Object], format: Option<Format>) -> String {
    match format {
        Some(Format::Name) => objects.iter().map(|object| format!("{}\n", object.told())).collect(),
        Some(Format::Json) => {
            let objects: Vec<Value> = objects.iter().map(|object| object.json.clone()).collect();
            listed(&objects, format)
        }
        _ => objects.iter().map(Object::yaml).collect::<Vec<_>>().join("---\n"),
    }
}

fn listed(objects: &[Value], as_format: Option<Format>) -> String {
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    if as_format == Some(Format::Json) { format::json(&list) } else { format::yaml(&list) }
}
