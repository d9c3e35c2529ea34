//! Texts, maps of texts and amounts, borrowed from the object they are read from.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use rotate_shared::Quantity;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use smallvec::SmallVec;

use crate::cache::nodes::KEPT_ANNOTATIONS;
use crate::cache::pod;
use crate::cache::selector::sort_pairs;
use crate::surge::requests::Exact;

/// A text, empty where it is missing or null: what protobuf does not tell apart, nobody may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

/// Labels and the like, in the order they are read.
#[derive(Debug, Default)]
pub(super) struct Pairs<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// The annotations that somebody reads: some others are as long as the object itself.
#[derive(Debug, Default)]
pub(super) struct Annotations<'a>(SmallVec<[(&'static str, Cow<'a, str>); 2]>);

/// Amounts, of which none is negative: a negative request would make room that is not there.
#[derive(Debug, Default)]
pub(super) struct Amounts<'a>(pub(super) Exact<'a>);

/// Something of which only the presence matters.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
pub(super) struct Present {}

// === impl Text ===

impl<'a> Text<'a> {
    /// `None` where it is empty.
    pub(super) fn present(self) -> Option<Cow<'a, str>> {
        (!self.0.is_empty()).then_some(self.0)
    }

    pub(super) fn boxed(self) -> Box<str> {
        Box::from(self.0)
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrowed;
        impl<'de> Visitor<'de> for Borrowed {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }

            fn visit_unit<E>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(Borrowed)
    }
}

// === impl Pairs ===

impl<'a> Pairs<'a> {
    pub(super) fn push(&mut self, key: Cow<'a, str>, value: Cow<'a, str>) {
        if self.0.is_empty() {
            // Most objects have no more, so that this is the only allocation.
            self.0.reserve_exact(8);
        }
        self.0.push((key, value));
    }

    /// Sorted by key; of several values for one key, the last.
    pub(super) fn sorted(mut self) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
        sort_pairs(&mut self.0);
        self.0
    }
}

/// What a JSON object's members are put into, one after the other.
trait Members<'de>: Default {
    fn take<A: MapAccess<'de>>(&mut self, key: Text<'de>, map: &mut A) -> Result<(), A::Error>;
}

impl<'de: 'a, 'a> Members<'de> for Pairs<'a> {
    fn take<A: MapAccess<'de>>(&mut self, key: Text<'de>, map: &mut A) -> Result<(), A::Error> {
        self.push(key.0, map.next_value::<Text<'a>>()?.0);
        Ok(())
    }
}

impl<'de: 'a, 'a> Members<'de> for Annotations<'a> {
    fn take<A: MapAccess<'de>>(&mut self, key: Text<'de>, map: &mut A) -> Result<(), A::Error> {
        match Self::kept(key.as_bytes()) {
            Some(key) => self.set(key, map.next_value::<Text<'a>>()?.0),
            None => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl<'de: 'a, 'a> Members<'de> for Amounts<'a> {
    fn take<A: MapAccess<'de>>(&mut self, key: Text<'de>, map: &mut A) -> Result<(), A::Error> {
        let amount = map.next_value::<Quantity>()?;
        self.set(key.0, amount).map_err(A::Error::custom)
    }
}

fn members<'de, D: Deserializer<'de>, M: Members<'de>>(deserializer: D) -> Result<M, D::Error> {
    struct Object<M>(PhantomData<M>);
    impl<'de, M: Members<'de>> Visitor<'de> for Object<M> {
        type Value = M;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_unit<E>(self) -> Result<M, E> {
            Ok(M::default())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<M, A::Error> {
            let mut members = M::default();
            while let Some(key) = map.next_key::<Text<'de>>()? {
                members.take(key, &mut map)?;
            }
            Ok(members)
        }
    }
    deserializer.deserialize_any(Object(PhantomData))
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        members(deserializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Annotations<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        members(deserializer)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Amounts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        members(deserializer)
    }
}

// === impl Annotations ===

impl<'a> Annotations<'a> {
    /// The key, if somebody reads it.
    pub(super) fn kept(key: &[u8]) -> Option<&'static str> {
        KEPT_ANNOTATIONS.iter().chain(pod::KEPT_ANNOTATIONS).copied().find(|kept| kept.as_bytes() == key)
    }

    pub(super) fn set(&mut self, key: &'static str, value: Cow<'a, str>) {
        match self.0.iter_mut().find(|(found, _)| *found == key) {
            Some((_, kept)) => *kept = value,
            None => self.0.push((key, value)),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Cow<'a, str>> {
        self.0.iter().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(key, value)| (*key, &**value))
    }
}

// === impl Amounts ===

impl<'a> Amounts<'a> {
    /// Sets one amount, or says why it is none.
    pub(super) fn set(&mut self, name: Cow<'a, str>, amount: Quantity) -> Result<(), String> {
        if amount < Quantity::ZERO {
            return Err(format!("{name} is negative: {amount}"));
        }
        self.0.set(name, amount);
        Ok(())
    }
}

// === lists ===

/// What a list's items are put into, one after the other, so that a list of which little is kept is never built.
pub(super) trait Items: Default {
    /// An item on the wire.
    type Item;

    fn take(&mut self, item: Self::Item);
}

impl<T> Items for Vec<T> {
    type Item = T;

    fn take(&mut self, item: T) {
        self.push(item);
    }
}

impl<A: smallvec::Array> Items for SmallVec<A> {
    type Item = A::Item;

    fn take(&mut self, item: A::Item) {
        self.push(item);
    }
}

/// Reads a list, or null.
pub(super) fn items<'de, D, I>(deserializer: D) -> Result<I, D::Error>
where
    D: Deserializer<'de>,
    I: Items<Item: Deserialize<'de>>,
{
    struct List<I>(PhantomData<I>);
    impl<'de, I: Items<Item: Deserialize<'de>>> Visitor<'de> for List<I> {
        type Value = I;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_unit<E>(self) -> Result<I, E> {
            Ok(I::default())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<I, A::Error> {
            let mut items = I::default();
            while let Some(item) = list.next_element()? {
                items.take(item);
            }
            Ok(items)
        }
    }
    deserializer.deserialize_any(List(PhantomData))
}

/// Reads `null` as the default.
pub(in crate::cache) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
