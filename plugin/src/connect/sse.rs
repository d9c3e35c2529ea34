//! Server-sent events, as far as the agent sends them.

/// Splits a byte stream into the data of its events.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    buffer: Vec<u8>,
    data: String,
}

impl Decoder {
    /// Takes in a piece and gives the events that it completes. Comments and other fields than `data` are skipped:
    /// the agent's events carry their id inside too.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Vec<String> {
        self.buffer.extend_from_slice(piece);
        let mut events = Vec::new();
        while let Some(end) = self.buffer.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                if !self.data.is_empty() {
                    events.push(std::mem::take(&mut self.data));
                }
            } else if let Some(data) = line.strip_prefix("data:") {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
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
        let events: Vec<String> = stream.chunks(3).flat_map(|piece| decoder.feed(piece)).collect();
        assert_eq!(events, ["{\"a\":\n1}", "2"]);
    }

    #[test]
    fn an_unfinished_event_is_not_given() {
        let mut decoder = Decoder::default();
        assert!(decoder.feed(b"data: half").is_empty());
        assert_eq!(decoder.feed(b"\n\n"), ["half"]);
    }
}
