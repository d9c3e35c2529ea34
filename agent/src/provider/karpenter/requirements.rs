//! What a NodePool demands of its nodes' labels.

use serde::Deserialize;

/// Labels under their older names, as Karpenter reads them.
const ALIASES: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
];

/// `key operator values`, as a NodePool writes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// The label.
    pub key: Box<str>,
    /// How it compares.
    pub operator: Operator,
    /// What it compares with.
    #[serde(default)]
    pub values: Vec<Box<str>>,
    /// Among how many values Karpenter must be able to choose.
    pub min_values: Option<u32>,
}

/// How a requirement compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label may have any value.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// A whole number above the value.
    Gt,
    /// A whole number below the value.
    Lt,
    /// A whole number of at least the value.
    Gte,
    /// A whole number of at most the value.
    Lte,
}

impl Requirement {
    /// The same of the label that Karpenter goes by, where it has an older name.
    pub(super) fn normalized(self) -> Self {
        let found = ALIASES.iter().find(|(old, _)| *old == &*self.key);
        Self { key: found.map_or_else(|| self.key.clone(), |(_, new)| (*new).into()), ..self }
    }

    /// Whether its values are the ones that are allowed.
    pub(super) fn lists(&self) -> bool {
        self.operator == Operator::In
    }

    /// Whether a node whose label has this value, or that has no such label, is one that the pool may bring.
    #[must_use]
    pub fn admits(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|listed| &**listed == value);
        let compare = |holds: fn(&i64, &i64) -> bool| {
            let number = value.and_then(|value| value.parse().ok());
            let bound = self.values.first().and_then(|bound| bound.parse().ok());
            matches!((number, bound), (Some(number), Some(bound)) if holds(&number, &bound))
        };
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compare(i64::gt),
            Operator::Lt => compare(i64::lt),
            Operator::Gte => compare(i64::ge),
            Operator::Lte => compare(i64::le),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
        serde_json::from_value(json!({ "key": key, "operator": operator, "values": values })).unwrap()
    }

    #[test]
    fn each_operator_compares_as_karpenter_does() {
        for (operator, values, admitted, refused) in [
            ("In", &["a", "b"][..], &[Some("b")][..], &[Some("c"), None][..]),
            ("NotIn", &["a"], &[Some("b"), None], &[Some("a")]),
            ("Exists", &[], &[Some("")], &[None]),
            ("DoesNotExist", &[], &[None], &[Some("a")]),
            ("Gt", &["4"], &[Some("5")], &[Some("4"), Some("x"), None]),
            ("Gte", &["4"], &[Some("4")], &[Some("3"), None]),
            ("Lt", &["4"], &[Some("3")], &[Some("4"), None]),
            ("Lte", &["4"], &[Some("4")], &[Some("5"), None]),
        ] {
            let requirement = requirement("k", operator, values);
            assert!(admitted.iter().all(|value| requirement.admits(*value)), "{requirement:?}");
            assert!(!refused.iter().any(|value| requirement.admits(*value)), "{requirement:?}");
        }
    }

    #[test]
    fn a_label_is_known_by_its_older_name_too() {
        let zone = requirement("failure-domain.beta.kubernetes.io/zone", "In", &["a"]).normalized();
        assert_eq!(&*zone.key, "topology.kubernetes.io/zone");
        assert_eq!(&*requirement("team", "Exists", &[]).normalized().key, "team");
    }
}
