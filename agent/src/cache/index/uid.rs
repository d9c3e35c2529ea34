//! UIDs in 16 bytes.

use std::fmt;
use std::ops::Deref;

use super::Id;
use super::blobs::Blobs;

/// A UID: the bytes of a UUID as Kubernetes writes it, or a mark and the number of any other text. No UUID that begins with
/// the mark is kept as bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Uid([u8; 16]);

/// The texts that are no UUIDs.
#[derive(Debug, Default)]
pub(super) struct Uids {
    odd: Blobs,
}

/// The text of a UID.
pub(super) enum UidText<'a> {
    Uuid([u8; LENGTH]),
    Odd(&'a str),
}

const LENGTH: usize = 36;
const MARK: [u8; 4] = [0xff; 4];

impl Uid {
    /// From a UUID in its canonical form, lower case; nothing else would come back as the same text.
    fn canonical(text: &str) -> Option<Self> {
        let text: &[u8; LENGTH] = text.as_bytes().try_into().ok()?;
        let mut bytes = [0; 16];
        let mut at = 0;
        for byte in &mut bytes {
            if matches!(at, 8 | 13 | 18 | 23) {
                if text[at] != b'-' {
                    return None;
                }
                at += 1;
            }
            *byte = (digit(text[at])? << 4) | digit(text[at + 1])?;
            at += 2;
        }
        (bytes[..4] != MARK).then_some(Self(bytes))
    }

    fn odd(id: Id) -> Self {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&MARK);
        bytes[4..8].copy_from_slice(&id.to_le_bytes());
        Self(bytes)
    }

    fn as_odd(self) -> Option<Id> {
        let [mark @ .., a, b, c, d] = self.0.first_chunk::<8>().expect("16 bytes");
        (*mark == MARK).then(|| Id::from_le_bytes([*a, *b, *c, *d]))
    }
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

impl Uids {
    /// The UID with this text. Of an odd one that is new: with no use yet.
    pub(super) fn mention(&mut self, text: &str) -> Uid {
        Uid::canonical(text).unwrap_or_else(|| Uid::odd(self.odd.mention(text.as_bytes())))
    }

    /// The UID with this text, if it can be one that is kept.
    pub(super) fn find(&self, text: &str) -> Option<Uid> {
        Uid::canonical(text).or_else(|| self.odd.find(text.as_bytes()).map(Uid::odd))
    }

    /// One use more.
    pub(super) fn retain(&mut self, uid: Uid) {
        if let Some(id) = uid.as_odd() {
            self.odd.retain(id);
        }
    }

    /// One use less.
    pub(super) fn release(&mut self, uid: Uid) {
        if let Some(id) = uid.as_odd() {
            self.odd.release(id);
        }
    }

    pub(super) fn text(&self, uid: Uid) -> UidText<'_> {
        if let Some(id) = uid.as_odd() {
            return UidText::Odd(self.odd.text(id));
        }
        let mut text = [b'-'; LENGTH];
        let mut at = 0;
        for byte in uid.0 {
            if matches!(at, 8 | 13 | 18 | 23) {
                at += 1;
            }
            text[at] = b"0123456789abcdef"[usize::from(byte >> 4)];
            text[at + 1] = b"0123456789abcdef"[usize::from(byte & 15)];
            at += 2;
        }
        UidText::Uuid(text)
    }
}

impl Deref for UidText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Uuid(text) => str::from_utf8(text).expect("digits and dashes"),
            Self::Odd(text) => text,
        }
    }
}

impl fmt::Debug for UidText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_as_it_was() {
        let mut uids = Uids::default();
        let texts = [
            "4f1c2a7e-0123-4567-89ab-cdef01234567",
            "00000000-0000-0000-0000-000000000000",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
            "ffffffff-0000-0000-0000-000000000000",
            "4F1C2A7E-0123-4567-89AB-CDEF01234567",
            "4f1c2a7e-0123-4567-89ab_cdef01234567",
            "4f1c2a7e01234567-89ab-cdef01234567--",
            "mirror-of-a-static-pod",
            "",
            "ü",
        ];
        let kept: Vec<_> = texts.iter().map(|text| uids.mention(text)).collect();
        kept.iter().for_each(|uid| uids.retain(*uid));
        for (text, uid) in texts.iter().zip(&kept) {
            assert_eq!(&*uids.text(*uid), *text);
            assert_eq!(uids.find(text), Some(*uid));
        }
        assert_eq!(uids.odd.len(), 8);
        kept.iter().for_each(|uid| uids.release(*uid));
        assert_eq!(uids.odd.len(), 0);
        assert_eq!(uids.find("mirror-of-a-static-pod"), None);
    }
}
