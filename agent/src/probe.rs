//! Asks the API server beforehand what it would make of our placeholders: one dry run for each kind of room.
//!
//! ```text
//! plans ──▶ kinds of room ──▶ create, dryRun=All ──▶ judge ──▶ blockers and warnings of each plan
//!                             list ResourceQuotas ──▶ quota ──┘
//! ```
//!
//! What admission refuses or changes is found before anything is touched; what cannot be asked is said. Why so:
//! `docs/decisions/013-what-a-plan-promises.md`.

mod judge;
mod quota;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use http::Request;
use k8s_openapi::api::core::v1::{Pod as ApiPod, ResourceQuota};
use kube::Client;
use kube::core::Status;
use rotate_shared::plan::Notice;
use rotate_shared::{Code, Options, names};

pub use judge::Standing;
pub(crate) use judge::remedy;
use judge::{Answer, Finding};

use crate::cache::Resources;
use crate::client::said;
use crate::clock::Clock;
use crate::surge::constraints::Placement;
use crate::surge::moves::RoomClass;
use crate::surge::placeholder::{self, Placeholder};
use crate::surge::plan::Planned;

/// How many kinds of room are asked about for one request, be it of one plan or of a whole fleet.
const AT_MOST: usize = 20;
/// Requests under way at a time.
const AT_ONCE: usize = 4;
/// The API server waits up to 30 s for a webhook.
const PATIENCE: Duration = Duration::from_secs(40);
/// A new namespace has no service account for some tenths of a second.
const ACCOUNT_EVERY: Duration = Duration::from_millis(300);
const ACCOUNT_LOOKS: u32 = 20;

/// Asks what becomes of placeholders.
#[derive(Clone)]
pub struct Probe {
    client: Client,
    /// The image of placeholders.
    image: String,
    standing: Standing,
    clock: Clock,
}

// kube's client has no `Debug`.
impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").field("image", &self.image).field("standing", &self.standing).finish_non_exhaustive()
    }
}

/// Why it could not be asked. Fits after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The API server's, where it is no verdict on the placeholder.
    #[error("probe what becomes of placeholders: {}", said(.0))]
    Api(#[from] kube::Error),
    /// No answer.
    #[error("probe what becomes of placeholders: no answer within {} s", PATIENCE.as_secs())]
    TimedOut,
}

/// One kind of room, with the plans that need it.
#[derive(Debug)]
struct Kind {
    class: RoomClass,
    /// The UID of a Pod that it is for.
    pod_uid: String,
    /// Where in the plans: of which plan, and its class there.
    members: Vec<(usize, String)>,
}

impl Probe {
    /// Asks with this client.
    #[must_use]
    pub fn new(client: Client, image: String, standing: Standing, clock: Clock) -> Self {
        Self { client, image, standing, clock }
    }

    /// Adds to each plan what the API server would make of its placeholders.
    ///
    /// # Errors
    ///
    /// The API server cannot be asked at all.
    pub async fn probe(&self, plans: &mut [Planned], options: &Options) -> Result<(), ProbeError> {
        let mut kinds = kinds(plans);
        if kinds.is_empty() {
            return Ok(());
        }
        let left_out = kinds.split_off(kinds.len().min(AT_MOST));
        let deadline = placeholder::deadline_seconds(options);
        // A `Vec` of futures: a closure in the stream would not be general enough over its lifetimes to be `Send`.
        let asked: Vec<_> = kinds.iter().map(|kind| self.ask(kind, deadline)).collect();
        let found: Vec<Vec<Finding>> = stream::iter(asked).buffered(AT_ONCE).try_collect().await?;
        let quotas = self.quotas().await?;

        let mut findings: Vec<BTreeMap<Finding, Vec<&str>>> = plans.iter().map(|_| BTreeMap::new()).collect();
        for (kind, found) in kinds.iter().zip(found) {
            for (plan, id) in &kind.members {
                for finding in &found {
                    findings[*plan].entry(finding.clone()).or_default().push(id);
                }
            }
        }
        for (plan, found) in plans.iter_mut().zip(findings) {
            let short = quotas.as_ref().map(|quotas| quota::short(quotas, &plan.rooms())).unwrap_or_default();
            // Said with the whole sum, and not once more for one of them.
            let told = |finding: &Finding| !short.is_empty() && finding.is_of_a_quota();
            for (finding, classes) in found.into_iter().filter(|(finding, _)| !told(finding)) {
                let (blocks, notice) = finding.notice(&classes);
                if blocks { plan.plan.blockers.push(notice) } else { plan.plan.warnings.push(notice) }
            }
            plan.plan.blockers.extend(short);
            if quotas.is_none() && !plan.classes.is_empty() {
                plan.plan.warnings.push(quotas_unread());
            }
        }
        if !left_out.is_empty() {
            let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
            left_out
                .iter()
                .flat_map(|kind| &kind.members)
                .for_each(|(plan, _)| *numbers.entry(*plan).or_default() += 1);
            for (plan, number) in numbers {
                plans[plan].plan.warnings.push(too_many(number));
            }
        }
        Ok(())
    }

