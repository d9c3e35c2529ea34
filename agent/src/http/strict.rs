//! Requests that two readers could understand in two ways are refused before anything is made of them.

use axum::extract::Request;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, ORIGIN, TRANSFER_ENCODING};
use http::{Method, StatusCode, Version};
use rotate_shared::Code;

use super::problem::Refusal;

/// Headers of which there may be one.
const SINGLE: [HeaderName; 8] = [
    HOST,
    AUTHORIZATION,
    CONTENT_TYPE,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    ORIGIN,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("last-event-id"),
];

/// Whether there is one way to understand a request.
pub(super) fn check(request: &Request) -> Result<(), Refusal> {
    let bad = |detail: String| Refusal::new(Code::BadRequest, detail);
    if request.method() == Method::CONNECT {
        return Err(bad("this is no proxy".to_owned()).status(StatusCode::METHOD_NOT_ALLOWED));
    }
    let headers = request.headers();
    // The usual case: nothing at all is said twice.
    if headers.len() != headers.keys_len() {
        let twice = SINGLE.into_iter().find(|name| headers.get_all(name).iter().nth(1).is_some());
        if let Some(name) = twice {
            return Err(bad(format!("the header {name} is there more than once")));
        }
    }
    // RFC 9112, 3.2.
    if request.version() == Version::HTTP_11 && !headers.contains_key(HOST) {
        return Err(bad("the header host is missing".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn refused(headers: &[(&str, &str)]) -> Option<u16> {
        let builder =
            headers.iter().fold(http::Request::get("/v1/nodes"), |to, (name, value)| to.header(*name, *value));
        check(&builder.body(Body::empty()).unwrap()).err().map(|refusal| refusal.status_code())
    }

    #[test]
    fn what_may_be_said_once_is_not_said_twice() {
        assert_eq!(refused(&[("host", "a"), ("accept", "a"), ("accept", "b")]), None);
        for name in SINGLE {
            assert_eq!(refused(&[("host", "a"), (name.as_str(), "1"), (name.as_str(), "1")]), Some(400), "{name}");
        }
    }

    #[test]
    fn a_request_of_our_days_names_its_host() {
        assert_eq!(refused(&[]), Some(400));
        let old = http::Request::get("/").version(Version::HTTP_10).body(Body::empty()).unwrap();
        assert!(check(&old).is_ok());
    }

    #[test]
    fn nothing_is_tunnelled() {
        let connect = http::Request::connect("example.org:443").header(HOST, "a").body(Body::empty()).unwrap();
        assert_eq!(check(&connect).unwrap_err().status_code(), 405);
    }
}
