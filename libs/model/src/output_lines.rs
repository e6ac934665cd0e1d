//! Lines of a program's output as a terminal would leave them.
//!
//! A carriage return begins the line again, so of a progress bar the newest state is left. Nested
//! bars move the cursor up and down: the lines that it may still reach are kept back, as many as it
//! was seen to go up. Without such bars a line ends at its line end. Escape sequences (colours,
//! titles) leave nothing. A long line is cut and says its length.

use std::collections::VecDeque;

/// Most bytes of a line that are kept.
const LONGEST: usize = 4096;
/// Most lines above the lowest one to which the cursor goes.
const HIGHEST: usize = 63;

/// Where in an escape sequence the text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Escape {
    #[default]
    None,
    /// Behind the escape character.
    Begun,
    /// In a control sequence: its first number, 0 if there is none, and whether that has ended.
    Control(usize, bool),
    /// In a text for the terminal, such as a title.
    Text,
}

impl Escape {
    /// The state behind a further byte.
    fn next(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Begun, b'[') => Self::Control(0, false),
            (Self::Begun, b']' | b'P' | b'X' | b'^' | b'_') => Self::Text,
            (Self::Begun, 0x20..=0x2f) => Self::Begun,
            (Self::Control(number, false), b'0'..=b'9') => {
                let next = number.saturating_mul(10) + usize::from(byte - b'0');
                Self::Control(next.min(HIGHEST + 1), false)
            }
            (Self::Control(number, _), 0x20..=0x3f) => Self::Control(number, true),
            (Self::Text, 0x1b) => Self::Begun,
            (Self::Text, byte) if byte != 0x07 => Self::Text,
            _ => Self::None,
        }
    }
}

/// A line that has been written, perhaps more than once.
#[derive(Debug, Clone, Default)]
struct Row {
    kept: Vec<u8>,
    /// Bytes of its present state.
    bytes: usize,
    /// Whether it has begun again before.
    is_redrawn: bool,
}

impl Row {
    fn put(&mut self, byte: u8) {
        self.bytes += 1;
        if self.kept.len() < LONGEST {
            self.kept.push(byte);
        }
    }

