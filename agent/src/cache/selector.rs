//! Label selectors, node selector terms, taints and tolerations: matching as the scheduler does it.
//!
//! What a Pod demands is kept with texts of its own (`Box<str>`) and decoded with texts borrowed from the object
//! (`Cow<str>`): `S` is the text. Both hash alike.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

mod labels;
mod parse;

pub use labels::{Iter, Labels};
pub use parse::ParseError;

pub(super) use labels::sort_pairs;

/// How an expression compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
    /// The label is a whole number above the value (node affinity only).
    Gt,
    /// The label is a whole number below the value (node affinity only).
    Lt,
}

/// `key operator values`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Expression<S = Box<str>> {
    /// The label, or for `matchFields` the field.
    pub key: S,
    /// How it compares.
    pub operator: Operator,
    /// What it compares with; empty for `Exists` and `DoesNotExist`.
    #[serde(default = "Vec::new")]
    pub values: Vec<S>,
}

impl<S: Deref<Target = str>> Expression<S> {
    /// The same with another kind of text.
    pub fn map<'a, T>(&'a self, text: impl Fn(&'a str) -> T) -> Expression<T> {
        Expression {
            key: text(&self.key),
            operator: self.operator,
            values: self.values.iter().map(|value| text(value)).collect(),
        }
    }

    /// Whether a label with this value, or its absence, satisfies the expression.
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|candidate| &**candidate == value);
        let compare = |holds: fn(&i64, &i64) -> bool| {
            let number = value.and_then(|value| value.parse::<i64>().ok());
            let bound = self.values.first().and_then(|bound| bound.parse::<i64>().ok());
            matches!((number, bound), (Some(number), Some(bound)) if holds(&number, &bound))
        };
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => compare(i64::gt),
            Operator::Lt => compare(i64::lt),
        }
    }
}

impl<S: Deref<Target = str>> fmt::Display for Expression<S> {
    /// As `kubectl get -l` takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        let key = &**key;
        let listed = values.iter().map(|value| &**value).collect::<Vec<_>>().join(",");
        match operator {
            Operator::In if values.len() == 1 => write!(f, "{key}={listed}"),
            Operator::In => write!(f, "{key} in ({listed})"),
            Operator::NotIn if values.len() == 1 => write!(f, "{key}!={listed}"),
            Operator::NotIn => write!(f, "{key} notin ({listed})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Gt => write!(f, "{key}>{listed}"),
            Operator::Lt => write!(f, "{key}<{listed}"),
        }
    }
}

/// A selector of labels. No expression: everything is selected. (A *missing* selector selects nothing: that is an
/// `Option` at its owner.)
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Selector<S = Box<str>> {
    /// All must hold. `matchLabels` become `In` expressions. Sorted, so that equal selectors are equal values.
    pub expressions: Vec<Expression<S>>,
}

impl<S: Deref<Target = str>> Selector<S> {
    /// The same with another kind of text.
    pub fn map<'a, T>(&'a self, text: impl Fn(&'a str) -> T) -> Selector<T> {
        Selector { expressions: self.expressions.iter().map(|expression| expression.map(&text)).collect() }
    }

    /// Whether these labels are selected.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.expressions.iter().all(|expression| expression.matches(labels.get(&expression.key)))
    }
}

impl<S: Deref<Target = str>> fmt::Display for Selector<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        all_of(f, self.expressions.iter())
    }
}

/// One term of a node selector: all of its expressions and fields must hold. A term with neither matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeTerm<S = Box<str>> {
    /// On the node's labels.
    pub expressions: Vec<Expression<S>>,
    /// On the node's fields; only `metadata.name` exists.
    pub fields: Vec<Expression<S>>,
}

impl<S: Deref<Target = str>> NodeTerm<S> {
    /// The same with another kind of text.
    pub fn map<'a, T>(&'a self, text: impl Fn(&'a str) -> T) -> NodeTerm<T> {
        NodeTerm {
            expressions: self.expressions.iter().map(|expression| expression.map(&text)).collect(),
            fields: self.fields.iter().map(|field| field.map(&text)).collect(),
        }
    }

    /// Whether a node with this name and these labels satisfies the term.
    #[must_use]
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        let any = !self.expressions.is_empty() || !self.fields.is_empty();
        any && self.expressions.iter().all(|expression| expression.matches(labels.get(&expression.key)))
            && self.fields.iter().all(|field| &*field.key == "metadata.name" && field.matches(Some(name)))
    }
}

impl<S: Deref<Target = str>> fmt::Display for NodeTerm<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        all_of(f, self.expressions.iter().chain(&self.fields))
    }
}

fn all_of<'a, S: Deref<Target = str> + 'a>(
    f: &mut fmt::Formatter<'_>,
    expressions: impl Iterator<Item = &'a Expression<S>>,
) -> fmt::Result {
    for (place, expression) in expressions.enumerate() {
        write!(f, "{}{expression}", if place == 0 { "" } else { "," })?;
    }
    Ok(())
}

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TaintEffect {
    /// New Pods stay away.
    NoSchedule,
    /// New Pods stay away if they can.
    PreferNoSchedule,
    /// Running Pods are evicted too.
    NoExecute,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Taint {
    /// Its key.
    pub key: Box<str>,
    /// Its value; empty where none.
    #[serde(default)]
    pub value: Box<str>,
    /// What it does.
    pub effect: TaintEffect,
}

/// A toleration of a Pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Toleration<S = Box<str>> {
    /// The taint's key; empty means every key.
    pub key: S,
    /// `true` for `Exists`: the value does not matter.
    pub exists: bool,
    /// The taint's value.
    pub value: S,
    /// The effect; `None` means every effect.
    pub effect: Option<TaintEffect>,
    /// For `NoExecute`: how long it is tolerated.
    pub seconds: Option<i64>,
}

impl<S: Deref<Target = str>> Toleration<S> {
    /// The same with another kind of text.
    pub fn map<'a, T>(&'a self, text: impl Fn(&'a str) -> T) -> Toleration<T> {
        Toleration {
            key: text(&self.key),
            exists: self.exists,
            value: text(&self.value),
            effect: self.effect,
            seconds: self.seconds,
        }
    }

    /// Whether this taint is tolerated.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.effect.is_none_or(|effect| effect == taint.effect)
            && (self.key.is_empty() || *self.key == *taint.key)
            && (self.exists || (!self.key.is_empty() && *self.value == *taint.value))
    }
}
