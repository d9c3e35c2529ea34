//! What is meant by the command line: names checked and deduplicated, formats and options resolved, contradictions
//! refused. Nothing behind this module looks at flags again.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use rotate_agent::cache::selector::Selector;
use rotate_shared::OptionsRequest;
use rotate_shared::options::{SurgeMode, Then};

use crate::cli;
use crate::failure::Failure;
use crate::output::{Format, format};

/// The name of a node, known to be one that an API server could have accepted: nothing in it can end up as a path, a
/// query or a shell's business.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeName(String);

impl NodeName {
    /// Reads `NAME` or `node/NAME`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let name = ["node/", "nodes/", "no/"].iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
        let label = |label: &str| {
            let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            edge(label.chars().next())
                && edge(label.chars().last())
                && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        };
        if name.len() <= 253 && name.split('.').all(label) {
            Ok(Self(name.to_owned()))
        } else {
            Err(Failure::Usage(format!(
                "{name:?} is not the name of a node: lower case letters, digits, '-' and '.', at most 253"
            )))
        }
    }

    /// As text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// These, each once, in the order given.
    Names(Vec<NodeName>),
    /// Those with these labels.
    Selector(String),
}

impl Target {
    fn resolve(verb: &str, names: &[String], selector: Option<String>) -> Result<Self, Failure> {
        match (names, selector) {
            ([], None) => Err(Failure::Usage(format!("a node NAME or -l SELECTOR is needed, as in: {verb} NAME"))),
            ([], Some(selector)) if selector.trim().is_empty() => {
                Err(Failure::Usage("the selector is empty: it would mean every node".to_owned()))
            }
            ([], Some(selector)) => Ok(Self::Selector(selector)),
            ([_, ..], Some(_)) => {
                Err(Failure::Usage("NAME and -l together are not clear: give one of them".to_owned()))
            }
            (names, None) => {
                let mut unique = Vec::new();
                for name in names {
                    let name = NodeName::parse(name)?;
                    if !unique.contains(&name) {
                        unique.push(name);
                    }
                }
                Ok(Self::Names(unique))
            }
        }
    }

    /// Names for a request; empty with a selector.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::Names(names) => names.iter().map(|name| name.0.clone()).collect(),
            Self::Selector(_) => Vec::new(),
        }
    }

    /// The selector for a request.
    pub(crate) fn selector(&self) -> Option<String> {
        match self {
            Self::Names(_) => None,
            Self::Selector(selector) => Some(selector.clone()),
        }
    }

    /// Whether it can only mean one node: then one object is printed and no list.
    pub(crate) fn is_single(&self) -> bool {
        matches!(self, Self::Names(names) if names.len() == 1)
    }
}

impl fmt::Display for Target {
    /// As it would be typed again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names(names) => {
                for (index, name) in names.iter().enumerate() {
                    write!(f, "{}{name}", if index > 0 { " " } else { "" })?;
                }
                Ok(())
            }
            Self::Selector(selector) => write!(f, "-l '{}'", selector.replace('\'', r"'\''")),
        }
    }
}

/// Which rotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RotationRef {
    /// The one with this id.
    Id(String),
    /// Those of a batch.
    Batch(String),
    /// The live one of a node, else its last.
    Node(NodeName),
}

impl RotationRef {
    /// Whether several may be meant.
    pub(crate) fn is_batch(&self) -> bool {
        matches!(self, Self::Batch(_))
    }

    /// Reads `ID`, `rotation/ID`, `batch/ID` or `node/NAME`.
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        // Ids go into paths: only what we make ourselves is let through.
        let id = |id: &str| {
            let fine = (1..=64).contains(&id.len()) && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            let wrong = || Failure::Usage(format!("{text:?} is not an ID, batch/ID or node/NAME"));
            if fine { Ok(id.to_owned()) } else { Err(wrong()) }
        };
        match text.split_once('/') {
            None => id(text).map(Self::Id),
            Some(("rotation" | "rotations", rest)) => id(rest).map(Self::Id),
            Some(("batch" | "batches", rest)) => id(rest).map(Self::Batch),
            Some(("node" | "nodes" | "no", name)) => NodeName::parse(name).map(Self::Node),
            Some(_) => Err(Failure::Usage(format!("{text:?} is not an ID, batch/ID or node/NAME"))),
        }
    }
}

impl fmt::Display for RotationRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "rotation/{id}"),
            Self::Batch(id) => write!(f, "batch/{id}"),
            Self::Node(name) => write!(f, "node/{name}"),
        }
    }
}

/// Where a plan's facts come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The agent, or without one the API server.
    Cluster,
    /// Saved objects.
    File(PathBuf),
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Printing {
    /// The format.
    pub(crate) format: Format,
    /// Whether tables have a header.
    pub(crate) headers: bool,
}

/// How nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DryRun {
    /// By looking only.
    Client,
    /// By asking the API server for evictions that it does not carry out.
    Server,
}

/// A plan, as meant.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Of which nodes.
    pub(crate) target: Target,
    /// From what.
    pub(crate) source: Source,
    /// Whether the exit code tells what was found.
    pub(crate) exit_code: bool,
    /// Whether the API server is asked if it would evict each Pod.
    pub(crate) ask_evictions: bool,
    /// With which options.
    pub(crate) options: OptionsRequest,
    /// How to print it.
    pub(crate) printing: Printing,
}

