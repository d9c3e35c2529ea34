//! What an answer to a placeholder's dry run means.
//!
//! What came back is read by the cache's own decoder and compared as the scheduler sees it: what does not matter to where
//! a Pod may be is nobody's business.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Pod as ApiPod, PodSpec};
use kube::core::Status;
use rotate_shared::plan::Notice;
use rotate_shared::{Amounts, Code, names};

use super::notice;
use crate::cache::selector::{TaintEffect, Toleration};
use crate::cache::shape::HostPort;
use crate::cache::{Pod, Resources, decode};

/// Longer words of others are cut.
const WORDS: usize = 400;
/// Tolerations that the API server gives to every Pod, the workload's too.
const GIVEN: [&str; 3] =
    ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/memory-pressure"];
const INSTALL: &str = "kubectl rotate install --apply";

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// An agent in its cluster: what it needs must be there, and what it may not do it cannot do.
    Installed,
    /// An agent whose namespaces and `PriorityClass` are created, after asking, before anything is begun.
    ToBeInstalled,
    /// A person without an agent: what only the agent may do is not known.
    Person,
}

/// What the API server answers.
#[derive(Debug)]
pub(super) enum Answer {
    /// The placeholder as it would be, as JSON.
    Accepted(String),
    /// No.
    Refused(Box<Status>),
}

/// What there is to say of a placeholder. Equal findings of several classes are said once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Finding {
    /// It would not be created: why, and what helps.
    Refused(String, String),
    /// It would not hold the room that it is made for: what differs, and what helps.
    Changed(String, String),
    /// It is not quite as we made it, which does no harm.
    Harmless(String),
    /// It could not be asked: why, and what helps.
    NotProbed(String, String),
}

// === impl Answer ===

impl Answer {
    /// The controller manager has not made the namespace's service account yet.
    pub(super) fn lacks_service_account(&self) -> bool {
        matches!(self, Self::Refused(status) if status.message.contains("error looking up service account"))
    }
}

// === impl Finding ===

impl Finding {
    /// Whether a quota has refused it.
    pub(super) fn is_of_a_quota(&self) -> bool {
        matches!(self, Self::Refused(words, _) if words.contains("exceeded quota"))
    }

    /// As shown, and whether it stands in the way.
    pub(super) fn notice(&self, classes: &[&str]) -> (bool, Notice) {
        let whose = match classes {
            [one] => format!("placeholders of class {one}"),
            several => format!("placeholders of classes {}", several.join(", ")),
        };
        match self {
            Self::Refused(words, remedy) => {
                (true, notice(Code::PlaceholderRefused, format!("{whose} are refused: {words}"), remedy))
            }
            Self::Changed(words, remedy) => {
                (true, notice(Code::PlaceholderRefused, format!("{whose} are changed on the way in: {words}"), remedy))
            }
            Self::Harmless(words) => {
                (false, notice(Code::PlaceholderChanged, format!("{whose} are changed on the way in: {words}"), ""))
            }
            Self::NotProbed(words, remedy) => (false, notice(Code::NotProbed, format!("{whose}: {words}"), remedy)),
        }
    }
}

/// Judges an answer.
pub(super) fn judge(sent: &ApiPod, requests: &Resources, answer: &Answer, standing: Standing) -> Vec<Finding> {
    match answer {
        Answer::Refused(status) => refused(sent, status, standing).into_iter().collect(),
        Answer::Accepted(text) => {
            let came = serde_json::from_str::<ApiPod>(text).map_err(|error| error.to_string());
            let pod = decode::pod(text).map(|view| view.to_pod()).map_err(|error| error.to_string());
            match came.and_then(|came| Ok((came, pod?))) {
                Ok((came, pod)) => changed(sent, requests, &came, &pod),
                Err(error) => {
                    vec![Finding::NotProbed(format!("the API server's answer cannot be read: {error}"), String::new())]
                }
            }
        }
    }
}

