//! The program itself: what it keeps in memory, and what it writes into its log.

use std::path::PathBuf;

use http::Method;
use rotate_shared::names;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::guarded::{Cluster, follow, rotate, send};
use crate::program::{OWN_TOKEN, Program, know_the_agent};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_streams_are_refused_beyond_the_bound_and_take_little_memory() {
    let cluster = Cluster::start().await;
    know_the_agent(&cluster, crate::guarded::access());
    let node = cluster.busy_node().await;
    let program = Program::start(&cluster, "info", &[]).await;
    let operator = cluster.token("rotate-operator", names::AUDIENCE).await;
    let id = rotate(program.control, &operator, &node).await;
    let mut tokens = Vec::new();
    for account in ["rotate-viewer", "rotate-operator"] {
        for _ in 0..4 {
            tokens.push(cluster.token(account, names::AUDIENCE).await);
        }
    }
    let before = program.memory();

    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..50 {
        let (control, id, token) = (program.control, id.clone(), tokens[caller % tokens.len()].clone());
        callers.spawn(async move {
            let mut open = Vec::new();
            let mut refused = 0;
            for _ in 0..200 {
                match follow(control, &token, &id).await {
                    Ok(stream) => open.push(stream),
                    Err((429 | 503, body)) => {
                        assert!(body.contains("TooManyRequests"), "{body}");
                        refused += 1;
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
            (open, refused)
        });
    }
    let mut open = Vec::new();
    let mut refused = 0;
    while let Some(done) = callers.join_next().await {
        let (streams, no) = done.unwrap();
        open.extend(streams);
        refused += no;
    }
    assert_eq!((open.len(), open.len() + refused), (256, 10_000));
    let (status, _) = send(program.control, Method::GET, &format!("/v1/rotations/{id}"), &operator, "").await;
    assert_eq!(status, 200, "everything else goes on");
    let grown = program.memory().saturating_sub(before);
    assert!(grown < 24 << 10, "{grown} KiB more than the {before} KiB before");
    drop(open);
    program.end().await;
}

#[tokio::test]
async fn no_credential_is_written_into_the_log_or_into_an_answer() {
    let cluster = Cluster::start().await;
    know_the_agent(&cluster, crate::guarded::access());
    let node = cluster.busy_node().await;
    let (certificate, key) = certificate();
    let files = TempDir::new().unwrap();
    let (cert_file, key_file) = (files.path().join("tls.crt"), files.path().join("tls.key"));
    std::fs::write(&cert_file, certificate).unwrap();
    std::fs::write(&key_file, &key).unwrap();
    let path = |file: &PathBuf| file.to_str().unwrap().to_owned();
    let tls = ["--tls-cert", &path(&cert_file), "--tls-key", &path(&key_file), "--tls-addr", "127.0.0.1:0"];
    let program = Program::start(&cluster, "trace", &tls).await;

    let operator = cluster.token("rotate-operator", names::AUDIENCE).await;
    let viewer = cluster.token("rotate-viewer", names::AUDIENCE).await;
    let expired = cluster.token_for("rotate-operator", names::AUDIENCE, 0).await;
    let other = cluster.token("rotate-operator", "https://kubernetes.default.svc").await;
    let secrets = [&*operator, &viewer, &expired, &other, "sim.invented-secret.9999999999", "not-even-one"];
    let id = rotate(program.control, &operator, &node).await;
    let mut answers = String::new();
    for token in secrets {
        drop(follow(program.control, token, &id).await.map_err(|(_, body)| answers += &body));
        for (method, path, body) in [
            (Method::GET, "/v1/nodes", ""),
            (Method::GET, "/v1/nodes/nope", ""),
            (Method::GET, "/nowhere", ""),
            (Method::POST, "/v1/rotations", r#"{"nodes":["nope"]}"#),
            (Method::POST, "/v1/plans", "not JSON"),
            (Method::DELETE, "/v1/nodes", ""),
        ] {
            answers += &send(program.control, method, path, token, body).await.1;
        }
        for header in
            [format!("Basic {token}"), format!("Bearer {token}\r\nauthorization: Bearer {token}"), token.to_owned()]
        {
            let request =
                format!("GET /v1/nodes HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: {header}\r\n\r\n");
            let mut stream = TcpStream::connect(program.control).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            stream.read_to_string(&mut answers).await.unwrap();
        }
    }
    let log = program.end().await;
    assert!(log.contains("TRACE") && log.contains("refused") && log.contains("tls="), "it logs what it can: {log}");
    assert!(answers.contains("Forbidden") && answers.contains("Unauthenticated"), "{answers}");
    let half_of_key = key.lines().nth(1).unwrap();
    for secret in secrets.into_iter().chain([OWN_TOKEN, half_of_key]) {
        assert!(!log.contains(secret), "{secret} is in the log");
        assert!(!answers.contains(secret), "{secret} is in an answer");
    }
}

fn certificate() -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}
