//! The certificate that the TLS port shows, read anew whenever its files change.
//!
//! Connections that are open keep what they were opened with. Secret mounts swap all files at once by a symbolic link, other
//! tools write one after the other: a pair that does not belong together is not taken, and looked at again.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::clock::Clock;
use crate::http::limits;
use crate::http::traffic::{Refused, Traffic};

/// How often the files are looked at. The kubelet takes a minute to bring a Secret's change anyway.
const LOOK: Duration = Duration::from_secs(10);
/// A chain of certificates is some kilobytes.
const FILE_BYTES: u64 = 1 << 20;

/// The files of a certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate, followed by those that sign it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file is too large to be what it should be.
    #[error("read {0}: it is larger than 1 MiB")]
    TooLarge(PathBuf),
    /// A file does not hold what it should.
    #[error("read {path}: it holds no {what} in PEM form{}", .why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// What is wrong with it.
        why: Option<String>,
    },
    /// The two do not belong together, or are of a kind that is not supported.
    #[error("use the certificate of {} with the key of {}: {source}", .files.certificate.display(), .files.key.display())]
    Pair {
        /// The files.
        files: Files,
        /// Why not.
        #[source]
        source: rustls::Error,
    },
    /// TLS cannot be set up at all.
    #[error("set up TLS: {0}")]
    Setup(#[source] rustls::Error),
}

/// The certificate in use.
pub(crate) struct Certificate {
    files: Files,
    shown: RwLock<Arc<CertifiedKey>>,
    provider: Arc<CryptoProvider>,
}

/// What the files held.
#[derive(Clone, PartialEq, Eq)]
struct Held {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

// === impl Certificate ===

impl Certificate {
    /// Reads the files for the first time.
    pub(crate) fn read(files: Files) -> Result<Arc<Self>, CertificateError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let shown = pair(&files, &held(&files)?, &provider)?;
        Ok(Arc::new(Self { files, shown: RwLock::new(Arc::new(shown)), provider }))
    }

    /// What shows it.
    pub(crate) fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, CertificateError> {
        let config = ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let config = config.with_safe_default_protocol_versions().map_err(CertificateError::Setup)?;
        let resolver = Arc::clone(self) as Arc<dyn ResolvesServerCert>;
        let mut config = config.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Looks at the files again and again.
    pub(crate) async fn watch(&self, clock: Clock, traffic: &Traffic) {
        traffic.certificate.loaded.fetch_add(1, Ordering::Relaxed);
        // Read anew at the first look: they may have changed since.
        let mut last = None;
        let mut told = None;
        loop {
            clock.sleep(LOOK).await;
            self.look(&mut last, &mut told, traffic);
        }
    }

    fn look(&self, last: &mut Option<Held>, told: &mut Option<String>, traffic: &Traffic) {
        let failed = match held(&self.files) {
            Ok(held) if last.as_ref() == Some(&held) => return,
            Ok(held) => match pair(&self.files, &held, &self.provider) {
                Ok(new) => {
                    let changed = self.shown.read().cert != new.cert;
                    *last = Some(held);
                    *told = None;
                    traffic.certificate.stale.store(0, Ordering::Relaxed);
                    *self.shown.write() = Arc::new(new);
                    if changed {
                        traffic.certificate.loaded.fetch_add(1, Ordering::Relaxed);
                        tracing::info!(file = %self.files.certificate.display(), "a new certificate is shown from now on");
                    }
                    return;
                }
                Err(error) => {
                    *last = Some(held);
                    error
                }
            },
            Err(error) => {
                *last = None;
                error
            }
        };
        traffic.certificate.stale.store(1, Ordering::Relaxed);
        let failed = failed.to_string();
        if told.as_ref() != Some(&failed) {
            traffic.certificate.failed.fetch_add(1, Ordering::Relaxed);
            tracing::error!("failed to {failed}; the certificate from before is still shown");
            *told = Some(failed);
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.shown.read()))
    }
}

// Without its key.
impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("files", &self.files).finish_non_exhaustive()
    }
}

fn held(files: &Files) -> Result<Held, CertificateError> {
    Ok(Held { certificate: bytes(&files.certificate)?, key: bytes(&files.key)? })
}

fn bytes(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let failed = |source| CertificateError::Read { path: path.to_owned(), source };
    if std::fs::metadata(path).map_err(failed)?.len() > FILE_BYTES {
        return Err(CertificateError::TooLarge(path.to_owned()));
    }
    std::fs::read(path).map_err(failed)
}

fn pair(files: &Files, held: &Held, provider: &CryptoProvider) -> Result<CertifiedKey, CertificateError> {
    let pem = |path: &Path, what, why: Option<String>| CertificateError::Pem { path: path.to_owned(), what, why };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&held.certificate).collect();
    let chain = chain.map_err(|error| pem(&files.certificate, "certificate", Some(error.to_string())))?;
    if chain.is_empty() {
        return Err(pem(&files.certificate, "certificate", None));
    }
    let key = PrivateKeyDer::from_pem_slice(&held.key).map_err(|_| pem(&files.key, "private key", None))?;
    CertifiedKey::from_der(chain, key, provider)
        .map_err(|source| CertificateError::Pair { files: files.clone(), source })
}

/// The TLS handshake of a connection, while its caller is patient enough.
pub(super) async fn shake_hands<S>(tls: &TlsAcceptor, stream: S, traffic: &Traffic) -> Option<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match tokio::time::timeout(limits::HANDSHAKE_PATIENCE, tls.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(error = %error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
    traffic.refuse(Refused::Handshake);
    None
}

#[cfg(test)]
mod tests;
