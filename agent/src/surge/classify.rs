//! Which Pods on the candidate are evicted, and for which of them room is reserved.
//!
//! ```text
//! ours, not selected, DaemonSet, mirror, finished ──▶ left alone
//! shutting down ──▶ waited for
//! everything else ──▶ evicted, unless one of the reasons below blocks it:
//!   bare, pinned, other scheduler, data on the node's disk, marked as not to be disrupted
//! ```

use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use rotate_shared::plan::{Disposition, Notice, PodReason};
use rotate_shared::{Code, Options};

use super::{do_not_disrupt, pin};
use crate::cache::selector::{Selector, Taint, TaintEffect};
use crate::cache::{Node, Owner, Pod, PodPhase, Shape, State, Volumes};

/// The taint that the control plane puts on a cordoned node.
const CORDON_TAINT: &str = "node.kubernetes.io/unschedulable";

/// What a Pod is judged against.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// The candidate.
    pub node: &'a Node,
    /// The claims of the candidate's Pods.
    pub volumes: &'a Volumes,
    /// What the rotation was asked to do.
    pub options: &'a Options,
    /// Now.
    pub now: Timestamp,
    selected: Selected,
}

/// Which Pods the options are about.
#[derive(Clone, Debug)]
enum Selected {
    Every,
    By(Selector),
    /// Checked when the rotation was asked for. What only a newer version can read selects nothing here.
    Unreadable,
}

impl<'a> Context<'a> {
    /// What Pods of this node are judged against.
    #[must_use]
    pub fn new(node: &'a Node, volumes: &'a Volumes, options: &'a Options, now: Timestamp) -> Self {
        let selected = match options.pod_selector.as_deref().map(Selector::parse) {
            None => Selected::Every,
            Some(Ok(selector)) => Selected::By(selector),
            Some(Err(_)) => Selected::Unreadable,
        };
        Self { node, volumes, options, now, selected }
    }

    /// Whether the rotation is about this Pod. As with `kubectl drain`, what is not selected is not looked at, whatever
    /// would stand in the way of moving it.
    fn is_about(&self, pod: &Pod) -> bool {
        match &self.selected {
            Selected::Every => true,
            Selected::By(selector) => selector.matches(&pod.labels),
            Selected::Unreadable => false,
        }
    }
}

/// What becomes of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What happens to it.
    pub disposition: Disposition,
    /// Whether room is reserved for its replacement. Of a Pod that stands in the way: whether it would be, once that
    /// is lifted.
    pub reserved: bool,
    /// Why. With several reasons, the first that blocks.
    pub reason: PodReason,
    /// Stands in the way (set exactly when the disposition is `Block`). Several may apply at once: a bare Pod with
    /// local storage is named for both.
    pub blockers: Vec<Notice>,
    /// Deserves a look.
    pub warnings: Vec<Notice>,
}

/// Judges a Pod bound to the candidate.
#[must_use]
pub fn classify(pod: &Pod, context: &Context<'_>) -> Verdict {
    let settled = |disposition, reason| Verdict {
        disposition,
        reserved: false,
        reason,
        blockers: Vec::new(),
        warnings: Vec::new(),
    };
    if pod.is_placeholder() {
        return settled(Disposition::Gone, PodReason::Placeholder);
    }
    if !context.is_about(pod) {
        return settled(Disposition::Stay, PodReason::NotSelected);
    }
    if pod.shape.mirror {
        return settled(Disposition::Stay, PodReason::Mirror);
    }
    if is_daemon(pod) {
        if context.options.ignore_daemonsets {
            return settled(Disposition::Stay, PodReason::Daemonset);
        }
        let blocker = notice(
            pod,
            Code::DaemonSetPod,
            "is managed by a DaemonSet, which would create it anew on this node".to_owned(),
            "--ignore-daemonsets leaves it where it is",
        );
        return Verdict { blockers: vec![blocker], ..settled(Disposition::Block, PodReason::Daemonset) };
    }
    if pod.phase.is_finished() {
        return settled(Disposition::Gone, PodReason::Completed);
    }
    let pin = pinned_by(pod, context);
    if pod.deleted.is_some() {
        if is_given_up(pod, context.options, context.now) {
            return settled(Disposition::Gone, PodReason::Terminating);
        }
        let reserved = has_recreating_owner(pod) && pin.is_none();
        return Verdict { reserved, ..settled(Disposition::Wait, PodReason::Terminating) };
    }
    judge(pod, context, pin)
}

/// Whether a Pod should have been gone for so long that it is not waited for.
pub(crate) fn is_given_up(pod: &Pod, options: &Options, now: Timestamp) -> bool {
    let patience = i64::try_from(options.skip_wait_for_delete_timeout_seconds).unwrap_or(i64::MAX);
    let overdue = |deleted: Timestamp| now.duration_since(deleted).as_secs() > patience;
    patience > 0 && pod.deleted.is_some_and(overdue)
}

