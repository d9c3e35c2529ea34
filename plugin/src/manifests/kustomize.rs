//! The part of kustomize that `manifests/` uses: resources, JSON patches and replacements. Anything else in a kustomization is
//! refused, and a test compares what comes out with kustomize's own.

use serde::Deserialize;
use serde_json::Value;

/// A `kustomization.yaml`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Kustomization {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    /// Files beside it.
    #[serde(default)]
    pub(super) resources: Vec<String>,
    #[serde(default)]
    patches: Vec<Patch>,
    #[serde(default)]
    replacements: Vec<Replacement>,
}

/// A JSON patch of the objects that are meant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    target: Select,
    /// Operations, as YAML.
    patch: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Select {
    kind: String,
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Operation {
    op: Op,
    path: String,
    value: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Op {
    /// A field is set, or an element is inserted.
    Add,
    /// A value that is there is replaced.
    Replace,
}

/// A value that is the same in several places.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Replacement {
    source: Source,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Source {
    kind: String,
    name: String,
    field_path: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Target {
    select: Select,
    field_paths: Vec<String>,
    #[serde(default)]
    options: Option<Options>,
}

/// Replaces only a part.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    delimiter: String,
    index: usize,
}

impl Kustomization {
    pub(super) fn parse(text: &str) -> Self {
        serde_saphyr::from_str(text).expect("the kustomizations hold only what is known here")
    }

    /// Changes the objects that its patches are about.
    pub(super) fn patch<'a>(&self, objects: impl Iterator<Item = &'a mut Value>) {
        for object in objects {
            for patch in &self.patches {
                if !patch.target.is(object) {
                    continue;
                }
                let operations: Vec<Operation> = serde_saphyr::from_str(&patch.patch).expect("patches are YAML");
                for operation in operations {
                    operation.apply(object);
                }
            }
        }
    }

    /// Writes what is the same in several places everywhere.
    pub(super) fn replace(&self, objects: &mut [&mut Value]) {
        for Replacement { source, targets } in &self.replacements {
            let from = Select { kind: source.kind.clone(), name: source.name.clone() };
            let from = objects.iter_mut().find(|object| from.is(object)).expect("the source is there");
            let value = field(from, &source.field_path).expect("the source has the field").clone();
            for target in targets {
                for object in objects.iter_mut().filter(|object| target.select.is(object)) {
                    for path in &target.field_paths {
                        let at = field(object, path).expect("the target has the field");
                        *at = target.options.as_ref().map_or_else(|| value.clone(), |part| part.put(at, &value));
                    }
                }
            }
        }
    }
}

impl Select {
    fn is(&self, object: &Value) -> bool {
        object["kind"] == *self.kind && object["metadata"]["name"] == *self.name
    }
}

impl Operation {
    fn apply(&self, object: &mut Value) {
        let (parent, last) = self.path.rsplit_once('/').expect("a JSON pointer");
        let parent = object.pointer_mut(parent).expect("what is patched is there");
        match (parent, &self.op) {
            (Value::Array(items), Op::Add) if last == "-" => items.push(self.value.clone()),
            (Value::Object(fields), Op::Add) => drop(fields.insert(last.to_owned(), self.value.clone())),
            (parent, Op::Replace) => {
                *parent.pointer_mut(&format!("/{last}")).expect("what is replaced is there") = self.value.clone();
            }
            (_, Op::Add) => unreachable!("elements are only appended"),
        }
    }
}

impl Options {
    fn put(&self, whole: &Value, value: &Value) -> Value {
        let (whole, value) = (whole.as_str().expect("a text"), value.as_str().expect("a text"));
        let mut parts: Vec<&str> = whole.split(&self.delimiter).collect();
        *parts.get_mut(self.index).expect("it has so many parts") = value;
        parts.join(&self.delimiter).into()
    }
}

/// The value at `a.b.[key=value].c`.
fn field<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut at = object;
    for step in path.split('.') {
        at = match step.strip_prefix('[').and_then(|step| step.strip_suffix(']')) {
            Some(chosen) => {
                let (key, value) = chosen.split_once('=')?;
                at.as_array_mut()?.iter_mut().find(|item| item[key] == value)?
            }
            None => at.get_mut(step)?,
        };
    }
    Some(at)
}
