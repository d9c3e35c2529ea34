//! What a rotation of a node moves and what room that needs: one home for the plan and for the engine.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rotate_shared::options::SurgeMode;
use rotate_shared::plan::{Disposition, Notice, PodReason};
use rotate_shared::{Code, names};

use super::classify::{self, Context, Verdict};
use super::constraints::{self, Placement, Reach};
use super::do_not_disrupt;
use super::single::{self, Lump};
use crate::cache::index::Unreadable;
use crate::cache::{Node, Pod, Resources, State};
use crate::drain::{blockers, order};

/// The label of nodes that run the control plane.
const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
const OS: &str = "kubernetes.io/os";

/// Everything on a node, judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Every Pod bound to the node, by namespace and name.
    pub pods: Vec<JudgedPod>,
    /// The kinds of room that are reserved, largest first.
    pub classes: Vec<RoomClass>,
    /// What stands in the way: of the node, of its Pods, of their disruption budgets.
    pub blockers: Vec<Notice>,
    /// What deserves a look.
    pub warnings: Vec<Notice>,
}

/// A Pod on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedPod {
    /// It.
    pub pod: Pod,
    /// What happens to it.
    pub disposition: Disposition,
    /// Why.
    pub reason: PodReason,
    /// The class of its room; `None`: no room is reserved for it.
    pub class: Option<String>,
}

impl JudgedPod {
    /// Whether it leaves the node in the course of the rotation: by our eviction, or already under way.
    #[must_use]
    pub fn leaves(&self) -> bool {
        matches!(self.disposition, Disposition::Evict | Disposition::Wait)
    }
}

/// Room of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomClass {
    /// Short name: `a`, `b`, …
    pub id: String,
    /// Effective requests of each Pod; of all together where it is shared.
    pub requests: Resources,
    /// Where it may be.
    pub placement: Placement,
    /// Whether one placeholder holds the room of all its Pods: what it requests is their sum.
    pub shared: bool,
}

/// The short name of the class at this place: `a` to `z`, then `aa`.
#[must_use]
pub fn class_id(place: usize) -> String {
    let letter = char::from(b'a' + u8::try_from(place % 26).expect("a remainder of 26 is below 26"));
    if place < 26 { letter.to_string() } else { format!("{}{letter}", class_id(place / 26 - 1)) }
}

/// What was found of Pods when room was looked for, by UID.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// Those that may go to every domain that would admit them: their own has no room.
    pub(super) elsewhere: BTreeSet<String>,
    /// Those for which no room is reserved, and why.
    pub(super) unreserved: BTreeMap<String, Notice>,
}

/// Judges a node and everything on it.
pub(super) fn moves(state: &State, context: &Context<'_>, found: &Found) -> Moves {
    let mut moves = Moves { blockers: node_blockers(context), ..Moves::default() };
    moves.blockers.extend(state.unreadable_on(&context.node.name).map(unreadable));
    let mut rooms = Vec::new();
    let mut evicted_as_it_is = 0;
    for (pod, verdict) in classify::classify_node(state, context) {
        let Verdict { disposition, reserved, reason, blockers, warnings } = verdict;
        moves.blockers.extend(blockers);
        moves.warnings.extend(warnings);
        let mut judged = JudgedPod { pod, disposition, reason, class: None };
        let mut room = None;
        if reserved && context.options.surge == SurgeMode::None {
            evicted_as_it_is += 1;
        } else if let Some(why) = found.unreserved.get(&*judged.pod.uid).filter(|_| reserved) {
            moves.warnings.push(not_reserved(Notice { object: object(&judged.pod), ..why.clone() }));
        } else if reserved {
            let elsewhere = found.elsewhere.contains(&*judged.pod.uid);
            let reach = if elsewhere { Reach::Admitting } else { Reach::Own };
            match constraints::translate(&judged.pod, context.node, state, context.volumes, reach) {
                Ok(placement) => room = Some((judged.pod.shape.requests.clone(), placement)),
                // A Pod on its way out cannot be held back any more.
                Err(refused) if context.options.force || disposition == Disposition::Wait => {
                    moves.warnings.extend(refused.into_iter().map(not_reserved));
                }
                Err(refused) => {
                    judged.disposition = Disposition::Block;
                    moves.blockers.extend(refused);
                }
            }
        }
        if room.is_some() && cannot_preempt(&judged.pod) {
            moves.warnings.push(Notice {
                code: Code::CannotPreempt,
                object: object(&judged.pod),
                message: "cannot preempt a placeholder: its room is released as soon as its replacement waits for it"
                    .to_owned(),
                remedy: String::new(),
            });
        }
        moves.pods.push(judged);
        rooms.push(room);
    }
    moves.warnings.extend(losses(&moves.pods, evicted_as_it_is, context));
    moves.classes = match context.options.surge {
        SurgeMode::Single => one_class(&mut moves, rooms, state, context),
        _ => name_classes(&mut moves.pods, rooms),
    };
    if !context.options.disable_eviction {
        judge_budgets(state, &mut moves);
    }
    moves
}

