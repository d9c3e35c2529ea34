//! Which nodes the volumes of Pods allow: read on demand for a candidate's Pods, never watched.

use std::collections::BTreeMap;

use super::decode::{ClaimObject, VolumeObject};
use super::selector::NodeTerm;

/// A claim: namespace and name.
pub type ClaimKey = (Box<str>, Box<str>);

/// What is known of the claims that a candidate's Pods mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    /// Claims by namespace and name. A claim that is not in here is unknown.
    pub claims: BTreeMap<ClaimKey, Claim>,
    /// Limits by node; read where a Pod mounts claims. A node that is not in here has none that is known.
    pub limits: BTreeMap<Box<str>, AttachLimits>,
}

/// A claim and what its volume demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Not bound: the volume will be made where the Pod lands.
    Unbound,
    /// Bound to a volume whose node affinity has these terms (`None`: any node).
    Bound {
        /// Name of the PersistentVolume.
        volume: Box<str>,
        /// `spec.nodeAffinity.required`.
        terms: Option<Vec<NodeTerm>>,
        /// `spec.local` or `spec.hostPath`: the data lives on one machine.
        local: bool,
        /// `spec.csi.driver`: whose limit of attached volumes it counts against.
        driver: Option<Box<str>>,
    },
}

/// How many volumes of each CSI driver a node takes: `spec.drivers[].allocatable.count` of its CSINode.
pub type AttachLimits = BTreeMap<Box<str>, i64>;

impl Volumes {
    /// Puts claims and volumes together. A claim bound to a volume that is not among them is left out: it is unknown.
    #[must_use]
    pub fn from_objects(claims: Vec<ClaimObject>, volumes: Vec<VolumeObject>) -> Self {
        let volumes: BTreeMap<_, _> = volumes.into_iter().map(|volume| (volume.name.clone(), volume)).collect();
        let claim = |object: ClaimObject| {
            let claim = match object.volume {
                None => Claim::Unbound,
                Some(name) => volumes.get(&name)?.clone().into(),
            };
            Some(((object.namespace, object.name), claim))
        };
        Self { claims: claims.into_iter().filter_map(claim).collect(), limits: BTreeMap::new() }
    }
}

impl Volumes {
    /// Whether a node takes these claims of a Pod beside so many others, each counted as a volume of each driver: too
    /// many is the safe side.
    ///
    /// # Errors
    ///
    /// The driver and its limit.
    pub fn attach(&self, limits: &AttachLimits, wanted: &[ClaimKey], others: usize) -> Result<(), (Box<str>, i64)> {
        let of_driver = |driver: &str| {
            wanted.iter().any(|key| match self.claims.get(key) {
                Some(Claim::Bound { driver: Some(of), .. }) => **of == *driver,
                Some(Claim::Bound { driver: None, .. }) => false,
                // Not made yet: it may become anyone's.
                Some(Claim::Unbound) | None => true,
            })
        };
        let volumes = i64::try_from(others + wanted.len()).unwrap_or(i64::MAX);
        let exceeded = limits.iter().find(|(driver, limit)| volumes > **limit && of_driver(driver));
        exceeded.map_or(Ok(()), |(driver, limit)| Err((driver.clone(), *limit)))
    }
}

impl From<VolumeObject> for Claim {
    fn from(VolumeObject { name, terms, local, driver }: VolumeObject) -> Self {
        Self::Bound { volume: name, terms, local, driver }
    }
}
