//! One kind of objects, as read: what could not be had is told apart from what is not there.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// The objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing<T> {
    /// The kind is not served: whoever would keep such objects is not installed, or in another version.
    Absent,
    /// They may not be read, in the API server's words.
    Forbidden(String),
    /// The API server has them in another version and cannot turn them into this one, in its words.
    Unconverted(String),
    /// All of them.
    Read {
        /// Those that were understood.
        items: Vec<T>,
        /// Those that were not: which, and why.
        unreadable: Vec<String>,
    },
}

/// A page of a list, as the API server writes it.
#[derive(Debug, Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
struct PageMeta {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// As much of an object as tells which one it is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    metadata: Name,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Name {
    namespace: String,
    name: String,
}

// === impl Listing ===

// Not derived: `T` needs no default.
impl<T> Default for Listing<T> {
    /// Nothing is installed.
    fn default() -> Self {
        Self::Absent
    }
}

impl<T> Listing<T> {
    /// Those that were understood.
    #[must_use]
    pub fn items(&self) -> &[T] {
        match self {
            Self::Read { items, .. } => items,
            Self::Absent | Self::Forbidden(_) | Self::Unconverted(_) => &[],
        }
    }

    /// Whether all of them are known: nothing that is not in here exists.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Read { unreadable, .. } if unreadable.is_empty())
    }
}

impl<T: DeserializeOwned> Listing<T> {
    /// Takes in a page. Answers where the next one begins.
    pub(super) fn take(&mut self, page: &Page<'_>) -> Option<String> {
        self.begin();
        page.items.iter().flatten().for_each(|object| self.take_one(object.get()));
        page.metadata.next.clone().filter(|next| !next.is_empty())
    }

    /// From here on all that there are will be taken in, be it none.
    fn begin(&mut self) {
        if !matches!(self, Self::Read { .. }) {
            *self = Self::Read { items: Vec::new(), unreadable: Vec::new() };
        }
    }

    /// Takes in one of them.
    pub(super) fn take_one(&mut self, object: &str) {
        self.begin();
        if let Self::Read { items, unreadable } = self {
            match serde_json::from_str(object) {
                Ok(item) => items.push(item),
                Err(error) => {
                    let Named { metadata: Name { namespace, name } } = serde_json::from_str(object).unwrap_or_default();
                    let of = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
                    unreadable.push(format!("{of}{name}: {error}"));
                }
            }
        }
    }
}