/// A reason why a Pod is not simply moved.
struct Objection {
    reason: PodReason,
    lifted: bool,
    notice: Notice,
}

fn judge(pod: &Pod, context: &Context<'_>, pin: Option<String>) -> Verdict {
    let options = context.options;
    let bare = !has_recreating_owner(pod);
    let reserved = !bare && pin.is_none();
    let mut objections = Vec::new();
    let mut object = |reason, lifted, notice| objections.push(Objection { reason, lifted, notice });
    if bare {
        let message = "has no controller: nothing creates it anew".to_owned();
        let remedy = "--force evicts it for good; or give it a controller";
        object(PodReason::Bare, options.force, notice(pod, Code::BarePod, message, remedy));
    }
    if let Some(message) = pin {
        let remedy = "--evict-pinned evicts it; its replacement stays Pending until it may run elsewhere";
        object(PodReason::Pinned, options.evict_pinned, notice(pod, Code::PinnedPod, message, remedy));
    }
    if let Some(message) = unsupported_scheduling(pod) {
        let remedy =
            "--force evicts it; room for it is reserved as for any other Pod, which its scheduler may not heed";
        let notice = notice(pod, Code::SchedulerUnsupported, message, remedy);
        object(PodReason::SchedulerUnsupported, options.force, notice);
    }
    if pod.shape.local_storage {
        let message = "has an emptyDir on the node's disk, which is lost with its eviction".to_owned();
        let remedy = "--delete-emptydir-data evicts it and loses that data";
        object(PodReason::LocalStorage, options.delete_emptydir_data, notice(pod, Code::LocalStorage, message, remedy));
    }
    for message in not_to_be_disrupted(pod, context.now) {
        let remedy = "--ignore-do-not-disrupt evicts it nevertheless; or remove the annotation";
        object(
            PodReason::DoNotDisrupt,
            options.ignore_do_not_disrupt,
            notice(pod, Code::DoNotDisrupt, message, remedy),
        );
    }

    let mut warnings = Vec::new();
    let returns = tolerates_cordon(pod);
    if returns {
        let message = "tolerates the cordon: its replacement may come back to this node".to_owned();
        warnings.push(notice(pod, Code::ToleratesCordon, message, "remove its toleration of unschedulable nodes"));
    }
    if pod.owner.as_ref().is_some_and(|owner| &*owner.kind == "Job" && owner.api_version.starts_with("batch/")) {
        let message = "belongs to a Job: its eviction may count against the Job's backoffLimit".to_owned();
        warnings.push(notice(pod, Code::JobPod, message, "a podFailurePolicy that ignores DisruptionTarget"));
    }

    let reason = objections
        .iter()
        .find(|objection| !objection.lifted)
        .or(objections.first())
        .map_or(if returns { PodReason::ToleratesCordon } else { PodReason::Replicated }, |objection| objection.reason);
    let blockers: Vec<_> =
        objections.into_iter().filter(|objection| !objection.lifted).map(|objection| objection.notice).collect();
    let disposition = if blockers.is_empty() { Disposition::Evict } else { Disposition::Block };
    Verdict { disposition, reserved, reason, blockers, warnings }
}

/// A Pod, kept or just decoded, as far as its node's sums depend on it. `S` and `T` are texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a, S, T> {
    pub(crate) phase: PodPhase,
    pub(crate) owner: Option<&'a Owner<S>>,
    pub(crate) shape: &'a Shape<T>,
    pub(crate) placeholder: bool,
    /// It is shutting down.
    pub(crate) leaving: bool,
}

/// Whether a Pod stands in the way of a rotation with default options, its volumes not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// It does not.
    #[default]
    No,
    /// By nothing but its mark as not to be disrupted, which ends at some time.
    Dated,
    /// It does.
    Yes,
}

impl<S: Deref<Target = str>, T: Deref<Target = str>> Subject<'_, S, T> {
    /// As [`counts`].
    pub(crate) fn counts(&self, node: Option<&Node>) -> bool {
        self.is_real()
            && self.owner.is_some_and(recreates)
            && !node.is_some_and(|node| pin::is_pinned(self.shape, node))
    }

    /// As [`is_real`].
    pub(crate) fn is_real(&self) -> bool {
        !self.phase.is_finished()
            && !self.shape.mirror
            && !self.owner.is_some_and(Owner::is_daemon_set)
            && !self.placeholder
    }

    /// What [`classify`] comes to without options and volumes, said in as many words as can be kept of each Pod.
    pub(crate) fn blocked(&self, node: Option<&Node>) -> Blocked {
        if self.leaving || !self.is_real() {
            return Blocked::No;
        }
        let shape = self.shape;
        let mark = shape.do_not_disrupt.as_deref().map_or(Blocked::No, do_not_disrupt::blocked);
        let whatever_the_time = shape.scheduler.is_some()
            || shape.pod_group
            || shape.gated
            || shape.local_storage
            || shape.not_safe_to_evict
            || !self.owner.is_some_and(recreates)
            || node.is_some_and(|node| pin::is_pinned(shape, node));
        if whatever_the_time { Blocked::Yes } else { mark }
    }
}

