use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::http::listener::Listener;
use crate::http::traffic::Port;

/// An authority, and files in a folder that is swapped as the kubelet swaps a Secret's.
struct World {
    authority: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

fn world() -> World {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    World { authority, folder: TempDir::new().unwrap() }
}

impl World {
    fn files(&self) -> Files {
        Files { certificate: self.folder.path().join("data/tls.crt"), key: self.folder.path().join("data/tls.key") }
    }

    /// A new certificate and its key, in PEM.
    fn make(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["rotate.example".to_owned()]).unwrap();
        (params.signed_by(&key, &self.authority).unwrap().pem(), key.serialize_pem())
    }

    /// Swaps both files at once.
    fn swap(&self, certificate: &str, key: &str) {
        let new = tempfile::Builder::new().disable_cleanup(true).tempdir_in(self.folder.path()).unwrap();
        std::fs::write(new.path().join("tls.crt"), certificate).unwrap();
        std::fs::write(new.path().join("tls.key"), key).unwrap();
        let link = self.folder.path().join("new");
        std::os::unix::fs::symlink(new.path(), &link).unwrap();
        std::fs::rename(link, self.folder.path().join("data")).unwrap();
    }

    fn refused(&self, certificate: &str, key: &str) -> String {
        self.swap(certificate, key);
        Certificate::read(self.files()).unwrap_err().to_string()
    }

    async fn connect(&self, addr: SocketAddr) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(addr).await.unwrap();
        let name = ServerName::try_from("rotate.example").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}

fn shown(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

async fn answer(stream: &mut TlsStream<TcpStream>) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: rotate.example\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    while !answer.ends_with("well") {
        let mut piece = [0; 1024];
        let read = stream.read(&mut piece).await.unwrap();
        assert!(read > 0, "{answer}");
        answer += std::str::from_utf8(&piece[..read]).unwrap();
    }
    answer
}

#[test]
fn what_cannot_be_used_is_refused_and_the_file_is_named() {
    let world = world();
    let (certificate, key) = world.make();
    let missing = Certificate::read(world.files()).unwrap_err().to_string();
    assert!(missing.starts_with("read ") && missing.contains("data/tls.crt: No such file"), "{missing}");
    for (refused, file, why) in [
        (world.refused("", &key), "tls.crt", "it holds no certificate in PEM form"),
        (world.refused("not PEM", &key), "tls.crt", "it holds no certificate in PEM form"),
        (world.refused(&key, &key), "tls.crt", "it holds no certificate in PEM form"),
        (world.refused(&certificate, ""), "tls.key", "it holds no private key in PEM form"),
        (world.refused(&certificate, &certificate), "tls.key", "it holds no private key in PEM form"),
        (world.refused(&certificate, &world.make().1), "tls.key", "keys may not be consistent"),
        (
            world.refused(&certificate[..certificate.len() / 2], &key),
            "tls.crt",
            "it holds no certificate in PEM form (",
        ),
        (world.refused(&" ".repeat(2 << 20), &key), "tls.crt", "larger than 1 MiB"),
    ] {
        assert!(refused.contains(file) && refused.contains(why), "{refused}");
        assert!(!refused.contains("PRIVATE KEY-----"), "{refused}");
    }
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_new_connections_and_a_broken_one_to_nobody() {
    let world = world();
    let (certificate, key) = world.make();
    world.swap(&certificate, &key);
    let watched = Certificate::read(world.files()).unwrap();
    let traffic = Arc::new(Traffic::default());
    let any = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(Port::Tls, any, Clock::system(), Arc::clone(&traffic)).await.unwrap();
    let (addr, listener) = (listener.addr(), listener.with_tls(watched.acceptor().unwrap()));
    let router = Router::new().route("/", get(async || "well"));
    tokio::spawn(listener.serve(router, CancellationToken::new()));
    let (mut last, mut told) = (None, None);
    let mut look = || {
        watched.look(&mut last, &mut told, &traffic);
        let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        (of(&traffic.certificate.loaded), of(&traffic.certificate.failed), of(&traffic.certificate.stale))
    };
    let mut first = world.connect(addr).await;
    answer(&mut first).await;
    assert_eq!(look(), (0, 0, 0), "it is the same");

    world.swap(&certificate, &world.make().1);
    assert_eq!([look(), look()], [(0, 1, 1); 2], "told once");
    assert_eq!(shown(&world.connect(addr).await), shown(&first));
    std::fs::remove_file(world.folder.path().join("data")).unwrap();
    assert_eq!([look(), look()], [(0, 2, 1); 2]);
    assert_eq!(shown(&world.connect(addr).await), shown(&first));

    let (certificate, key) = world.make();
    world.swap(&certificate, &key);
    assert_eq!([look(), look()], [(1, 2, 0); 2]);
    let mut second = world.connect(addr).await;
    assert_ne!(shown(&second), shown(&first));
    answer(&mut second).await;
    answer(&mut first).await;
}

#[tokio::test]
async fn a_stranger_to_tls_holds_up_nobody() {
    let world = world();
    let (certificate, key) = world.make();
    world.swap(&certificate, &key);
    let acceptor = Certificate::read(world.files()).unwrap().acceptor().unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(Port::Tls, any, Clock::system(), Arc::default()).await.unwrap().with_tls(acceptor);
    let addr = listener.addr();
    tokio::spawn(listener.serve(Router::new().route("/", get(async || "well")), CancellationToken::new()));
    // They say nothing, or speak without TLS.
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(TcpStream::connect(addr).await.unwrap());
    }
    let mut plain = TcpStream::connect(addr).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: rotate.example\r\n\r\n").await.unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said).await;
    assert!(!said.starts_with(b"HTTP"), "{said:?}");
    answer(&mut world.connect(addr).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_begun_and_not_ended_is_given_up() {
    let world = world();
    let (certificate, key) = world.make();
    world.swap(&certificate, &key);
    let tls = Certificate::read(world.files()).unwrap().acceptor().unwrap();
    let (ours, mut theirs) = tokio::io::duplex(1024);
    // A record of TLS that announces more than comes.
    theirs.write_all(b"\x16\x03\x01\x02\x00\x01").await.unwrap();
    let (clock, traffic) = (Clock::system(), Traffic::default());
    let begun = clock.now();
    assert!(shake_hands(&tls, ours, &traffic).await.is_none());
    assert_eq!((clock.now().duration_since(begun).as_secs(), traffic.refused(Refused::Handshake)), (10, 1));
}
