//! Tokens for the agent: short-lived, made out to it alone, of one of the two accounts that people act through.
//!
//! A person's own credential never reaches the agent. It is shown to the API server only, which by its RBAC decides
//! whether that person may have a token of the account.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use rotate_agent::clock::Clock;
use rotate_shared::names;
use serde::Deserialize;
use tokio::sync::{Mutex, OnceCell};

use super::TransportError;
use super::api_server::ApiServer;
use super::cluster;
use crate::cli::ConnectionFlags;
use crate::failure::Failure;
use crate::secret::Secret;

/// The shortest that the API server hands out. A follower takes another one when it is used up.
const LIFETIME_SECONDS: i64 = 600;

/// Whom a person acts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// May begin, pause, resume and end rotations.
    Operator,
    /// May look.
    Viewer,
}

impl Account {
    fn name(self) -> &'static str {
        match self {
            Self::Operator => names::OPERATOR,
            Self::Viewer => names::VIEWER,
        }
    }

    /// The Role of the manifests that lets a person act as it.
    pub(super) fn role(self) -> &'static str {
        match self {
            Self::Operator => names::OPERATE,
            Self::Viewer => names::VIEW,
        }
    }
}

/// Where tokens come from. Keeps one in memory until shortly before it ends, and nowhere else.
#[derive(Debug)]
pub(crate) struct Source {
    /// Where the API server is, to be asked only once a token is needed.
    connection: ConnectionFlags,
    cluster: OnceCell<ApiServer>,
    namespace: String,
    account: Account,
    clock: Clock,
    /// Locked while another one is asked for, so that many who need one get the same.
    held: Mutex<Option<Held>>,
}

#[derive(Clone, Debug)]
struct Held {
    token: Secret,
    until: Timestamp,
}

impl Source {
    /// Tokens of an account in the agent's namespace.
    pub(crate) fn new(connection: ConnectionFlags, namespace: String, account: Account, clock: Clock) -> Self {
        Self { connection, cluster: OnceCell::new(), namespace, account, clock, held: Mutex::default() }
    }

    /// The same, of a cluster that is connected already.
    pub(crate) fn of(cluster: ApiServer, namespace: String, account: Account, clock: Clock) -> Self {
        let connection = ConnectionFlags::default();
        Self { cluster: OnceCell::new_with(Some(cluster)), ..Self::new(connection, namespace, account, clock) }
    }

    /// Begins with a token that the person gave.
    #[must_use]
    pub(crate) fn beginning_with(mut self, token: Option<impl Into<Secret>>) -> Self {
        self.held = Mutex::new(token.map(|token| Held { token: token.into(), until: Timestamp::MAX }));
        self
    }

    /// The Role of the manifests that a person needs for it.
    pub(super) fn role(&self) -> &'static str {
        self.account.role()
    }

    /// The token that is held, if it is still good.
    pub(super) async fn held(&self) -> Option<Secret> {
        let held = self.held.lock().await;
        held.as_ref().filter(|held| self.clock.now() < held.until).map(|held| held.token.clone())
    }

    /// A token that is still good.
    ///
    /// # Errors
    ///
    /// The API server cannot be asked, or refuses.
    pub(super) async fn token(&self) -> Result<Secret, TransportError> {
        let mut held = self.held.lock().await;
        if let Some(held) = held.as_ref().filter(|held| self.clock.now() < held.until) {
            return Ok(held.token.clone());
        }
        Ok(held.insert(self.request().await?).token.clone())
    }

    /// Another token than one that was refused: who comes second gets the one that was taken meanwhile.
    ///
    /// # Errors
    ///
    /// The API server cannot be asked, or refuses.
    pub(super) async fn instead_of(&self, refused: Option<&str>) -> Result<Secret, TransportError> {
        self.held.lock().await.take_if(|held| Some(&*held.token) == refused);
        self.token().await
    }

    async fn request(&self) -> Result<Held, TransportError> {
        self.ask().await.map_err(|failure| TransportError::Cluster(Box::new(failure)))
    }

    async fn ask(&self) -> Result<Held, Failure> {
        let cluster = self.cluster.get_or_try_init(|| ApiServer::connect(&self.connection)).await;
        let ApiServer { client, server, .. } = cluster.map_err(|failure| match failure {
            Failure::Cluster(reason) => Failure::Unauthenticated(format!(
                "the agent asks for a token, and the API server cannot be asked for one: {reason}"
            )),
            other => other,
        })?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &self.namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: vec![names::AUDIENCE.to_owned()],
                expiration_seconds: Some(LIFETIME_SECONDS),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let (name, asked) = (self.account.name(), self.clock.now());
        let params = PostParams::default();
        let issued = cluster::patiently(self.clock, || accounts.create_token_request(name, &params, &request));
        let issued = issued.await;
        let issued = issued.map_err(|error| match error {
            kube::Error::Api(status) if status.code == 404 => Failure::Unauthenticated(format!(
                "the agent asks for a token, and the cluster has no service account {}/{name} to take one of: is this \
                 the agent's cluster, and is the agent fully installed there?",
                self.namespace
            )),
            kube::Error::Api(status) if status.code == 403 => forbidden(&status.message, self.role(), &self.namespace),
            error => cluster::refused(error, server),
        })?;
        let status = issued.status.ok_or_else(|| Failure::Other("the API server issued no token".to_owned()))?;
        let lifetime = issued.spec.expiration_seconds.unwrap_or(LIFETIME_SECONDS);
        Ok(Held { token: status.token.into(), until: used_until(asked, lifetime) })
    }
}

