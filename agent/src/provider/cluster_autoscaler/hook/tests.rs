use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use parking_lot::Mutex;
use tokio::net::TcpListener;

use super::*;

const SECRET_TEXT: &str = "0123456789abcdef";

type Seen = Arc<Mutex<(VecDeque<(u16, &'static str)>, Vec<(HeaderMap, Vec<u8>)>)>>;

async fn answer(State(seen): State<Seen>, headers: HeaderMap, body: Bytes) -> (StatusCode, &'static str) {
    let mut seen = seen.lock();
    seen.1.push((headers, body.to_vec()));
    let (code, told) = seen.0.pop_front().unwrap_or((200, ""));
    (StatusCode::from_u16(code).unwrap(), told)
}

async fn served(answers: &[(u16, &'static str)]) -> (Hook, Seen) {
    let seen: Seen = Arc::new(Mutex::new((answers.iter().copied().collect(), Vec::new())));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/end?team=x", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state(seen.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (Hook::new(&url, Some(SECRET_TEXT.as_bytes())).unwrap(), seen)
}

async fn ask(hook: &Hook, now: Timestamp) -> Result<(), Refusal> {
    hook.ask("n1", "aws:///i-1", "3dd09c51ac", now).await
}

#[tokio::test]
async fn it_is_told_which_machine_and_can_tell_who_asks() {
    let (hook, seen) = served(&[]).await;
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    ask(&hook, now).await.unwrap();
    let (headers, body) = seen.lock().1.remove(0);
    let text = String::from_utf8(body).unwrap();
    assert_eq!(text, r#"{"node":"n1","providerID":"aws:///i-1","rotation":"3dd09c51ac","attempt":0}"#);
    let header = |name: &str| headers[name].to_str().unwrap().to_owned();
    assert_eq!((header("idempotency-key"), header("content-type")), ("3dd09c51ac".into(), "application/json".into()));
    // `printf '%s' "1767225600.$body" | openssl dgst -sha256 -hmac 0123456789abcdef`
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET_TEXT.as_bytes());
    let signed = hmac::sign(&key, format!("{}.{text}", header("x-rotate-timestamp")).as_bytes());
    let hex: String = signed.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        (header("x-rotate-timestamp"), header("x-rotate-signature")),
        ("1767225600".into(), format!("v1={hex}"))
    );
}

#[tokio::test]
async fn what_may_pass_is_asked_again_and_what_will_not_is_final() {
    let (hook, seen) = served(&[(500, "no\n luck"), (429, ""), (404, "which node?"), (302, "")]).await;
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(ask(&hook, Timestamp::UNIX_EPOCH).await.unwrap_err());
    }
    let attempts = seen.lock().1.iter().map(|(_, body)| body[body.len() - 2] - b'0').collect::<Vec<_>>();
    assert_eq!(attempts, [0, 1, 2, 0]);
    let again = |text: &str| Refusal::Again(text.to_owned());
    let never = |text: &str| Refusal::Final(text.to_owned());
    assert_eq!(
        told,
        [
            again("answered 500 Internal Server Error: no luck"),
            again("answered 429 Too Many Requests"),
            never("answered 404 Not Found: which node?"),
            never("answered 302 Found"),
        ]
    );
}

#[tokio::test]
async fn a_hook_that_is_not_there_is_asked_again() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let hook = Hook::new(&format!("http://{}", listener.local_addr().unwrap()), None).unwrap();
    drop(listener);
    let refusal = ask(&hook, Timestamp::UNIX_EPOCH).await.unwrap_err();
    assert!(matches!(&refusal, Refusal::Again(why) if why.starts_with("cannot be reached: ")), "{refusal}");
}

#[test]
fn addresses_and_secrets_that_are_not_safe_are_refused() {
    for (url, shown) in [
        ("http://hooks.example/end", "http://hooks.example/…"),
        ("http://10.0.0.1", "http://10.0.0.1"),
        ("http://[2001:db8::1]/", "http://[2001:db8::1]/…"),
        ("http://user:pass@hooks.example:80/end?token=x", "http://hooks.example:80/…"),
        ("http://user:p/ss@hooks.example", "http://hooks.example/…"),
    ] {
        assert_eq!(Hook::new(url, None).unwrap_err(), HookError::Open(shown.to_owned()));
    }
    for (url, shown) in [
        ("", ""),
        ("hooks.example", "hooks.example"),
        ("ftp://127.0.0.1/", "ftp://127.0.0.1/…"),
        ("/end", "/…"),
        ("https://user:pa ss@hooks.example/?token=x", "https://hooks.example/…"),
        ("user:pass@hooks.example", "hooks.example/…"),
    ] {
        assert_eq!(Hook::new(url, None).unwrap_err(), HookError::Address(shown.to_owned()), "{url}");
    }
    for url in ["http://127.0.0.1:80/", "http://[::1]/", "http://localhost:1/"] {
        assert!(Hook::new(url, None).is_ok(), "{url}");
    }
    assert_eq!(Hook::new("http://[::1]/", Some(b"short\n")).unwrap_err(), HookError::Short(5));
}

#[test]
fn neither_the_secret_nor_the_path_is_shown() {
    let hook = Hook::new("http://127.0.0.1/secret-path", Some(SECRET_TEXT.as_bytes())).unwrap();
    let shown = format!("{hook:?}");
    assert!(!shown.contains(SECRET_TEXT) && !shown.contains("secret-path"), "{shown}");
}
