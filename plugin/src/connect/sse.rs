//! Server-sent events, as far as the agent sends them.

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// What to show the server to go on after this event.
    pub(crate) id: Option<String>,
    /// Its data.
    pub(crate) data: String,
}

/// Splits a byte stream into events.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    buffer: Vec<u8>,
    data: String,
    id: Option<String>,
}

impl Decoder {
    /// Takes in a piece and gives the events that it completes. Comments and other fields than `data` and `id` are skipped.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Vec<Event> {
        self.buffer.extend_from_slice(piece);
        let mut events = Vec::new();
        while let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
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
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_whole_however_it_is_cut() {
        let stream = b": hello\n\nid: 1\nevent: rotation\ndata: {\"a\":\ndata: 1}\n\ndata:2\r\n\r\n";
        let mut decoder = Decoder::default();
        let events: Vec<Event> = stream.chunks(3).flat_map(|piece| decoder.feed(piece)).collect();
        let event = |id: Option<&str>, data: &str| Event { id: id.map(str::to_owned), data: data.to_owned() };
        assert_eq!(events, [event(Some("1"), "{\"a\":\n1}"), event(None, "2")]);
    }

    #[test]
    fn an_unfinished_event_is_not_given() {
        let mut decoder = Decoder::default();
        assert!(decoder.feed(b"data: half").is_empty());
        assert_eq!(decoder.feed(b"\n\n")[0].data, "half");
    }
}