/// A rotation, as meant.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Of which nodes.
    pub(crate) target: Target,
    /// With which options.
    pub(crate) options: OptionsRequest,
    /// Only show the plan.
    pub(crate) dry_run: Option<DryRun>,
    /// How long to wait at most; `None` for ever.
    pub(crate) timeout: Option<Duration>,
    /// Whether to wait at all.
    pub(crate) wait: bool,
    /// Whether consent was given on the command line.
    pub(crate) yes: bool,
    /// How to print what came of it.
    pub(crate) printing: Printing,
}

impl cli::ConnectionFlags {
    /// As kubectl takes them: a flag given with nothing is one not given, as scripts have it (`--context "$CONTEXT"`).
    pub(crate) fn meant(mut self) -> Self {
        for text in [
            &mut self.context,
            &mut self.cluster,
            &mut self.user,
            &mut self.server,
            &mut self.tls_server_name,
            &mut self.certificate_authority,
            &mut self.client_certificate,
            &mut self.client_key,
            &mut self.impersonate,
            &mut self.as_uid,
        ] {
            text.take_if(|text| text.is_empty());
        }
        self.token.take_if(|token| token.is_empty());
        self.kubeconfig.take_if(|path| path.as_os_str().is_empty());
        self.as_group.retain(|group| !group.is_empty());
        self
    }
}

impl cli::OutputFlags {
    pub(crate) fn resolve(&self) -> Result<Printing, Failure> {
        let format = match self.output.as_deref() {
            None | Some("") => Format::Table,
            Some(text) => format::among(format::LISTS, text)?,
        };
        Ok(Printing { format, headers: !self.no_headers })
    }
}

impl cli::RotationFlags {
    fn resolve(self) -> Result<OptionsRequest, Failure> {
        if self.grace_period.is_some_and(|seconds| seconds < -1) {
            return Err(Failure::Usage("--grace-period is a number of seconds, or -1 for the Pod's own".to_owned()));
        }
        if let Some(selector) = &self.pod_selector {
            if selector.trim().is_empty() {
                return Err(Failure::Usage(
                    "the Pod selector is empty: it would mean every Pod; leave --pod-selector out for that".to_owned(),
                ));
            }
            Selector::parse(selector)
                .map_err(|error| Failure::Usage(format!("the Pod selector {selector:?} cannot be read: {error}")))?;
            if self.then == Some(cli::Then::Delete) {
                return Err(Failure::Usage(
                    "--pod-selector leaves Pods on the node, which --then=delete would take along: use --then=keep or \
                     --then=uncordon"
                        .to_owned(),
                ));
            }
        }
        Ok(OptionsRequest {
            surge: self.surge.map(|surge| match surge {
                cli::Surge::PerPod => SurgeMode::PerPod,
                cli::Surge::Single => SurgeMode::Single,
                cli::Surge::None => SurgeMode::None,
            }),
            surge_timeout_seconds: self.surge_timeout.map(cli::GoDuration::whole_seconds),
            settle_timeout_seconds: self.settle_timeout.map(cli::GoDuration::whole_seconds),
            force: self.force,
            delete_emptydir_data: self.delete_emptydir_data,
            ignore_daemonsets: self.ignore_daemonsets,
            grace_period_seconds: self.grace_period,
            disable_eviction: self.disable_eviction,
            evict_pinned: self.evict_pinned,
            ignore_do_not_disrupt: self.ignore_do_not_disrupt,
            allow_control_plane: self.allow_control_plane,
            max_concurrent: self.max_concurrent,
            max_failures: self.max_failures,
            reboot_timeout_seconds: self.reboot_timeout.map(cli::GoDuration::whole_seconds),
            then: self.then.map(|then| match then {
                cli::Then::Delete => Then::Delete,
                cli::Then::Keep => Then::Keep,
                cli::Then::Uncordon => Then::Uncordon,
            }),
            pod_selector: self.pod_selector,
            skip_wait_for_delete_timeout_seconds: self.skip_wait_for_delete_timeout,
            reason: self.reason,
        })
    }
}

impl cli::PlanArgs {
    pub(crate) fn resolve(mut self) -> Result<Plan, Failure> {
        // As kubectl: `plan node A B`, or `plan node/A node/B`.
        if matches!(self.target.first().map(String::as_str), Some("node" | "nodes" | "no")) {
            self.target.remove(0);
        } else if let Some(other) = self.target.iter().find(|name| !name.starts_with("node")) {
            return Err(Failure::Usage(format!("plan what? As in: kubectl rotate plan node {other}")));
        }
        Ok(Plan {
            target: Target::resolve("kubectl rotate plan node", &self.target, self.select.selector)?,
            source: self.from.map_or(Source::Cluster, Source::File),
            exit_code: self.exit_code,
            ask_evictions: false,
            options: self.rotation.resolve()?,
            printing: self.output.resolve()?,
        })
    }
}

impl cli::NodeArgs {
    pub(crate) fn resolve(self) -> Result<Node, Failure> {
        Ok(Node {
            target: Target::resolve("kubectl rotate node", &self.names, self.select.selector)?,
            options: self.rotation.resolve()?,
            dry_run: match self.dry_run {
                cli::DryRun::None => None,
                cli::DryRun::Client => Some(DryRun::Client),
                cli::DryRun::Server => Some(DryRun::Server),
            },
            timeout: Some(self.timeout.0).filter(|timeout| !timeout.is_zero()),
            wait: self.wait,
            yes: self.yes,
            printing: self.output.resolve()?,
        })
    }
}

#[cfg(test)]
mod tests;
