//! One eviction through the Eviction API, and what its answer means.
//!
//! Not kube's `Api::evict`: it serialises the delete options under a name that the API server ignores, so that an
//! eviction with a wrong UID precondition is accepted (measured with kube 5.0.0).

use std::time::Duration;

use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use k8s_openapi::api::policy::v1::Eviction as ApiEviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;

use crate::client::said;

/// A Pod to evict: exactly this one, not one that took its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Eviction {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, a precondition.
    pub uid: String,
    /// Seconds to shut down; `None`: the Pod's own.
    pub grace_period_seconds: Option<i64>,
    /// Delete it instead: no disruption budget is asked.
    pub bypass: bool,
}

impl Eviction {
    /// What it is called, to people.
    pub(crate) fn act(&self) -> &'static str {
        if self.bypass { "deletion" } else { "eviction" }
    }
}

/// What the API server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The Pod is shutting down.
    Accepted,
    /// There is no such Pod.
    Gone,
    /// Another Pod has its name: look again.
    Replaced,
    /// Its disruption budget has nothing to give.
    Budget {
        /// With the budget's name and numbers.
        message: String,
    },
    /// Too much traffic; nothing to do with disruption budgets.
    Throttled {
        /// How long to stay away.
        after: Duration,
    },
    /// Several disruption budgets select it: no eviction of it will ever be accepted.
    SeveralBudgets {
        /// As the API server says it.
        message: String,
    },
    /// It goes with its namespace.
    NamespaceTerminating,
    /// Refused otherwise, by an admission webhook or for lack of permission. May mean "in progress".
    Refused {
        /// The HTTP status.
        status: u16,
        /// As the API server says it.
        message: String,
    },
}

impl Answer {
    /// Whether the API server had the work and would not do it.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        !matches!(self, Self::Accepted | Self::Gone | Self::Replaced)
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum EvictError {
    /// The request cannot be built: a name that no object can have.
    #[error("build the eviction: {0}")]
    Request(#[source] http::Error),
    /// The body cannot be written.
    #[error("write the eviction: {0}")]
    Body(#[source] serde_json::Error),
    /// The API server cannot be reached.
    #[error("send the eviction: {}", said(.0))]
    Send(#[source] kube::Error),
}

/// Evicts a Pod: exactly one request.
///
/// # Errors
///
/// The API server cannot be reached. Whatever it answers is an [`Answer`].
pub async fn evict(client: &Client, eviction: &Eviction) -> Result<Answer, EvictError> {
    send(client, request(eviction, "")?).await
}

/// Asks what would be answered to an eviction: exactly one request, which changes nothing.
///
/// # Errors
///
/// The API server cannot be reached. Whatever it answers is an [`Answer`].
pub async fn ask(client: &Client, eviction: &Eviction) -> Result<Answer, EvictError> {
    send(client, request(eviction, "?dryRun=All")?).await
}

async fn send(client: &Client, request: Request<Body>) -> Result<Answer, EvictError> {
    let response = client.send(request).await.map_err(EvictError::Send)?;
    let (parts, body) = response.into_parts();
    let retry_after = parts.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let body = body.collect().await.map_err(EvictError::Send)?.to_bytes();
    Ok(answer(parts.status, retry_after, &body))
}

fn request(eviction: &Eviction, query: &str) -> Result<Request<Body>, EvictError> {
    let options = DeleteOptions {
        grace_period_seconds: eviction.grace_period_seconds,
        preconditions: Some(Preconditions { uid: Some(eviction.uid.clone()), resource_version: None }),
        ..DeleteOptions::default()
    };
    let path = format!("/api/v1/namespaces/{}/pods/{}", eviction.namespace, eviction.name);
    let (builder, body) = if eviction.bypass {
        (Request::delete(path + query), serde_json::to_vec(&options))
    } else {
        let metadata = ObjectMeta {
            name: Some(eviction.name.clone()),
            namespace: Some(eviction.namespace.clone()),
            ..ObjectMeta::default()
        };
        let body = ApiEviction { metadata, delete_options: Some(options) };
        (Request::post(path + "/eviction" + query), serde_json::to_vec(&body))
    };
    builder
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.map_err(EvictError::Body)?))
        .map_err(EvictError::Request)
}

/// The parts of a `Status` that tell the cases apart. Throttling is answered with plain text, and a webhook may say
/// anything, so that nothing is required.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    message: String,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    causes: Option<Vec<Cause>>,
    retry_after_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

fn answer(status: StatusCode, retry_after: Option<u64>, body: &[u8]) -> Answer {
    let said: Status = serde_json::from_slice(body).unwrap_or_default();
    let details = said.details.unwrap_or_default();
    let causes = details.causes.unwrap_or_default();
    let cause = |reason: &str| causes.iter().find(|cause| cause.reason == reason);
    match status {
        _ if status.is_success() => Answer::Accepted,
        StatusCode::NOT_FOUND => Answer::Gone,
        StatusCode::CONFLICT => Answer::Replaced,
        StatusCode::TOO_MANY_REQUESTS => match cause("DisruptionBudget") {
            Some(cause) => Answer::Budget {
                message: Some(&cause.message).filter(|text| !text.is_empty()).unwrap_or(&said.message).clone(),
            },
            None => Answer::Throttled {
                after: Duration::from_secs(retry_after.or(details.retry_after_seconds).unwrap_or(1).clamp(1, 60)),
            },
        },
        StatusCode::FORBIDDEN if cause("NamespaceTerminating").is_some() => Answer::NamespaceTerminating,
        StatusCode::INTERNAL_SERVER_ERROR if said.message.contains("more than one PodDisruptionBudget") => {
            Answer::SeveralBudgets { message: said.message }
        }
        _ => Answer::Refused { status: status.as_u16(), message: described(said.message, body) },
    }
}

/// A message for people: what the status says, or else the beginning of the body.
fn described(message: String, body: &[u8]) -> String {
    if !message.is_empty() {
        return message;
    }
    let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
    if text.trim().is_empty() { "no reason given".to_owned() } else { text.trim().to_owned() }
}

#[cfg(test)]
mod tests;
