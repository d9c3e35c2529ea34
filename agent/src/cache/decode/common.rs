//! What objects of all kinds share on the wire.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use rotate_shared::{Amounts, Quantity};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::DecodeError;
use crate::cache::nodes::KEPT_ANNOTATIONS;
use crate::cache::selector::{Expression, NodeTerm, Operator, Selector};
use crate::cache::{Owner, pod};

/// What identifies an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `kind`, where the object carries it (items of typed lists do not).
    pub kind: Option<Box<str>>,
    /// `metadata.namespace`; `None` for objects without one.
    pub namespace: Option<Box<str>>,
    /// `metadata.name`; empty where missing.
    pub name: Box<str>,
    /// `metadata.uid`; empty where missing.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub revision: Option<Box<str>>,
}

impl Identity {
    /// `namespace/name`, or the name alone.
    #[must_use]
    pub fn path(&self) -> String {
        let name = if self.name.is_empty() { "of unknown name" } else { &*self.name };
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        }
    }
}

/// A text that is borrowed where it holds no escape. Inside an `Option` or a `Vec`, serde borrows a `Cow` only through
/// such a wrapper.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl<'a> Text<'a> {
    pub(super) fn text(&self) -> Cow<'a, str> {
        self.0.clone()
    }

    pub(super) fn shared(&self) -> Arc<str> {
        Arc::from(&*self.0)
    }

    pub(super) fn boxed(self) -> Box<str> {
        self.0.into_owned().into_boxed_str()
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct IdentityWire<'a> {
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    metadata: IdentityMeta<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct IdentityMeta<'a> {
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
}

impl IdentityWire<'_> {
    pub(super) fn into_identity(self) -> Identity {
        let present = |text: Text<'_>| (!text.0.is_empty()).then(|| text.boxed());
        Identity {
            kind: self.kind.and_then(present),
            namespace: self.metadata.namespace.and_then(present),
            name: self.metadata.name.unwrap_or_default().boxed(),
            uid: self.metadata.uid.unwrap_or_default().boxed(),
            revision: self.metadata.resource_version.and_then(present),
        }
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct BoundWire<'a> {
    #[serde(borrow)]
    spec: BoundSpec<'a>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BoundSpec<'a> {
    #[serde(borrow)]
    node_name: Option<Text<'a>>,
}

impl BoundWire<'_> {
    pub(super) fn into_node(self) -> Option<Box<str>> {
        self.spec.node_name.filter(|node| !node.0.is_empty()).map(Text::boxed)
    }
}

/// Labels as they are read.
pub(super) type LabelMap = BTreeMap<Box<str>, Box<str>>;

/// `metadata`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta<'a> {
    #[serde(borrow)]
    pub(super) namespace: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) uid: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) resource_version: Option<Text<'a>>,
    pub(super) generation: Option<i64>,
    pub(super) creation_timestamp: Option<Timestamp>,
    pub(super) deletion_timestamp: Option<Timestamp>,
    #[serde(deserialize_with = "nullable")]
    pub(super) labels: LabelMap,
    #[serde(deserialize_with = "kept_annotations")]
    pub(super) annotations: BTreeMap<Box<str>, Box<str>>,
    #[serde(borrow, deserialize_with = "nullable")]
    pub(super) owner_references: Vec<OwnerWire<'a>>,
}

impl<'a> Meta<'a> {
    /// `namespace/name` as far as known.
    pub(super) fn path(&self) -> String {
        let name = self.name.as_ref().map_or("of unknown name", |name| &*name.0);
        match &self.namespace {
            Some(namespace) => format!("{}/{name}", namespace.0),
            None => name.to_owned(),
        }
    }

    /// Which state of the object this is.
    pub(super) fn revision(&self) -> Option<Box<str>> {
        self.resource_version.as_ref().map(|revision| (*revision.0).into())
    }

    /// A field that every stored object of this kind has.
    pub(super) fn required(
        &self,
        kind: &'static str,
        field: &'static str,
        value: Option<&Text<'_>>,
    ) -> Result<Arc<str>, DecodeError> {
        match value {
            Some(text) if !text.0.is_empty() => Ok(text.shared()),
            _ => Err(DecodeError::Missing { kind, object: self.path(), field }),
        }
    }

