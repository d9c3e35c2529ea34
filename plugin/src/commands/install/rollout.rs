//! Waits until the agents are ready, and says what that waits for.

use std::time::Duration;

use rotate_shared::{exit, names};
use serde_json::Value;

use crate::commands::Ended;
use crate::connect::objects::Objects;
use crate::failure::Failure;
use crate::manifests::Kind;
use crate::output::age;
use crate::session::Session;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1);
/// How often the same is said again.
const AGAIN: Duration = Duration::from_secs(30);
/// What kubelets call an image that does not come.
const PULL: [&str; 4] = ["ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull"];
const HELP: &str = " → --image names one of your registry";

pub(super) async fn wait(session: &Session, server: &Objects, timeout: Option<Duration>, hint: Option<&str>) -> Ended {
    let console = &session.console;
    let agent = Kind::named("Deployment").expect("it is installed").told(names::AGENT);
    let (namespace, again) = (names::NAMESPACE, session.cluster_again());
    // kubectl wants the name with its kind, without its group.
    let follow = format!("kubectl -n {namespace} rollout status deployment/{}{again}", names::AGENT);
    let mut waiting = format!("{agent}: nothing is known of it yet");
    let code = match session.within(timeout, ready(session, server, &agent, hint, &mut waiting)).await {
        Ok(ready) => {
            ready?;
            console.note(&format!("The agents are ready. Next: kubectl rotate plan node NAME{again}"));
            return Ok(exit::DONE);
        }
        Err(code) => code,
    };
    if code == exit::TIMED_OUT {
        console.prose(format!("error: not ready after {}: {waiting}", age::of(timeout.unwrap_or_default())));
    }
    console.prose(format!("It goes on in the cluster. To follow: {follow}"));
    Ok(code)
}

/// Waits for it, and says what for.
async fn ready(
    session: &Session,
    server: &Objects,
    told: &str,
    hint: Option<&str>,
    waiting: &mut String,
) -> Result<(), Failure> {
    let path = Kind::named("Deployment").expect("it is installed").path(Some(names::NAMESPACE), names::AGENT);
    let began = session.clock.now();
    let mut said: Option<(String, Duration)> = None;
    loop {
        let Some(agent) = server.get(&path).await? else {
            return Err(Failure::Other(format!("{told} was deleted by somebody meanwhile")));
        };
        let Some(lacking) = lacking(&agent) else { return Ok(()) };
        *waiting = format!("{told}: {lacking}");
        for why in reasons(&agent, &server.agents().await?) {
            waiting.push_str("; ");
            waiting.push_str(&why);
        }
        if let Some(hint) = hint.filter(|_| waiting.contains("ContainerCreating")) {
            waiting.push_str("; ");
            waiting.push_str(hint);
        }
        let waited = Duration::try_from(session.clock.now().duration_since(began)).unwrap_or_default();
        if said.as_ref().is_none_or(|(text, at)| text != waiting || waited.saturating_sub(*at) >= AGAIN) {
            session.console.prose(format!("waiting {}: {waiting}", age::of(waited)));
            said = Some((waiting.clone(), waited));
        }
        session.clock.sleep(LOOK).await;
    }
}

/// What the Deployment lacks; `None`: nothing.
fn lacking(agent: &Value) -> Option<String> {
    let status = &agent["status"];
    let count = |field: &str| status[field].as_u64().unwrap_or(0);
    let wanted = agent["spec"]["replicas"].as_u64().unwrap_or(1);
    if status["observedGeneration"].as_u64() < agent["metadata"]["generation"].as_u64() {
        return Some("the controller has not seen it yet".to_owned());
    }
    let (updated, available, all) = (count("updatedReplicas"), count("availableReplicas"), count("replicas"));
    if updated < wanted {
        return Some(format!("{updated} of {wanted} agents are of this version"));
    }
    if all > updated {
        let before = all - updated;
        let are = if before == 1 { "agent of the version before is" } else { "agents of the version before are" };
        return Some(format!("{before} {are} still there"));
    }
    (available < updated).then(|| format!("{available} of {wanted} agents are ready"))
}