    fn clear(&mut self) {
        self.is_redrawn |= self.bytes > 0;
        self.kept.clear();
        self.bytes = 0;
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

/// The lines that may still change, fed by parts of the output.
#[derive(Debug, Clone, Default)]
pub struct OutputLines {
    /// The lines above the cursor's that are kept back.
    above: VecDeque<Row>,
    row: Row,
    below: VecDeque<Row>,
    /// Most lines that the cursor was above the lowest one.
    height: usize,
    /// Whether the next character begins the line again.
    returned: bool,
    escape: Escape,
}

impl OutputLines {
    /// Reads a part of the output, and hands over each line that can no longer change.
    pub fn feed(&mut self, part: &[u8], mut ended: impl FnMut(String)) {
        // A part that goes up keeps back the lines before it too.
        self.height = self.height.max(self.highest(part));
        for &byte in part {
            match byte {
                b'\n' => {
                    self.down();
                    self.hand_over(&mut ended);
                }
                _ if self.escape != Escape::None => {
                    if let Escape::Control(number, _) = self.escape {
                        self.control(number, byte);
                    }
                    self.escape = self.escape.next(byte);
                }
                0x1b => self.escape = Escape::Begun,
                b'\r' => self.returned = true,
                0x08 => self.row.step_back(),
                _ => self.put(byte),
            }
        }
    }

    /// The newest states of the lines that have no end yet, from the top.
    #[must_use]
    pub fn states(&self) -> Vec<String> {
        let rows = self.above.iter().chain([&self.row]).chain(&self.below);
        let mut states: Vec<String> = rows.map(Row::text).collect();
        while states.pop_if(|last| last.is_empty()).is_some() {}
        states
    }

    /// Whether a line without an end has been drawn more than once, as a progress bar is.
    #[must_use]
    pub fn is_redrawn(&self) -> bool {
        let mut others = self.above.iter().chain(&self.below);
        self.row.is_redrawn || others.any(|row| row.is_redrawn)
    }

    /// Ends all lines, and returns what is left of them.
    pub fn end(&mut self) -> Vec<String> {
        std::mem::take(self).states()
    }

    fn put(&mut self, byte: u8) {
        if std::mem::take(&mut self.returned) {
            self.row.clear();
        }
        self.row.put(byte);
    }

    /// Moves the cursor to the beginning of the next line.
    fn down(&mut self) {
        let next = self.below.pop_front().unwrap_or_default();
        let row = std::mem::replace(&mut self.row, next);
        self.above.push_back(row);
        self.returned = true;
        self.escape = Escape::None;
    }

    fn up(&mut self) {
        if self.below.len() < HIGHEST {
            let next = self.above.pop_back().unwrap_or_default();
            let row = std::mem::replace(&mut self.row, next);
            self.below.push_front(row);
        }
    }

    fn hand_over(&mut self, mut ended: impl FnMut(String)) {
        while self.above.len() + self.below.len() > self.height {
            match self.above.pop_front() {
                Some(row) => ended(row.text()),
                None => return,
            }
        }
    }

    /// Most lines that the cursor is above the lowest one in a part.
    fn highest(&self, part: &[u8]) -> usize {
        let (mut escape, mut now, mut most) = (self.escape, self.below.len(), 0);
        for &byte in part {
            match (escape, byte) {
                (_, b'\n') => now = now.saturating_sub(1),
                (Escape::Control(number, _), b'A' | b'F') => now += number.max(1),
                (Escape::Control(number, _), b'B' | b'E') => {
                    now = now.saturating_sub(number.max(1));
                }
                _ => {}
            }
            now = now.min(HIGHEST);
            most = most.max(now);
            escape = match (escape, byte) {
                (_, b'\n') => Escape::None,
                (Escape::None, 0x1b) => Escape::Begun,
                (Escape::None, _) => Escape::None,
                _ => escape.next(byte),
            };
        }
        most
    }

    /// Does what a control sequence says, if this byte ends it.
    fn control(&mut self, number: usize, byte: u8) {
        match byte {
            b'A' | b'F' => {
                (0..number.max(1)).for_each(|_| self.up());
                self.returned |= byte == b'F';
            }
            b'B' | b'E' => {
                let returned = self.returned || byte == b'E';
                let most = number.max(1).min(self.below.len());
                (0..most).for_each(|_| self.down());
                self.returned = returned;
            }
            b'G' if number <= 1 => self.returned = true,
            b'K' if number > 0 || self.returned => self.row.clear(),
            b'J' => {
                self.below.iter_mut().for_each(Row::clear);
                if number > 0 || self.returned {
                    self.row.clear();
                }
                if number > 1 {
                    self.above.iter_mut().for_each(Row::clear);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> (Vec<String>, Option<String>) {
        let (mut line, mut whole) = (OutputLines::default(), Vec::new());
        line.feed(text, |one| whole.push(one));
        // Parts of any length give the same.
        let (mut again, mut parts) = (OutputLines::default(), Vec::new());
        for part in text.chunks(1) {
            again.feed(part, |one| parts.push(one));
        }
        assert_eq!((&whole, line.states()), (&parts, again.states()));
        assert!(line.states().len() <= 1);
        (whole, line.states().pop())
    }

    /// All lines of a text that comes in parts of this length.
    fn drawn(text: &str, length: usize) -> Vec<String> {
        let (mut lines, mut all) = (OutputLines::default(), Vec::new());
        for part in text.as_bytes().chunks(length) {
            lines.feed(part, |one| all.push(one));
        }
        all.extend(lines.end());
        all
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

    /// Two nested bars as tqdm draws them, with lines of the program before and behind.
    fn nested(epochs: usize, steps: usize, leave: bool) -> String {
        let mut text = "begin\n".to_owned();
        for epoch in 0..epochs {
            text += &format!("\repoch: {epoch}/{epochs}");
            for step in 0..=steps {
                text += &format!("\n\rstep: {step}/{steps}\x1b[A");
            }
            if leave {
                text += "\n\n\x1b[A\x1b[A";
            } else {
                text += "\n\r           \r\x1b[A";
            }
        }
        text + &format!("\repoch: {epochs}/{epochs}\ndone\n")
    }

    #[test]
    fn nested_bars_leave_the_newest_state_of_each() {
        let text = nested(3, 500, false);
        for length in [text.len(), 4096, 64] {
            assert_eq!(
                drawn(&text, length),
                ["begin", "epoch: 3/3", "done"],
                "{length}"
            );
        }
        // A program that dies in the middle leaves both.
        let dies = &text[..text.rfind("step: 499").unwrap_or_default()];
        assert_eq!(drawn(dies, 4096), ["begin", "epoch: 2/3", "step: 498/500"]);
        assert_eq!(
            drawn(&nested(2, 9, true), 64),
            ["begin", "epoch: 2/2", "done"]
        );
    }

    #[test]
    fn bars_that_are_drawn_as_a_block_leave_the_newest_block() {
        // As rich draws three bars: it goes up to the first, and erases each line.
        let block = |at: usize| format!("load {at}\ntrain {at}\ntest {at}");
        let up = "\r\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K";
        let blocks: Vec<String> = (0..400).map(block).collect();
        let text = format!("\x1b[?25lbegin\n{}\n\x1b[?25hend\nmore\n", blocks.join(up));
        let left = ["begin", "load 399", "train 399", "test 399", "end", "more"];
        assert_eq!(drawn(&text, text.len()), left);
        // The first block may be whole before anything says that it is drawn again.
        assert_eq!(drawn(&text, 100), left);
        let windows = text.replace('\n', "\r\n");
        assert_eq!(drawn(&windows, windows.len()), left);
        // The same with one jump, an erased rest of the screen, and no line end at the end.
        let text = format!("begin\n{}", blocks.join("\x1b[2F\x1b[J"));
        assert_eq!(drawn(&text, text.len()), left[..4]);
        // A line that was handed over is not changed any more.
        assert_eq!(drawn("a\nb\n\x1b[2A\rc\n", 1), ["a", "b", "c"]);
        let far = format!(
            "a\n\x1b[{}A\rb\n\x1b[;99999999999999999999Ac\x1b[2J",
            u64::MAX
        );
        assert!(drawn(&far, far.len()).len() <= 2 * HIGHEST);
    }
}
