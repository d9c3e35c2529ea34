//! Who may: bearer tokens are shown to the API server (TokenReview), then its RBAC is asked (SubjectAccessReview).
//!
//! ```text
//! connection ──▶ contain ──▶ unambiguous? ──▶ Gate: known? within its rate? allowed? ──▶ Door: a place? ──▶ handler
//! ```
//!
//! Every route is listed in [`rules::RULES`]; one that is not can't be reached over a socket at all. Why so:
//! `docs/decisions/005-who-may-call-the-agent.md`.

mod door;
mod gate;
mod held;
mod rules;

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware};
use http::header;
use http::uri::Authority;
use kube::Client;
use rotate_shared::{Code, host};

pub(crate) use door::{Pass, Purse};

use self::door::{Door, Visa};
use self::gate::Gate;
use self::held::until_sent;
use super::budget::Weight;
use super::control::tell_version;
use super::extract;
use super::problem::{self, Refusal};
use super::slots::{Owner, Slot};
use super::strict;
use super::traffic::{Refused, Traffic};
use crate::clock::Clock;

/// Where a token's id is in the extra fields of its user (KEP-4193).
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Who sent a request, as far as the API server vouches for it. Missing where there is no authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) user: String,
    /// The token's id, which the API server's audit log has, too.
    pub(crate) credential_id: Option<String>,
}

/// All that [`rules::RULES`] ask for, as (resource, verb): what the manifests' roles are compared with.
#[cfg(test)]
pub(crate) fn needs() -> Vec<(String, String)> {
    rules::RULES.iter().map(|rule| (rule.2.0.to_owned(), rule.2.1.to_owned())).collect()
}

/// Every route of [`rules::RULES`]: what the API's description is compared with.
#[cfg(test)]
pub(crate) fn routes() -> std::collections::BTreeSet<(http::Method, String)> {
    rules::RULES.iter().map(|rule| (rule.0.clone(), rule.1.to_owned())).collect()
}

/// Puts the control API behind the API server's judgement.
pub(crate) fn guard(router: Router, client: Client, clock: Clock, traffic: Arc<Traffic>) -> Router {
    let gate = Arc::new(Gate::new(Door::new(clock, traffic), client));
    router.layer(middleware::from_fn_with_state(gate, async |State(gate): State<Arc<Gate>>, request, next| {
        tell_version(problem::contain(check(&gate, request, next)).await)
    }))
}

/// Keeps browsers away from a port without authentication: pages of other origins, and names rebound to loopback.
pub(crate) fn guard_open(router: Router, clock: Clock, traffic: Arc<Traffic>) -> Router {
    let door = Arc::new(Door::new(clock, traffic));
    router.layer(middleware::from_fn_with_state(door, async |State(door): State<Arc<Door>>, request, next| {
        tell_version(problem::contain(check_local(door, request, next)).await)
    }))
}

async fn check_local(door: Arc<Door>, mut request: Request, next: Next) -> Response {
    if let Err(refusal) = strict::check(&request) {
        door.traffic.refuse(Refused::Ambiguous);
        return refusal.into_response();
    }
    let named = request.headers().get(header::HOST).and_then(|named| named.to_str().ok()).unwrap_or_default();
    // An authority in the request's target outranks the header (RFC 9112, 3.2.2).
    let name = request.uri().authority().cloned().or_else(|| named.parse::<Authority>().ok());
    let name = name.as_ref().map(Authority::host).unwrap_or_default();
    if host::is_loopback(name) && !request.headers().contains_key(header::ORIGIN) {
        request.extensions_mut().insert(Pass { door, owner: Owner::default(), visa: None });
        return next.run(request).await;
    }
    Refusal::new(Code::Forbidden, "without authentication only programs on this machine are answered").into_response()
}

async fn check(gate: &Arc<Gate>, mut request: Request, next: Next) -> Response {
    match admit(gate, &mut request).await {
        Ok(Some(slot)) => until_sent(next.run(request).await, slot, gate.door.clock),
        Ok(None) => next.run(request).await,
        Err(refusal) => {
            match refusal.code() {
                Code::Unauthenticated => gate.door.traffic.refuse(Refused::Unauthenticated),
                Code::Forbidden => gate.door.traffic.refuse(Refused::Forbidden),
                _ => {}
            }
            refusal.into_response()
        }
    }
}

async fn admit(gate: &Arc<Gate>, request: &mut Request) -> Result<Option<Slot>, Refusal> {
    strict::check(request).inspect_err(|_| gate.door.traffic.refuse(Refused::Ambiguous))?;
    let path = request.extensions().get::<MatchedPath>().cloned();
    let path = path.as_ref().map(MatchedPath::as_str);
    if path.is_some_and(|path| rules::OPEN.contains(&path)) {
        return Ok(None);
    }
    let token = gate::bearer(request.headers())?;
    let key = gate::key(token);
    let user = gate.identify(token, key).await?;
    // A path that leads nowhere is told to be so, but not to strangers.
    let Some(path) = path else {
        gate.charge(&key, Weight::Light)?;
        return Ok(None);
    };
    let rule = rules::rule(request.method(), path)?;
    gate.charge(&key, rule.3)?;
    gate.authorize(rule.2, &user, &key).await?;
    // Not for a request that needs no place: most of them, and each would be hashed.
    let owner = || Owner { token: key, account: gate::key(user.username.as_deref().unwrap_or_default()) };
    let slot = match rule.3 {
        Weight::Heavy => Some(gate.door.heavy(owner())?),
        Weight::Work => {
            // Who sends half of a body takes no place from those who send the whole.
            if extract::is_small(request) {
                extract::receive(request).await?;
            }
            Some(gate.door.heavy(owner())?)
        }
        Weight::Change => {
            extract::receive(request).await?;
            None
        }
        Weight::Stream => {
            let visa = Visa { gate: Arc::clone(gate), token: token.to_owned(), need: rule.2 };
            let pass = Pass { door: Arc::clone(&gate.door), owner: owner(), visa: Some(Arc::new(visa)) };
            request.extensions_mut().insert(pass);
            None
        }
        Weight::Look => {
            request.extensions_mut().insert(Purse { gate: Arc::clone(gate), key });
            None
        }
        Weight::Light => None,
    };
    let credential_id = user.extra.as_ref().and_then(|extra| extra.get(CREDENTIAL_ID)?.first().cloned());
    let caller = Caller { user: user.username.clone().unwrap_or_default(), credential_id };
    request.extensions_mut().insert(caller);
    Ok(slot)
}

#[cfg(test)]
mod tests;
