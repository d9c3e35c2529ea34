//! How what siblings share is written down: small, and equal bytes for equal values.
//!
//! Numbers are of seven bits a byte, the lowest first. A text is its length doubled and then itself; one of [`WORDS`] is its
//! place doubled and one: the keys of labels and taints are most of what Pods are described by.

use std::ops::Deref;

use crate::cache::Resources;

/// Texts that many clusters hold many times, by length. Only ever kept in memory, so that the list may change.
const WORDS: [&str; 62] = [
    "v1",
    "Job",
    "TCP",
    "UDP",
    "app",
    "env",
    "Helm",
    "Node",
    "name",
    "role",
    "team",
    "tier",
    "true",
    "amd64",
    "arm64",
    "chart",
    "false",
    "linux",
    "stable",
    "0.0.0.0",
    "apps/v1",
    "backend",
    "k8s-app",
    "release",
    "version",
    "batch/v1",
    "frontend",
    "heritage",
    "job-name",
    "DaemonSet",
    "component",
    "ReplicaSet",
    "StatefulSet",
    "environment",
    "helm.sh/chart",
    "metadata.name",
    "controller-uid",
    "nvidia.com/gpu",
    "kubernetes.io/os",
    "pod-template-hash",
    "kubernetes.io/arch",
    "app.kubernetes.io/name",
    "kubernetes.io/hostname",
    "pod-template-generation",
    "controller-revision-hash",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/component",
    "topology.kubernetes.io/zone",
    "app.kubernetes.io/managed-by",
    "batch.kubernetes.io/job-name",
    "node.kubernetes.io/not-ready",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/instance-type",
    "node.kubernetes.io/unschedulable",
    "batch.kubernetes.io/controller-uid",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/network-unavailable",
];

/// Where in [`WORDS`] the texts of a length begin.
const STARTS: [u8; LONGEST + 2] = starts();
const LONGEST: usize = WORDS[WORDS.len() - 1].len();
/// Stands for the name of the node that the Pod itself is bound to.
const OWN_NODE: u64 = (WORDS.len() as u64) << 1 | 1;

const fn starts() -> [u8; LONGEST + 2] {
    let mut starts = [0; LONGEST + 2];
    let (mut length, mut at) = (0, 0);
    while length < starts.len() {
        while at < WORDS.len() && WORDS[at].len() < length {
            at += 1;
        }
        starts[length] = at as u8;
        length += 1;
    }
    starts
}

/// Writes values behind each other.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    /// The node that the Pod is bound to.
    node: Option<&'a str>,
    /// The node's name was taken out.
    took_node: bool,
}

/// Reads them back. Texts borrow from what is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    node: &'a str,
}

/// Amounts of resources that are not spread out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amounts<'a> {
    pub(super) milli_cpu: i64,
    pub(super) memory: i64,
    pub(super) ephemeral_storage: i64,
    others: u64,
    rest: Reader<'a>,
}

// === impl Writer ===

impl<'a> Writer<'a> {
    /// Writes into an empty buffer.
    pub(super) fn new(bytes: &'a mut Vec<u8>, node: Option<&'a str>) -> Self {
        bytes.clear();
        Self { bytes, node, took_node: false }
    }

    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 128 {
            self.bytes.push(number as u8 | 128);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    pub(super) fn signed(&mut self, number: i64) {
        // Small negative numbers stay small.
        self.number(((number << 1) ^ (number >> 63)) as u64);
    }

    pub(super) fn text(&mut self, text: &str) {
        match word(text) {
            Some(at) => self.number((at as u64) << 1 | 1),
            None => {
                self.number((text.len() as u64) << 1);
                self.bytes.extend_from_slice(text.as_bytes());
            }
        }
    }

    /// A text that is likely to be the name of the Pod's own node.
    pub(super) fn node_name(&mut self, text: &str) {
        if self.node == Some(text) {
            self.took_node = true;
            self.number(OWN_NODE);
        } else {
            self.text(text);
        }
    }

    pub(super) fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.number(items.len() as u64);
        items.iter().for_each(|item| write(self, item));
    }

    pub(super) fn option<T>(&mut self, item: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.number(u64::from(item.is_some()));
        if let Some(item) = item {
            write(self, item);
        }
    }

    pub(super) fn amounts(&mut self, amounts: &Resources) {
        self.signed(amounts.milli_cpu);
        self.signed(amounts.memory);
        self.signed(amounts.ephemeral_storage);
        self.number(amounts.other.len() as u64);
        for (name, amount) in &amounts.other {
            self.text(name);
            self.signed(*amount);
        }
    }