/// What the flags that were given cost: one warning of a kind, however many Pods there are.
fn losses(pods: &[JudgedPod], evicted_as_it_is: usize, context: &Context<'_>) -> Vec<Notice> {
    let evicted = || pods.iter().filter(|judged| judged.disposition == Disposition::Evict);
    let of = |reason| evicted().filter(move |judged| judged.reason == reason).collect::<Vec<_>>();
    let (bare, pinned) = (of(PodReason::Bare), of(PodReason::Pinned));
    let storing: Vec<_> = evicted().filter(|judged| judged.pod.shape.local_storage).collect();
    let mut unreserved = Vec::new();
    if evicted_as_it_is > 0 {
        let (pods, them) = many(evicted_as_it_is);
        unreserved.push(format!("--surge=none: {pods} evicted without room held for {them}"));
    }
    if !bare.is_empty() {
        let (pods, them) = many(bare.len());
        unreserved.push(format!("--force: {pods} gone for good, nothing creates {them} anew: {}", named(&bare)));
    }
    if !pinned.is_empty() {
        let (pods, _) = many(pinned.len());
        unreserved.push(format!(
            "--evict-pinned: {pods} evicted without room, to be replaced only where they may run: {}",
            named(&pinned)
        ));
    }
    let notice = |code, message, remedy: &str| Notice {
        code,
        object: format!("Node {}", context.node.name),
        message,
        remedy: remedy.to_owned(),
    };
    let mut losses = Vec::new();
    if !unreserved.is_empty() {
        let remedy = if evicted_as_it_is > 0 { "--surge=per-pod" } else { "" };
        losses.push(notice(Code::NotReserved, unreserved.join("; "), remedy));
    }
    if !storing.is_empty() {
        let lose = if storing.len() == 1 { "Pod loses" } else { "Pods lose" };
        let message = format!(
            "--delete-emptydir-data: {} {lose} what is in emptyDir on the node's disk: {}",
            storing.len(),
            named(&storing)
        );
        losses.push(notice(Code::LocalStorage, message, ""));
    }
    losses
}

/// So many are named in a warning; the plan lists them all.
const NAMED: usize = 5;

fn named(pods: &[&JudgedPod]) -> String {
    let mut names: Vec<_> = pods.iter().take(NAMED).map(|judged| judged.pod.path()).collect();
    if pods.len() > NAMED {
        names.push(format!("and {} more", pods.len() - NAMED));
    }
    names.join(", ")
}

fn many(pods: usize) -> (String, &'static str) {
    if pods == 1 { ("1 Pod is".to_owned(), "it") } else { (format!("{pods} Pods are"), "them") }
}

/// A Pod of which we do not know what it needs must not be evicted as if it needed nothing.
fn unreadable(note: &Unreadable) -> Notice {
    Notice {
        code: Code::UnreadablePod,
        object: format!("Pod {}", note.object.path()),
        message: format!("failed to {}", note.message),
        remedy: String::new(),
    }
}

/// What stands in the way of rotating the node itself. Our own marks on it do not.
fn node_blockers(context: &Context<'_>) -> Vec<Notice> {
    let (node, options) = (context.node, context.options);
    let mut blockers = Vec::new();
    let mut block = |code, message: &str, remedy: &str| {
        let (message, remedy) = (message.to_owned(), remedy.to_owned());
        blockers.push(Notice { code, object: format!("Node {}", node.name), message, remedy });
    };
    if node.deleting {
        block(Code::NodeDeleting, "is being deleted already", "");
    }
    if node.label(CONTROL_PLANE).is_some() && !options.allow_control_plane {
        block(Code::ControlPlaneNode, "runs the control plane", "--allow-control-plane");
    }
    if node.label(OS) == Some("windows") {
        block(Code::WindowsNode, "runs Windows, where placeholders do not", "");
    }
    let key = names::KARPENTER_DO_NOT_DISRUPT;
    let mark = node.annotations.get(key).filter(|_| !is_ours(node, key) && !options.ignore_do_not_disrupt);
    let dated = mark.map(|value| do_not_disrupt::dated((&**value).into(), Some(node.created)));
    if let Some(message) = dated.and_then(|value| do_not_disrupt::holds(&value, context.now)) {
        block(
            Code::DoNotDisrupt,
            &message,
            "--ignore-do-not-disrupt rotates it nevertheless; or remove the annotation",
        );
    }
    blockers
}

/// Whether a rotation of ours set the annotation; the value of the mark is `id:key,key=before`.
fn is_ours(node: &Node, key: &str) -> bool {
    let mark = node.annotations.get(names::PROTECTED_BY);
    mark.and_then(|mark| mark.split_once(':'))
        .is_some_and(|(_, keys)| keys.split(',').any(|ours| ours.split('=').next() == Some(key)))
}

