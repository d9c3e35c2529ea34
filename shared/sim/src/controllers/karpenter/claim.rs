//! What a claim may become: an instance type in a zone, with the labels that its pool gives.

use serde_json::{Map, Value, json};

use super::{CAPACITY_TYPE, FINALIZER, INSTANCE_TYPE, POOL, ZONE};
use crate::{object, settings::InstanceType};

/// One of the machines that a pool may have.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) pool: String,
    pub(super) of: InstanceType,
    /// Its labels, but for the host name.
    pub(super) labels: Map<String, Value>,
    taints: Value,
    annotations: Value,
}

impl Choice {
    /// Every machine that the pool's requirements allow, the cheapest first.
    pub(super) fn all(pool: &Value, types: &[InstanceType], zones: &[String]) -> Vec<Self> {
        let mut types: Vec<_> = types.iter().collect();
        types.sort_by(|a, b| a.price.total_cmp(&b.price));
        let of = |of: &InstanceType, zone: &str| {
            let spec = &pool["spec"]["template"]["spec"];
            let class = &spec["nodeClassRef"];
            let mut labels = object::map(pool, "/spec/template/metadata/labels").cloned().unwrap_or_default();
            let mut put = |key: &str, value: &str| _ = labels.insert(key.to_owned(), json!(value));
            put(POOL, object::name(pool));
            put(INSTANCE_TYPE, &of.name);
            put(ZONE, zone);
            put(CAPACITY_TYPE, "on-demand");
            put("kubernetes.io/arch", "amd64");
            put("kubernetes.io/os", "linux");
            if let (Some(group), Some(kind), Some(name)) =
                (class["group"].as_str(), class["kind"].as_str(), class["name"].as_str())
            {
                put(&format!("{group}/{}", kind.to_lowercase()), name);
            }
            let requirements = object::list(spec, "/requirements");
            // A label of people's own is given the first value that is allowed.
            for requirement in requirements.iter().filter(|requirement| requirement["operator"] == "In") {
                let key = object::text(requirement, "/key").to_owned();
                if let Some(value) = object::list(requirement, "/values").first() {
                    labels.entry(key).or_insert_with(|| value.clone());
                }
            }
            let allowed = requirements.iter().all(|requirement| admits(requirement, &labels));
            allowed.then(|| Self {
                pool: object::name(pool).to_owned(),
                of: of.clone(),
                labels,
                taints: spec["taints"].clone(),
                annotations: pool["spec"]["template"]["metadata"]["annotations"].clone(),
            })
        };
        types.into_iter().flat_map(|kind| zones.iter().filter_map(move |zone| of(kind, zone))).collect()
    }

    /// The node that it becomes.
    pub(super) fn node(&self, name: &str) -> Value {
        let mut labels = self.labels.clone();
        labels.insert("kubernetes.io/hostname".to_owned(), json!(name));
        labels.insert("karpenter.sh/registered".to_owned(), json!("true"));
        let mut node = json!({
            "metadata": {"name": name, "labels": labels, "finalizers": [FINALIZER]},
            "spec": {"providerID": provider_id(name)},
            "status": {
                "capacity": self.of.capacity, "allocatable": self.of.allocatable(),
                "conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}],
            },
        });
        if self.annotations.is_object() {
            node["metadata"]["annotations"] = self.annotations.clone();
        }
        if self.taints.is_array() {
            node["spec"]["taints"] = self.taints.clone();
        }
        node
    }

    /// The claim that it is.
    pub(super) fn claim(&self, pool: &Value) -> Value {
        let template = &pool["spec"]["template"]["spec"];
        let within = |key: &str| json!({"key": key, "operator": "In", "values": [self.labels[key]]});
        let mut owner = object::owner_reference(pool);
        // As Karpenter writes it: a pool owns its claims without controlling them.
        object::remove(&mut owner, "", "controller");
        let mut claim = json!({
            "metadata": {
                "generateName": format!("{}-", self.pool), "labels": self.labels, "finalizers": [FINALIZER],
                "annotations": {HASH: hash(pool)},
                "ownerReferences": [owner],
            },
            "spec": {
                "requirements": [within(POOL), within(INSTANCE_TYPE), within(ZONE)],
                "expireAfter": "720h",
            },
        });
        for field in ["nodeClassRef", "taints", "expireAfter", "terminationGracePeriod"] {
            if !template[field].is_null() {
                claim["spec"][field] = template[field].clone();
            }
        }
        claim
    }
}

/// The annotation that says what a claim was made of.
const HASH: &str = "karpenter.sh/nodepool-hash";

/// Why a claim is not what its pool would make of it now; `None` where it is.
pub(super) fn drift(claim: &Value, pool: &Value) -> Option<&'static str> {
    if object::annotation(claim, HASH).is_some_and(|made| made != hash(pool)) {
        return Some("NodePoolDrifted");
    }
    let labels = object::map(claim, "/metadata/labels")?;
    let requirements = object::list(pool, "/spec/template/spec/requirements");
    requirements.iter().any(|requirement| !admits(requirement, labels)).then_some("RequirementsDrifted")
}

/// Over the template without its requirements, which nodes may meet as they are.
fn hash(pool: &Value) -> String {
    let mut template = pool["spec"]["template"].clone();
    object::remove(&mut template, "/spec", "requirements");
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    template.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, step).to_string()
}

/// The machine's id.
pub(super) fn provider_id(name: &str) -> String {
    format!("sim-karpenter://{name}")
}

fn admits(requirement: &Value, labels: &Map<String, Value>) -> bool {
    let value = labels.get(object::text(requirement, "/key")).and_then(Value::as_str);
    let values: Vec<_> = object::list(requirement, "/values").iter().filter_map(Value::as_str).collect();
    let listed = value.is_some_and(|value| values.contains(&value));
    let numbers = || Some((value?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    let compare = |holds: fn(i64, i64) -> bool| numbers().is_some_and(|(value, bound)| holds(value, bound));
    match object::text(requirement, "/operator") {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|value, bound| value > bound),
        "Gte" => compare(|value, bound| value >= bound),
        "Lt" => compare(|value, bound| value < bound),
        "Lte" => compare(|value, bound| value <= bound),
        _ => false,
    }
}
