use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::cli::ConnectionFlags;
use crate::connect::token::Account;
use rotate_agent::clock::Clock;

/// An authority, and its certificate in a file.
fn authority() -> (CertifiedIssuer<'static, KeyPair>, tempfile::NamedTempFile) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), authority.pem()).expect("it can be written");
    (authority, file)
}

/// A port that answers everything with 204, over TLS; it counts the requests that it has read.
async fn serve(
    name: &str,
    authority: &CertifiedIssuer<'static, KeyPair>,
) -> (String, Arc<std::sync::atomic::AtomicUsize>) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new([name.to_owned()]).expect("a name");
    let chain = vec![params.signed_by(&key, authority).expect("a certificate").der().clone()];
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).expect("a pair");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("it is bound"));
    let read = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&read);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut request = [0; 4096];
            if stream.read(&mut request).await.is_ok_and(|length| length > 0) {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await;
            }
        }
    });
    (url, read)
}

async fn asked(url: &str, trusted: Option<&Path>) -> Result<u16, String> {
    let url = Url::new(url, None, String::new()).expect("an address");
    let url = match trusted {
        Some(file) => url.trusting(file).expect("certificates"),
        None => url,
    };
    let answer = url.send(Ask::new(http::Method::GET, "/version")).await;
    answer.map(|answer| answer.status).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_certificate_that_does_not_match_is_refused_before_anything_is_sent() {
    let ((ours, file), (_, other)) = (authority(), authority());
    let (url, read) = serve("127.0.0.1", &ours).await;
    let (elsewhere, read_elsewhere) = serve("rotate-agent.elsewhere.svc", &ours).await;
    for (url, trusted, why) in [
        (&url, None, "UnknownIssuer"),
        (&url, Some(other.path()), "invalid peer certificate"),
        (&elsewhere, Some(file.path()), "not valid for name"),
    ] {
        let refused = asked(url, trusted).await.expect_err("it does not match");
        assert!(refused.contains(why) && refused.contains("Nothing was sent"), "{refused}");
        assert!(refused.contains("--agent-ca"), "{refused}");
    }
    assert_eq!(asked(&url, Some(file.path())).await, Ok(204));
    let counts = [read, read_elsewhere].map(|count| count.load(std::sync::atomic::Ordering::Relaxed));
    assert_eq!(counts, [1, 0]);
}

#[test]
fn an_authority_that_cannot_be_used_is_named() {
    let (_, file) = authority();
    let refused = |url: &str, file: &Path| {
        let url = Url::new(url, None, String::new()).expect("an address");
        url.trusting(file).map(drop).expect_err("it is of no use").to_string()
    };
    let missing = refused("https://a", Path::new("/nonesuch.pem"));
    assert_eq!(missing, "--agent-ca=/nonesuch.pem: No such file or directory (os error 2)");
    assert!(refused("http://a", file.path()).ends_with("begins with https://"));
    std::fs::write(file.path(), "not PEM").expect("it can be written");
    assert!(refused("https://a", file.path()).ends_with("it holds no certificate in PEM form"));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_takes_the_connection_and_says_nothing_is_given_up() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // The system takes the connection; nobody accepts it.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let url = Url::new(&url, None, String::new()).expect("an address");
    for (ask, end) in [
        (Ask::new(http::Method::GET, "/v1/nodes"), "it says nothing for 15 s"),
        (Ask::new(http::Method::POST, "/v1/plans"), "timed out"),
    ] {
        let Err(error) = url.send(ask).await else { panic!("an answer") };
        assert!(error.to_string().ends_with(end), "{error}");
    }
}

#[test]
fn a_password_in_the_address_is_refused_and_not_repeated_whatever_else_is_wrong_with_it() {
    for (url, why) in [
        ("http://someone:secret@127.0.0.1:8470", "must not hold a user or a password"),
        ("http://someone:secret@127.0.0.1:8470/?a=b", "it must have no ?"),
        ("http://someone:secret@127.0.0.1:99999", "invalid port"),
        ("ftp://someone:secret@127.0.0.1", "begins with http://"),
        ("someone:secret@127.0.0.1:8470", "begins with http://"),
    ] {
        let Err(refused) = Url::new(url, None, String::new()) else { panic!("a refusal") };
        let message = refused.to_string();
        assert!(message.contains(why) && !message.contains("secret") && !message.contains("someone"), "{message}");
    }
}

#[test]
fn a_token_goes_in_clear_to_this_machine_alone() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let with_token = |url: &str| {
        let source =
            Source::new(ConnectionFlags::default(), "kubectl-rotate".to_owned(), Account::Viewer, Clock::system());
        Url::new(url, Some(source), String::new())
    };
    for url in ["http://127.0.0.1:8470", "http://localhost:8470", "http://[::1]:8470", "https://agent.example:8443"] {
        assert!(with_token(url).is_ok(), "{url}");
    }
    for url in ["http://agent.example:8470", "http://10.0.0.7:8470", "http://localhost.example:8470"] {
        let refused = with_token(url).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains(url) && refused.contains("in clear"), "{url}: {refused}");
    }
    assert!(Url::new("http://10.0.0.7:8470", None, String::new()).is_ok(), "there is none to show");
}

#[test]
fn an_address_is_one_that_paths_can_be_put_behind() {
    for (url, why) in [
        ("127.0.0.1:8470", "it begins with http:// or https://"),
        ("localhost", "it begins with http:// or https://"),
        ("http://127.0.0.1:8470?x=1", "no ? and no #"),
        ("http://127.0.0.1:8470/#x", "no ? and no #"),
        ("ftp://127.0.0.1", "it begins with http:// or https://"),
    ] {
        let error = Url::new(url, None, String::new()).expect_err("it is refused").to_string();
        assert!(error.contains(why), "{url}: {error}");
    }
}

/// A port that answers everything with plain HTTP.
async fn plain() -> std::net::SocketAddr {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await;
        }
    });
    address
}

#[tokio::test]
async fn a_port_without_tls_is_told_apart_from_one_that_is_not_forwarded() {
    let url = Url::new(&format!("https://{}", plain().await), None, ". Is the port forwarded?".to_owned());
    let Err(error) = url.expect("an address").send(Ask::new(http::Method::GET, "/version")).await else {
        panic!("an answer")
    };
    let told = ": what listens there speaks no TLS: begin the address with http://";
    assert!(error.to_string().ends_with(told), "{error}");
}

#[test]
fn only_a_port_of_this_machine_can_be_a_forwarded_one() {
    let hint = |url: &str| Url::new(url, None, "forwarded?".to_owned()).expect("an address").hint;
    assert_eq!(hint("http://127.0.0.1:8470"), "forwarded?");
    assert_eq!(hint("http://10.0.0.7:8470"), "");
}

#[test]
fn an_address_that_is_one_is_refused_and_not_called_none() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let source = Source::new(ConnectionFlags::default(), "x".to_owned(), Account::Viewer, Clock::system());
    let refused =
        Url::new("http://example.com:8470", Some(source), String::new()).expect_err("it is refused").to_string();
    assert!(
        refused.contains("the agent's address \"http://example.com:8470\" is refused: a token would go"),
        "{refused}"
    );
}
