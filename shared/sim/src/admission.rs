//! What the API server fills in and refuses when an object is created.

use serde_json::{Value, json};

use crate::{kind::Kind, object, status::Failure, store::Store};

/// Completes `object`, or says why it may not be.
pub(crate) fn admit(store: &Store, kind: Kind, object: &mut Value) -> Result<(), Failure> {
    if kind.namespaced() {
        let namespace = object::namespace(object);
        let found =
            store.get(Kind::Namespace, "", namespace).ok_or_else(|| Failure::not_found(Kind::Namespace, namespace))?;
        if object::terminating(found) {
            return Err(Failure::namespace_terminating(kind, object::name(object), namespace));
        }
    }
    match kind {
        Kind::Pod => admit_pod(store, object)?,
        Kind::Node => admit_node(object),
        Kind::Namespace => {
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = object["metadata"]["name"].clone();
            object["status"] = json!({"phase": "Active"});
        }
        Kind::ReplicaSet | Kind::Deployment | Kind::StatefulSet if object["spec"]["replicas"].is_null() => {
            object["spec"]["replicas"] = json!(1);
        }
        Kind::PersistentVolumeClaim | Kind::PersistentVolume if object["status"].is_null() => {
            object["status"] = json!({"phase": "Pending"});
        }
        _ => {}
    }
    Ok(())
}

/// A node is not ready until its kubelet says so and the node lifecycle controller believes it.
fn admit_node(node: &mut Value) {
    const TAINT: &str = "node.kubernetes.io/not-ready";
    if node["metadata"]["labels"]["kubernetes.io/hostname"].is_null() {
        node["metadata"]["labels"]["kubernetes.io/hostname"] = node["metadata"]["name"].clone();
    }
    if object::list(node, "/spec/taints").iter().any(|taint| taint["key"] == TAINT) {
        return;
    }
    if !node["spec"]["taints"].is_array() {
        node["spec"]["taints"] = json!([]);
    }
    let taints = node["spec"]["taints"].as_array_mut().expect("it was just made an array");
    taints.push(json!({"key": TAINT, "effect": "NoSchedule"}));
}

fn admit_pod(store: &Store, pod: &mut Value) -> Result<(), Failure> {
    let name = match object::name(pod) {
        "" => object::text(pod, "/metadata/generateName").to_owned(),
        name => name.to_owned(),
    };
    if object::list(pod, "/spec/containers").is_empty() {
        return Err(Failure::invalid(Kind::Pod, &name, "spec.containers", "Required value"));
    }
    priority(store, pod, &name)?;
    let spec = &mut pod["spec"];
    for (key, value) in [
        ("schedulerName", json!("default-scheduler")),
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("serviceAccountName", json!("default")),
        ("enableServiceLinks", json!(true)),
        ("securityContext", json!({})),
        ("terminationGracePeriodSeconds", json!(30)),
    ] {
        if spec[key].is_null() {
            spec[key] = value;
        }
    }
    spec["serviceAccount"] = spec["serviceAccountName"].clone();
    if spec["automountServiceAccountToken"] != false {
        mount_token(spec);
    }
    tolerate(spec);
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            complete(container);
            limits(container, &name)?;
        }
    }
    if let Some(namespace) = store.get(Kind::Namespace, "", object::namespace(pod))
        && let Some(level) = object::label(namespace, "pod-security.kubernetes.io/enforce")
    {
        security(pod, level, &name)?;
    }
    pod["status"] = json!({"phase": "Pending", "qosClass": "Burstable"});
    if !object::list(pod, "/spec/schedulingGates").is_empty() {
        let message = "Scheduling is blocked due to non-empty scheduling gates";
        object::set_condition(pod, "PodScheduled", "False", "SchedulingGated", message, store.now());
    }
    Ok(())
}

fn priority(store: &Store, pod: &mut Value, name: &str) -> Result<(), Failure> {
    let class_name = object::text(pod, "/spec/priorityClassName").to_owned();
    let mut classes = store.iter(Kind::PriorityClass);
    let class = if class_name.is_empty() {
        classes.find(|class| class["globalDefault"] == true)
    } else {
        let class = classes.find(|class| object::name(class) == class_name);
        Some(class.ok_or_else(|| {
            Failure::forbidden(Kind::Pod, name, &format!("no PriorityClass with name {class_name} was found"))
        })?)
    };
    let value = class.and_then(|class| object::number(class, "/value")).unwrap_or(0);
    let policy = class.map(|class| object::text(class, "/preemptionPolicy")).filter(|policy| !policy.is_empty());
    let policy = policy.unwrap_or("PreemptLowerPriority").to_owned();
    if let Some(given) = object::number(pod, "/spec/priority")
        && given != value
    {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; \
             priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(Failure::forbidden(Kind::Pod, name, &why));
    }
    let given = object::text(pod, "/spec/preemptionPolicy");
    if !given.is_empty() && given != policy {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; \
             priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Err(Failure::forbidden(Kind::Pod, name, &why));
    }
    if let Some(class) = class.map(|class| object::name(class).to_owned()) {
        pod["spec"]["priorityClassName"] = json!(class);
    }
    pod["spec"]["priority"] = json!(value);
    pod["spec"]["preemptionPolicy"] = json!(policy);
    Ok(())
}