    /// Overwrites the first byte.
    pub(super) fn mark_first(&mut self, byte: u8) {
        self.bytes[0] = byte;
    }

    /// Whether the same bytes mean another value on another node.
    pub(super) fn took_node(&self) -> bool {
        self.took_node
    }

    pub(super) fn written(&self) -> &[u8] {
        self.bytes
    }
}

fn word(text: &str) -> Option<usize> {
    let end = *STARTS.get(text.len() + 1)?;
    let start = usize::from(STARTS[text.len()]);
    WORDS[start..usize::from(end)].iter().position(|word| *word == text).map(|at| start + at)
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// `node` is the name of the Pod's own node.
    pub(super) fn new(bytes: &'a [u8], node: &'a str) -> Self {
        Self { bytes, node }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (byte, rest) = self.bytes.split_first().expect("as much is read as was written");
            self.bytes = rest;
            number |= u64::from(byte & 127) << shift;
            if *byte < 128 {
                return number;
            }
            shift += 7;
        }
    }

    pub(super) fn signed(&mut self) -> i64 {
        let number = self.number();
        (number >> 1) as i64 ^ -((number & 1) as i64)
    }

    pub(super) fn flag(&mut self) -> bool {
        self.number() != 0
    }

    pub(super) fn text(&mut self) -> &'a str {
        let number = self.number();
        let half = (number >> 1) as usize;
        match number {
            OWN_NODE => self.node,
            _ if number & 1 == 1 => WORDS[half],
            _ => {
                let (text, rest) = self.bytes.split_at(half);
                self.bytes = rest;
                str::from_utf8(text).expect("texts are kept as they came")
            }
        }
    }

    pub(super) fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.number()).map(|_| read(self)).collect()
    }

    pub(super) fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.flag() { Some(read(self)) } else { None }
    }

    pub(super) fn amounts(&mut self) -> Amounts<'a> {
        let [milli_cpu, memory, ephemeral_storage] = [self.signed(), self.signed(), self.signed()];
        let others = self.number();
        let rest = *self;
        for _ in 0..others {
            self.text();
            self.signed();
        }
        Amounts { milli_cpu, memory, ephemeral_storage, others, rest }
    }
}

// === impl Amounts ===

impl<'a> Amounts<'a> {
    /// Extended resources.
    pub(super) fn other(&self) -> impl Iterator<Item = (&'a str, i64)> {
        let mut rest = self.rest;
        (0..self.others).map(move |_| (rest.text(), rest.signed()))
    }

    pub(super) fn to_resources(self) -> Resources {
        Resources {
            milli_cpu: self.milli_cpu,
            memory: self.memory,
            ephemeral_storage: self.ephemeral_storage,
            other: self.other().map(|(name, amount)| (name.into(), amount)).collect(),
        }
    }
}

/// A text of any kind: borrowed, shared, owned.
pub(super) trait Text: Deref<Target = str> {}

impl<S: Deref<Target = str>> Text for S {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, Some("n1"));
        let numbers = [0, 1, 127, 128, 300, u64::MAX];
        let signed = [0, -1, 1, i64::MIN, i64::MAX];
        let long = "x".repeat(300);
        let texts = ["", "app", "ü", "app.kubernetes.io/name", &long, "n1"];
        numbers.iter().for_each(|number| writer.number(*number));
        signed.iter().for_each(|number| writer.signed(*number));
        texts.iter().chain(&WORDS).for_each(|text| writer.text(text));
        assert!(!writer.took_node());
        writer.node_name("n1");
        writer.node_name("n2");
        assert!(writer.took_node());
        let mut reader = Reader::new(&bytes, "another");
        assert!(numbers.iter().all(|number| reader.number() == *number));
        assert!(signed.iter().all(|number| reader.signed() == *number));
        assert!(texts.iter().chain(&WORDS).all(|text| reader.text() == *text));
        assert_eq!((reader.text(), reader.text()), ("another", "n2"));
        assert!(reader.is_at_end());
    }

    #[test]
    fn words_are_found_whatever_their_length() {
        assert!(WORDS.is_sorted_by(|one, next| (one.len(), one) < (next.len(), next)));
        assert!(WORDS.iter().enumerate().all(|(at, text)| word(text) == Some(at)));
        assert!(
            ["", "ap", "apq", &"x".repeat(LONGEST), &"x".repeat(LONGEST + 1)].iter().all(|text| word(text).is_none())
        );
    }
}
