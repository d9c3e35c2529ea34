//! What identifies an object, as far as it can be read.
//!
//! Reads with a pen in hand: what was found before the object breaks off or turns out to be something else is kept, so that
//! an error can name the object that it is about.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};

use super::meta::path;
use super::text::Text;

/// What identifies an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `kind`, where the object carries it (items of typed lists do not, nor does protobuf outside of its envelope).
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
        path(self.namespace.as_deref().unwrap_or_default(), &self.name)
    }
}

/// What a glance at an object shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Glance {
    pub(super) identity: Identity,
    /// `spec.nodeName`.
    pub(super) node: Option<Box<str>>,
    /// `metadata.annotations["k8s.io/initial-events-end"]` is `true`.
    pub(super) initial_end: bool,
}

/// The annotation of the bookmark that ends the initial state of a streaming list.
pub(super) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Reads as far as it goes; whether it went to the end.
pub(super) fn of_json(json: &str) -> (Glance, Result<(), serde_json::Error>) {
    let mut glance = Glance::default();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let read = Object { glance: &mut glance, at: At::Top }.deserialize(&mut deserializer);
    let read = read.and_then(|()| deserializer.end());
    (glance, read)
}

#[derive(Clone, Copy)]
enum At {
    Top,
    Metadata,
    Annotations,
    Spec,
}

/// A JSON object somewhere in an object.
struct Object<'g> {
    glance: &'g mut Glance,
    at: At,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Object<'_> {
    /// Something that is no JSON object. Only the object itself must be one: a part that cannot be read is what this is for.
    fn other<E: Error>(&self, found: Unexpected<'_>) -> Result<(), E> {
        match self.at {
            At::Top => Err(E::invalid_type(found, &"an object")),
            _ => Ok(()),
        }
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.other(Unexpected::Unit)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.other(Unexpected::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.other(Unexpected::Signed(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.other(Unexpected::Unsigned(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.other(Unexpected::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.other(Unexpected::Str(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.other(Unexpected::Seq)?;
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { glance, at } = self;
        while let Some(key) = map.next_key::<Text<'de>>()? {
            let within = match (at, &*key) {
                (At::Top, "metadata") => At::Metadata,
                (At::Top, "spec") => At::Spec,
                (At::Metadata, "annotations") => At::Annotations,
                _ => {
                    let text = match (at, &*key) {
                        (At::Top, "kind") => &mut glance.identity.kind,
                        (At::Metadata, "namespace") => &mut glance.identity.namespace,
                        (At::Metadata, "resourceVersion") => &mut glance.identity.revision,
                        (At::Spec, "nodeName") => &mut glance.node,
                        (At::Metadata, "name") => {
                            glance.identity.name = map.next_value_seed(IfText)?.boxed();
                            continue;
                        }
                        (At::Metadata, "uid") => {
                            glance.identity.uid = map.next_value_seed(IfText)?.boxed();
                            continue;
                        }
                        (At::Annotations, INITIAL_EVENTS_END) => {
                            glance.initial_end = &*map.next_value_seed(IfText)? == "true";
                            continue;
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    *text = map.next_value_seed(IfText)?.present().map(Box::from);
                    continue;
                }
            };
            map.next_value_seed(Object { glance: &mut *glance, at: within })?;
        }
        Ok(())
    }
}

/// A text; empty where it is something else, so that what is behind it is read: the node of a Pod whose UID is a number.
struct IfText;

impl<'de> DeserializeSeed<'de> for IfText {
    type Value = Text<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Text<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for IfText {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(text.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(text.to_owned().into()))
    }

    fn visit_unit<E>(self) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Text<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Text::default())
    }
}