// === Refusals ===

fn refused(sent: &ApiPod, status: &Status, standing: Standing) -> Option<Finding> {
    let name = sent.metadata.name.as_deref().unwrap_or_default();
    let message = &status.message;
    let words = words(message, name);
    let words = if is_foreign(message) {
        format!("PriorityClass {} is not ours: {words}", names::PRIORITY_CLASS)
    } else {
        words
    };
    let missing_namespace = status.code == 404 && message.contains(&format!("namespaces {:?}", names::ROOM_NAMESPACE));
    let missing_class = message.contains("no PriorityClass with name");
    let finding = match standing {
        // Somebody's rotation has a placeholder of this name: it was let in.
        _ if status.reason == "AlreadyExists" => return None,
        _ if message.contains("does not support dry run") => Finding::NotProbed(
            format!("what becomes of them cannot be asked: {words}"),
            format!("exempt namespace {} from that webhook, or let it say sideEffects: None", names::ROOM_NAMESPACE),
        ),
        Standing::ToBeInstalled if missing_namespace || missing_class => Finding::NotProbed(
            format!("{words}; it is created, after asking, before anything is begun, and they are probed then"),
            String::new(),
        ),
        Standing::Person if missing_namespace || missing_class => Finding::NotProbed(
            format!("{words}: what is made of them is known once it is there"),
            format!("{INSTALL}; --embedded asks, and creates it"),
        ),
        Standing::Person if is_for_rights(message) => Finding::NotProbed(
            format!("you may not create any, not even as a dry run: {words}"),
            "an agent probes them; --agent-url".to_owned(),
        ),
        Standing::Installed if missing_namespace || missing_class => Finding::Refused(words, INSTALL.to_owned()),
        _ => Finding::Refused(words, remedy(message)),
    };
    Some(finding)
}

/// What the API server says, without what a person knows already.
fn words(message: &str, name: &str) -> String {
    let prefixes = [format!("pods {name:?} is forbidden: "), format!("Pod {name:?} is invalid: ")];
    let rest = prefixes.iter().find_map(|prefix| message.strip_prefix(prefix.as_str())).unwrap_or(message);
    let rest = if rest.trim().is_empty() { "no reason given" } else { rest };
    cut(rest)
}

fn cut(words: &str) -> String {
    match words.char_indices().nth(WORDS) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words.to_owned(),
    }
}

fn is_for_rights(message: &str) -> bool {
    message.contains("cannot create resource \"pods\"")
}

/// How the API server names our own policy over the placeholders' namespace, which lets in what its version knows.
const OWN_POLICY: &str = "ValidatingAdmissionPolicy 'rotate-room' with binding";

/// What helps against a refusal with these words.
pub(crate) fn remedy(message: &str) -> String {
    let room = names::ROOM_NAMESPACE;
    if is_for_rights(message) {
        format!("{INSTALL} gives the agent this right")
    } else if is_foreign(message) {
        replaced()
    } else if message.contains(COMPUTED) {
        exempt()
    } else if message.contains("violates PodSecurity") {
        format!("kubectl label namespace {room} pod-security.kubernetes.io/enforce=privileged --overwrite")
    } else if message.contains("quota") {
        format!("raise or delete the ResourceQuota in namespace {room}")
    } else if message.contains("per Container")
        || message.contains("per Pod")
        || message.contains("must be less than or equal to")
        || message.contains("LimitRange")
    {
        format!("delete the LimitRange in namespace {room}: it holds nothing but placeholders")
    } else if message.contains(OWN_POLICY) && message.contains("only the agent creates Pods") {
        format!(
            "an agent inside kubectl needs the verb \"use\" on \"agents\" of the group {}",
            names::AUTHORIZATION_GROUP
        )
    } else if message.contains(OWN_POLICY) {
        format!("the agent and what is installed are of different versions; {INSTALL} makes both those of this plugin")
    } else if message.contains("webhook") || message.contains("with binding") {
        format!("exempt namespace {room} from it")
    } else if message.contains("being terminated") {
        format!("wait until it is gone, then: {INSTALL}")
    } else {
        String::new()
    }
}

