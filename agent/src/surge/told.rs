//! What others say of placeholders that do not run yet: the scheduler, autoscalers, kubelets.
//!
//! ```text
//! events of the room's namespace ─┐
//! statuses of bound placeholders ─┴─▶ told ──▶ for each placeholder the one message that helps a person on
//! ```
//!
//! Works from objects and events alone, so that it does where an autoscaler itself cannot be seen (EKS Auto Mode, AKS).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

/// Messages are cut for people: Karpenter names every pool with all of its requirements.
const LONGEST: usize = 300;
/// A placeholder that the scheduler tries every few seconds has one event of each kind; more than this is no use to anybody.
const AT_MOST: usize = 2000;

/// The last word on a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Who says what, in a line.
    pub words: String,
    /// When it was last said; what is so at this moment is newer than everything that was said.
    at: Timestamp,
    weight: Weight,
}

/// Whose word counts. The scheduler repeats itself all the time and must not drown out what an autoscaler made of it; a
/// kubelet speaks only once both have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    Scheduler,
    Autoscaler,
    Kubelet,
}

/// The last word on each placeholder, by its UID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllTold(BTreeMap<String, Told>);

/// A page of a list of events, or of Pods.
#[derive(Debug, Deserialize)]
struct List<T> {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ListMetadata {
    r#continue: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    involved_object: Reference,
    reason: Option<String>,
    message: Option<String>,
    source: Source,
    reporting_component: Option<String>,
    last_timestamp: Option<Timestamp>,
    event_time: Option<Timestamp>,
    series: Option<Series>,
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reference {
    uid: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Source {
    component: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Series {
    last_observed_time: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    uid: String,
    creation_timestamp: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Metadata,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    state: ContainerState,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Waiting>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: Option<String>,
}

// === impl AllTold ===

impl AllTold {
    /// What is said of the placeholder with this UID.
    #[must_use]
    pub fn of(&self, uid: &str) -> Option<&Told> {
        self.0.get(uid)
    }

    /// Takes in a page of the events of the room's namespace, as JSON, and tells where the next begins. Events of anything
    /// else than what is `wanted` are passed over.
    ///
    /// # Errors
    ///
    /// It is no such list.
    pub fn take_events(
        &mut self,
        json: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Option<String>, serde_json::Error> {
        let list: List<Event> = serde_json::from_str(json)?;
        for event in list.items {
            let Some(uid) = event.involved_object.uid.clone().filter(|uid| wanted(uid)) else { continue };
            if let Some(told) = event.told() {
                self.put(uid, told);
            }
        }
        Ok(list.metadata.r#continue.filter(|next| !next.is_empty()))
    }

    /// Takes in a list of placeholders, as JSON: those that are bound and do not start.
    ///
    /// # Errors
    ///
    /// It is no such list.
    pub fn take_statuses(&mut self, json: &str) -> Result<(), serde_json::Error> {
        let list: List<Pod> = serde_json::from_str(json)?;
        for pod in list.items {
            let words = pod.does_not_start();
            if let Some(words) = words {
                self.put(pod.metadata.uid, Told { words, at: Timestamp::MAX, weight: Weight::Kubelet });
            }
        }
        Ok(())
    }

    fn put(&mut self, uid: String, told: Told) {
        if self.0.len() >= AT_MOST && !self.0.contains_key(&uid) {
            return;
        }
        let known = self.0.entry(uid).or_insert_with(|| told.clone());
        if (told.weight, told.at) > (known.weight, known.at) {
            *known = told;
        }
    }
}

// === impl Event ===

impl Event {
    fn told(&self) -> Option<Told> {
        let component = [&self.reporting_component, &self.source.component].into_iter().flatten();
        let component = component.map(String::as_str).find(|name| !name.is_empty()).unwrap_or("somebody");
        let message = self.message.as_deref().unwrap_or_default();
        let (weight, words) = match self.reason.as_deref().unwrap_or_default() {
            "FailedScheduling" if is_scheduler(component) => (Weight::Scheduler, scheduling(message)),
            "FailedScheduling" => (Weight::Autoscaler, format!("{component} brings no node: {message}")),
            "NotTriggerScaleUp" => {
                let why = message.strip_prefix("pod didn't trigger scale-up: ").unwrap_or(message);
                (Weight::Autoscaler, format!("{component} brings no node: {why}"))
            }
            "TriggeredScaleUp" => {
                let what = message.strip_prefix("pod triggered scale-up: ").unwrap_or(message);
                (Weight::Autoscaler, format!("{component} brings a node: {what}"))
            }
            "Nominated" => {
                let what = message.strip_prefix("Pod should schedule on: ").unwrap_or(message);
                (Weight::Autoscaler, format!("{component} intends it for {what}"))
            }
            "FailedCreatePodSandBox" | "FailedMount" => (Weight::Kubelet, message.to_owned()),
            _ => return None,
        };
        Some(Told { words: cut(&words), at: self.at(), weight })
    }

    /// When it was last said. A series has its own time; the older kind of event has `lastTimestamp`.
    fn at(&self) -> Timestamp {
        let series = self.series.as_ref().and_then(|series| series.last_observed_time);
        let times = [series, self.last_timestamp, self.event_time, self.metadata.creation_timestamp];
        times.into_iter().flatten().max().unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Whether it places Pods: `default-scheduler`, and others by their name.
fn is_scheduler(component: &str) -> bool {
    component.ends_with("scheduler")
}

/// Without what the scheduler says of preemption and of devices: placeholders never preempt, and claim none.
pub(crate) fn scheduling(message: &str) -> String {
    let ends = [", preemption: ", " preemption: ", " no new claims to deallocate", ", still not schedulable"];
    let end = ends.iter().filter_map(|end| message.find(end)).min().unwrap_or(message.len());
    message[..end].trim_end().to_owned()
}

// === impl Pod ===

impl Pod {
    /// What its kubelet says, where it is bound and its container does not start.
    fn does_not_start(&self) -> Option<String> {
        let node = self.spec.node_name.as_deref()?;
        let waiting =
            self.status.container_statuses.iter().flatten().find_map(|status| status.state.waiting.as_ref())?;
        // Every container begins so.
        if matches!(waiting.reason.as_str(), "" | "ContainerCreating" | "PodInitializing") {
            return None;
        }
        let message = waiting.message.as_deref().filter(|message| !message.is_empty());
        let message = message.map(|message| format!(": {message}")).unwrap_or_default();
        Some(cut(&format!("node {node} cannot start it: {}{message}", waiting.reason)))
    }
}

/// One line, not too long, without what a terminal would take for a command.
fn cut(words: &str) -> String {
    let line: String = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
