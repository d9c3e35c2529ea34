//! Frames of a JSON watch: one a line.

use bytes::{Buf, Bytes, BytesMut};

/// The longest line that is taken. etcd refuses objects over 1.5 MiB; JSON may double that.
const LONGEST: usize = 16 << 20;

/// Cuts a stream of bytes into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: BytesMut,
    /// How much of `rest` is known to hold no line end.
    searched: usize,
}

/// A line that never ends.
#[derive(Debug, thiserror::Error)]
#[error("a frame is longer than {LONGEST} bytes")]
pub(super) struct TooLong;

impl Lines {
    /// Takes in what came and hands out the lines that it completes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Bytes>, TooLong> {
        self.rest.extend_from_slice(bytes);
        let mut lines = Vec::new();
        while let Some(at) = self.rest[self.searched..].iter().position(|byte| *byte == b'\n') {
            let line = self.rest.split_to(self.searched + at).freeze();
            self.rest.advance(1);
            self.searched = 0;
            if !line.iter().all(u8::is_ascii_whitespace) {
                lines.push(line);
            }
        }
        self.searched = self.rest.len();
        if self.rest.len() > LONGEST { Err(TooLong) } else { Ok(lines) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(lines: &mut Lines, bytes: &str) -> Vec<String> {
        let fed = lines.feed(bytes.as_bytes()).unwrap();
        fed.iter().map(|line| String::from_utf8(line.to_vec()).unwrap()).collect()
    }

    #[test]
    fn lines_are_the_same_however_they_are_cut() {
        let text = "one\ntwo\n\nthree\r\nfo";
        for at in 0..text.len() {
            let mut lines = Lines::default();
            let mut fed = feed(&mut lines, &text[..at]);
            fed.extend(feed(&mut lines, &text[at..]));
            fed.extend(feed(&mut lines, "ur\n"));
            assert_eq!(fed, ["one", "two", "three\r", "four"]);
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; 1 << 20];
        assert!((0..20).any(|_| lines.feed(&piece).is_err()));
    }
}
