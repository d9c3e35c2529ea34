//! What really happened to Pods, seen by a watch of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// One Pod's life. Times are when the watch told, since the start of the recorder.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) created: Duration,
    pub(crate) bound: Option<(Duration, String)>,
    pub(crate) ready: Option<Duration>,
    pub(crate) terminating: Option<Duration>,
    pub(crate) gone: Option<Duration>,
}

impl Life {
    /// How long it had no node; `None` while it has none.
    pub(crate) fn unscheduled(&self) -> Option<Duration> {
        self.bound.as_ref().map(|(bound, _)| bound.saturating_sub(self.created))
    }
}

/// Records the lives of all Pods from its start.
pub(crate) struct Recorder {
    lives: Arc<Mutex<BTreeMap<String, Life>>>,
    started: Instant,
    task: JoinHandle<Result<()>>,
}

impl Recorder {
    pub(crate) async fn start(client: Client) -> Result<Self> {
        let lives = Arc::new(Mutex::new(BTreeMap::new()));
        let started = Instant::now();
        let pods = Api::<Pod>::all(client);
        let mut version = pods.list(&Default::default()).await?.metadata.resource_version.unwrap_or_default();
        let seen = Arc::clone(&lives);
        let task = tokio::spawn(async move {
            loop {
                let mut events = std::pin::pin!(pods.watch(&WatchParams::default().timeout(290), &version).await?);
                while let Some(event) = events.try_next().await? {
                    let mut lives = seen.lock().expect("no reader panics");
                    match event {
                        WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                            version = pod.resource_version().unwrap_or_default();
                            record(&mut lives, &pod, started.elapsed(), false);
                        }
                        WatchEvent::Deleted(pod) => {
                            version = pod.resource_version().unwrap_or_default();
                            record(&mut lives, &pod, started.elapsed(), true);
                        }
                        WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                        WatchEvent::Error(status) => anyhow::bail!("the recorder's watch ended: {status:?}"),
                    }
                }
            }
        });
        Ok(Self { lives, started, task })
    }

    /// Since the start of the recorder.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// All lives so far, in the order of their creation.
    pub(crate) fn lives(&self) -> Vec<Life> {
        let mut lives: Vec<_> = self.lives.lock().expect("the recorder does not panic").values().cloned().collect();
        lives.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        lives
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn record(lives: &mut BTreeMap<String, Life>, pod: &Pod, at: Duration, gone: bool) {
    let life = lives.entry(pod.uid().unwrap_or_default()).or_insert_with(|| Life {
        namespace: pod.namespace().unwrap_or_default(),
        name: pod.name_any(),
        created: at,
        bound: None,
        ready: None,
        terminating: None,
        gone: None,
    });
    if let (None, Some(node)) = (&life.bound, pod.spec.as_ref().and_then(|spec| spec.node_name.clone())) {
        life.bound = Some((at, node));
    }
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    if life.ready.is_none() && conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True") {
        life.ready = Some(at);
    }
    if life.terminating.is_none() && pod.metadata.deletion_timestamp.is_some() {
        life.terminating = Some(at);
    }
    if gone {
        life.gone = Some(at);
    }
}
