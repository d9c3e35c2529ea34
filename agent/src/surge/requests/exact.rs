//! Exact amounts by resource, before anything is rounded.

use std::borrow::Cow;

use rotate_shared::Quantity;

/// Amounts by resource name. What nearly every container requests has a place of its own, so that reading it allocates
/// nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exact<'a> {
    cpu: Option<Quantity>,
    memory: Option<Quantity>,
    ephemeral_storage: Option<Quantity>,
    /// Sorted by name, each name once.
    other: Vec<(Cow<'a, str>, Quantity)>,
}

impl<'a> Exact<'a> {
    /// The amount of a resource.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Quantity> {
        match name {
            "cpu" => self.cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.ephemeral_storage,
            _ => self.at(name).ok().map(|at| self.other[at].1),
        }
    }

    /// Sets the amount of a resource, whatever it was.
    pub fn set(&mut self, name: Cow<'a, str>, amount: Quantity) {
        match &*name {
            "cpu" => self.cpu = Some(amount),
            "memory" => self.memory = Some(amount),
            "ephemeral-storage" => self.ephemeral_storage = Some(amount),
            _ => match self.at(&name) {
                Ok(at) => self.other[at].1 = amount,
                Err(at) => self.other.insert(at, (name, amount)),
            },
        }
    }

    /// All amounts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        let usual =
            [("cpu", self.cpu), ("memory", self.memory), ("ephemeral-storage", self.ephemeral_storage)].into_iter();
        let usual = usual.filter_map(|(name, amount)| Some((name, amount?)));
        usual.chain(self.other.iter().map(|(name, amount)| (&**name, *amount)))
    }

    /// Adds, resource by resource.
    pub fn add(&mut self, more: &Self) {
        self.combine(more, |sum, amount| sum + amount);
    }

    /// Keeps the larger, resource by resource.
    pub fn keep_larger(&mut self, other: &Self) {
        self.combine(other, Quantity::max);
    }

    fn at(&self, name: &str) -> Result<usize, usize> {
        self.other.binary_search_by(|(found, _)| (**found).cmp(name))
    }

    fn combine(&mut self, with: &Self, operation: impl Fn(Quantity, Quantity) -> Quantity) {
        let combine = |mine: &mut Option<Quantity>, theirs: Option<Quantity>| {
            *mine = match (*mine, theirs) {
                (Some(mine), Some(theirs)) => Some(operation(mine, theirs)),
                (mine, theirs) => mine.or(theirs),
            };
        };
        combine(&mut self.cpu, with.cpu);
        combine(&mut self.memory, with.memory);
        combine(&mut self.ephemeral_storage, with.ephemeral_storage);
        for (name, amount) in &with.other {
            match self.at(name) {
                Ok(at) => self.other[at].1 = operation(self.other[at].1, *amount),
                Err(at) => self.other.insert(at, (name.clone(), *amount)),
            }
        }
    }
}

impl<'a> FromIterator<(&'a str, Quantity)> for Exact<'a> {
    fn from_iter<I: IntoIterator<Item = (&'a str, Quantity)>>(amounts: I) -> Self {
        let mut exact = Self::default();
        amounts.into_iter().for_each(|(name, amount)| exact.set(Cow::Borrowed(name), amount));
        exact
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(pairs: &[(&'static str, &str)]) -> Exact<'static> {
        pairs.iter().map(|(name, amount)| (*name, amount.parse().unwrap())).collect()
    }

    #[test]
    fn the_usual_and_the_unusual_resources_are_kept_alike() {
        let mut exact = amounts(&[("z", "1"), ("memory", "2"), ("a", "3"), ("cpu", "4"), ("a", "5")]);
        exact.add(&amounts(&[("b", "1"), ("a", "1"), ("cpu", "500m"), ("ephemeral-storage", "1Gi")]));
        exact.keep_larger(&amounts(&[("z", "9"), ("memory", "1")]));
        let found: Vec<_> = exact.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(found, ["cpu=4500m", "memory=2", "ephemeral-storage=1Gi", "a=6", "b=1", "z=9"]);
        assert!(exact.iter().all(|(name, amount)| exact.get(name) == Some(amount)));
        assert_eq!((exact.get("c"), Exact::default().get("cpu")), (None, None));
    }
}
