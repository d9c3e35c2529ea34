//! What objects of all kinds share on the wire.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::de::{Deserialize, Deserializer, Visitor};

use super::DecodeError;
use super::text::{Annotations, Items, Pairs, Text, items, nullable};
use crate::cache::Owner;

/// `metadata`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta<'a> {
    #[serde(borrow)]
    pub(super) namespace: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) uid: Text<'a>,
    #[serde(borrow)]
    pub(super) resource_version: Text<'a>,
    #[serde(deserialize_with = "nullable")]
    pub(super) generation: i64,
    pub(super) creation_timestamp: Option<Timestamp>,
    pub(super) deletion_timestamp: Option<Timestamp>,
    #[serde(borrow)]
    pub(super) labels: Pairs<'a>,
    #[serde(borrow)]
    pub(super) annotations: Annotations<'a>,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) owner_references: Controller<'a>,
}

/// The owner reference with `controller: true`.
#[derive(Debug, Default)]
pub(super) struct Controller<'a>(Option<Owner<Cow<'a, str>>>);

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OwnerWire<'a> {
    #[serde(borrow)]
    pub(super) api_version: Text<'a>,
    #[serde(borrow)]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) uid: Text<'a>,
    #[serde(deserialize_with = "nullable")]
    pub(super) controller: bool,
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
    pub(super) reason: Text<'a>,
    #[serde(borrow)]
    pub(super) message: Text<'a>,
}

/// A number or a text, kept as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IntOrString(pub(super) Box<str>);

// === impl Meta ===

impl<'a> Meta<'a> {
    /// `namespace/name` as far as known.
    pub(super) fn path(&self) -> String {
        path(&self.namespace, &self.name)
    }

    /// Which state of the object this is.
    pub(super) fn revision(&self) -> Option<Box<str>> {
        (!self.resource_version.is_empty()).then(|| Box::from(&*self.resource_version))
    }

    /// A field that every stored object of this kind has.
    pub(super) fn required(
        &self,
        kind: &'static str,
        field: &'static str,
        value: &Text<'a>,
    ) -> Result<Cow<'a, str>, DecodeError> {
        if value.is_empty() {
            return Err(DecodeError::Missing { kind, object: self.path(), field });
        }
        Ok(value.0.clone())
    }
}

/// `namespace/name`, or the name alone.
pub(super) fn path(namespace: &str, name: &str) -> String {
    let name = if name.is_empty() { "of unknown name" } else { name };
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

impl<'a> Items for Controller<'a> {
    type Item = OwnerWire<'a>;

    fn take(&mut self, item: OwnerWire<'a>) {
        if item.controller && self.0.is_none() {
            let OwnerWire { api_version, kind, name, uid, .. } = item;
            self.0 = Some(Owner { api_version: api_version.0, kind: kind.0, name: name.0, uid: uid.0 });
        }
    }
}

impl<'a> Controller<'a> {
    pub(super) fn into_owner(self) -> Option<Owner<Cow<'a, str>>> {
        self.0
    }

    /// With texts of its own.
    pub(super) fn to_owner(&self) -> Option<Owner> {
        self.0.as_ref().map(|owner| owner.map(Arc::from))
    }
}

impl Condition<'_> {
    pub(super) fn is(&self, kind: &str, status: &str) -> bool {
        &*self.kind == kind && &*self.status == status
    }
}

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
