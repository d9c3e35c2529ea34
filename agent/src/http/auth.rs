//! Who may: bearer tokens are shown to the API server (TokenReview), then its RBAC is asked (SubjectAccessReview).
//!
//! Every route is listed in [`RULES`]; one that is not can't be reached over a socket at all. Why so:
//! `docs/decisions/005-who-may-call-the-agent.md`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use rotate_shared::{Code, names};

use super::problem::{self, Refusal};
use crate::clock::Clock;

/// How long an answer of the API server is believed: a withdrawn token or role works this much longer. Only what was
/// allowed is remembered, so that a role just granted works at once.
const REMEMBERED: SignedDuration = SignedDuration::from_secs(10);
/// How many tokens are remembered: some hundred bytes each.
const TOKENS: usize = 1024;
/// Longer than any service account token; keeps garbage away from the API server.
const TOKEN_BYTES: usize = 16 << 10;
/// How long the API server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where a token's id is in the extra fields of its user (KEP-4193).
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// What each route needs: resource and verb in [`names::AUTHORIZATION_GROUP`], cluster-wide.
const RULES: [(Method, &str, Need); 11] = [
    (Method::POST, "/v1/plans", Need("plans", "create")),
    (Method::POST, "/v1/rotations", Need("rotations", "create")),
    (Method::GET, "/v1/rotations", Need("rotations", "list")),
    (Method::GET, "/v1/rotations/{id}", Need("rotations", "get")),
    (Method::GET, "/v1/rotations/{id}/events", Need("rotations", "get")),
    (Method::POST, "/v1/rotations/{id}/pause", Need("rotations", "update")),
    (Method::POST, "/v1/rotations/{id}/resume", Need("rotations", "update")),
    (Method::POST, "/v1/rotations/{id}/cancel", Need("rotations", "update")),
    (Method::GET, "/v1/nodes", Need("nodes", "list")),
    (Method::GET, "/v1/nodes/{name}", Need("nodes", "get")),
    (Method::GET, "/v1/cache", Need("nodes", "list")),
];

/// Open to everybody who reaches the port: they tell nothing about the cluster.
const OPEN: [&str; 2] = ["/livez", "/version"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Need(&'static str, &'static str);

/// Who sent a request, as far as the API server vouches for it. Missing where there is no authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) user: String,
    /// The token's id, which the API server's audit log has, too.
    pub(crate) credential_id: Option<String>,
}

/// All that [`RULES`] ask for, as (resource, verb): what the manifests' roles are compared with.
#[cfg(test)]
pub(crate) fn needs() -> Vec<(String, String)> {
    RULES.iter().map(|(_, _, Need(resource, verb))| ((*resource).to_owned(), (*verb).to_owned())).collect()
}

/// Puts the control API behind the API server's judgement.
pub(crate) fn guard(router: Router, client: Client, clock: Clock) -> Router {
    let gate = Arc::new(Gate { client, clock, remembered: Mutex::default() });
    router.layer(middleware::from_fn_with_state(gate, check)).layer(middleware::from_fn(problem::contain))
}

/// Keeps browsers away from a port without authentication: pages of other origins, and names rebound to loopback.
pub(crate) fn guard_open(router: Router) -> Router {
    router.layer(middleware::from_fn(check_local)).layer(middleware::from_fn(problem::contain))
}

async fn check_local(request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.parse::<Authority>();
    let name = name.as_ref().map(Authority::host).unwrap_or_default();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let local = name == "localhost" || address.is_ok_and(|address| address.is_loopback());
    if local && !request.headers().contains_key(header::ORIGIN) {
        return next.run(request).await;
    }
    Refusal::new(Code::Forbidden, "without authentication only programs on this machine are answered").into_response()
}

async fn check(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let open = path.as_deref().is_some_and(|path| OPEN.contains(&path));
    if !open {
        match gate.admit(request.method(), path.as_deref(), request.headers()).await {
            Ok(caller) => _ = request.extensions_mut().insert(caller),
            Err(refusal) => return refusal.into_response(),
        }
    }
    next.run(request).await
}

/// SHA-256 of a token: the tokens themselves are not kept.
type Key = [u8; 32];

#[derive(Debug)]
struct Entry {
    user: Arc<UserInfo>,
    until: Timestamp,
    allowed: HashSet<Need>,
}

struct Gate {
    client: Client,
    clock: Clock,
    // Written by the request handlers, each for a moment.
    remembered: Mutex<HashMap<Key, Entry>>,
}

