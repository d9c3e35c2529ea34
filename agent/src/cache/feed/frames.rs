//! Frames of a watch: one a line in JSON, the length before each in protobuf.

use bytes::{Buf, Bytes, BytesMut};

use super::encoding::Encoding;

/// The longest frame that is taken. etcd refuses objects over 1.5 MiB; JSON may double that.
pub(super) const LONGEST: usize = 16 << 20;
/// Bytes of the length before a protobuf frame, in network order.
const HEADER: usize = 4;

/// Cuts a stream of bytes into frames. A frame that came in one piece is not copied, and one that came in several has
/// memory of its own, exactly as long as it is needed: after a large frame nothing large stays.
#[derive(Debug)]
pub(super) struct Frames {
    encoding: Encoding,
    /// The beginning of a frame whose end has not come.
    rest: BytesMut,
}

/// Why a stream cannot be cut into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    /// A frame that never ends, or no frame at all.
    #[error("a frame is longer than {LONGEST} bytes")]
    TooLong,
    /// The stream ended within a frame.
    #[error("the watch ended within a frame, after {0} bytes of it")]
    Truncated(usize),
}

// === impl Frames ===

impl Frames {
    pub(super) fn new(encoding: Encoding) -> Self {
        Self { encoding, rest: BytesMut::new() }
    }

    /// Takes in what came and hands out the frames that it completes.
    pub(super) fn feed(&mut self, mut bytes: Bytes, frames: &mut Vec<Bytes>) -> Result<(), FrameError> {
        if !self.rest.is_empty() {
            match self.complete(&mut bytes)? {
                Some(frame) => self.push(frames, frame),
                None => return Ok(()),
            }
        }
        while let Some(frame) = self.cut(&mut bytes)? {
            self.push(frames, frame);
        }
        if self.encoding == Encoding::Protobuf
            && let Some(length) = length(&bytes)?
        {
            self.rest.reserve(HEADER + length);
        }
        self.rest.extend_from_slice(&bytes);
        if self.rest.len() > LONGEST + HEADER { Err(FrameError::TooLong) } else { Ok(()) }
    }

    /// The stream has ended.
    pub(super) fn finish(&self) -> Result<(), FrameError> {
        if self.is_blank(&self.rest) { Ok(()) } else { Err(FrameError::Truncated(self.rest.len())) }
    }

    fn push(&self, frames: &mut Vec<Bytes>, frame: Bytes) {
        if !self.is_blank(&frame) {
            frames.push(frame);
        }
    }

    /// Blank lines are no frames; they may keep a connection alive.
    fn is_blank(&self, frame: &[u8]) -> bool {
        match self.encoding {
            Encoding::Json => frame.iter().all(u8::is_ascii_whitespace),
            Encoding::Protobuf => frame.is_empty(),
        }
    }

    /// The frame that has begun, if these bytes end it; what is behind it is left.
    fn complete(&mut self, bytes: &mut Bytes) -> Result<Option<Bytes>, FrameError> {
        match self.encoding {
            Encoding::Json => {
                let end = bytes.iter().position(|byte| *byte == b'\n');
                let taken = end.unwrap_or(bytes.len());
                if self.rest.len() + taken > LONGEST {
                    return Err(FrameError::TooLong);
                }
                self.rest.extend_from_slice(&bytes[..taken]);
                bytes.advance(taken + usize::from(end.is_some()));
                Ok(end.map(|_| std::mem::take(&mut self.rest).freeze()))
            }
            Encoding::Protobuf => {
                let head = bytes.split_to(HEADER.saturating_sub(self.rest.len()).min(bytes.len()));
                self.rest.extend_from_slice(&head);
                let Some(length) = length(&self.rest)? else { return Ok(None) };
                let missing = HEADER + length - self.rest.len();
                self.rest.reserve(missing);
                self.rest.extend_from_slice(&bytes.split_to(missing.min(bytes.len())));
                if self.rest.len() < HEADER + length {
                    return Ok(None);
                }
                let mut frame = std::mem::take(&mut self.rest).freeze();
                frame.advance(HEADER);
                Ok(Some(frame))
            }
        }
    }

