//! A [`State`] from saved objects: what `plan --from FILE` reads.
//!
//! Takes what `kubectl get` writes, as JSON or YAML: a list, single objects, several documents in one file. Objects are
//! decoded one by one, by the same decoders as the watch; what is held is the text and the trimmed state, never a tree of
//! the whole file.

mod json;
mod yaml;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};

use super::decode::{self, ClaimObject, DecodeError, VolumeObject};
use super::{State, Volumes};
use crate::provider::{ProviderObjects, Saved};

/// The command that saves what a plan needs.
pub const COMMAND: &str = "kubectl get nodes,pods,pdb,pvc,pv -A -o yaml";

/// Saved objects.
#[derive(Debug)]
pub struct Snapshot {
    /// Nodes, Pods and disruption budgets.
    pub state: State,
    /// Claims and what their volumes demand.
    pub volumes: Volumes,
    /// What providers keep.
    pub objects: ProviderObjects,
    /// How many objects of each kind there were, kinds that are not read included.
    pub kinds: Kinds,
}

/// How many objects of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds(pub BTreeMap<Box<str>, usize>);

/// Why saved objects cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Nothing in it.
    #[error("read saved objects: there is nothing in it; save them with `{COMMAND}`")]
    Empty,
    /// It ends in the middle.
    #[error("read saved objects: they end in the middle, in line {line}; save them again")]
    Truncated {
        /// Where it ends.
        line: u64,
    },
    /// Neither JSON nor YAML.
    #[error("read saved objects: line {line}: {message}")]
    Syntax {
        /// Where.
        line: u64,
        /// What is wrong.
        message: String,
    },
    /// Text that is no object, such as a table.
    #[error("read saved objects: line {line} is no Kubernetes object; save them with `{COMMAND}`")]
    NotObjects {
        /// Where.
        line: u64,
    },
    /// None of the kinds that a plan needs, or no node among them.
    #[error("read saved objects: no nodes among them, only {found}; save them with `{COMMAND}`")]
    NoNodes {
        /// What is there.
        found: Kinds,
    },
    /// A list without objects.
    #[error("read saved objects: the list is empty; save them with `{COMMAND}`")]
    NoObjects,
    /// An object that cannot be read.
    #[error("read saved objects: {0}")]
    Object(#[from] DecodeError),
    /// More than [`Snapshot::LIMIT`].
    #[error("read saved objects: they are larger than {} MiB; save fewer kinds, or namespaces", Snapshot::LIMIT >> 20)]
    TooLarge,
    /// Not text.
    #[error("read saved objects: line {line} is not UTF-8")]
    NotText {
        /// Where.
        line: u64,
    },
    /// Cannot be read at all.
    #[error("read saved objects: {0}")]
    Io(#[from] io::Error),
}

impl Snapshot {
    /// The most that is read. Pods of two containers, as `kubectl` writes them: 17,000 as JSON, 40,000 as YAML. Memory is
    /// the text and some 15 MB (measured at 24,000 Pods); 240 MB of JSON take 0.8 s, 150 MB of YAML 11 s on two busy cores.
    pub const LIMIT: u64 = 256 << 20;

    /// Reads saved objects from a file or a pipe.
    ///
    /// # Errors
    ///
    /// As for [`Snapshot::read`]; also what cannot be read at all or is larger than [`Snapshot::LIMIT`], which is refused
    /// before anything of it is parsed.
    pub fn read_from(reader: impl Read) -> Result<Self, SnapshotError> {
        let bytes = at_most(reader, Self::LIMIT)?;
        match str::from_utf8(&bytes) {
            Ok(text) => Self::read(text),
            Err(error) => Err(SnapshotError::NotText { line: line_of(&bytes, error.valid_up_to()) }),
        }
    }

    /// Reads saved objects.
    ///
    /// # Errors
    ///
    /// Empty or cut off, neither JSON nor YAML, an object that cannot be read, or no nodes.
    pub fn read(text: &str) -> Result<Self, SnapshotError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut collector = Collector::default();
        if text.trim_start().starts_with(['{', '[']) {
            json::read(text, &mut collector)?;
        } else {
            yaml::read(text, &mut collector)?;
        }
        collector.finish()
    }
}

/// What has been read so far.
#[derive(Debug, Default)]
struct Collector {
    state: State,
    claims: Vec<ClaimObject>,
    volumes: Vec<VolumeObject>,
    provider: Saved,
    kinds: Kinds,
    /// Something was there, be it an empty list.
    any: bool,
}

impl Collector {
    /// Takes in an object. `list` is the kind of the list it is in: items of typed lists do not name their own.
    fn take(&mut self, json: &str, list: Option<&str>) -> Result<(), SnapshotError> {
        let named = decode::identity(json)?.kind;
        let of_list = list.and_then(|list| list.strip_suffix("List")).filter(|kind| !kind.is_empty());
        let kind = named.as_deref().or(of_list).unwrap_or("object of no kind");
        self.any = true;
        *self.kinds.0.entry(kind.into()).or_insert(0) += 1;
        match kind {
            "Node" => self.state.apply_node(decode::node(json)?),
            "Pod" => self.state.apply_pod(&decode::pod(json)?),
            "PodDisruptionBudget" => self.state.apply_pdb(decode::pdb(json)?),
            "PersistentVolumeClaim" => self.claims.push(decode::claim(json)?),
            "PersistentVolume" => self.volumes.push(decode::volume(json)?),
            other => self.provider.take(other, json),
        }
        Ok(())
    }

    fn finish(self) -> Result<Snapshot, SnapshotError> {
        if !self.any {
            return Err(SnapshotError::Empty);
        }
        if self.kinds.0.is_empty() {
            return Err(SnapshotError::NoObjects);
        }
        if self.state.nodes().next().is_none() {
            return Err(SnapshotError::NoNodes { found: self.kinds });
        }
        let objects = self.provider.finish(&self.state);
        let volumes = Volumes::from_objects(self.claims, self.volumes);
        Ok(Snapshot { state: self.state, volumes, objects, kinds: self.kinds })
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (kind, count)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            write!(f, "{separator}{count} {kind}")?;
        }
        Ok(())
    }
}

/// Everything that a reader holds, unless it is more than this.
fn at_most(reader: impl Read, limit: u64) -> Result<Vec<u8>, SnapshotError> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(SnapshotError::TooLarge) } else { Ok(bytes) }
}

/// The line, from 1, that this byte is in.
fn line_of(bytes: &[u8], at: usize) -> u64 {
    1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count() as u64
}