// === Changes ===

/// What differs between the placeholder that was sent and the one that came back.
fn changed(sent: &ApiPod, requests: &Resources, came: &ApiPod, pod: &Pod) -> Vec<Finding> {
    let mut found = Vec::new();
    let shape = &pod.shape;
    if shape.priority != names::PLACEHOLDER_PRIORITY || !shape.never_preempts {
        found.push(priority(came, pod));
    }
    let differences: Vec<_> = [
        containers(sent, came),
        amounts(requests, &shape.requests, came),
        scheduling(sent, came),
        tolerations(sent, &shape.tolerations),
        ports(sent, &shape.host_ports),
        marks(sent, came),
        ends(came),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !differences.is_empty() {
        let by = match limit_ranger(came) {
            true => "delete the LimitRange in the namespace: it holds nothing but placeholders".to_owned(),
            false => exempt(),
        };
        found.push(Finding::Changed(cut(&differences.join("; ")), by));
    }
    found.extend(harmless(sent, came).map(Finding::Harmless));
    found
}

/// Theirs is not the one that every workload may preempt, and that preempts nobody.
fn priority(came: &ApiPod, pod: &Pod) -> Finding {
    let (ours, shape) = (names::PRIORITY_CLASS, &pod.shape);
    let preempts = if shape.never_preempts { "" } else { " and they may preempt other Pods" };
    let (wanted, is) = (names::PLACEHOLDER_PRIORITY, shape.priority);
    let their = format!("their priority is {is} instead of {wanted}{preempts}");
    match came.spec.as_ref().and_then(|spec| spec.priority_class_name.as_deref()) {
        Some(class) if class == ours => {
            Finding::Changed(format!("{their}: PriorityClass {ours} is not ours"), replaced())
        }
        other => Finding::Changed(
            format!("{their}: they are given PriorityClass {:?} instead of {ours}", other.unwrap_or_default()),
            exempt(),
        ),
    }
}

/// What the API server says where a placeholder's priority, or that it preempts nobody, is not what a `PriorityClass`
/// makes of it.
const COMPUTED: &str = "priority admission controller computed ";

/// Whether the `PriorityClass` of our name has not our values, and not a webhook put others into the placeholder.
fn is_foreign(message: &str) -> bool {
    let ours = [format!("{COMPUTED}{} ", names::PLACEHOLDER_PRIORITY), format!("{COMPUTED}Never ")];
    message.contains(COMPUTED) && !ours.iter().any(|ours| message.contains(ours))
}

fn replaced() -> String {
    format!("kubectl delete priorityclass {}, then: {INSTALL}", names::PRIORITY_CLASS)
}

fn exempt() -> String {
    format!("exempt namespace {} from the admission webhook or policy that does it", names::ROOM_NAMESPACE)
}

fn limit_ranger(came: &ApiPod) -> bool {
    came.metadata.annotations.iter().flatten().any(|(key, _)| key == "kubernetes.io/limit-ranger")
}

fn spec(pod: &ApiPod) -> PodSpec {
    pod.spec.clone().unwrap_or_default()
}

/// Containers that are not ours: they ask for more, and may keep the placeholder from running.
fn containers(sent: &ApiPod, came: &ApiPod) -> Vec<String> {
    let all = |pod: &ApiPod| -> BTreeSet<String> {
        let PodSpec { containers, init_containers, .. } = spec(pod);
        containers.into_iter().chain(init_containers.unwrap_or_default()).map(|container| container.name).collect()
    };
    let (sent, came) = (all(sent), all(came));
    let added: Vec<_> = came.difference(&sent).map(String::as_str).collect();
    let removed: Vec<_> = sent.difference(&came).map(String::as_str).collect();
    let mut differences = Vec::new();
    if !added.is_empty() {
        differences.push(format!("container {} is added", added.join(", ")));
    }
    if !removed.is_empty() {
        differences.push(format!("container {} is removed", removed.join(", ")));
    }
    differences
}

fn amounts(asked: &Resources, came: &Resources, pod: &ApiPod) -> Vec<String> {
    if asked == came {
        return Vec::new();
    }
    let (asked, came) = (asked.to_amounts(), came.to_amounts());
    let mut of = BTreeSet::new();
    of.extend(asked.keys().chain(came.keys()).filter(|name| asked.get(*name) != came.get(*name)).cloned());
    let written =
        |amounts: &Amounts, name: &String| amounts.get(name).map_or_else(|| "none".to_owned(), ToString::to_string);
    let each: Vec<_> =
        of.iter().map(|name| format!("{} {name} instead of {}", written(&came, name), written(&asked, name))).collect();
    let overhead = spec(pod).overhead.is_some_and(|overhead| !overhead.is_empty());
    let why = if overhead { ", overhead of a runtime class included" } else { "" };
    vec![format!("they request {}{why}", each.join(" and "))]
}

/// Where it may be, and who places it.
fn scheduling(sent: &ApiPod, came: &ApiPod) -> Vec<String> {
    let (sent, came) = (spec(sent), spec(came));
    let mut differences = Vec::new();
    if sent.node_selector.clone().unwrap_or_default() != came.node_selector.clone().unwrap_or_default() {
        let pairs = came.node_selector.iter().flatten().map(|(key, value)| format!("{key}={value}"));
        differences.push(format!("their node selector is {:?}", pairs.collect::<Vec<_>>().join(",")));
    }
    let required = |spec: &PodSpec| {
        let affinity = spec.affinity.clone().unwrap_or_default();
        (
            affinity.node_affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution),
            affinity.pod_affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution),
            affinity.pod_anti_affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution),
        )
    };
    if required(&sent) != required(&came) {
        differences.push("their affinity is another".to_owned());
    }
    let spreads = came.topology_spread_constraints.iter().flatten();
    if spreads.clone().any(|spread| spread.when_unsatisfiable == "DoNotSchedule") {
        differences.push("a topology spread is added".to_owned());
    }
    if let Some(other) = came.scheduler_name.filter(|name| name != "default-scheduler") {
        differences.push(format!("scheduler {other} places them"));
    }
    for gate in came.scheduling_gates.iter().flatten() {
        differences.push(format!("scheduling gate {} holds them", gate.name));
    }
    if came.runtime_class_name != sent.runtime_class_name {
        differences.push(format!("their runtime class is {:?}", came.runtime_class_name.unwrap_or_default()));
    }
    if let Some(node) = came.node_name.filter(|name| !name.is_empty()) {
        differences.push(format!("they are bound to node {node}, past the scheduler"));
    }
    if came.resource_claims.is_some_and(|claims| !claims.is_empty()) {
        differences.push("they claim devices".to_owned());
    }
    let on_disk = |volume: &&k8s_openapi::api::core::v1::Volume| {
        volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
    };
    if let Some(volume) = came.volumes.iter().flatten().find(on_disk) {
        differences.push(format!("volume {} with a claim is added", volume.name));
    }
    if came.active_deadline_seconds != sent.active_deadline_seconds {
        let seconds =
            |seconds: Option<i64>| seconds.map_or_else(|| "none".to_owned(), |seconds| format!("{seconds} s"));
        differences.push(format!(
            "their deadline is {} instead of {}",
            seconds(came.active_deadline_seconds),
            seconds(sent.active_deadline_seconds)
        ));
    }
    differences
}

