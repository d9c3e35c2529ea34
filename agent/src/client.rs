//! Production API clients.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::middleware::AuthLayer;
use kube::client::{AuthError, Body, ClientBuilder, ConfigExt, DynBody};
use kube::config::AuthInfo;
use kube::{Client, Config};
use rotate_shared::causes;
use tower::buffer::Buffer;
use tower::layer::layer_fn;
use tower::util::BoxService;
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt};

/// How long a request may take to reach the API server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How many requests may wait for the task that sends them; as many as kube's own may.
const BUFFER: usize = 1024;

/// What sends requests to an API server.
pub type Sender = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// An API server and the credentials for it, for clients that decide by themselves what to try again.
///
/// kube's own retries are off: they ask up to fifteen times after a 429, so that an eviction that a disruption budget
/// refuses would hide for minutes and load the API server meanwhile. How long an answer may take is up to each caller: a
/// watch may be silent for minutes.
pub struct Server {
    config: Config,
    /// `None`: credentials of another kind than a header, or none.
    credentials: Option<AuthLayer>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("url", &self.config.cluster_url).finish_non_exhaustive()
    }
}

impl Server {
    /// The one of this configuration. A credential plugin runs here.
    ///
    /// # Errors
    ///
    /// The configuration's credentials cannot be used.
    pub fn new(mut config: Config) -> kube::Result<Self> {
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let credentials = config.auth_layer()?;
        if credentials.is_some() {
            // kube asks these once for the header and twice more for a client certificate: a credential plugin takes up to
            // seconds each time.
            let AuthInfo { exec, auth_provider, token, token_file, username, password, .. } = &mut config.auth_info;
            (*exec, *auth_provider, *token, *token_file, *username, *password) = (None, None, None, None, None, None);
        }
        Ok(Self { config, credentials })
    }

    /// A client to be, whose answers may each be silent for this long; `None`: for any time.
    ///
    /// # Errors
    ///
    /// The configuration's certificates or its proxy cannot be used.
    pub fn builder(&self, answer_within: Option<Duration>) -> kube::Result<ClientBuilder<Sender>> {
        let mut config = self.config.clone();
        config.read_timeout = answer_within;
        let builder = match &config.proxy_url {
            Some(_) => ClientBuilder::try_from(config)?,
            None => direct(&config)?,
        };
        Ok(match &self.credentials {
            // Of a filter's service there may be several at a time, which a boxed one does not allow.
            Some(credentials) => {
                builder.with_layer(&layer_fn(|sender| credentials.layer(Buffer::new(sender, BUFFER)).boxed()))
            }
            None => builder,
        })
    }
}

/// Straight to the server. As kube does it, but that each write goes out at once: a new connection's first request else
/// waits 40 ms for the acknowledgement of the handshake's last message (Nagle's algorithm and delayed acknowledgements).
fn direct(config: &Config) -> kube::Result<ClientBuilder<Sender>> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let http = hyper_util::client::legacy::Builder::new(TokioExecutor::new()).build(connector);
    let sender = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http)
        .map_response(|response: Response<Incoming>| response.map(boxed));
    Ok(ClientBuilder::new(sender.boxed(), config.default_namespace.clone()))
}

fn boxed(body: Incoming) -> Box<DynBody> {
    Box::new(body.map_err(BoxError::from))
}

/// A client of the server of this configuration.
///
/// # Errors
///
/// The configuration's certificates or credentials cannot be used.
pub fn production(config: Config) -> kube::Result<Client> {
    let answer_within = config.read_timeout;
    Ok(Server::new(config)?.builder(answer_within)?.build())
}

/// What an API error says to people: kube's own texts hold its types.
#[must_use]
pub fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("{} {}", status.code, status.reason),
        kube::Error::Service(error) => match error.downcast_ref::<AuthError>() {
            Some(error) => format!("credentials: {}", unfit(error)),
            None => causes::innermost(&**error),
        },
        kube::Error::Auth(error) => format!("credentials: {}", unfit(error)),
        kube::Error::HyperError(error) => causes::innermost(error),
        other => causes::whole(other),
    }
}

/// Why a credential plugin is of no use. kube would quote its answer, and there may be a credential in it.
#[must_use]
pub fn unfit(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { out, .. } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let said = said.trim();
            format!("it ended with {}{}{said}", out.status, if said.is_empty() { "" } else { ": " })
        }
        AuthError::AuthExecStart(error) => format!("it cannot be run: {error}"),
        AuthError::AuthExecParse(_) => "what it printed is no ExecCredential".to_owned(),
        AuthError::ExecPluginFailed => "what it printed holds no credential".to_owned(),
        other => causes::whole(other),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use kube::core::Status;

    use crate::bootstrap::BootstrapError;
    use crate::cache::feed::FeedError;
    use crate::probe::ProbeError;
    use crate::provider::ReadError;
    use crate::rotation::store::StoreError;

    const FORBIDDEN: &str = "configmaps is forbidden: User \"a\" cannot list resource \"configmaps\"";

    fn forbidden() -> kube::Error {
        let status =
            Status { code: 403, message: FORBIDDEN.to_owned(), reason: "Forbidden".to_owned(), ..Status::default() };
        kube::Error::Api(Box::new(status))
    }

    #[test]
    fn what_the_api_server_refuses_is_told_in_its_words_alone() {
        let source = forbidden;
        let store = StoreError::Api { doing: "read the record", source: source() };
        let bootstrap = BootstrapError::Api { doing: "create", object: "Namespace a".to_owned(), source: source() };
        let read = ReadError::Api { path: "/apis/x".to_owned(), source: source() };
        assert_eq!(store.to_string(), format!("read the record: {FORBIDDEN}"));
        assert_eq!(bootstrap.to_string(), format!("create Namespace a: {FORBIDDEN}"));
        assert_eq!(read.to_string(), format!("/apis/x: {FORBIDDEN}"));
        assert_eq!(ProbeError::from(source()).to_string(), format!("probe what becomes of placeholders: {FORBIDDEN}"));
    }

    #[test]
    fn why_nobody_answers_is_told_and_not_what_noticed_it() {
        let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "Connection refused (os error 111)");
        let error = FeedError::Unreachable(kube::Error::Service(Box::new(refused)));
        assert_eq!(error.to_string(), "reach the API server: Connection refused");
    }
}
