//! Frames of the NATS protocol in a stream of bytes, so that a proxy can lose, repeat or
//! swap whole messages while the connection stays sound.

/// One frame, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    /// Whether it carries a message (PUB, HPUB, MSG, HMSG).
    pub(super) message: bool,
}

/// Received bytes that are not yet whole frames.
#[derive(Debug, Default)]
pub(super) struct Frames(Vec<u8>);

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole frame.
    pub(super) fn next(&mut self) -> Option<Frame> {
        let line = self.0.windows(2).position(|w| w == b"\r\n")? + 2;
        let text = String::from_utf8_lossy(self.0.get(..line)?).into_owned();
        let mut words = text.split_ascii_whitespace();
        let verb = words.next().unwrap_or_default().to_ascii_uppercase();
        let message = matches!(verb.as_str(), "PUB" | "HPUB" | "MSG" | "HMSG");
        let payload = match words.next_back().and_then(|w| w.parse::<usize>().ok()) {
            Some(size) if message => size + 2,
            _ => 0,
        };
        if self.0.len() < line + payload {
            return None;
        }
        let bytes = self.0.drain(..line + payload).collect();
        Some(Frame { bytes, message })
    }

    /// The rest: part of a frame.
    pub(super) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

#[test]
fn frames_are_found_wherever_the_stream_is_cut() {
    let stream = b"INFO {\"a\":1}\r\nPING\r\nPUB a.b 5\r\nhe\r\no\r\nMSG a 1 r 0\r\n\r\n\
                   HMSG s 2 re 4 6\r\nhhhhpp\r\nHPUB s 2 3\r\nabc\r\nPONG\r\n";
    for step in 1..stream.len() {
        let mut frames = Frames::default();
        let mut found = Vec::new();
        for part in stream.chunks(step) {
            frames.push(part);
            while let Some(frame) = frames.next() {
                found.push(frame);
            }
        }
        let joined: Vec<u8> = found.iter().flat_map(|f| f.bytes.clone()).collect();
        assert_eq!(joined, stream);
        let messages: Vec<bool> = found.iter().map(|f| f.message).collect();
        let wanted = [false, false, true, true, true, true, false];
        assert_eq!(messages, wanted, "cut every {step} bytes");
        assert!(frames.rest().is_empty());
    }
}