fn tolerations(sent: &ApiPod, came: &[Toleration]) -> Vec<String> {
    let sent = decoded(sent).map(|pod| pod.shape.tolerations.clone()).unwrap_or_default();
    let given = |toleration: &Toleration| {
        GIVEN.contains(&&*toleration.key) && toleration.effect != Some(TaintEffect::PreferNoSchedule)
    };
    let told = |toleration: &Toleration| {
        if toleration.key.is_empty() { "every taint".to_owned() } else { format!("taint {}", toleration.key) }
    };
    let mut differences = Vec::new();
    for added in came.iter().filter(|toleration| !sent.contains(toleration) && !given(toleration)) {
        differences.push(format!("a toleration of {} is added", told(added)));
    }
    for removed in sent.iter().filter(|toleration| !came.contains(toleration)) {
        differences.push(format!("the toleration of {} is removed", told(removed)));
    }
    differences
}

fn ports(sent: &ApiPod, came: &[HostPort]) -> Vec<String> {
    let sent = decoded(sent).map(|pod| pod.shape.host_ports.clone()).unwrap_or_default();
    let set = |ports: &[HostPort]| ports.iter().cloned().collect::<BTreeSet<_>>();
    if set(&sent) == set(came) {
        return Vec::new();
    }
    let told: Vec<_> = came.iter().map(|port| format!("{}/{}", port.port, port.protocol)).collect();
    let told = if told.is_empty() { "none".to_owned() } else { told.join(", ") };
    vec![format!("their host ports are {told}")]
}

