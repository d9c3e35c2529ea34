//! An admission webhook that tests play: over TLS, on loopback, and as hostile as they want it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::Listener;
use axum::{Json, Router};
use http::StatusCode;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::harness::ControlPlane;
use crate::harness::credentials::{SERVING_CERTIFICATE, SERVING_KEY};

/// What it does with what it is asked.
#[derive(Clone, Debug)]
pub(crate) enum Behaviour {
    /// Nothing.
    Allows,
    /// These operations of a JSON patch.
    Patches(Value),
    /// Refuses, with these words.
    Denies(&'static str),
    /// Does not answer for longer than anybody waits.
    Sleeps,
    /// Answers what is no review.
    Babbles,
    /// Answers with this status.
    Fails(StatusCode),
}

/// One that is asked about Pods in the placeholders' namespace. Stops with the runtime.
pub(crate) struct Webhook {
    behaviour: Arc<Mutex<Behaviour>>,
    url: String,
}

impl Webhook {
    /// Serves with the certificate of the control plane's components.
    pub(crate) async fn start(plane: &ControlPlane) -> Result<Self> {
        let certificates = CertificateDer::pem_file_iter(plane.dir().join(SERVING_CERTIFICATE))?;
        let key = PrivateKeyDer::from_pem_file(plane.dir().join(SERVING_KEY))?;
        let config = rustls::ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(certificates.collect::<Result<_, _>>()?, key)?;
        let tcp = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}/", tcp.local_addr()?);
        let behaviour = Arc::new(Mutex::new(Behaviour::Allows));
        let router = Router::new().route("/", post(review)).with_state(Arc::clone(&behaviour));
        let listener = Tls { tcp, acceptor: TlsAcceptor::from(Arc::new(config)) };
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { behaviour, url })
    }

    /// From now on it does this.
    pub(crate) fn set(&self, behaviour: Behaviour) {
        *self.behaviour.lock() = behaviour;
    }

    /// The configuration that has the API server ask it, and fail where it does not answer.
    pub(crate) fn configuration(&self, plane: &ControlPlane, side_effects: &str) -> Result<Value> {
        let authority = std::fs::read(plane.certificate_authority()).context("the authority's certificate")?;
        let authority = k8s_openapi::ByteString(authority);
        Ok(json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": { "name": "hostile" },
            "webhooks": [{
                "name": "hostile.example.invalid",
                "clientConfig": { "url": self.url, "caBundle": authority },
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }],
                "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "kubectl-rotate-room" } },
                "failurePolicy": "Fail",
                "timeoutSeconds": 1,
                "sideEffects": side_effects,
                "admissionReviewVersions": ["v1"],
            }],
        }))
    }
}

async fn review(State(behaviour): State<Arc<Mutex<Behaviour>>>, Json(asked): Json<Value>) -> Response {
    let behaviour = behaviour.lock().clone();
    let mut answer = json!({ "uid": asked["request"]["uid"], "allowed": true });
    match behaviour {
        Behaviour::Allows => {}
        Behaviour::Patches(patch) => {
            answer["patchType"] = json!("JSONPatch");
            answer["patch"] = json!(k8s_openapi::ByteString(patch.to_string().into_bytes()));
        }
        Behaviour::Denies(words) => {
            answer["allowed"] = json!(false);
            answer["status"] = json!({ "code": 403, "message": words });
        }
        Behaviour::Sleeps => std::future::pending().await,
        Behaviour::Babbles => return "<html>login</html>".into_response(),
        Behaviour::Fails(status) => return status.into_response(),
    }
    Json(json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer })).into_response()
}

/// Accepts connections whose handshake succeeds.
struct Tls {
    tcp: TcpListener,
    acceptor: TlsAcceptor,
}

impl Listener for Tls {
    type Io = TlsStream<TcpStream>;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, from) = Listener::accept(&mut self.tcp).await;
            let handshake = tokio::time::timeout(Duration::from_secs(5), self.acceptor.accept(stream)).await;
            if let Ok(Ok(stream)) = handshake {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.tcp.local_addr()
    }
}
