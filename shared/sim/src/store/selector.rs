//! Label and field selectors, as query parameters and as objects have them.

use serde_json::{Map, Value};

use crate::object;

/// One requirement on labels.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Requirement {
    fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        let value = |key: &String| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        match self {
            Self::In(key, values) => value(key).is_some_and(|value| values.iter().any(|v| v == value)),
            Self::NotIn(key, values) => !value(key).is_some_and(|value| values.iter().any(|v| v == value)),
            Self::Exists(key) => value(key).is_some(),
            Self::Absent(key) => value(key).is_none(),
        }
    }
}

/// All requirements must hold; none at all selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl LabelSelector {
    /// Of an object: `matchLabels` and `matchExpressions`. A missing selector selects nothing.
    pub(crate) fn of(selector: Option<&Value>) -> Self {
        let Some(selector) = selector.filter(|selector| selector.is_object()) else {
            return Self { nothing: true, ..Self::default() };
        };
        let mut requirements = Vec::new();
        for (key, value) in object::map(selector, "/matchLabels").into_iter().flatten() {
            requirements.push(Requirement::In(key.clone(), vec![value.as_str().unwrap_or_default().to_owned()]));
        }
        for expression in object::list(selector, "/matchExpressions") {
            let key = object::text(expression, "/key").to_owned();
            let values =
                object::list(expression, "/values").iter().filter_map(Value::as_str).map(str::to_owned).collect();
            requirements.push(match object::text(expression, "/operator") {
                "In" => Requirement::In(key, values),
                "NotIn" => Requirement::NotIn(key, values),
                "Exists" => Requirement::Exists(key),
                _ => Requirement::Absent(key),
            });
        }
        Self { requirements, nothing: false }
    }

    /// Of a query: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for part in split(text) {
            requirements.push(requirement(part).ok_or_else(|| format!("unable to parse requirement: {part}"))?);
        }
        Ok(Self { requirements, nothing: false })
    }

    /// Also requires a label to have this value.
    pub(crate) fn require(&mut self, key: &str, value: &str) {
        self.requirements.push(Requirement::In(key.to_owned(), vec![value.to_owned()]));
    }

    pub(crate) fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    pub(crate) fn selects(&self, object: &Value) -> bool {
        self.matches(object::map(object, "/metadata/labels"))
    }
}

/// At commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn requirement(part: &str) -> Option<Requirement> {
    if let Some(open) = part.find('(') {
        let values = part[open + 1..].strip_suffix(')')?.split(',').map(|value| value.trim().to_owned()).collect();
        let mut head = part[..open].split_whitespace();
        let (key, operator) = (head.next()?.to_owned(), head.next()?);
        return match operator {
            "in" => Some(Requirement::In(key, values)),
            "notin" => Some(Requirement::NotIn(key, values)),
            _ => None,
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Some(Requirement::NotIn(key.trim().to_owned(), vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Some(Requirement::In(key.trim().to_owned(), vec![value.trim().to_owned()]));
    }
    if let Some(key) = part.strip_prefix('!') {
        return Some(Requirement::Absent(key.trim().to_owned()));
    }
    (!part.contains(char::is_whitespace)).then(|| Requirement::Exists(part.to_owned()))
}

/// Requirements on fields; each a pointer, a value, and whether it must differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<(String, String, bool)>);

impl FieldSelector {
    /// Of a query: `spec.nodeName=n1,status.phase!=Running`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const FIELDS: &[&str] = &[
            "metadata.name",
            "metadata.namespace",
            "spec.nodeName",
            "spec.schedulerName",
            "spec.unschedulable",
            "status.phase",
            "status.nominatedNodeName",
            "involvedObject.uid",
            "involvedObject.name",
            "regarding.uid",
            "reason",
            "type",
        ];
        let mut fields = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (field, value, differs) = match part.split_once("!=") {
                Some((field, value)) => (field, value, true),
                None => {
                    let (field, value) = part
                        .split_once("==")
                        .or_else(|| part.split_once('='))
                        .ok_or_else(|| format!("invalid selector: '{part}'; can't understand '{part}'"))?;
                    (field, value, false)
                }
            };
            if !FIELDS.contains(&field) {
                return Err(format!("field label not supported: {field}"));
            }
            fields.push((format!("/{}", field.replace('.', "/")), value.to_owned(), differs));
        }
        Ok(Self(fields))
    }

    pub(crate) fn selects(&self, object: &Value) -> bool {
        self.0.iter().all(|(pointer, value, differs)| {
            let found = match object.pointer(pointer) {
                Some(Value::Bool(flag)) => flag.to_string(),
                Some(other) => other.as_str().unwrap_or_default().to_owned(),
                None if pointer == "/spec/unschedulable" => "false".to_owned(),
                None => String::new(),
            };
            (found == *value) != *differs
        })
    }
}

/// Both together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) namespace: Option<String>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Filter {
    pub(crate) fn selects(&self, object: &Value) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| object::namespace(object) == namespace)
            && self.fields.selects(object)
            && self.labels.selects(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn selects(selector: &str, labels: &Value) -> bool {
        LabelSelector::parse(selector).unwrap().matches(labels.as_object())
    }

    #[test]
    fn label_selectors_match_as_the_api_server_has_them() {
        let labels = json!({"app": "web", "tier": "front"});
        for (selector, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=front", true),
            ("app!=web", false),
            ("zone!=a", true),
            ("app in (api, web)", true),
            ("app notin (api,web)", false),
            ("zone notin (a)", true),
            ("app,!zone", true),
            ("zone", false),
            ("app in (web),tier in (back)", false),
        ] {
            assert_eq!(selects(selector, &labels), expected, "{selector}");
        }
        assert!(LabelSelector::parse("app like (web)").is_err());
    }

    #[test]
    fn an_empty_selector_selects_all_and_a_missing_one_nothing() {
        assert!(LabelSelector::of(Some(&json!({}))).matches(None));
        assert!(!LabelSelector::of(None).matches(None));
    }

    #[test]
    fn field_selectors_compare_text_and_refuse_unknown_fields() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}});
        assert!(FieldSelector::parse("spec.nodeName=n1,status.phase!=Failed").unwrap().selects(&pod));
        assert!(!FieldSelector::parse("spec.nodeName=").unwrap().selects(&pod));
        assert!(FieldSelector::parse("spec.restartPolicy=Always").is_err());
    }
}