impl Gate {
    async fn admit(&self, method: &Method, path: Option<&str>, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let token = bearer(headers)?;
        let key = key(token);
        let user = match self.recall(&key) {
            Some(user) => user,
            None => self.authenticate(token, key).await?,
        };
        // A path that leads nowhere is told to be so, but not to strangers.
        if let Some(path) = path {
            self.authorize(need(method, path)?, &user, &key).await?;
        }
        let credential_id = user.extra.as_ref().and_then(|extra| extra.get(CREDENTIAL_ID)?.first().cloned());
        Ok(Caller { user: user.username.clone().unwrap_or_default(), credential_id })
    }

    fn recall(&self, key: &Key) -> Option<Arc<UserInfo>> {
        let remembered = self.remembered.lock();
        let entry = remembered.get(key).filter(|entry| entry.until > self.clock.now())?;
        Some(Arc::clone(&entry.user))
    }

    async fn authenticate(&self, token: &str, key: Key) -> Result<Arc<UserInfo>, Refusal> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), audiences: Some(vec![names::AUDIENCE.to_owned()]) },
            ..TokenReview::default()
        };
        let review = self.ask("review the token", review).await?;
        let status = review.status.unwrap_or_default();
        // A server that ignores audiences answers with none: such a token was not meant for us.
        let ours = status.audiences.is_some_and(|audiences| audiences.iter().any(|name| name == names::AUDIENCE));
        let (Some(user), true, true) = (status.user, status.authenticated.unwrap_or(false), ours) else {
            return Err(stranger(&format!(
                "the API server does not accept this token for audience {:?}",
                names::AUDIENCE
            )));
        };
        let user = Arc::new(user);
        self.remember(key, &user);
        Ok(user)
    }

    fn remember(&self, key: Key, user: &Arc<UserInfo>) {
        let now = self.clock.now();
        let until = now.saturating_add(REMEMBERED).unwrap_or(Timestamp::MAX);
        let mut remembered = self.remembered.lock();
        if remembered.len() >= TOKENS {
            remembered.retain(|_, entry| entry.until > now);
        }
        if remembered.len() >= TOKENS {
            remembered.clear();
        }
        remembered.insert(key, Entry { user: Arc::clone(user), until, allowed: HashSet::new() });
    }

    async fn authorize(&self, need: Need, user: &UserInfo, key: &Key) -> Result<(), Refusal> {
        if self.remembered.lock().get(key).is_some_and(|entry| entry.allowed.contains(&need)) {
            return Ok(());
        }
        let Need(resource, verb) = need;
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username.clone(),
                uid: user.uid.clone(),
                groups: user.groups.clone(),
                extra: user.extra.clone().map(|extra| extra.into_iter().collect::<BTreeMap<_, _>>()),
                resource_attributes: Some(ResourceAttributes {
                    group: Some(names::AUTHORIZATION_GROUP.to_owned()),
                    resource: Some(resource.to_owned()),
                    verb: Some(verb.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let review = self.ask("review the access", review).await?;
        let status = review.status.unwrap_or_default();
        if !status.allowed || status.denied.unwrap_or(false) {
            let user = user.username.as_deref().unwrap_or_default();
            tracing::info!(user, resource, verb, "refused");
            let group = names::AUTHORIZATION_GROUP;
            return Err(Refusal::new(
                Code::Forbidden,
                format!("user {user:?} cannot {verb} resource {resource:?} in API group {group:?}"),
            ));
        }
        if let Some(entry) = self.remembered.lock().get_mut(key) {
            entry.allowed.insert(need);
        }
        Ok(())
    }

    async fn ask<K>(&self, doing: &str, review: K) -> Result<K, Refusal>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let api = Api::<K>::all(self.client.clone());
        match tokio::time::timeout(PATIENCE, api.create(&PostParams::default(), &review)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(Refusal::upstream(doing, &error)),
            Err(elapsed) => Err(Refusal::upstream(doing, &elapsed)),
        }
    }
}

fn need(method: &Method, path: &str) -> Result<Need, Refusal> {
    let method = if method == Method::HEAD { &Method::GET } else { method };
    RULES.iter().find(|(allowed, route, _)| allowed == method && *route == path).map(|(_, _, need)| *need).ok_or_else(
        || {
            Refusal::new(Code::BadRequest, format!("{method} is not possible on {path:?}"))
                .status(StatusCode::METHOD_NOT_ALLOWED)
        },
    )
}

fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let value = headers.get(header::AUTHORIZATION).ok_or_else(|| stranger("a bearer token is needed"))?;
    let (scheme, token) = value.to_str().ok().and_then(|value| value.split_once(' ')).unwrap_or_default();
    let token = token.trim();
    if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= TOKEN_BYTES {
        Ok(token)
    } else {
        Err(stranger("the Authorization header holds no bearer token"))
    }
}

fn stranger(detail: &str) -> Refusal {
    Refusal::new(Code::Unauthenticated, detail).header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
}

fn key(token: &str) -> Key {
    let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests;