/// Whether a Pod counts towards its node's movable sum, judged without options and volumes: everything that a
/// controller would create anew elsewhere. `node` is the node it is bound to, if known. Allocates nothing.
#[must_use]
pub fn counts(pod: &Pod, node: Option<&Node>) -> bool {
    subject(pod).counts(node)
}

/// Whether a Pod is a real one for the absorb guard: neither DaemonSet-owned, mirror, finished nor placeholder.
/// Allocates nothing.
#[must_use]
pub fn is_real(pod: &Pod) -> bool {
    subject(pod).is_real()
}

fn subject(pod: &Pod) -> Subject<'_, Arc<str>, Box<str>> {
    let (placeholder, leaving) = (pod.is_placeholder(), pod.deleted.is_some());
    Subject { phase: pod.phase, owner: pod.owner.as_ref(), shape: &pod.shape, placeholder, leaving }
}

/// Verdicts on all Pods of the candidate, by namespace and name.
#[must_use]
pub fn classify_node(state: &State, context: &Context<'_>) -> Vec<(Pod, Verdict)> {
    classify_all(state.pods_on(&context.node.name), context)
}

/// Verdicts on these Pods of the candidate, in their order.
#[must_use]
pub fn classify_all(pods: Vec<Pod>, context: &Context<'_>) -> Vec<(Pod, Verdict)> {
    pods.into_iter()
        .map(|pod| {
            let verdict = classify(&pod, context);
            (pod, verdict)
        })
        .collect()
}

/// Whether the Pod tolerates the taint of a cordoned node.
pub(crate) fn tolerates_cordon(pod: &Pod) -> bool {
    let cordon = cordon_taint();
    pod.shape.tolerations.iter().any(|toleration| toleration.tolerates(&cordon))
}

/// The taint of a cordoned node.
pub(crate) fn cordon_taint() -> Taint {
    Taint { key: CORDON_TAINT.into(), value: "".into(), effect: TaintEffect::NoSchedule }
}

fn is_daemon(pod: &Pod) -> bool {
    pod.owner.as_ref().is_some_and(Owner::is_daemon_set)
}

/// Whether something would create the Pod anew. A Node as owner is how the kubelet marks static Pods; without the
/// mirror annotation it is only a claim.
fn has_recreating_owner(pod: &Pod) -> bool {
    pod.owner.as_ref().is_some_and(recreates)
}

fn recreates<S: Deref<Target = str>>(owner: &Owner<S>) -> bool {
    !(&*owner.kind == "Node" && &*owner.api_version == "v1")
}

/// Why a Pod can be on the candidate only.
fn pinned_by(pod: &Pod, context: &Context<'_>) -> Option<String> {
    if pin::is_pinned(&pod.shape, context.node) {
        return Some("can run only on this node: its node selector or required affinity names it".to_owned());
    }
    let (claim, volume) = pin::pinning_claim(pod, context.node, context.volumes)?;
    Some(format!("can run only on this node: PersistentVolume {volume} of its claim {claim} is here"))
}

/// Why the default scheduler does not place a Pod by itself.
fn unsupported_scheduling(pod: &Pod) -> Option<String> {
    if let Some(scheduler) = &pod.shape.scheduler {
        return Some(format!("is placed by the scheduler {scheduler}"));
    }
    if pod.shape.pod_group {
        return Some("belongs to a Pod group, which is placed as a whole".to_owned());
    }
    pod.shape.gated.then(|| "has scheduling gates".to_owned())
}

/// What marks a Pod as not to be disrupted.
fn not_to_be_disrupted(pod: &Pod, now: Timestamp) -> Vec<String> {
    let mut marks = Vec::new();
    if let Some(mark) = pod.shape.do_not_disrupt.as_deref().and_then(|value| do_not_disrupt::holds(value, now)) {
        marks.push(mark);
    }
    if pod.shape.not_safe_to_evict {
        marks.push(format!("has the annotation {}: \"false\"", rotate_shared::names::SAFE_TO_EVICT));
    }
    marks
}

fn notice(pod: &Pod, code: Code, message: String, remedy: &str) -> Notice {
    Notice { code, object: format!("Pod {}", pod.path()), message, remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests;
