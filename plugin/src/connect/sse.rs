//! Server-sent events, as far as the agent sends them.

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// What to show the server to go on after this event.
    pub(crate) id: Option<String>,
    /// Its data.
    pub(crate) data: String,
}

/// A rotation with all that is said of it has some kilobytes; what is longer is not ours.
const LARGEST: usize = 16 << 20;

/// Splits a byte stream into events.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of a line, without its end.
    line: Vec<u8>,
    data: String,
    id: Option<String>,
}

/// An event is longer than any of ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Decoder {
    /// Takes in a piece and gives the events that it completes. Comments and other fields than `data` and `id` are skipped.
    ///
    /// # Errors
    ///
    /// It would have to keep more than an event has.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            if self.line.len() + self.data.len() + part.len() > LARGEST {
                *self = Self::default();
                return Err(TooLong);
            }
            self.line.extend_from_slice(part);
            if !part.ends_with(b"\n") {
                break;
            }
            let line = std::mem::take(&mut self.line);
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            let value = |text: &str| text.strip_prefix(' ').unwrap_or(text).to_owned();
            if line.is_empty() {
                let id = self.id.take();
                if !self.data.is_empty() {
                    events.push(Event { id, data: std::mem::take(&mut self.data) });
                }
            } else if let Some(data) = line.strip_prefix("data:") {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(&value(data));
            } else if let Some(id) = line.strip_prefix("id:") {
                self.id = Some(value(id));
            }
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_whole_however_it_is_cut() {
        let stream = b": hello\n\nid: 1\nevent: rotation\ndata: {\"a\":\ndata: 1}\n\ndata:2\r\n\r\n";
        let mut decoder = Decoder::default();
        let events: Vec<Event> = stream.chunks(3).flat_map(|piece| decoder.feed(piece).expect("it is short")).collect();
        let event = |id: Option<&str>, data: &str| Event { id: id.map(str::to_owned), data: data.to_owned() };
        assert_eq!(events, [event(Some("1"), "{\"a\":\n1}"), event(None, "2")]);
    }

    #[test]
    fn an_unfinished_event_is_not_given() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.feed(b"data: half"), Ok(Vec::new()));
        assert_eq!(decoder.feed(b"\n\n").expect("it is short")[0].data, "half");
    }

    #[test]
    fn what_never_ends_is_not_kept() {
        let piece = vec![b'x'; 1 << 20];
        let (mut one_line, mut many_lines) = (Decoder::default(), Decoder::default());
        let line: Vec<u8> = b"data:".iter().chain(&piece).chain(b"\n").copied().collect();
        for _ in 0..15 {
            assert_eq!(one_line.feed(&piece), Ok(Vec::new()));
            assert_eq!(many_lines.feed(&line), Ok(Vec::new()));
        }
        let too_long = |decoder: &mut Decoder, piece: &[u8]| (0..2).any(|_| decoder.feed(piece) == Err(TooLong));
        assert!(too_long(&mut one_line, &piece));
        assert!(too_long(&mut many_lines, &line));
    }
}