    /// What becomes of one placeholder.
    async fn ask(&self, kind: &Kind, deadline_seconds: i64) -> Result<Vec<Finding>, ProbeError> {
        let sent = placeholder::manifest(&Placeholder {
            name: names::placeholder_name("probe", &kind.pod_uid, 0),
            rotation: "probe".to_owned(),
            class: kind.class.id.clone(),
            pod_uid: kind.pod_uid.clone(),
            requests: kind.class.requests.clone(),
            placement: kind.class.placement.clone(),
            deadline_seconds,
            image: self.image.clone(),
        });
        let mut looks = 0;
        loop {
            let answer = match tokio::time::timeout(PATIENCE, self.create(&sent)).await {
                Ok(answer) => answer?,
                Err(_) => return Err(ProbeError::TimedOut),
            };
            if looks < ACCOUNT_LOOKS && answer.lacks_service_account() {
                looks += 1;
                self.clock.sleep(ACCOUNT_EVERY).await;
                continue;
            }
            return Ok(judge::judge(&sent, &kind.class.requests, &answer, self.standing));
        }
    }

    async fn create(&self, sent: &ApiPod) -> Result<Answer, kube::Error> {
        let path = format!("/api/v1/namespaces/{}/pods?dryRun=All", names::ROOM_NAMESPACE);
        let body = serde_json::to_vec(sent).map_err(kube::Error::SerdeError)?;
        let request = Request::post(path).header("content-type", "application/json").body(body);
        match self.client.request_text(request.map_err(kube::Error::HttpError)?).await {
            Ok(text) => Ok(Answer::Accepted(text)),
            Err(kube::Error::Api(status)) if is_verdict(&status) => Ok(Answer::Refused(status)),
            Err(error) => Err(error),
        }
    }

    /// The quotas of the placeholders' namespace; `None`: they may not be read.
    async fn quotas(&self) -> Result<Option<Vec<ResourceQuota>>, kube::Error> {
        let path = format!("/api/v1/namespaces/{}/resourcequotas", names::ROOM_NAMESPACE);
        let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        match self.client.request::<k8s_openapi::List<ResourceQuota>>(request).await {
            Ok(list) => Ok(Some(list.items)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Some(Vec::new())),
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether the answer is about the placeholder, or about the API server and its traffic.
fn is_verdict(status: &Status) -> bool {
    // A webhook that cannot be called is a 500.
    (400..500).contains(&status.code) && !matches!(status.code, 401 | 408 | 429) || status.message.contains("webhook")
}

/// The kinds of room that all plans need, each once, in the order of the plans.
fn kinds(plans: &[Planned]) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    let mut known: BTreeMap<(Resources, Placement), usize> = BTreeMap::new();
    for (place, planned) in plans.iter().enumerate() {
        for class in &planned.classes {
            let at = *known.entry((class.requests.clone(), class.placement.clone())).or_insert_with(|| {
                let its = planned.plan.pods.iter().find(|pod| pod.class.as_deref() == Some(&*class.id));
                let pod_uid = its.map(|pod| pod.uid.clone()).unwrap_or_default();
                kinds.push(Kind { class: class.clone(), pod_uid, members: Vec::new() });
                kinds.len() - 1
            });
            kinds[at].members.push((place, class.id.clone()));
        }
    }
    kinds
}

fn notice(code: Code, message: String, remedy: &str) -> Notice {
    Notice { code, object: format!("Namespace {}", names::ROOM_NAMESPACE), message, remedy: remedy.to_owned() }
}

fn quotas_unread() -> Notice {
    notice(
        Code::NotProbed,
        "its ResourceQuotas may not be read: whether they leave room for all placeholders was not looked at".to_owned(),
        "the right to list resourcequotas there",
    )
}

fn too_many(number: usize) -> Notice {
    let message = format!(
        "of the kinds of placeholder {AT_MOST} were probed: what the API server makes of {number} more was not looked at"
    );
    notice(Code::NotProbed, message, "plan fewer nodes at a time")
}

#[cfg(test)]
mod tests;
