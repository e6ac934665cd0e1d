//! Where the live view is drawn.

use std::io::Write as _;

use console::Term;

use super::Palette;

/// What standard output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surface {
    /// A terminal: the picture is redrawn in place.
    Terminal,
    /// A file or a pipe: one line now and then.
    Lines,
}

/// A place on the terminal that is redrawn without flicker; the last picture stays.
pub(crate) struct Screen {
    term: Term,
    drawn: usize,
    palette: Palette,
}

impl Screen {
    /// On standard output.
    #[must_use]
    pub(crate) fn new() -> Self {
        let term = Term::stdout();
        let colours = term.is_term() && std::env::var_os("NO_COLOR").is_none();
        let palette = if colours {
            Palette::Ansi
        } else {
            Palette::Plain
        };
        if term.is_term() {
            // Failing to hide the cursor is only ugly.
            let _ = term.hide_cursor();
        }
        Self {
            term,
            drawn: 0,
            palette,
        }
    }

    /// What it is drawn on.
    #[must_use]
    pub(crate) fn surface(&self) -> Surface {
        if self.term.is_term() {
            Surface::Terminal
        } else {
            Surface::Lines
        }
    }

    /// Whether colours are wanted.
    #[must_use]
    pub(crate) fn palette(&self) -> Palette {
        self.palette
    }

    /// Columns and lines that a picture may have.
    #[must_use]
    pub(crate) fn size(&self) -> (usize, usize) {
        let (rows, columns) = self.term.size();
        // The last line stays free, so that the terminal does not scroll.
        (
            usize::from(columns),
            usize::from(rows).saturating_sub(1).max(1),
        )
    }

    /// Replaces the last picture. It goes out in one write, and lines are overwritten before
    /// they are cleared, so that nothing flickers.
    pub(crate) fn draw(&mut self, lines: &[String]) {
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A", self.drawn));
        }
        text.push('\r');
        for line in lines {
            text.push_str(line);
            text.push_str("\x1b[K\n");
        }
        text.push_str("\x1b[J");
        // A terminal that has gone away is noticed by the signal that comes with it.
        let _ = self.term.write_all(text.as_bytes());
        let _ = self.term.flush();
        self.drawn = lines.len();
    }
}

impl Default for Screen {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.term.is_term() {
            let _ = self.term.show_cursor();
        }
    }
}
