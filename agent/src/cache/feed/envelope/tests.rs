use serde_json::{Value, json};

use super::*;
use crate::cache::feed::frames::Frames;
use crate::cache::feed::tests::message::{self, field, number};

fn json(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

fn event(encoding: Encoding, bytes: impl Into<Bytes>) -> Event {
    match frame(encoding, &bytes.into()).unwrap() {
        Frame::Event(event) => event,
        Frame::Error(status) => panic!("{status:?}"),
    }
}

fn error(encoding: Encoding, bytes: impl Into<Bytes>) -> Status {
    match frame(encoding, &bytes.into()).unwrap() {
        Frame::Error(status) => status,
        Frame::Event(event) => panic!("{event:?}"),
    }
}

#[test]
fn a_page_holds_objects_a_revision_and_where_to_go_on() {
    let info = json!({"selector": "shardRange(x)"});
    let answer = json(&json!({
        "metadata": {"resourceVersion": "7", "continue": "token", "shardInfo": info}, "items": [{"a": 1}, {"b": 2}],
    }));
    let read = page(Encoding::Json, &answer).unwrap();
    assert_eq!(
        (&*read.revision, read.next.as_deref(), read.shard.as_deref()),
        ("7", Some("token"), Some("shardRange(x)"))
    );
    let text = std::str::from_utf8(&answer).unwrap();
    let expected = [r#"{"a":1}"#, r#"{"b":2}"#].map(|item| {
        let at = text.find(item).unwrap();
        Object::json(&answer, &text[at..at + item.len()])
    });
    assert_eq!(read.objects, expected);

    let meta = [field(2, "7"), field(3, "token"), field(5, field(1, "shardRange(x)"))].concat();
    let answer =
        Bytes::from(message::enveloped("PodList", [field(1, meta), field(2, "one"), field(2, "two")].concat()));
    let read = page(Encoding::Protobuf, &answer).unwrap();
    assert_eq!(
        (&*read.revision, read.next.as_deref(), read.shard.as_deref()),
        ("7", Some("token"), Some("shardRange(x)"))
    );
    assert_eq!(read.objects.len(), 2);
}

#[test]
fn a_list_may_be_empty_and_what_is_none_is_not_taken_for_an_empty_one() {
    let meta = json!({"resourceVersion": "1"});
    let empty = [
        page(Encoding::Json, &json(&json!({"metadata": meta, "items": []}))),
        page(Encoding::Json, &json(&json!({"metadata": meta, "items": null}))),
        page(Encoding::Protobuf, &Bytes::from(message::enveloped("PodList", field(1, field(2, "1"))))),
    ];
    for read in empty.map(Result::unwrap) {
        assert!(read.objects.is_empty() && read.next.is_none() && read.shard.is_none());
    }
    let refused = [
        page(Encoding::Json, &json(&json!({}))),
        page(Encoding::Json, &json(&json!({"kind": "Pod", "metadata": meta}))),
        page(Encoding::Json, &json(&json!({"kind": "PodList", "metadata": {}, "items": []}))),
        page(Encoding::Protobuf, &Bytes::from(message::enveloped("Pod", field(1, field(2, "1"))))),
        page(Encoding::Protobuf, &Bytes::from(message::enveloped("PodList", field(1, "")))),
        page(Encoding::Json, &json(&json!({"kind": "Status", "metadata": {}, "status": "Success"}))),
        page(Encoding::Json, &Bytes::from_static(b"<html>")),
        page(Encoding::Json, &Bytes::from_static(b"\xff")),
        page(Encoding::Protobuf, &Bytes::from(message::enveloped("Status", message::status(200, "", "")))),
        page(Encoding::Protobuf, &Bytes::from_static(b"{}")),
        page(Encoding::Protobuf, &Bytes::new()),
    ];
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
}

#[test]
fn a_page_that_is_cut_off_anywhere_is_refused() {
    let whole = Bytes::from(message::list("7", &[message::pod("a", "1"), message::pod("b", "2")]));
    let end = whole.len() - 4;
    for length in 0..end {
        assert!(page(Encoding::Protobuf, &whole.slice(..length)).is_err(), "cut off after {length}");
    }
    assert_eq!(page(Encoding::Protobuf, &whole).unwrap().objects.len(), 2);
    let whole = json(&json!({"metadata": {"resourceVersion": "7"}, "items": [{"a": 1}]}));
    for length in 0..whole.len() {
        assert!(page(Encoding::Json, &whole.slice(..length)).is_err(), "cut off after {length}");
    }
}

