//! Which objects there are at each moment.
//!
//! Pods are replaced one after another, in *rounds* of three events: the old one is deleted, the new one created, the
//! new one ready. Which Pod a round replaces follows from the round's number alone, so that nothing has to be
//! remembered, and a list of a million Pods at any revision costs no more than at the first.

use jiff::SignedDuration;
use rotate_agent::clock::Clock;

use crate::realistic::{Place, Realistic, Stage};
use crate::wire::{Encoding, added, deleted, modified};

/// The first revision.
const FIRST: u64 = 2_000_000_000;
/// Events of a round.
pub(super) const EVENTS: u64 = 3;

/// The kinds that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pods,
    Nodes,
    Pdbs,
}

/// The objects of a cluster in which Pods are replaced.
#[derive(Debug)]
pub struct Objects {
    cluster: Realistic,
    started: jiff::Timestamp,
    /// Rounds a second.
    rate: u64,
    /// A Pod's first round is its number times this, modulo the number of Pods.
    turn: usize,
    /// The Pod of a round is its number times this, modulo the number of Pods.
    stride: usize,
}

impl Kind {
    pub(super) fn at(path: &str) -> Option<Self> {
        match path {
            "/api/v1/pods" => Some(Self::Pods),
            "/api/v1/nodes" => Some(Self::Nodes),
            "/apis/policy/v1/poddisruptionbudgets" => Some(Self::Pdbs),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pods => "Pod",
            Self::Nodes => "Node",
            Self::Pdbs => "PodDisruptionBudget",
        }
    }

    pub(super) fn api_version(self) -> &'static str {
        match self {
            Self::Pods | Self::Nodes => "v1",
            Self::Pdbs => "policy/v1",
        }
    }
}

impl Objects {
    /// A cluster in which so many Pods are replaced each second, from now on.
    #[must_use]
    pub fn new(cluster: Realistic, replaced: u64, clock: Clock) -> Self {
        let pods = cluster.pods();
        let stride = (pods / 2 + 7..).find(|stride| common_divisor(*stride, pods) == 1).expect("primes never end");
        let turn = inverse(stride, pods);
        Self { cluster, started: clock.now(), rate: replaced, turn, stride }
    }

    /// How many rounds are over.
    pub(super) fn round(&self, clock: Clock) -> u64 {
        self.events(clock) / EVENTS
    }

    /// How many events have happened.
    pub(super) fn events(&self, clock: Clock) -> u64 {
        let since: SignedDuration = clock.now().duration_since(self.started);
        let millis = u64::try_from(since.as_millis()).unwrap_or_default();
        millis * self.rate * EVENTS / 1_000
    }

    /// The revision after so many rounds.
    pub(super) fn revision(round: u64) -> String {
        Self::event_revision(round * EVENTS)
    }

    /// The revision after so many events.
    pub(super) fn event_revision(events: u64) -> String {
        (FIRST + events).to_string()
    }

    /// How many events had happened at this revision.
    pub(super) fn events_at(revision: &str) -> u64 {
        revision.parse::<u64>().unwrap_or_default().saturating_sub(FIRST)
    }

    pub(super) fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Pods => self.cluster.pods(),
            Kind::Nodes => self.cluster.nodes(),
            Kind::Pdbs => self.cluster.budgets(),
        }
    }

    /// Appends an object as it is after so many rounds.
    pub(super) fn put(&self, kind: Kind, number: usize, round: u64, encoding: Encoding, out: &mut Vec<u8>) {
        match kind {
            Kind::Pods => {
                let generation = self.generation(number, round);
                let place = Place { pod: number, generation };
                self.cluster.put(place, self.cluster.settled(number), number as u64, encoding, out);
            }
            Kind::Nodes => out.extend_from_slice(&self.cluster.node(number, encoding)),
            Kind::Pdbs => out.extend_from_slice(&self.cluster.pdb(number, encoding)),
        }
    }

    /// Appends the event with this number; the first is number 0.
    pub(super) fn put_event(&self, event: u64, encoding: Encoding, out: &mut Vec<u8>) {
        let (round, step) = (event / EVENTS, event % EVENTS);
        let pods = self.cluster.pods() as u64;
        let pod = usize::try_from(round % pods).expect("fewer than there are Pods") * self.stride % self.cluster.pods();
        let before = self.generation(pod, round);
        let mut object = Vec::new();
        // What is deleted has the revision of its deletion.
        let revision = FIRST - 1_000_000_000 + event + 1;
        let mut put = |generation, stage| {
            self.cluster.put(Place { pod, generation }, stage, revision, encoding, &mut object);
        };
        match step {
            0 => {
                put(before, self.cluster.settled(pod));
                deleted(encoding, &object, out);
            }
            1 => {
                put(before + 1, Stage::Pending);
                added(encoding, &object, out);
            }
            _ => {
                put(before + 1, Stage::Ready);
                modified(encoding, &object, out);
            }
        }
    }

    /// How often this Pod was replaced in the rounds before this one.
    fn generation(&self, pod: usize, round: u64) -> u32 {
        let pods = self.cluster.pods();
        let first = (pod * self.turn % pods) as u64;
        let times = if round > first { 1 + (round - 1 - first) / pods as u64 } else { 0 };
        u32::try_from(times).expect("no Pod is replaced four billion times")
    }
}

fn common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

/// What takes this number to 1 modulo another that it has no divisor in common with.
fn inverse(number: usize, modulo: usize) -> usize {
    (0..modulo).find(|turn| turn * number % modulo == 1 % modulo).expect("there is one where no divisor is common")
}
