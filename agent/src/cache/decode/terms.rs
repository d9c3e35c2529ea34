//! Selectors and node selector terms on the wire.

use std::borrow::Cow;

use super::text::{Pairs, Text, items};
use crate::cache::selector::{Expression, NodeTerm, Operator, Selector};

/// `labelSelector` and the like.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SelectorWire<'a> {
    #[serde(borrow)]
    pub(super) match_labels: Pairs<'a>,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) match_expressions: Vec<ExpressionWire<'a>>,
}

/// One requirement of a selector. An operator that is not known refuses the object: what it would select is not known.
#[derive(Debug, serde::Deserialize)]
pub(super) struct ExpressionWire<'a> {
    #[serde(borrow, default)]
    pub(super) key: Text<'a>,
    pub(super) operator: Operator,
    #[serde(borrow, default, deserialize_with = "items")]
    pub(super) values: Vec<Text<'a>>,
}

/// `nodeSelectorTerms`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeSelectorWire<'a> {
    #[serde(borrow, deserialize_with = "items")]
    pub(super) node_selector_terms: Vec<NodeTermWire<'a>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeTermWire<'a> {
    #[serde(borrow, deserialize_with = "items")]
    pub(super) match_expressions: Vec<ExpressionWire<'a>>,
    #[serde(borrow, deserialize_with = "items")]
    pub(super) match_fields: Vec<ExpressionWire<'a>>,
}

impl<'a> SelectorWire<'a> {
    pub(super) fn into_selector(self) -> Selector<Cow<'a, str>> {
        let mut expressions = equalities(self.match_labels);
        expressions.extend(self.match_expressions.into_iter().map(ExpressionWire::into_expression));
        sort_expressions(&mut expressions);
        Selector { expressions }
    }
}

impl<'a> ExpressionWire<'a> {
    fn into_expression(self) -> Expression<Cow<'a, str>> {
        let values = self.values.into_iter().map(|value| value.0).collect();
        Expression { key: self.key.0, operator: self.operator, values }
    }
}

impl<'a> NodeSelectorWire<'a> {
    pub(super) fn into_terms(self) -> Vec<NodeTerm<Cow<'a, str>>> {
        let sorted = |wire: Vec<ExpressionWire<'a>>| {
            let mut expressions = wire.into_iter().map(ExpressionWire::into_expression).collect();
            sort_expressions(&mut expressions);
            expressions
        };
        let term = |term: NodeTermWire<'a>| NodeTerm {
            expressions: sorted(term.match_expressions),
            fields: sorted(term.match_fields),
        };
        self.node_selector_terms.into_iter().map(term).collect()
    }
}

/// A map of labels as `In` expressions, sorted by key.
pub(super) fn equalities<'a>(labels: Pairs<'a>) -> Vec<Expression<Cow<'a, str>>> {
    let equality = |(key, value)| Expression { key, operator: Operator::In, values: vec![value] };
    labels.sorted().into_iter().map(equality).collect()
}

/// Sorts, so that what means the same is the same value.
pub(super) fn sort_expressions(expressions: &mut Vec<Expression<Cow<'_, str>>>) {
    for expression in expressions.iter_mut() {
        expression.values.sort_unstable();
        expression.values.dedup();
    }
    expressions.sort_unstable();
    expressions.dedup();
}

/// The operator with this name.
pub(super) fn operator(name: &str) -> Option<Operator> {
    match name {
        "In" => Some(Operator::In),
        "NotIn" => Some(Operator::NotIn),
        "Exists" => Some(Operator::Exists),
        "DoesNotExist" => Some(Operator::DoesNotExist),
        "Gt" => Some(Operator::Gt),
        "Lt" => Some(Operator::Lt),
        _ => None,
    }
}
