//! Amounts in the scheduler's units, with the arithmetic that placing Pods needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use rotate_shared::{Amounts, Quantity};

use crate::surge::requests::Exact;

/// Amounts of resources: milli-CPU, bytes, and whole units of everything else. Sums saturate.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources {
    /// Thousandths of a CPU.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// Extended resources and huge pages, by name. Never holds a zero.
    pub other: BTreeMap<Arc<str>, i64>,
}

/// A resource that does not suffice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The resource's name.
    pub resource: Arc<str>,
    /// How much is needed, in the scheduler's units.
    pub need: i64,
    /// How much there is.
    pub free: i64,
}

impl Resources {
    /// As canonical quantities; zeros are left out.
    #[must_use]
    pub fn to_amounts(&self) -> Amounts {
        let mut amounts = Amounts::new();
        let mut put = |name: &str, quantity: Quantity| {
            if quantity != Quantity::ZERO {
                amounts.insert(name.to_owned(), quantity);
            }
        };
        put("cpu", Quantity::from_milli(self.milli_cpu));
        put("memory", Quantity::from_bytes(self.memory));
        put("ephemeral-storage", Quantity::from_bytes(self.ephemeral_storage));
        for (name, amount) in &self.other {
            let bytes = name.starts_with("hugepages-");
            put(name, if bytes { Quantity::from_bytes(*amount) } else { Quantity::from_units(*amount) });
        }
        amounts
    }

    /// Adds, resource by resource.
    pub fn add(&mut self, more: &Self) {
        self.combine(more, i64::saturating_add);
    }

    /// Takes away, resource by resource.
    pub fn subtract(&mut self, less: &Self) {
        self.combine(less, i64::saturating_sub);
    }

    /// Keeps the larger, resource by resource.
    pub fn maximum(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }

    /// Keeps the smaller, resource by resource: what one of them lacks, both do.
    pub fn minimum(&mut self, other: &Self) {
        self.milli_cpu = self.milli_cpu.min(other.milli_cpu);
        self.memory = self.memory.min(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.min(other.ephemeral_storage);
        self.other.retain(|name, amount| {
            *amount = other.other.get(name).map_or(0, |there| (*there).min(*amount));
            *amount > 0
        });
    }

    fn combine(&mut self, with: &Self, operation: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = operation(self.milli_cpu, with.milli_cpu);
        self.memory = operation(self.memory, with.memory);
        self.ephemeral_storage = operation(self.ephemeral_storage, with.ephemeral_storage);
        for (name, amount) in &with.other {
            let entry = self.other.entry(Arc::clone(name)).or_insert(0);
            *entry = operation(*entry, *amount);
        }
        self.other.retain(|_, amount| *amount != 0);
    }

    /// Whether this fits into `free`. A resource that is not requested is not compared, so that an overcommitted node
    /// still takes a Pod that does not need what is short.
    ///
    /// # Errors
    ///
    /// The first resource that does not suffice.
    pub fn fits_in(&self, free: &Self) -> Result<(), Shortfall> {
        let fixed = [
            ("cpu", self.milli_cpu, free.milli_cpu),
            ("memory", self.memory, free.memory),
            ("ephemeral-storage", self.ephemeral_storage, free.ephemeral_storage),
        ];
        let other = self.other.iter().map(|(name, need)| (&**name, *need, free.other.get(name).copied().unwrap_or(0)));
        match fixed.into_iter().chain(other).find(|(_, need, free)| *need > 0 && need > free) {
            Some((resource, need, free)) => Err(Shortfall { resource: resource.into(), need, free }),
            None => Ok(()),
        }
    }

    /// Whether nothing is requested.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// As the scheduler reads amounts: CPU in thousandths, the rest in whole units, rounded up. `pods` is not an amount that a
/// Pod requests and is left out.
impl<'a> FromIterator<(&'a str, Quantity)> for Resources {
    fn from_iter<I: IntoIterator<Item = (&'a str, Quantity)>>(amounts: I) -> Self {
        let mut resources = Self::default();
        for (name, quantity) in amounts {
            match name {
                "cpu" => resources.milli_cpu = quantity.milli().unwrap_or(i64::MAX),
                "memory" => resources.memory = quantity.value(),
                "ephemeral-storage" => resources.ephemeral_storage = quantity.value(),
                "pods" => {}
                _ if quantity == Quantity::ZERO => {}
                _ => {
                    resources.other.insert(name.into(), quantity.value());
                }
            }
        }
        resources
    }
}

impl From<&Amounts> for Resources {
    fn from(amounts: &Amounts) -> Self {
        amounts.iter().map(|(name, amount)| (name.as_str(), *amount)).collect()
    }
}

impl From<&Exact<'_>> for Resources {
    fn from(amounts: &Exact<'_>) -> Self {
        amounts.iter().collect()
    }
}
