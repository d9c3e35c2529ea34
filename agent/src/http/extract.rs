//! What handlers take out of a request, each refused in our own words.

use axum::body::HttpBody as _;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use rotate_shared::{Code, Object};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::limits::{BODY_BYTES, BODY_PATIENCE, SMALL_BODY_BYTES};
use super::problem::Refusal;

/// A JSON body. Unknown fields are refused by name where the type says so.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        if !is_json(&request) {
            return Err(unsupported("the body must be of content type application/json, in UTF-8"));
        }
        parse(&read(request).await?).map(Self)
    }
}

/// A JSON body, or none, which means all defaults.
#[derive(Debug)]
pub(crate) struct BodyOrDefault<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for BodyOrDefault<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        if request.headers().contains_key(header::CONTENT_TYPE) {
            return Body::from_request(request, state).await.map(|Body(value)| Self(value));
        }
        if read(request).await?.is_empty() {
            return Ok(Self(T::default()));
        }
        Err(unsupported("the body must be of content type application/json, in UTF-8"))
    }
}

fn unsupported(detail: &str) -> Refusal {
    Refusal::new(Code::BadRequest, detail).status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
}

fn is_json(request: &Request) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let mut parts = kind.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    // JSON has no charset; those who name one mean UTF-8, or are not understood (RFC 8259, 8.1 and 11).
    let utf8 = parts
        .filter_map(|part| part.split_once('='))
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))
        .all(|(_, charset)| charset.trim().trim_matches('"').eq_ignore_ascii_case("utf-8"));
    essence.eq_ignore_ascii_case("application/json") && utf8
}

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Whether the body is announced as a small one.
pub(super) fn is_small(request: &Request) -> bool {
    request.body().size_hint().upper().is_some_and(|bytes| bytes <= SMALL_BODY_BYTES as u64)
}

/// Waits for the whole of a small body, which the request has then.
pub(super) async fn receive(request: &mut Request) -> Result<(), Refusal> {
    let whole = collect(request, SMALL_BODY_BYTES).await?;
    *request.body_mut() = whole.into();
    Ok(())
}

async fn read(mut request: Request) -> Result<Bytes, Refusal> {
    collect(&mut request, BODY_BYTES).await
}

async fn collect(request: &mut Request, most: usize) -> Result<Bytes, Refusal> {
    let too_large = || {
        Refusal::new(Code::BadRequest, format!("the body is larger than {most} bytes"))
            .status(StatusCode::PAYLOAD_TOO_LARGE)
    };
    let coded = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    if request.headers().get_all(header::CONTENT_ENCODING).iter().any(coded) {
        // RFC 9110, 15.5.16 and 12.5.3.
        let identity = HeaderValue::from_static("identity");
        return Err(unsupported("the body must be sent as it is, without a content encoding")
            .header(header::ACCEPT_ENCODING, identity));
    }
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > most as u64) {
        return Err(too_large());
    }
    let limited = http_body_util::Limited::new(std::mem::take(request.body_mut()), most);
    let collected = tokio::time::timeout(BODY_PATIENCE, http_body_util::BodyExt::collect(limited)).await;
    let too_slow = |_| {
        let detail = format!("the body did not arrive within {} s", BODY_PATIENCE.as_secs());
        Refusal::new(Code::BadRequest, detail).status(StatusCode::REQUEST_TIMEOUT).header(header::CONNECTION, CLOSE)
    };
    match collected.map_err(too_slow)? {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Err(error) => Err(Refusal::new(Code::BadRequest, format!("the body broke off: {error}"))),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map(|Object(value)| value)
        .map_err(|error| Refusal::new(Code::BadRequest, format!("the body cannot be read: {error}")))
}

/// Query parameters; unknown ones are refused where the type says so.
#[derive(Debug)]
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(value)) => Ok(Self(value)),
            Err(error) => {
                Err(Refusal::new(Code::BadRequest, format!("the query cannot be read: {}", error.body_text())))
            }
        }
    }
}

/// No query parameters: what is not known here is refused by name, so that nobody takes `?dryRun=All` for one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// The `{id}` of a path: an id that could be a rotation's, so that nothing else ever becomes part of a path ours.
#[derive(Debug)]
pub(crate) struct Id(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let id = segment(parts, state, "rotations").await?;
        let valid = id.len() == 10 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if valid { Ok(Self(id)) } else { Err(Refusal::not_found("rotations", &id)) }
    }
}

/// The `{name}` of a path: any text; whether there is such a node, the cache knows.
#[derive(Debug)]
pub(crate) struct NodeName(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for NodeName {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        segment(parts, state, "nodes").await.map(Self)
    }
}

async fn segment<S: Send + Sync>(parts: &mut Parts, state: &S, resource: &str) -> Result<String, Refusal> {
    match Path::<String>::from_request_parts(parts, state).await {
        Ok(Path(text)) => Ok(text),
        // Not UTF-8 once decoded: nothing can have that name.
        Err(_) => Err(Refusal::not_found(resource, parts.uri.path())),
    }
}