/// Why, as far as the Deployment and its Pods say.
fn reasons(agent: &Value, pods: &[Value]) -> Vec<String> {
    let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut reasons = Vec::new();
    // Each cause once, with the Pods that it keeps.
    let mut causes: Vec<(String, Vec<String>)> = Vec::new();
    let mut kept = |name: &str, why: String| match causes.iter_mut().find(|(known, _)| *known == why) {
        Some((_, names)) => names.push(name.to_owned()),
        None => causes.push((why, vec![name.to_owned()])),
    };
    for condition in array(&agent["status"]["conditions"]) {
        if condition["type"] == "ReplicaFailure" && condition["status"] == "True" {
            reasons.push(text(&condition["message"]));
        }
    }
    for pod in pods {
        let name = text(&pod["metadata"]["name"]);
        for container in array(&pod["status"]["containerStatuses"]) {
            let waiting = &container["state"]["waiting"];
            if let Some(reason) = waiting["reason"].as_str() {
                let message = text(&waiting["message"]);
                let message = if message.is_empty() { String::new() } else { format!(": {message}") };
                let help = if PULL.contains(&reason) { HELP } else { "" };
                kept(&name, format!("{reason}{message}{help}"));
            }
        }
        for condition in array(&pod["status"]["conditions"]) {
            if condition["type"] == "PodScheduled" && condition["status"] == "False" {
                kept(&name, text(&condition["message"]));
            }
        }
    }
    reasons.extend(causes.into_iter().map(|(why, names)| match names.as_slice() {
        [name] => format!("pod/{name}: {why}"),
        names => format!("pods {}: {why}", names.join(", ")),
    }));
    reasons
}

fn text(value: &Value) -> String {
    crate::output::escape::line(value.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent(generation: u64, status: Value) -> Value {
        json!({ "metadata": { "generation": generation }, "spec": { "replicas": 2 }, "status": status })
    }

    #[test]
    fn it_is_done_once_every_agent_is_of_this_version_and_ready() {
        let status = json!({ "observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2 });
        assert_eq!(lacking(&agent(2, status.clone())), None);
        assert_eq!(lacking(&agent(3, status)).as_deref(), Some("the controller has not seen it yet"));
        let old = json!({ "observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 3 });
        assert_eq!(lacking(&agent(2, old)).as_deref(), Some("1 agent of the version before is still there"));
        let new = json!({ "observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1 });
        assert_eq!(lacking(&agent(2, new)).as_deref(), Some("1 of 2 agents are ready"));
        assert_eq!(
            lacking(&agent(2, json!({ "observedGeneration": 2 }))).as_deref(),
            Some("0 of 2 agents are of this version")
        );
    }

    #[test]
    fn what_keeps_a_pod_from_running_is_named() {
        let waiting = json!({ "reason": "ImagePullBackOff", "message": "Back-off pulling image \"a/b:1\"" });
        let scheduled = json!({ "type": "PodScheduled", "status": "False", "message": "0/3 nodes are available" });
        let pods = [
            json!({ "metadata": { "name": "one" }, "status": { "containerStatuses": [{ "state": { "waiting": waiting } }] } }),
            json!({ "metadata": { "name": "three" }, "status": { "containerStatuses": [{ "state": { "waiting": waiting } }] } }),
            json!({ "metadata": { "name": "two" }, "status": { "conditions": [scheduled] } }),
        ];
        let failure = json!({ "type": "ReplicaFailure", "status": "True", "message": "exceeded quota" });
        let agent = agent(1, json!({ "conditions": [failure] }));
        assert_eq!(
            reasons(&agent, &pods),
            [
                "exceeded quota",
                "pods one, three: ImagePullBackOff: Back-off pulling image \"a/b:1\" → --image names one of your registry",
                "pod/two: 0/3 nodes are available"
            ]
        );
    }
}
