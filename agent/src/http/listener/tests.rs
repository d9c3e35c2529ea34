use std::sync::atomic::{AtomicUsize, Ordering};

use axum::routing::{get, post};
use tokio::sync::Notify;

use super::*;

const SOON: Duration = Duration::from_secs(10);

/// A port that answers on `/` and says nothing on `/never`; the sender ends it.
struct Open {
    addr: SocketAddr,
    closing: CancellationToken,
    served: tokio::task::JoinHandle<()>,
    /// A request for `/slow` is being answered.
    entered: Arc<Notify>,
}

async fn listen(bounds: Bounds) -> Open {
    let entered = Arc::new(Notify::new());
    let enter = Arc::clone(&entered);
    let router = Router::new()
        .route("/", get(async || "well"))
        .route("/echo", post(async |body: String| body))
        .route("/never", get(async || std::future::pending::<&str>().await))
        .route(
            "/slow",
            get(async move || {
                enter.notify_one();
                Clock::system().sleep(Duration::from_millis(300)).await;
                "slowly"
            }),
        );
    let any = "127.0.0.1:0".parse().unwrap();
    let mut listener = Listener::bind(Port::Control, any, Clock::system(), Arc::default()).await.unwrap();
    listener.bounds = bounds;
    let (addr, closing) = (listener.addr(), CancellationToken::new());
    let served = tokio::spawn(listener.serve(router, closing.clone()));
    Open { addr, closing, served, entered }
}

impl Open {
    /// Sends this and reads until the other side closes.
    async fn say(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.addr).await.unwrap();
        // It may be closed before all of it was taken.
        let _ = stream.write_all(request).await;
        rest(stream).await
    }
}

async fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(SOON, stream.read_to_end(&mut answer)).await.expect("it is closed");
    String::from_utf8(answer).unwrap()
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

#[tokio::test]
async fn one_connection_too_many_is_told_so_and_the_next_gets_in_once_there_is_room() {
    let port = listen(Bounds { connections: 2, ..Bounds::default() }).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(port.addr).await.unwrap();
        stream.write_all(b"GET /never HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        held.push(stream);
    }
    let turned_away = port.say(GET).await;
    assert!(turned_away.starts_with("HTTP/1.1 503 "), "{turned_away}");
    let (head, body) = turned_away.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("application/problem+json") && head.contains("retry-after: 1"), "{head}");
    assert!(head.contains(&format!("{}: {}", names::VERSION_HEADER, env!("CARGO_PKG_VERSION"))), "{head}");
    let problem: Problem = serde_json::from_str(body).unwrap();
    assert_eq!((problem.status, problem.code), (503, Code::TooManyRequests));
    held.pop();
    // The listener notices a moment later.
    let begun = std::time::Duration::from_millis(20);
    for _ in 0..100 {
        let answer = port.say(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        if answer.starts_with("HTTP/1.1 200 ") {
            return;
        }
        Clock::system().sleep(begun).await;
    }
    panic!("the place never came back");
}

#[tokio::test]
async fn a_client_that_sends_its_headers_bit_by_bit_is_cut_off() {
    let port = listen(Bounds { head: Duration::from_millis(300), ..Bounds::default() }).await;
    let mut stream = TcpStream::connect(port.addr).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    let sent = AtomicUsize::new(0);
    let drip = async {
        for letter in GET.iter().chain(std::iter::repeat(&b'x')) {
            if writing.write_all(&[*letter]).await.is_err() {
                break;
            }
            sent.fetch_add(1, Ordering::Relaxed);
            Clock::system().sleep(Duration::from_millis(50)).await;
        }
    };
    let mut answer = Vec::new();
    tokio::select! {
        _ = reading.read_to_end(&mut answer) => {}
        () = drip => {}
        () = async { Clock::system().sleep(SOON).await } => panic!("it was never cut off"),
    }
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    assert!(sent.load(Ordering::Relaxed) < GET.len(), "what it sends late is not taken");
}

#[tokio::test]
async fn a_connection_without_a_next_request_is_closed() {
    let port = listen(Bounds { head: Duration::from_millis(300), ..Bounds::default() }).await;
    let answer = port.say(GET).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("well"), "{answer}");
}