fn object(pod: &Pod) -> String {
    format!("Pod {}", pod.path())
}

fn not_reserved(refused: Notice) -> Notice {
    Notice { code: Code::NotReserved, remedy: String::new(), ..refused }
}

/// Whether the scheduler would leave the Pod's replacement Pending behind our placeholder.
pub(crate) fn cannot_preempt(pod: &Pod) -> bool {
    pod.shape.never_preempts || pod.shape.priority <= names::PLACEHOLDER_PRIORITY || pod.shape.scheduler.is_some()
}

/// Groups what is equal, names the groups from the largest to the smallest, and writes the names into the Pods.
fn name_classes(pods: &mut [JudgedPod], rooms: Vec<Option<(Resources, Placement)>>) -> Vec<RoomClass> {
    let mut members = BTreeMap::<(Resources, Placement), Vec<usize>>::new();
    for (place, room) in rooms.into_iter().enumerate() {
        if let Some(room) = room {
            members.entry(room).or_default().push(place);
        }
    }
    let mut largest = Resources::default();
    for (requests, _) in members.keys() {
        largest.maximum(requests);
    }
    let mut classes: Vec<_> = members.into_iter().collect();
    classes.sort_by_cached_key(|((requests, placement), _)| {
        Reverse((order::size(requests, &largest), constraints::describe(placement).len()))
    });
    let named = |(place, ((requests, placement), members)): (usize, ((Resources, Placement), Vec<usize>))| {
        let id = class_id(place);
        for member in members {
            pods[member].class = Some(id.clone());
        }
        RoomClass { id, requests, placement, shared: false }
    };
    classes.into_iter().enumerate().map(named).collect()
}

/// One class of all that can share a node; the others stand in the way.
fn one_class(
    moves: &mut Moves,
    rooms: Vec<Option<(Resources, Placement)>>,
    state: &State,
    context: &Context<'_>,
) -> Vec<RoomClass> {
    let members: Vec<usize> = (0..rooms.len()).filter(|place| rooms[*place].is_some()).collect();
    let united: Vec<_> = members
        .iter()
        .filter_map(|member| {
            let (requests, placement) = rooms[*member].as_ref()?;
            Some((&moves.pods[*member].pod, requests, placement))
        })
        .collect();
    let Lump { requests, placement, shortfall, apart } = single::unite(&united, context.node, state);
    let apart: BTreeMap<usize, String> = apart.into_iter().map(|(place, why)| (members[place], why)).collect();
    if !shortfall.is_zero() {
        let amounts = shortfall.to_amounts();
        let amounts: Vec<_> = amounts.iter().map(|(name, amount)| format!("{name} {amount}")).collect();
        moves.warnings.push(Notice {
            code: Code::NotReserved,
            object: format!("Node {}", context.node.name),
            message: format!(
                "--surge=single: the sum exceeds what a node like this offers after its DaemonSets; {} is not reserved",
                amounts.join(", ")
            ),
            remedy: "--surge=per-pod".to_owned(),
        });
    }
    let id = class_id(0);
    let mut shares = false;
    for member in members {
        let judged = &mut moves.pods[member];
        let Some(why) = apart.get(&member) else {
            judged.class = Some(id.clone());
            shares = true;
            continue;
        };
        let notice = Notice {
            code: Code::ConstraintUnsupported,
            object: object(&judged.pod),
            message: format!("cannot share a node with the others, as --surge=single has it: it {why}"),
            remedy: "--surge=per-pod; or --force evicts it without room reserved".to_owned(),
        };
        if context.options.force || judged.disposition == Disposition::Wait {
            moves.warnings.push(not_reserved(notice));
        } else {
            judged.disposition = Disposition::Block;
            moves.blockers.push(notice);
        }
    }
    if shares { vec![RoomClass { id, requests, placement, shared: true }] } else { Vec::new() }
}

/// Whether a disruption budget will never let the Pod go.
pub(super) fn is_kept_for_ever(state: &State, pod: &Pod) -> bool {
    let budgets = state.pdbs_selecting(pod);
    let said = blockers::notice(pod, &blockers::allowance(pod, &budgets));
    matches!(said, Some((blockers::Severity::Blocker, _)))
}

/// Adds what disruption budgets say, once for each budget.
fn judge_budgets(state: &State, moves: &mut Moves) {
    for judged in &moves.pods {
        if !matches!(judged.disposition, Disposition::Evict | Disposition::Block) {
            continue;
        }
        let budgets = state.pdbs_selecting(&judged.pod);
        let Some((severity, notice)) = blockers::notice(&judged.pod, &blockers::allowance(&judged.pod, &budgets))
        else {
            continue;
        };
        let list = match severity {
            blockers::Severity::Blocker => &mut moves.blockers,
            blockers::Severity::Warning => &mut moves.warnings,
        };
        if !list.iter().any(|known| known.code == notice.code && known.object == notice.object) {
            list.push(notice);
        }
    }
}

#[cfg(test)]
mod tests;