/// Labels and annotations that we, the scheduler and the autoscalers go by.
fn marks(sent: &ApiPod, came: &ApiPod) -> Vec<String> {
    let mut differences = Vec::new();
    let lists = [
        ("label", &sent.metadata.labels, &came.metadata.labels),
        ("annotation", &sent.metadata.annotations, &came.metadata.annotations),
    ];
    for (what, sent, came) in lists {
        let came = came.clone().unwrap_or_default();
        for (key, value) in sent.iter().flatten() {
            match came.get(key) {
                Some(found) if found == value => {}
                Some(found) => differences.push(format!("{what} {key} is {found:?} instead of {value:?}")),
                None => differences.push(format!("{what} {key} is removed")),
            }
        }
    }
    differences
}

/// What would end a placeholder before its time, or keep it from ending: we give it neither.
fn ends(came: &ApiPod) -> Vec<String> {
    let finalizers = came.metadata.finalizers.iter().flatten();
    let kept = finalizers.map(|finalizer| format!("finalizer {finalizer} keeps them from ending"));
    let owners = came.metadata.owner_references.iter().flatten();
    let owned = owners.map(|owner| format!("they end with {} {}, which is made their owner", owner.kind, owner.name));
    kept.chain(owned).collect()
}

/// What does no harm and is worth a line: a placeholder that takes its time to give way, or is throttled.
fn harmless(sent: &ApiPod, came: &ApiPod) -> Option<String> {
    let grace = spec(came).termination_grace_period_seconds;
    if grace != spec(sent).termination_grace_period_seconds {
        return Some(format!("they may take {} s to give way", grace.unwrap_or_default()));
    }
    let limits = |pod: &ApiPod| {
        let ours = |container: &Container| container.name == "room";
        let room = spec(pod).containers.into_iter().find(ours);
        room.and_then(|room| room.resources).and_then(|resources| resources.limits).unwrap_or_default()
    };
    let (sent, came) = (limits(sent), limits(came));
    let added: Vec<_> = came.keys().filter(|name| !sent.contains_key(*name)).map(String::as_str).collect();
    (!added.is_empty()).then(|| format!("they get a limit of {}", added.join(" and ")))
}

/// A manifest as the cache would show it.
fn decoded(sent: &ApiPod) -> Option<Pod> {
    let mut sent = sent.clone();
    sent.metadata.uid = Some("sent".to_owned());
    let text = serde_json::to_string(&sent).ok()?;
    decode::pod(&text).ok().map(|view| view.to_pod())
}