#[test]
fn events_say_what_happened_to_which_object() {
    for (kind, applied) in [("ADDED", true), ("MODIFIED", true), ("DELETED", false)] {
        let line = json(&json!({"type": kind, "object": {"a": 1}}));
        let events = [event(Encoding::Json, line), event(Encoding::Protobuf, message::watch_event(kind, "message"))];
        for event in events {
            match event {
                Event::Applied(_) => assert!(applied),
                Event::Deleted(_) => assert!(!applied),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn only_the_annotated_bookmark_ends_the_initial_events() {
    for (annotation, expected) in [(None, false), (Some("true"), true), (Some("false"), false)] {
        let mut object = json!({"metadata": {"resourceVersion": "9", "annotations": {"other": "true"}}});
        let mut metadata = [field(6, "9"), field(12, [field(1, "other"), field(2, "true")].concat())].concat();
        if let Some(value) = annotation {
            object["metadata"]["annotations"]["k8s.io/initial-events-end"] = value.into();
            metadata.extend(field(12, [field(1, "k8s.io/initial-events-end"), field(2, value)].concat()));
        }
        let line = json(&json!({"type": "BOOKMARK", "object": object}));
        let events = [
            event(Encoding::Json, line),
            event(Encoding::Protobuf, message::watch_event("BOOKMARK", field(1, metadata))),
        ];
        for event in events {
            match event {
                Event::Bookmark { revision, initial_end } => assert_eq!((&*revision, initial_end), ("9", expected)),
                other => panic!("{other:?}"),
            }
        }
    }
    let without = json(&json!({"type": "BOOKMARK", "object": {"metadata": {}}}));
    assert!(frame(Encoding::Json, &without).is_err(), "it would move us to nowhere");
    assert!(frame(Encoding::Protobuf, &Bytes::from(message::watch_event("BOOKMARK", ""))).is_err());
}

#[test]
fn an_error_says_what_its_status_does_and_less_without_one() {
    let gone = json(&json!({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}));
    let written = message::watch_event("ERROR", message::status(410, "Expired", "too old"));
    for status in [error(Encoding::Json, gone), error(Encoding::Protobuf, written)] {
        assert!(status.is_gone());
        assert_eq!((status.code, status.message.as_deref()), (Some(410), Some("too old")));
    }
    let odd = json(&json!({"type": "ERROR", "object": 7}));
    for status in [error(Encoding::Json, odd), error(Encoding::Protobuf, message::watch_event("ERROR", ""))] {
        assert_eq!(status, Status { details: status.details.clone(), ..Status::default() });
        assert_eq!(status.retry_after(), None);
    }
    let details = field(5, number(5, 3));
    let slow = message::watch_event("ERROR", [message::status(429, "TooManyRequests", "slow down"), details].concat());
    assert_eq!(error(Encoding::Protobuf, slow).retry_after(), Some(Duration::from_secs(3)));
    let slow = json(&json!({"type": "ERROR", "object": {"code": 429, "details": {"retryAfterSeconds": 3}}}));
    assert_eq!(error(Encoding::Json, slow).retry_after(), Some(Duration::from_secs(3)));
}

#[test]
fn an_unknown_type_is_an_event_of_its_own() {
    let line = json(&json!({"type": "NEWS", "object": {}}));
    for event in [event(Encoding::Json, line), event(Encoding::Protobuf, message::watch_event("NEWS", ""))] {
        assert!(matches!(&event, Event::Unknown(kind) if &**kind == "NEWS"), "{event:?}");
    }
}

#[test]
fn a_frame_that_is_cut_off_anywhere_is_refused() {
    let whole = Bytes::from(message::watch_event("ADDED", message::pod("a", "1")));
    for length in 0..whole.len() {
        assert!(frame(Encoding::Protobuf, &whole.slice(..length)).is_err(), "cut off after {length}");
    }
    let whole = json(&json!({"type": "ADDED", "object": {"metadata": {"name": "a"}}}));
    for length in 0..whole.len() {
        assert!(frame(Encoding::Json, &whole.slice(..length)).is_err(), "cut off after {length}");
    }
}

#[test]
fn a_refusal_is_read_in_both_encodings_and_anything_else_says_nothing() {
    let said =
        status(Encoding::Protobuf, &message::enveloped("Status", message::status(403, "Forbidden", "not yours")));
    assert_eq!(said.message.as_deref(), Some("not yours"));
    let said = status(Encoding::Json, br#"{"kind":"Status","message":"not yours"}"#);
    assert_eq!(said.message.as_deref(), Some("not yours"));
    for encoding in [Encoding::Json, Encoding::Protobuf] {
        assert_eq!(status(encoding, b"<html>Bad Gateway"), Status::default());
    }
}

/// A sequence of numbers that is the same in each run.
fn noise(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

#[test]
fn whatever_comes_is_an_event_or_an_error_and_never_a_panic() {
    let line = json(&json!({"type": "MODIFIED", "object": {"metadata": {"name": "a", "resourceVersion": "1"}}}));
    let message = Bytes::from(message::watch_event("MODIFIED", message::pod("a", "1")));
    let list = Bytes::from(message::list("7", &[message::pod("a", "1")]));
    let mut refused = 0;
    for (encoding, whole) in [(Encoding::Json, &line), (Encoding::Protobuf, &message), (Encoding::Protobuf, &list)] {
        let mut next = noise(7);
        for _ in 0..2000 {
            let mut bytes = whole.to_vec();
            for _ in 0..=next() % 4 {
                let at = usize::try_from(next() % bytes.len() as u64).unwrap();
                bytes[at] = u8::try_from(next() & 0xff).unwrap();
            }
            let bytes = Bytes::from(bytes);
            refused += u32::from(page(encoding, &bytes).is_err()) + u32::from(frame(encoding, &bytes).is_err());
            status(encoding, &bytes);
            let mut frames = Vec::new();
            if Frames::new(encoding).feed(bytes.clone(), &mut frames).is_ok() {
                assert!(frames.iter().map(Bytes::len).sum::<usize>() <= bytes.len());
            }
        }
    }
    assert!(refused > 6000, "no more than {refused} of 12000 were refused");
}