/// What the API server does not let a person do, and which Role of the agent's namespace would.
pub(super) fn forbidden(message: &str, role: &str, namespace: &str) -> Failure {
    Failure::NotAuthorised(format!(
        "{message}; Role {role} of namespace {namespace} allows it, once it is bound to you"
    ))
}

/// When a token is no longer shown: a tenth of its life, at most a minute, before it ends. Counted from when it was asked
/// for, since this machine's clock need not agree with the API server's.
fn used_until(asked: Timestamp, lifetime_seconds: i64) -> Timestamp {
    let lifetime = lifetime_seconds.max(0);
    let used = SignedDuration::from_secs(lifetime - (lifetime / 10).min(60));
    asked.saturating_add(used).unwrap_or(Timestamp::MAX)
}

/// Whether this is a token made out to the agent alone (`kubectl create token --audience`). Any other is the API server's:
/// of one that is made out to both the agent could make use there.
pub(crate) fn is_for_agent(token: &str) -> bool {
    #[derive(Deserialize)]
    struct Claims {
        aud: serde_json::Value,
    }
    let Some(payload) = token.split('.').nth(1).and_then(base64url) else { return false };
    match serde_json::from_slice::<Claims>(&payload) {
        Ok(Claims { aud: serde_json::Value::String(one) }) => one == names::AUDIENCE,
        Ok(Claims { aud: serde_json::Value::Array(several) }) => several == [names::AUDIENCE],
        _ => false,
    }
}

/// Reads base64 as JSON Web Tokens have it: URL-safe, without padding.
fn base64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut number) = (0_u32, 0_u32);
    for byte in text.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        number = (number << 6) | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(number >> bits).ok()?);
            number &= (1 << bits) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_as_in_web_tokens() {
        for (text, bytes) in [("", &b""[..]), ("Zg", b"f"), ("Zm8", b"fo"), ("Zm9v", b"foo"), ("-_8", b"\xfb\xff")] {
            assert_eq!(base64url(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(base64url("Zm9v="), None);
    }

    #[test]
    fn only_a_token_made_out_to_the_agent_alone_is_shown_to_it() {
        // {"aud":["kubectl-rotate.dev"]}, {"aud":"kubectl-rotate.dev"}
        assert!(is_for_agent("e30.eyJhdWQiOlsia3ViZWN0bC1yb3RhdGUuZGV2Il19.c2ln"));
        assert!(is_for_agent("e30.eyJhdWQiOiJrdWJlY3RsLXJvdGF0ZS5kZXYifQ.c2ln"));
        // {"aud":["https://kubernetes.default.svc"]}, {"aud":["https://kubernetes.default.svc","kubectl-rotate.dev"]}
        let server = "eyJhdWQiOlsiaHR0cHM6Ly9rdWJlcm5ldGVzLmRlZmF1bHQuc3ZjIl19";
        let both = "eyJhdWQiOlsiaHR0cHM6Ly9rdWJlcm5ldGVzLmRlZmF1bHQuc3ZjIiwia3ViZWN0bC1yb3RhdGUuZGV2Il19";
        assert_eq!(
            base64url(both).as_deref(),
            Some(&br#"{"aud":["https://kubernetes.default.svc","kubectl-rotate.dev"]}"#[..])
        );
        for payload in [server, both, "eyJhdWQiOltdfQ"] {
            assert!(!is_for_agent(&format!("e30.{payload}.c2ln")), "{payload}");
        }
        for text in ["", "secret", "a.b.c", "e30.e30.e30"] {
            assert!(!is_for_agent(text), "{text}");
        }
    }
}