#[tokio::test]
async fn headers_too_large_or_too_many_are_refused() {
    let port = listen(Bounds::default()).await;
    let large = format!("GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n", "y".repeat(limits::HEAD_BYTES));
    let many = format!("GET / HTTP/1.1\r\nhost: a\r\n{}\r\n", "x: y\r\n".repeat(101));
    for flood in [large, many] {
        let answer = port.say(flood.as_bytes()).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 431 ") && head.contains("application/problem+json"), "{head}");
        assert_eq!(serde_json::from_str::<Problem>(body).unwrap().status, 431);
    }
    let long = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "y".repeat(limits::HEAD_BYTES * 2));
    let answer = port.say(long.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 414 ") || answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[tokio::test]
async fn requests_sent_at_once_are_answered_in_order() {
    let port = listen(Bounds::default()).await;
    let two = b"POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nfirst\
                GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answers = port.say(two).await;
    let (first, second) = (answers.find("first").unwrap(), answers.find("well").unwrap());
    assert!(first < second && answers.matches("HTTP/1.1 200").count() == 2, "{answers}");
}

#[tokio::test]
async fn what_is_no_http_is_answered_and_closed() {
    let port = listen(Bounds::default()).await;
    for garbage in ["\x16\x03\x01\x02 a TLS handshake\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET\r\n\r\n"] {
        let answer = port.say(garbage.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 ") || answer.is_empty(), "{answer}");
    }
    for garbage in
        ["GET\r\n\r\n", "GET / HTTP/1.1\r\nhost : a\r\n\r\n", "POST / HTTP/1.1\r\ncontent-length: +1\r\n\r\n"]
    {
        let answer = port.say(&[GET, garbage.as_bytes()].concat()).await;
        let (_, document) = answer.rsplit_once("\r\n\r\n").unwrap();
        assert_eq!(serde_json::from_str::<Problem>(document).unwrap().status, 400, "{answer}");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("application/problem+json"), "{answer}");
    }
    let answer = port.say(b"GET / HTTP/1.0\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.0 200 ") && answer.ends_with("well"), "{answer}");
}

#[tokio::test]
async fn a_port_that_closes_answers_what_is_under_way_and_lets_idle_connections_go() {
    let port = listen(Bounds::default()).await;
    let mut idle = TcpStream::connect(port.addr).await.unwrap();
    idle.write_all(GET).await.unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.unwrap();
    let mut asking = TcpStream::connect(port.addr).await.unwrap();
    asking.write_all(b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    port.entered.notified().await;
    port.closing.cancel();
    assert!(rest(asking).await.ends_with("slowly"));
    rest(idle).await;
    tokio::time::timeout(SOON, port.served).await.expect("it ends").unwrap();
    assert!(TcpStream::connect(port.addr).await.is_err());
}

#[tokio::test]
async fn every_address_of_ipv6_is_every_address_of_ipv4_too() {
    let any = "[::]:0".parse().unwrap();
    let listener = Listener::bind(Port::Ops, any, Clock::system(), Arc::default()).await.unwrap();
    let port = listener.addr().port();
    let router = Router::new().route("/", get(async || "well"));
    tokio::spawn(listener.serve(router, CancellationToken::new()));
    for host in ["127.0.0.1", "::1"] {
        let mut stream = match TcpStream::connect((host, port)).await {
            Ok(stream) => stream,
            // A machine without IPv6.
            Err(error) => {
                assert_eq!((host, TcpListener::bind("[::1]:0").await.is_err()), ("::1", true), "{error}");
                continue;
            }
        };
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        assert!(rest(stream).await.ends_with("well"), "{host}");
    }
}

#[tokio::test]
async fn where_there_is_no_ipv6_every_address_of_ipv4_is_taken() {
    let errors = [io::Error::from_raw_os_error(97), io::Error::from(io::ErrorKind::AddrNotAvailable)];
    for error in errors {
        let without = async |addr: SocketAddr| match addr {
            SocketAddr::V6(_) => {
                Err(io::Error::new(error.kind(), "none")).map_err(|other| match error.raw_os_error() {
                    Some(code) => io::Error::from_raw_os_error(code),
                    None => other,
                })
            }
            SocketAddr::V4(_) => Ok(addr),
        };
        let bound = bind("[::]:8471".parse().unwrap(), without).await.unwrap();
        assert_eq!(bound, "0.0.0.0:8471".parse().unwrap());
        assert!(bind("[::1]:8471".parse().unwrap(), without).await.is_err(), "one address is that one");
    }
    let taken = async |_| Err::<(), _>(io::Error::from(io::ErrorKind::AddrInUse));
    assert_eq!(bind("[::]:8471".parse().unwrap(), taken).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
}
