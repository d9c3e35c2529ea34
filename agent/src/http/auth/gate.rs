//! What is asked of the API server about a token, and what is remembered of its answers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, header};
use http_body_util::{BodyExt as _, Limited};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use rotate_shared::{Code, names};

use super::door::{Door, too_many};
use super::rules::Need;
use crate::http::budget::{Bucket, Rate, Weight};
use crate::http::problem::Refusal;
use crate::http::slots::Key;
use crate::http::traffic::Refused;

/// How long an answer of the API server is believed: a withdrawn token or role works this much longer. Only what was
/// allowed is remembered, so that a role just granted works at once.
const REMEMBERED: SignedDuration = SignedDuration::from_secs(10);
/// How many tokens are remembered: some hundred bytes each.
pub(super) const TOKENS: usize = 1024;
/// Longer than any service account token; keeps garbage away from the API server.
pub(super) const TOKEN_BYTES: usize = 16 << 10;
/// How long the API server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A review's answer is what was asked and a few lines more.
const ANSWER_BYTES: usize = 256 << 10;

/// A token that was accepted. It is found by its SHA-256, so that the tokens are not kept, and so that how long a look-up
/// takes tells nothing about a token that is known: whoever measures it learns of hashes that cannot be chosen.
#[derive(Debug)]
struct Entry {
    user: Arc<UserInfo>,
    until: Timestamp,
    allowed: HashSet<Need>,
    bucket: Bucket,
}

/// The judge of one port's callers.
pub(super) struct Gate {
    pub(super) door: Arc<Door>,
    client: Client,
    // Written by the request handlers, each for a moment.
    remembered: Mutex<HashMap<Key, Entry>>,
    strangers: Mutex<Bucket>,
}

impl Gate {
    pub(super) fn new(door: Door, client: Client) -> Self {
        Self { door: Arc::new(door), client, remembered: Mutex::default(), strangers: Mutex::default() }
    }

    /// Who shows this token.
    pub(super) async fn identify(&self, token: &str, key: Key) -> Result<Arc<UserInfo>, Refusal> {
        match self.recall(&key) {
            Some(user) => Ok(user),
            None => self.authenticate(token, key).await,
        }
    }

    /// Takes a request off what its credential may ask for.
    pub(super) fn charge(&self, key: &Key, weight: Weight) -> Result<(), Refusal> {
        let now = self.door.clock.now();
        let mut remembered = self.remembered.lock();
        // One that was pushed out of memory meanwhile pays the next time.
        let Some(entry) = remembered.get_mut(key) else { return Ok(()) };
        entry.bucket.take(Rate::CREDENTIAL, weight.units(), now).map_err(|wait| {
            self.door.traffic.refuse(Refused::Rate);
            too_many("this token was used for too many requests", wait)
        })
    }

    fn recall(&self, key: &Key) -> Option<Arc<UserInfo>> {
        let remembered = self.remembered.lock();
        let entry = remembered.get(key).filter(|entry| entry.until > self.door.clock.now())?;
        Some(Arc::clone(&entry.user))
    }

    async fn authenticate(&self, token: &str, key: Key) -> Result<Arc<UserInfo>, Refusal> {
        self.admit_stranger(&key)?;
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), audiences: Some(vec![names::AUDIENCE.to_owned()]) },
            ..TokenReview::default()
        };
        let review = self.ask("review the token", &review).await?;
        let status = review.status.unwrap_or_default();
        // A server that ignores audiences answers with none: such a token was not meant for us.
        let ours = status.audiences.is_some_and(|audiences| audiences.iter().any(|name| name == names::AUDIENCE));
        let (Some(user), true, true) = (status.user, status.authenticated.unwrap_or(false), ours) else {
            self.remembered.lock().remove(&key);
            return Err(stranger(&format!(
                "the API server does not accept this token for audience {:?}",
                names::AUDIENCE
            )));
        };
        let user = Arc::new(user);
        self.remember(key, &user);
        Ok(user)
    }

    /// Keeps a flood of invented tokens from the API server. Those that were accepted before are not held up by it.
    fn admit_stranger(&self, key: &Key) -> Result<(), Refusal> {
        if self.remembered.lock().contains_key(key) {
            return Ok(());
        }
        let taken = self.strangers.lock().take(Rate::STRANGERS, 1, self.door.clock.now());
        taken.map_err(|wait| {
            self.door.traffic.refuse(Refused::Strangers);
            too_many("too many tokens are shown that were not seen before", wait)
        })
    }

    pub(super) fn remember(&self, key: Key, user: &Arc<UserInfo>) {
        let now = self.door.clock.now();
        let until = now.saturating_add(REMEMBERED).unwrap_or(Timestamp::MAX);
        let mut remembered = self.remembered.lock();
        let known = remembered.contains_key(&key);
        if !known && remembered.len() >= TOKENS {
            remembered.retain(|_, entry| entry.until > now);
        }
        if !known && remembered.len() >= TOKENS {
            remembered.clear();
        }
        let bucket = remembered.get(&key).map(|before| before.bucket).unwrap_or_default();
        remembered.insert(key, Entry { user: Arc::clone(user), until, allowed: HashSet::new(), bucket });
    }

    /// Whether somebody may do this.
    pub(super) async fn authorize(&self, need: Need, user: &UserInfo, key: &Key) -> Result<(), Refusal> {
        if self.remembered.lock().get(key).is_some_and(|entry| entry.allowed.contains(&need)) {
            return Ok(());
        }
        // What is refused is not remembered: whoever asks again and again for what they may not have is slowed down.
        self.charge(key, Weight::Heavy)?;
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
        let review = self.ask("review the access", &review).await?;
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

    async fn ask<K>(&self, doing: &str, review: &K) -> Result<K, Refusal>
    where
        K: kube::Resource<DynamicType = ()> + serde::Serialize + serde::de::DeserializeOwned,
    {
        match tokio::time::timeout(PATIENCE, self.post(review)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(why)) => Err(Refusal::new(Code::UpstreamFailed, format!("failed to {doing}: {why}"))),
            Err(elapsed) => Err(Refusal::upstream(doing, &elapsed)),
        }
    }

    /// By hand: kube's own way logs answers that it cannot read, and the answer to a TokenReview repeats the token. For the
    /// same reason nothing that the API server says is passed on.
    async fn post<K>(&self, review: &K) -> Result<K, String>
    where
        K: kube::Resource<DynamicType = ()> + serde::Serialize + serde::de::DeserializeOwned,
    {
        let body = serde_json::to_vec(review).map_err(|error| error.to_string())?;
        let request = Request::post(K::url_path(&(), None)).header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body)).map_err(|error| error.to_string())?;
        let answer = self.client.send(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("the API server answered {status}"));
        }
        let body = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
        let body = body.map_err(|_| "the API server's answer broke off".to_owned())?.to_bytes();
        serde_json::from_slice(&body).map_err(|_| "the API server's answer cannot be read".to_owned())
    }

    #[cfg(test)]
    pub(super) fn remembers(&self, key: &Key) -> (usize, bool) {
        let count = self.remembered.lock().len();
        (count, self.recall(key).is_some())
    }
}

/// The token of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
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

/// What a token is remembered by.
pub(super) fn key(token: &str) -> Key {
    let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}
