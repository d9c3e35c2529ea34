//! What one feed reads.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::resource::Resource;
use crate::cache::index::{Kind, Partition, ShardRange};
use crate::cache::{Node, Pdb, Pod};

/// What one feed reads: a list and its watch, all of a kind or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What is read.
    pub kind: Kind,
    /// Which part of it: what a complete list of this source does not hold, and this part does, is gone.
    pub partition: Partition,
    /// Whether an agent is ready only once this was read whole. Not for what is read for a while, beside the rest.
    pub essential: bool,
}

// === impl Source ===

impl Source {
    /// Everything of a kind.
    #[must_use]
    pub fn all(kind: Kind) -> Self {
        Self { kind, partition: Partition::All, essential: true }
    }

    /// The Pods of this part.
    #[must_use]
    pub fn pods(partition: Partition) -> Self {
        Self { kind: Kind::Pods, partition, essential: true }
    }

    /// All Pods as this many parts of about the same size; at least one.
    #[must_use]
    pub fn shards(count: u8) -> Vec<Self> {
        if count <= 1 {
            return vec![Self::all(Kind::Pods)];
        }
        let count = u128::from(count);
        let bound = |at: u128| (at << 64) / count;
        let hash = |bound: u128| u64::try_from(bound).expect("only the last bound is 2^64, and nothing begins there");
        let range = |at| ShardRange { first: hash(bound(at)), last: hash(bound(at + 1) - 1) };
        (0..count).map(|at| Self::pods(Partition::Shard(range(at)))).collect()
    }

    /// The same, which readiness does not wait for.
    #[must_use]
    pub fn beside(self) -> Self {
        Self { essential: false, ..self }
    }

    /// Where the API server lists it.
    pub(super) fn path(&self) -> Cow<'static, str> {
        let all = match self.kind {
            Kind::Pods => Pod::PATH,
            Kind::Nodes => Node::PATH,
            Kind::Pdbs => Pdb::PATH,
        };
        match &self.partition {
            Partition::Namespace(namespace) => {
                let (group, plural) = all.rsplit_once('/').expect("a path of the API has segments");
                format!("{group}/namespaces/{}/{plural}", escaped(namespace)).into()
            }
            _ => all.into(),
        }
    }

    /// What goes behind the path's own query: `&key=value`, or nothing.
    pub(super) fn query(&self) -> String {
        match &self.partition {
            Partition::All | Partition::Namespace(_) => String::new(),
            Partition::Node(name) => {
                let field = if self.kind == Kind::Nodes { "metadata.name" } else { "spec.nodeName" };
                format!("&fieldSelector={field}%3D{}", escaped(name))
            }
            Partition::Shard(range) => format!("&shardSelector={}", escaped(&shard_selector(*range))),
        }
    }
}

/// The range as the API server writes it: half open, sixteen digits, but for an upper bound of 2^64.
pub(super) fn shard_selector(range: ShardRange) -> String {
    let end = u128::from(range.last) + 1;
    format!("shardRange(object.metadata.uid, '0x{:016x}', '0x{end:016x}')", range.first)
}

/// A value for a query.
pub(crate) fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("a String takes everything");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_asked_for_by_path_and_selector() {
        let asked = |source: Source| source.path().into_owned() + "?" + &source.query();
        assert_eq!(asked(Source::all(Kind::Pdbs)), "/apis/policy/v1/poddisruptionbudgets?");
        assert_eq!(asked(Source::pods(Partition::Namespace("shop".into()))), "/api/v1/namespaces/shop/pods?");
        assert_eq!(
            asked(Source::pods(Partition::Node("ip-10-0-0-1.internal".into()))),
            "/api/v1/pods?&fieldSelector=spec.nodeName%3Dip-10-0-0-1.internal"
        );
    }

    fn ranges(count: u8) -> Vec<ShardRange> {
        let range = |source: Source| match source.partition {
            Partition::Shard(range) => range,
            other => panic!("{other:?}"),
        };
        Source::shards(count).into_iter().map(range).collect()
    }

    #[test]
    fn shards_cover_every_hash_exactly_once() {
        for count in [2, 3, 4, 64] {
            let ranges = ranges(count);
            assert_eq!(ranges.len(), usize::from(count));
            assert_eq!((ranges[0].first, ranges[ranges.len() - 1].last), (0, u64::MAX));
            assert!(ranges.windows(2).all(|pair| pair[0].last + 1 == pair[1].first), "{ranges:?}");
        }
        assert_eq!(Source::shards(1), [Source::all(Kind::Pods)]);
    }

    #[test]
    fn shards_are_written_as_the_api_server_does() {
        assert_eq!(
            ranges(2).into_iter().map(shard_selector).collect::<Vec<_>>(),
            [
                "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')",
                "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')",
            ]
        );
    }
}
