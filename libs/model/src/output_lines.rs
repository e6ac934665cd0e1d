//! Lines of a program's output as a terminal would leave them.
//!
//! A carriage return begins the line again, so of a progress bar the newest state is left. Escape
//! sequences (colours, titles) leave nothing. A long line is cut and says its length.

/// Most bytes of a line that are kept.
const LONGEST: usize = 4096;

/// Where in an escape sequence the text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Escape {
    #[default]
    None,
    /// Behind the escape character.
    Begun,
    /// In a control sequence; whether its parameter has a 2 (with `K`: the whole line).
    Control(bool),
    /// In a text for the terminal, such as a title.
    Text,
}

/// The line that is being written, fed by parts of the output.
#[derive(Debug, Clone, Default)]
pub struct OutputLine {
    kept: Vec<u8>,
    /// Bytes of its present state.
    bytes: usize,
    /// Whether the next character begins the line again.
    returned: bool,
    /// Whether it has begun again before.
    is_redrawn: bool,
    escape: Escape,
}

impl OutputLine {
    /// Reads a part of the output, and hands over each line that it ends.
    pub fn feed(&mut self, part: &[u8], mut ended: impl FnMut(String)) {
        for byte in part {
            match byte {
                b'\n' => ended(self.end()),
                _ if self.escape != Escape::None => self.escape(*byte),
                0x1b => self.escape = Escape::Begun,
                b'\r' => self.returned = self.bytes > 0,
                0x08 => self.step_back(),
                _ => self.put(*byte),
            }
        }
    }

    /// The newest state of the line that has no end yet; none if it is empty.
    #[must_use]
    pub fn state(&self) -> Option<String> {
        (self.bytes > 0).then(|| self.text())
    }

    /// Whether the line without an end has been drawn more than once, as a progress bar is.
    #[must_use]
    pub const fn is_redrawn(&self) -> bool {
        self.is_redrawn
    }

    /// Ends the line, and returns what is left of it.
    pub fn end(&mut self) -> String {
        std::mem::take(self).text()
    }

    fn put(&mut self, byte: u8) {
        if self.returned {
            self.clear();
            self.is_redrawn = true;
        }
        self.bytes += 1;
        if self.kept.len() < LONGEST {
            self.kept.push(byte);
        }
    }

    fn clear(&mut self) {
        self.kept.clear();
        self.bytes = 0;
        self.returned = false;
    }

    /// Old progress bars take their characters back one by one.
    fn step_back(&mut self) {
        if self.bytes > LONGEST {
            self.bytes -= 1;
            return;
        }
        while self.kept.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
        self.bytes = self.kept.len();
        self.is_redrawn = true;
    }

    fn escape(&mut self, byte: u8) {
        self.escape = match (self.escape, byte) {
            (Escape::Begun, b'[') => Escape::Control(false),
            (Escape::Begun, b']' | b'P' | b'X' | b'^' | b'_') => Escape::Text,
            (Escape::Begun, 0x20..=0x2f) => Escape::Begun,
            (Escape::Control(_), b'2') => Escape::Control(true),
            (Escape::Control(whole), 0x20..=0x3f) => Escape::Control(whole),
            (Escape::Control(whole), b'K') => {
                if whole || self.returned {
                    self.clear();
                }
                Escape::None
            }
            (Escape::Text, 0x1b) => Escape::Begun,
            (Escape::Text, byte) if byte != 0x07 => Escape::Text,
            _ => Escape::None,
        };
    }

    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.kept);
        if self.bytes <= LONGEST {
            return text.trim_end().to_owned();
        }
        // A letter may have been cut.
        let text = text.trim_end_matches('\u{fffd}');
        format!("{text} ... (cut: the line has {} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> (Vec<String>, Option<String>) {
        let (mut line, mut whole) = (OutputLine::default(), Vec::new());
        line.feed(text, |one| whole.push(one));
        // Parts of any length give the same.
        let (mut again, mut parts) = (OutputLine::default(), Vec::new());
        for part in text.chunks(1) {
            again.feed(part, |one| parts.push(one));
        }
        assert_eq!((&whole, line.state()), (&parts, again.state()));
        (whole, line.state())
    }

    #[test]
    fn a_line_is_what_a_terminal_would_leave() {
        for (text, ended, open) in [
            (
                &b"begin\n\rstep 1\rstep 2\rstep 3"[..],
                &["begin"][..],
                Some("step 3"),
            ),
            (b"step 1\rstep 2\r", &[], Some("step 2")),
            (b"\r9/9 |##|\nend\n", &["9/9 |##|", "end"], None),
            (b"windows\r\nends\r\n\r\n", &["windows", "ends", ""], None),
            (b"50%\x08\x08\x0851%\n", &["51%"], None),
            (
                b"\x1b[1;32mgreen\x1b[0m \x1b]0;title\x07x\x1b]0;t\x1b\\y\n",
                &["green xy"],
                None,
            ),
            (b"bar\r\x1b[Kdone\nbar\x1b[2K\rx\n", &["done", "x"], None),
            (b"bar\r\x1b[K\n", &[""], None),
            (b"open \x1b]0;never ended\nnext\n", &["open", "next"], None),
            (
                b"caf\xc3\xa9 \xff\xfe\n",
                &["caf\u{e9} \u{fffd}\u{fffd}"],
                None,
            ),
            ("\u{e4}\u{e4}\x08x\n".as_bytes(), &["\u{e4}x"], None),
        ] {
            let (all, state) = lines(text);
            assert_eq!(all, ended, "{text:?}");
            assert_eq!(state.as_deref(), open, "{text:?}");
        }
    }

    #[test]
    fn a_long_line_is_cut_and_says_its_length() {
        let text = ["a\n", &"\u{e4}".repeat(150_000), "\nb\n"].concat();
        let (all, _) = lines(text.as_bytes());
        let [first, long, last] = all.as_slice() else {
            panic!("{} lines", all.len());
        };
        assert_eq!((first.as_str(), last.as_str()), ("a", "b"));
        assert!(long.len() < LONGEST + 60 && long.ends_with("(cut: the line has 300000 bytes)"));
        let bar = "\rstep 1 of 9".repeat(50_000);
        assert_eq!(lines(bar.as_bytes()).1.as_deref(), Some("step 1 of 9"));
    }
}
