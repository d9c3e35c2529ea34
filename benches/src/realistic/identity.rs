//! What one Pod has of its own.

use super::random::{address, digest, mix, suffix, time, uuid};
use super::workload::{Control, Workload};
use crate::wire::{Fill, Own};

/// When the oldest Pod was created.
const BEGINNING: u64 = 1_780_000_000;
/// How long ago that was: four months.
const AGES: u64 = 120 * 86_400;

/// What one Pod has of its own.
#[derive(Debug)]
pub(super) struct Identity {
    suffix: [u8; 5],
    token: [u8; 5],
    ordinal: String,
    uid: [u8; 36],
    owner_uid: [u8; 36],
    node: [u8; 36],
    pod_ip: [u8; 14],
    host_ip: [u8; 14],
    created: u64,
    times: [[u8; 20]; 3],
    minute: [u8; 8],
    revision: [u8; 10],
    containers: [[u8; 64]; 2],
}

/// Which Pod, and which of those that had its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its number in the cluster.
    pub pod: usize,
    /// How often it was replaced.
    pub generation: u32,
}

impl Identity {
    pub(super) fn new(workload: &Workload, place: Place, nodes: usize, revision: u64) -> Self {
        let number = (place.pod - workload.first) as u64;
        let seed = mix([place.pod as u64, u64::from(place.generation), 1]);
        let draw = |what: u64| mix([seed, what, 2]);
        let node = match workload.control {
            Control::DaemonSet => number,
            _ => draw(1) % nodes as u64,
        };
        let created = BEGINNING + draw(2) % AGES;
        Self {
            // A replacement of a StatefulSet's or a Job's Pod keeps its number, not its random end.
            suffix: suffix(workload.draw(9), number + u64::from(place.generation) * workload.pods as u64),
            token: suffix(seed, 0),
            ordinal: number.to_string(),
            uid: uuid(draw(3), draw(4)),
            owner_uid: uuid(draw(5), draw(6)),
            node: node_name(node),
            pod_ip: address(draw(7)),
            host_ip: node_address(node),
            created,
            times: [time(created), time(created + STARTED), time(created + ENDED)],
            minute: minute(number + u64::from(place.generation) * workload.pods as u64),
            revision: digits(1_000_000_000 + revision),
            containers: [digest(draw(8)), digest(draw(9))],
        }
    }
}

/// How long after its creation its containers started, and ended.
const STARTED: u64 = 4;
const ENDED: u64 = 95;

/// The minutes since 1970 that a `CronJob` names its Jobs after.
fn minute(number: u64) -> [u8; 8] {
    digits(29_384_610 + number * 5)
}

fn digits<const WIDTH: usize>(number: u64) -> [u8; WIDTH] {
    number.to_string().into_bytes().try_into().expect("numbers of the same length")
}

/// The name of a node by number.
#[must_use]
pub fn node_name(number: u64) -> [u8; 36] {
    let pool = ["general-a", "general-b", "memory-r6", "compute-c"][(number % 4) as usize];
    let group = mix([number % 40, 0, 5]) & 0xFFFF_FFFF;
    let mut name = format!("gke-prod-eu-{pool}-{group:08x}-").into_bytes();
    name.extend_from_slice(&suffix(77, number));
    name.try_into().expect("names of nodes have the same length")
}

/// The address of a node by number.
#[must_use]
pub(super) fn node_address(number: u64) -> [u8; 14] {
    address(mix([number, 0, 6]))
}

impl Fill for Identity {
    fn text(&self, own: Own) -> &[u8] {
        match own {
            Own::Suffix => &self.suffix,
            Own::Ordinal => self.ordinal.as_bytes(),
            Own::Uid => &self.uid,
            Own::Node => &self.node,
            Own::PodIp => &self.pod_ip,
            Own::HostIp => &self.host_ip,
            Own::Created => &self.times[0],
            Own::Started => &self.times[1],
            Own::Ended => &self.times[2],
            Own::Revision => &self.revision,
            Own::OwnerUid => &self.owner_uid,
            Own::Minute => &self.minute,
            Own::Token => &self.token,
            Own::FirstContainer => &self.containers[0],
            Own::SecondContainer => &self.containers[1],
        }
    }

    fn seconds(&self, own: Own) -> u64 {
        match own {
            Own::Started => self.created + STARTED,
            Own::Ended => self.created + ENDED,
            _ => self.created,
        }
    }
}
