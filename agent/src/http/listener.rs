//! Connections taken, bounded in number and in time.
//!
//! ```text
//! accept ──▶ within the number? ──▶ (TLS handshake) ──▶ HTTP/1.1: one request after another ──▶ router
//!    │              │ no                                      │
//!    │              └──▶ 503, closed                          └── headers, reader: each with its patience
//!    └── ends when the agent closes; answers under way are sent first
//! ```

mod patient;
#[cfg(feature = "tls")]
pub(crate) mod tls;
mod worded;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rotate_shared::{Code, Problem, names};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::patient::Patient;
use self::worded::Worded;
use super::limits;
use super::traffic::{Port, Refused, Traffic};
use crate::clock::Clock;

/// How many that are turned away are told so at the same time; more are only closed.
const TOLD: usize = 64;
/// How long one that is turned away may take to hear it.
const TELLING: Duration = Duration::from_secs(1);
/// What is read ahead of a connection, and written behind: more than the headers of a request.
const BUFFER: usize = 2 * limits::HEAD_BYTES;
/// After an error that closes no connection, such as too many open files.
const RESPITE: Duration = Duration::from_secs(1);

/// A port that is open.
pub(crate) struct Listener {
    socket: TcpListener,
    addr: SocketAddr,
    port: Port,
    clock: Clock,
    traffic: Arc<Traffic>,
    bounds: Bounds,
    #[cfg(feature = "tls")]
    tls: Option<tokio_rustls::TlsAcceptor>,
}

/// What differs in tests, which are in a hurry.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    connections: usize,
    head: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { connections: limits::CONNECTIONS, head: limits::HEAD_PATIENCE }
    }
}

// === impl Listener ===

impl Listener {
    /// Takes a port; port 0 takes any that is free.
    pub(crate) async fn bind(port: Port, addr: SocketAddr, clock: Clock, traffic: Arc<Traffic>) -> io::Result<Self> {
        let socket = bind(addr, async |addr| TcpListener::bind(addr).await).await?;
        let addr = socket.local_addr()?;
        Ok(Self {
            socket,
            addr,
            port,
            clock,
            traffic,
            bounds: Bounds::default(),
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Speaks TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn with_tls(mut self, tls: tokio_rustls::TlsAcceptor) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The address taken.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers until `closing`, then until the requests under way are answered. Dropping it ends its connections, too.
    pub(crate) async fn serve(self, router: Router, closing: CancellationToken) {
        let mut open = JoinSet::new();
        let mut told = JoinSet::new();
        loop {
            self.traffic.set_connections(self.port, open.len());
            tokio::select! {
                () = closing.cancelled() => break,
                Some(_) = open.join_next(), if !open.is_empty() => {}
                Some(_) = told.join_next(), if !told.is_empty() => {}
                accepted = self.socket.accept() => match accepted {
                    Ok((stream, _)) if open.len() < self.bounds.connections => {
                        open.spawn(self.connection(stream, router.clone(), closing.clone()));
                    }
                    Ok((stream, _)) => {
                        self.traffic.refuse(Refused::Connections);
                        if told.len() < TOLD && self.speaks_plainly() {
                            told.spawn(turn_away(stream));
                        }
                    }
                    Err(error) if is_of_one_connection(&error) => {}
                    Err(error) => {
                        tracing::error!(error = %error, port = ?self.port, "no connection can be taken");
                        self.clock.sleep(RESPITE).await;
                    }
                },
            }
        }
        drop(self.socket);
        while open.join_next().await.is_some() {
            self.traffic.set_connections(self.port, open.len());
        }
    }

    fn speaks_plainly(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_none();
        #[cfg(not(feature = "tls"))]
        true
    }

    fn connection(
        &self,
        stream: TcpStream,
        router: Router,
        closing: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        // Answers and events are small, and written whole.
        let _ = stream.set_nodelay(true);
        let stream = Patient::new(stream, limits::READER_PATIENCE, self.clock);
        let head = self.bounds.head;
        #[cfg(feature = "tls")]
        let (tls, traffic) = (self.tls.clone(), Arc::clone(&self.traffic));
        async move {
            #[cfg(feature = "tls")]
            if let Some(tls) = tls {
                if let Some(stream) = tls::shake_hands(&tls, stream, &traffic).await {
                    speak(stream, router, head, closing).await;
                }
                return;
            }
            speak(stream, router, head, closing).await;
        }
    }
}

/// Binds an address. Every address of IPv6, which takes IPv4 in, means every address of IPv4 where the machine has no IPv6.
async fn bind<T>(addr: SocketAddr, bind: impl AsyncFn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    match bind(addr).await {
        Err(error) if addr.ip() == Ipv6Addr::UNSPECIFIED && lacks_ipv6(&error) => {
            bind((Ipv4Addr::UNSPECIFIED, addr.port()).into()).await
        }
        bound => bound,
    }
}

/// Without the module there is no such kind of address (`EAFNOSUPPORT`), with the module turned off there is none to be had.
fn lacks_ipv6(error: &io::Error) -> bool {
    const EAFNOSUPPORT: i32 = 97;
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EAFNOSUPPORT)
}

async fn speak<S>(stream: S, router: Router, head: Duration, closing: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(head).max_header_size(limits::HEAD_BYTES).max_buf_size(BUFFER);
    let connection = http.serve_connection(TokioIo::new(Worded::new(stream)), TowerToHyperService::new(router));
    tokio::pin!(connection);
    // What goes wrong on a connection is the caller's business: it has been told as far as that was possible.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = closing.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Says that there are too many, whatever was asked for.
async fn turn_away(mut stream: TcpStream) {
    let mut problem =
        Problem::new(Code::TooManyRequests, "the agent has as many connections open as it can; try again");
    problem.status = 503;
    let Ok(body) = serde_json::to_string(&problem) else { return };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
         {}: {}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}",
        names::VERSION_HEADER,
        env!("CARGO_PKG_VERSION"),
    );
    let telling = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Closed with something unread, the kernel would take the answer back.
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(TELLING, telling).await;
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests;
