//! Node selector terms, of Pods and of PersistentVolumes.

use serde_json::{Map, Value};

use crate::object;

/// Expressions that must all hold. A term without any matches nothing.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    labels: Vec<Expression>,
    fields: Vec<Expression>,
}

#[derive(Clone, Debug)]
struct Expression {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Expression {
    fn of(value: &Value) -> Self {
        Self {
            key: object::text(value, "/key").to_owned(),
            operator: object::text(value, "/operator").to_owned(),
            values: object::list(value, "/values").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    fn holds(&self, found: Option<&str>) -> bool {
        let listed = || found.is_some_and(|found| self.values.iter().any(|value| value == found));
        let compare = |accept: fn(i64, i64) -> bool| {
            let found = found.and_then(|found| found.parse::<i64>().ok());
            let bound = self.values.first().and_then(|value| value.parse::<i64>().ok());
            found.zip(bound).is_some_and(|(found, bound)| accept(found, bound))
        };
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            "Gt" => compare(|found, bound| found > bound),
            "Lt" => compare(|found, bound| found < bound),
            _ => false,
        }
    }
}

impl Term {
    pub(crate) fn of(value: &Value) -> Self {
        let expressions = |list: &str| object::list(value, list).iter().map(Expression::of).collect();
        Self { labels: expressions("/matchExpressions"), fields: expressions("/matchFields") }
    }

    pub(crate) fn matches(&self, node: &str, labels: &Map<String, Value>) -> bool {
        !(self.labels.is_empty() && self.fields.is_empty())
            && self.labels.iter().all(|e| e.holds(labels.get(&e.key).and_then(Value::as_str)))
            && self.fields.iter().all(|e| e.holds((e.key == "metadata.name").then_some(node)))
    }
}
