//! The terminal of the live view.

use std::io::Write as _;

use console::Term;

use super::Palette;

/// The kind of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surface {
    /// A terminal: the view is redrawn in place.
    Terminal,
    /// A file or a pipe: a line is written from time to time.
    Lines,
}

/// An area of the terminal that is redrawn without flicker; the last drawing stays.
pub(crate) struct Screen {
    term: Term,
    drawn: usize,
    palette: Palette,
}

impl Screen {
    /// A screen on standard output.
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
            // A cursor that cannot be hidden is only ugly.
            let _ = term.hide_cursor();
        }
        Self {
            term,
            drawn: 0,
            palette,
        }
    }

    /// The kind of its output.
    #[must_use]
    pub(crate) fn surface(&self) -> Surface {
        if self.term.is_term() {
            Surface::Terminal
        } else {
            Surface::Lines
        }
    }

    /// The palette: colours, unless the user has switched them off.
    #[must_use]
    pub(crate) fn palette(&self) -> Palette {
        self.palette
    }

    /// The columns and lines that a drawing may have.
    #[must_use]
    pub(crate) fn size(&self) -> (usize, usize) {
        let (rows, columns) = self.term.size();
        // The last line stays free, so that the terminal does not scroll.
        (
            usize::from(columns),
            usize::from(rows).saturating_sub(1).max(1),
        )
    }

    /// Replaces the last drawing. The text goes out in one write, and lines are overwritten before
    /// they are cleared, so that the terminal does not flicker.
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
        // The loss of the terminal also sends a signal, which ends the command.
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
