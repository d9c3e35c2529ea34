//! Protobuf as an API server writes it, as far as the tests need it.

/// A field of bytes, a text or a message.
pub(in crate::cache::feed) fn field(number: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let mut field = varint(number << 3 | 2);
    field.extend(varint(u64::try_from(content.len()).unwrap()));
    field.extend_from_slice(content);
    field
}

/// A field of a number.
pub(in crate::cache::feed) fn number(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut written = Vec::new();
    while value >= 0x80 {
        written.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    written.push(u8::try_from(value).unwrap());
    written
}

/// A whole answer.
pub(in crate::cache::feed) fn enveloped(kind: &str, message: impl AsRef<[u8]>) -> Vec<u8> {
    let type_meta = [field(1, "v1"), field(2, kind)].concat();
    [b"k8s\0".to_vec(), field(1, type_meta), field(2, message), field(3, ""), field(4, "")].concat()
}

pub(in crate::cache::feed) fn list(revision: &str, items: &[Vec<u8>]) -> Vec<u8> {
    let items = items.iter().flat_map(|item| field(2, item));
    let message: Vec<u8> = field(1, field(2, revision)).into_iter().chain(items).collect();
    enveloped("PodList", message)
}

pub(in crate::cache::feed) fn pod(name: &str, revision: &str) -> Vec<u8> {
    let metadata = [field(1, name), field(3, "shop"), field(5, format!("uid-{name}")), field(6, revision)].concat();
    [field(1, metadata), field(2, field(10, "n1")), field(3, field(1, "Running"))].concat()
}

/// The end of the initial events, or any other bookmark.
pub(in crate::cache::feed) fn bookmark(revision: &str, initial_end: bool) -> Vec<u8> {
    let mut metadata = field(6, revision);
    if initial_end {
        metadata.extend(field(12, [field(1, "k8s.io/initial-events-end"), field(2, "true")].concat()));
    }
    event("BOOKMARK", field(1, metadata))
}

pub(in crate::cache::feed) fn status(code: u64, reason: &str, message: &str) -> Vec<u8> {
    [field(3, message), field(4, reason), number(6, code)].concat()
}

/// A frame of a watch without its length.
pub(in crate::cache::feed) fn watch_event(kind: &str, object: impl AsRef<[u8]>) -> Vec<u8> {
    [field(1, kind), field(2, field(1, enveloped("Pod", object)))].concat()
}

/// A frame of a watch.
pub(in crate::cache::feed) fn event(kind: &str, object: impl AsRef<[u8]>) -> Vec<u8> {
    let frame = watch_event(kind, object);
    [u32::try_from(frame.len()).unwrap().to_be_bytes().to_vec(), frame].concat()
}