    /// A field that every stored object of this kind has, borrowed.
    pub(super) fn needed(
        &self,
        kind: &'static str,
        field: &'static str,
        value: Option<&Text<'a>>,
    ) -> Result<Cow<'a, str>, DecodeError> {
        match value {
            Some(text) if !text.0.is_empty() => Ok(text.text()),
            _ => Err(DecodeError::Missing { kind, object: self.path(), field }),
        }
    }

    /// The owner reference with `controller: true`, borrowed.
    pub(super) fn controlling(&self) -> Option<Owner<Cow<'a, str>>> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true)).map(|owner| Owner {
            api_version: owner.api_version.text(),
            kind: owner.kind.text(),
            name: owner.name.text(),
            uid: owner.uid.text(),
        })
    }

    /// The owner reference with `controller: true`.
    pub(super) fn controller(&self) -> Option<Owner> {
        self.owner_references.iter().find(|owner| owner.controller == Some(true)).map(|owner| Owner {
            api_version: owner.api_version.shared(),
            kind: owner.kind.shared(),
            name: owner.name.shared(),
            uid: owner.uid.shared(),
        })
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OwnerWire<'a> {
    #[serde(borrow)]
    api_version: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
    controller: Option<bool>,
}

/// `status.conditions` of every kind.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow)]
    pub(super) reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) message: Option<Text<'a>>,
}

impl Condition<'_> {
    pub(super) fn is(&self, kind: &str, status: &str) -> bool {
        self.kind.0 == kind && self.status.0 == status
    }
}

/// `labelSelector` and the like.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SelectorWire {
    #[serde(deserialize_with = "nullable")]
    match_labels: LabelMap,
    #[serde(deserialize_with = "nullable")]
    match_expressions: Vec<Expression>,
}

impl SelectorWire {
    pub(super) fn into_selector(self) -> Selector {
        let mut expressions = equalities(self.match_labels);
        expressions.extend(self.match_expressions);
        sort_expressions(&mut expressions);
        Selector { expressions }
    }
}

/// A map of labels as `In` expressions, sorted by key.
pub(super) fn equalities(labels: LabelMap) -> Vec<Expression> {
    labels.into_iter().map(|(key, value)| Expression { key, operator: Operator::In, values: vec![value] }).collect()
}

/// Sorts, so that what means the same is the same value.
pub(super) fn sort_expressions(expressions: &mut Vec<Expression>) {
    for expression in expressions.iter_mut() {
        expression.values.sort_unstable();
        expression.values.dedup();
    }
    expressions.sort_unstable();
    expressions.dedup();
}

/// `nodeSelectorTerms`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeSelectorWire {
    #[serde(deserialize_with = "nullable")]
    node_selector_terms: Vec<NodeTermWire>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeTermWire {
    #[serde(deserialize_with = "nullable")]
    match_expressions: Vec<Expression>,
    #[serde(deserialize_with = "nullable")]
    match_fields: Vec<Expression>,
}

impl NodeSelectorWire {
    pub(super) fn into_terms(self) -> Vec<NodeTerm> {
        let term = |mut term: NodeTermWire| {
            sort_expressions(&mut term.match_expressions);
            sort_expressions(&mut term.match_fields);
            NodeTerm { expressions: term.match_expressions, fields: term.match_fields }
        };
        self.node_selector_terms.into_iter().map(term).collect()
    }
}

/// Reads `null` as the default.
pub(in crate::cache) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Amounts: none of them may be negative, since a negative request would make room that is not there.
#[derive(Debug, Default)]
pub(super) struct AmountsWire(pub(super) Amounts);

impl<'de> Deserialize<'de> for AmountsWire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let amounts: Amounts = nullable(deserializer)?;
        match amounts.iter().find(|(_, quantity)| **quantity < Quantity::ZERO) {
            Some((name, quantity)) => Err(D::Error::custom(format_args!("{name} is negative: {quantity}"))),
            None => Ok(Self(amounts)),
        }
    }
}

/// A number or a text, kept as it is written.
#[derive(Debug)]
pub(super) struct IntOrString(pub(super) Box<str>);

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;
        impl Visitor<'_> for NumberOrText {
            type Value = IntOrString;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a percentage")
            }

            fn visit_u64<E>(self, number: u64) -> Result<IntOrString, E> {
                Ok(IntOrString(number.to_string().into()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<IntOrString, E> {
                Ok(IntOrString(number.to_string().into()))
            }

            fn visit_str<E>(self, text: &str) -> Result<IntOrString, E> {
                Ok(IntOrString(text.into()))
            }
        }
        deserializer.deserialize_any(NumberOrText)
    }
}

/// Annotations, of which only those are allocated that somebody reads: some are as long as the object itself.
fn kept_annotations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Box<str>, Box<str>>, D::Error> {
    struct Kept<'a>(PhantomData<&'a ()>);
    impl<'de> Visitor<'de> for Kept<'de> {
        type Value = BTreeMap<Box<str>, Box<str>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("annotations")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(BTreeMap::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut kept = BTreeMap::new();
            while let Some(key) = map.next_key::<Text<'de>>()? {
                if KEPT_ANNOTATIONS.contains(&&*key.0) || pod::KEPT_ANNOTATIONS.contains(&&*key.0) {
                    kept.insert(key.boxed(), map.next_value::<Text<'de>>()?.boxed());
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(kept)
        }
    }
    deserializer.deserialize_any(Kept(PhantomData))
}
