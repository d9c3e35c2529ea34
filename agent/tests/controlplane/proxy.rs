//! A way to the API server that can be cut.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle};

/// Passes connections on, byte for byte, until they are cut.
pub(crate) struct Proxy {
    url: String,
    connections: Arc<Mutex<Vec<AbortHandle>>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free port of loopback, for which the API server's certificate is as good.
    pub(crate) async fn to(server: &str) -> Result<Self> {
        let (_, target) = server.split_once("://").context("a URL has a scheme")?;
        let target = target.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("https://{}", listener.local_addr()?);
        let connections = Arc::<Mutex<Vec<AbortHandle>>>::default();
        let open = Arc::clone(&connections);
        let accepting = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let target = target.clone();
                let passing = tokio::spawn(async move {
                    // What fails here fails for both ends, who say so themselves.
                    if let Ok(mut far) = TcpStream::connect(target).await {
                        drop(copy_bidirectional(&mut near, &mut far).await);
                    }
                });
                open.lock().expect("nobody panics with it").push(passing.abort_handle());
            }
        });
        Ok(Self { url, connections, accepting })
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Cuts every connection that is open; new ones pass.
    pub(crate) fn cut(&self) -> usize {
        let open: Vec<_> = self.connections.lock().expect("nobody panics with it").drain(..).collect();
        open.iter().filter(|connection| !connection.is_finished()).map(AbortHandle::abort).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}