fn complete(container: &mut Value) {
    for (key, value) in [
        ("imagePullPolicy", "IfNotPresent"),
        ("terminationMessagePath", "/dev/termination-log"),
        ("terminationMessagePolicy", "File"),
    ] {
        if container[key].is_null() {
            container[key] = json!(value);
        }
    }
}

/// The volume with the API server's token, which is not the Pod's own data.
fn mount_token(spec: &mut Value) {
    const NAME: &str = "kube-api-access";
    if object::list(spec, "/volumes").iter().any(|volume| object::text(volume, "/name").starts_with(NAME)) {
        return;
    }
    if !spec["volumes"].is_array() {
        spec["volumes"] = json!([]);
    }
    let volumes = spec["volumes"].as_array_mut().expect("it was just made an array");
    let token = json!({"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}});
    volumes.push(json!({"name": NAME, "projected": {"defaultMode": 420, "sources": [token]}}));
}

/// The tolerations every Pod gets, for nodes that fail under it.
fn tolerate(spec: &mut Value) {
    if !spec["tolerations"].is_array() {
        spec["tolerations"] = json!([]);
    }
    let tolerations = spec["tolerations"].as_array_mut().expect("it was just made an array");
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|toleration| {
            (toleration["key"] == key || object::text(toleration, "/key").is_empty())
                && matches!(object::text(toleration, "/effect"), "" | "NoExecute")
        });
        if !tolerated {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}

/// Limits stand in for missing requests; extended resources can't be overcommitted.
fn limits(container: &mut Value, pod: &str) -> Result<(), Failure> {
    let limits = object::map(container, "/resources/limits").cloned().unwrap_or_default();
    for (resource, limit) in &limits {
        if container["resources"]["requests"][resource].is_null() {
            container["resources"]["requests"][resource] = limit.clone();
        }
    }
    let extended = |resource: &str| resource.contains('/') || resource.starts_with("hugepages-");
    for (resource, request) in object::map(container, "/resources/requests").into_iter().flatten() {
        if !extended(resource) {
            continue;
        }
        let field = "spec.containers[0].resources.limits";
        match limits.get(resource) {
            None => {
                let why = "Required value: Limit must be set for non overcommitable resources";
                return Err(Failure::invalid(Kind::Pod, pod, field, why));
            }
            Some(limit) if limit != request => {
                let why = format!(
                    "Invalid value: {request}: must be equal to {resource} limit of {}",
                    limit.as_str().unwrap_or_default()
                );
                return Err(Failure::invalid(Kind::Pod, pod, "spec.containers[0].resources.requests", &why));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Pod Security, as far as a Pod of this product can meet it.
fn security(pod: &Value, level: &str, name: &str) -> Result<(), Failure> {
    if level == "privileged" {
        return Ok(());
    }
    let mut violations = Vec::new();
    for namespace in ["hostNetwork", "hostPID", "hostIPC"] {
        if pod["spec"][namespace] == true {
            violations.push(format!("host namespaces ({namespace}=true)"));
        }
    }
    let containers = object::list(pod, "/spec/containers").iter().chain(object::list(pod, "/spec/initContainers"));
    for container in containers {
        let title = object::name(&json!({"metadata": {"name": container["name"]}})).to_owned();
        for port in object::list(container, "/ports") {
            if let Some(port) = object::number(port, "/hostPort").filter(|port| *port > 0) {
                violations.push(format!("hostPort (container \"{title}\" uses hostPort {port})"));
            }
        }
        if level != "restricted" {
            continue;
        }
        let either = |pointer: &str| {
            let own = container.pointer(&format!("/securityContext{pointer}")).filter(|value| !value.is_null());
            own.or_else(|| pod.pointer(&format!("/spec/securityContext{pointer}"))).cloned().unwrap_or_default()
        };
        if container["securityContext"]["allowPrivilegeEscalation"] != false {
            violations.push(format!(
                "allowPrivilegeEscalation != false (container \"{title}\" must set \
                 securityContext.allowPrivilegeEscalation=false)"
            ));
        }
        if !object::list(container, "/securityContext/capabilities/drop").iter().any(|dropped| dropped == "ALL") {
            violations.push(format!(
                "unrestricted capabilities (container \"{title}\" must set securityContext.capabilities.drop=[\"ALL\"])"
            ));
        }
        if either("/runAsNonRoot") != true {
            violations.push(format!(
                "runAsNonRoot != true (pod or container \"{title}\" must set securityContext.runAsNonRoot=true)"
            ));
        }
        if !matches!(either("/seccompProfile/type").as_str(), Some("RuntimeDefault" | "Localhost")) {
            violations.push(format!(
                "seccompProfile (pod or container \"{title}\" must set securityContext.seccompProfile.type to \
                 \"RuntimeDefault\" or \"Localhost\")"
            ));
        }
    }
    if violations.is_empty() {
        return Ok(());
    }
    let why = format!("violates PodSecurity \"{level}:latest\": {}", violations.join(", "));
    Err(Failure::forbidden(Kind::Pod, name, &why))
}