    /// The frame that these bytes begin with, if all of it is there.
    fn cut(&self, bytes: &mut Bytes) -> Result<Option<Bytes>, FrameError> {
        match self.encoding {
            Encoding::Json => {
                let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
                let line = bytes.split_to(end);
                bytes.advance(1);
                if line.len() > LONGEST { Err(FrameError::TooLong) } else { Ok(Some(line)) }
            }
            Encoding::Protobuf => {
                let Some(length) = length(bytes)? else { return Ok(None) };
                if bytes.len() < HEADER + length {
                    return Ok(None);
                }
                bytes.advance(HEADER);
                Ok(Some(bytes.split_to(length)))
            }
        }
    }
}

/// The length of the protobuf frame that begins here, once its header is there.
fn length(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
    let Some(header) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
    match usize::try_from(u32::from_be_bytes(*header)) {
        Ok(length) if length <= LONGEST => Ok(Some(length)),
        _ => Err(FrameError::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&length, content].concat()
    }

    fn feed(frames: &mut Frames, bytes: &[u8]) -> Vec<Bytes> {
        let mut fed = Vec::new();
        frames.feed(Bytes::copy_from_slice(bytes), &mut fed).unwrap();
        fed
    }

    #[test]
    fn frames_are_the_same_however_they_are_cut() {
        let lines = b"one\ntwo\n\nthree\r\nfour\n".to_vec();
        let messages = [&b"one"[..], b"two", b"", b"three\r", b"four"].map(frame).concat();
        for (encoding, whole) in [(Encoding::Json, lines), (Encoding::Protobuf, messages)] {
            for first in 0..=whole.len() {
                for second in first..=whole.len() {
                    let mut frames = Frames::new(encoding);
                    let mut fed = feed(&mut frames, &whole[..first]);
                    fed.extend(feed(&mut frames, &whole[first..second]));
                    fed.extend(feed(&mut frames, &whole[second..]));
                    assert_eq!(fed, [&b"one"[..], b"two", b"three\r", b"four"], "{encoding:?} {first} {second}");
                    assert_eq!(frames.finish(), Ok(()));
                }
            }
        }
    }

    #[test]
    fn a_frame_that_came_in_one_piece_is_not_copied() {
        let bytes = Bytes::from(frame(b"content"));
        let mut fed = Vec::new();
        Frames::new(Encoding::Protobuf).feed(bytes.clone(), &mut fed).unwrap();
        assert_eq!(fed[0].as_ptr(), bytes[HEADER..].as_ptr());
    }

    #[test]
    fn nothing_large_stays_after_a_large_frame() {
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            let mut frames = Frames::new(encoding);
            let large = vec![b'x'; 4 << 20];
            let bytes = if encoding == Encoding::Json { [&large[..], b"\nab"].concat() } else { frame(&large) };
            let fed: Vec<_> = bytes.chunks(64 << 10).flat_map(|chunk| feed(&mut frames, chunk)).collect();
            assert_eq!(fed.len(), 1);
            assert!(frames.rest.capacity() < 1 << 10, "{encoding:?} {}", frames.rest.capacity());
        }
    }

    #[test]
    fn a_frame_without_end_is_refused() {
        let mut frames = Frames::new(Encoding::Json);
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        assert!((0..20).any(|_| frames.feed(piece.clone(), &mut Vec::new()).is_err()));
    }

    #[test]
    fn an_absurd_length_is_refused_before_its_frame_comes() {
        let mut frames = Frames::new(Encoding::Protobuf);
        let first = frames.feed(Bytes::from_static(&[0xff]), &mut Vec::new());
        assert_eq!(first, Ok(()));
        let rest = frames.feed(Bytes::from_static(&[0xff, 0xff, 0xff]), &mut Vec::new());
        assert_eq!(rest, Err(FrameError::TooLong));
        let whole = Frames::new(Encoding::Protobuf).feed(Bytes::from_static(b"<html>..."), &mut Vec::new());
        assert_eq!(whole, Err(FrameError::TooLong), "a page of HTML is no frame");
    }

    #[test]
    fn a_stream_that_ends_within_a_frame_says_so() {
        for (encoding, bytes) in [(Encoding::Json, &b"{\"type\":"[..]), (Encoding::Protobuf, &[0, 0, 0, 9, 1][..])] {
            let mut frames = Frames::new(encoding);
            assert!(feed(&mut frames, bytes).is_empty());
            assert_eq!(frames.finish(), Err(FrameError::Truncated(bytes.len())));
        }
    }
}
