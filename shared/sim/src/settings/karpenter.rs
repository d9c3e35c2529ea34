//! How a simulated Karpenter behaves, and what its cloud rents out.

use std::{collections::BTreeMap, time::Duration};

use crate::quantity;

/// Karpenter: what it brings is up to the NodePools in the cluster.
#[derive(Clone, Debug)]
pub struct Karpenter {
    /// What there is to be rented. Default: 2, 4 and 8 CPU, and 4 CPU with two `nvidia.com/gpu`.
    pub types: Vec<InstanceType>,
    /// In which zones. Default: a, b and c.
    pub zones: Vec<String>,
    /// How long it waits for Pods that come together. Default 500 ms.
    pub batch: Duration,
    /// How soon it looks again at Pods that still wait. Default 10 s.
    pub retry: Duration,
    /// How often it looks for nodes to take away of its own accord. Default 10 s.
    pub poll: Duration,
    /// From the NodeClaim to the registered node, which is not Ready yet. Default 1 s.
    pub launch: Duration,
    /// From registered to Ready; `None` where whoever sets the scene reports it. Default 20 s.
    pub boot: Option<Duration>,
    /// From a drained node to its end. Default 5 s: Karpenter drains for at least as long.
    pub terminate: Duration,
}

/// A kind of machine.
#[derive(Clone, Debug)]
pub struct InstanceType {
    /// Its name.
    pub name: String,
    /// What it costs; the cheapest that will do is taken.
    pub price: f64,
    /// What it has.
    pub capacity: BTreeMap<String, String>,
}

impl Karpenter {
    /// Annotation of a NodePool: nothing is to be had for it, and this is what the cloud says.
    pub const LAUNCH_FAILS: &str = "sim.kubectl-rotate.dev/launch-fails";
}

impl Default for Karpenter {
    fn default() -> Self {
        Self {
            types: vec![
                InstanceType::new("c-2", 2),
                InstanceType::new("c-4", 4),
                InstanceType::new("c-8", 8),
                InstanceType::new("gpu-4", 4).with("nvidia.com/gpu", "2"),
            ],
            zones: ["a", "b", "c"].map(ToOwned::to_owned).into(),
            batch: Duration::from_millis(500),
            retry: Duration::from_secs(10),
            poll: Duration::from_secs(10),
            launch: Duration::from_secs(1),
            boot: Some(Duration::from_secs(20)),
            terminate: Duration::from_secs(5),
        }
    }
}

impl InstanceType {
    /// So many CPU, with 4 GiB of memory each, at a price of one for each.
    #[must_use]
    pub fn new(name: &str, cpu: u32) -> Self {
        let memory = format!("{}Gi", 4 * cpu);
        let capacity = [
            ("cpu", cpu.to_string()),
            ("memory", memory),
            ("ephemeral-storage", "100Gi".into()),
            ("pods", "110".into()),
        ];
        Self {
            name: name.to_owned(),
            price: f64::from(cpu),
            capacity: capacity.map(|(resource, amount)| (resource.to_owned(), amount)).into(),
        }
    }

    /// With so much of another resource, at twice the price.
    #[must_use]
    pub fn with(mut self, resource: &str, amount: &str) -> Self {
        self.capacity.insert(resource.to_owned(), amount.to_owned());
        self.price *= 2.0;
        self
    }

    /// What is left for Pods: 100m CPU and 10 MiB are kept for the machine itself, as Karpenter's kwok provider does it.
    pub(crate) fn allocatable(&self) -> BTreeMap<String, String> {
        let less = |resource: &String, amount: &String| {
            let all = quantity::amount(resource, &amount.as_str().into());
            match &**resource {
                "cpu" => format!("{}m", all - 100),
                "memory" => (all - (10 << 20)).to_string(),
                _ => amount.clone(),
            }
        };
        self.capacity.iter().map(|(resource, amount)| (resource.clone(), less(resource, amount))).collect()
    }
}
