//! What a follower of outputs prints: whole lines as they end, and the newest states of those that
//! have no end yet, in place on a terminal and now and then elsewhere.

use std::collections::BTreeMap;

use lacuna_model::{NodeId, OutputLines};

use crate::output::plain;

/// Seconds between two states of open lines where they cannot be drawn in place.
const EVERY_S: f64 = 5.0;
/// Clears a line that is drawn in place, and goes to the one above it.
const CLEAR: &str = "\r\u{1b}[K";
const UP: &str = "\u{1b}[A";

#[derive(Debug, Default)]
struct Stream {
    lines: OutputLines,
    /// The states that were printed as lines, and when they were last looked at.
    printed: Vec<String>,
    at: Option<f64>,
}

/// The outputs of several nodes as one text.
#[derive(Debug)]
pub(super) struct View {
    is_raw: bool,
    /// Columns of the terminal, if states can be drawn in place.
    columns: Option<usize>,
    /// Whether each line begins with its node.
    names_nodes: bool,
    streams: BTreeMap<NodeId, Stream>,
    /// The node whose text came last.
    last: Option<NodeId>,
    /// Lines that are drawn in place; a raw text without a line end is one.
    drawn: usize,
}

impl View {
    pub(super) const fn new(is_raw: bool, columns: Option<usize>) -> Self {
        Self {
            is_raw,
            columns,
            names_nodes: false,
            streams: BTreeMap::new(),
            last: None,
            drawn: 0,
        }
    }

    /// Whether nothing has been printed.
    pub(super) const fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Lets each line begin with its node from now on, or stop it.
    pub(super) const fn name_nodes(&mut self, names_nodes: bool) {
        self.names_nodes = names_nodes && !self.is_raw;
    }

    /// Forgets the open line of a node, whose output begins again.
    pub(super) fn begin_again(&mut self, node: &NodeId) {
        self.streams.remove(node);
    }

    /// What to print for a further part of a node's output, at a time in seconds.
    pub(super) fn add(&mut self, node: &NodeId, part: &str, now: f64) -> String {
        if self.is_raw {
            return self.raw(node, part);
        }
        let stream = self.streams.entry(node.clone()).or_default();
        let mut ended = Vec::new();
        stream.lines.feed(part.as_bytes(), |line| ended.push(line));
        let known = ended.iter().zip(&stream.printed);
        let known = known.take_while(|(line, printed)| line == printed).count();
        if known < ended.len() {
            stream.printed.clear();
        } else {
            stream.printed.drain(..known);
        }
        ended.drain(..known);
        let states = stream.lines.states();
        let is_drawn = self.columns.is_some()
            && (!ended.is_empty() || (!states.is_empty() && !part.is_empty()));
        if self.columns.is_none() && !states.is_empty() {
            let waited = stream.at.get_or_insert(now);
            let is_due = now - *waited >= EVERY_S;
            let is_first = stream.lines.is_redrawn() && stream.printed.is_empty();
            if (is_due || is_first) && stream.printed != states {
                // Of lines that were printed and stay, nothing is printed again.
                let same = states.iter().zip(&stream.printed);
                let same = same.take_while(|(state, printed)| state == printed).count();
                ended.extend(states.iter().skip(same).cloned());
                stream.at = Some(now);
                stream.printed.clone_from(&states);
            }
        } else if states.is_empty() {
            stream.at = None;
        }
        let mut text = match is_drawn {
            true => self.clear(),
            false => String::new(),
        };
        if !ended.is_empty() {
            text.push_str(&self.heading(node));
        }
        for line in ended {
            text.push_str(&format!("{}{}\n", self.name(node), plain(&line)));
        }
        if let (true, Some(columns)) = (is_drawn && !states.is_empty(), self.columns) {
            text.push_str(&self.heading(node));
            self.drawn = states.len();
            let whole = |state: &String| {
                let whole = format!("{}{}", self.name(node), plain(state));
                console::truncate_str(&whole, columns.saturating_sub(1), "").into_owned()
            };
            text.push_str(&states.iter().map(whole).collect::<Vec<_>>().join("\n"));
        }
        text
    }

    /// Clears what is drawn in place.
    fn clear(&mut self) -> String {
        let lines = std::mem::take(&mut self.drawn);
        vec![CLEAR; lines].join(UP)
    }

    /// What to print when no more comes: the last states.
    pub(super) fn close(&mut self) -> String {
        let mut text = String::new();
        if self.columns.is_some() {
            text.push_str(&self.clear());
        } else if std::mem::take(&mut self.drawn) > 0 {
            text.push('\n');
        }
        let streams = std::mem::take(&mut self.streams);
        for (node, mut stream) in streams {
            let states = stream.lines.end();
            if states.is_empty() || stream.printed == states {
                continue;
            }
            text.push_str(&self.heading(&node));
            for state in states {
                text.push_str(&format!("{}{}\n", self.name(&node), plain(&state)));
            }
        }
        text
    }

    fn name(&self, node: &NodeId) -> String {
        match self.names_nodes {
            true => format!("{node} | "),
            false => String::new(),
        }
    }

    /// A heading if the last text was of another node and lines do not name theirs.
    fn heading(&mut self, node: &NodeId) -> String {
        match self.last.replace(node.clone()) {
            Some(last) if last != *node && !self.names_nodes => format!("==> {node} <==\n"),
            _ => String::new(),
        }
    }

    fn raw(&mut self, node: &NodeId, part: &str) -> String {
        if part.is_empty() {
            return String::new();
        }
        let heading = self.heading(node);
        let end = if self.drawn > 0 && !heading.is_empty() {
            "\n"
        } else {
            ""
        };
        self.drawn = usize::from(!part.ends_with('\n'));
        format!("{end}{heading}{part}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    #[test]
    fn a_change_of_node_has_a_heading_or_each_line_its_node() {
        let mut view = View::new(false, None);
        assert_eq!(view.add(&node("n1"), "a\nb\n", 0.0), "a\nb\n");
        assert_eq!(view.add(&node("n1"), "c", 0.0), "");
        assert_eq!(view.add(&node("n1"), "d\n", 1.0), "cd\n");
        assert_eq!(view.add(&node("n2"), "", 1.0), "");
        assert_eq!(view.add(&node("n2"), "x\n", 1.0), "==> n2 <==\nx\n");
        view.name_nodes(true);
        assert_eq!(view.add(&node("n1"), "\u{1b}[2Jy\n", 1.0), "n1 | y\n");
        let mut view = View::new(true, None);
        assert_eq!(view.add(&node("n1"), "a\rb", 0.0), "a\rb");
        assert_eq!(view.add(&node("n2"), "c\n", 0.0), "\n==> n2 <==\nc\n");
    }

    #[test]
    fn a_bar_is_a_line_now_and_then_and_moves_on_a_terminal() {
        let n1 = node("n1");
        let mut view = View::new(false, None);
        assert_eq!(view.add(&n1, "begin\n\r1/9\r2/9", 0.0), "begin\n2/9\n");
        assert_eq!(view.add(&n1, "\r3/9", 1.0), "");
        assert_eq!(view.add(&n1, "\r7/9", 5.0), "7/9\n");
        assert_eq!(view.add(&n1, "\n", 6.0), "", "it is printed");
        assert_eq!(view.add(&n1, "\r9/9 end", 7.0), "");
        assert_eq!(view.close(), "9/9 end\n");
        let mut view = View::new(false, Some(5));
        assert_eq!(view.add(&n1, "a\n\r1/9", 0.0), "a\n1/9");
        assert_eq!(view.add(&n1, "", 1.0), "");
        assert_eq!(view.add(&n1, "\r2/9 and more", 1.0), format!("{CLEAR}2/9 "));
        assert_eq!(view.add(&n1, "\rend\n", 2.0), format!("{CLEAR}end\n"));
        assert_eq!(view.close(), "");
    }

    #[test]
    fn nested_bars_are_drawn_as_a_block_and_their_states_printed_once() {
        let n1 = node("n1");
        let mut view = View::new(false, None);
        let bars = |outer: u32, inner: u32| format!("\repoch {outer}\n\rstep {inner}\u{1b}[A");
        let first = format!("begin\n{}{}", bars(0, 1), bars(0, 2));
        assert_eq!(view.add(&n1, &first, 0.0), "begin\nepoch 0\nstep 2\n");
        assert_eq!(view.add(&n1, &bars(0, 3), 1.0), "");
        assert_eq!(view.add(&n1, &bars(0, 9), 5.0), "step 9\n");
        assert_eq!(view.add(&n1, &bars(1, 9), 10.0), "epoch 1\nstep 9\n");
        assert_eq!(view.add(&n1, "\repoch 1\n\rend", 11.0), "");
        assert_eq!(view.add(&n1, "\nmore\n", 12.0), "end\n");
        assert_eq!(view.close(), "more\n");
        let mut view = View::new(false, Some(80));
        assert_eq!(view.add(&n1, &first, 0.0), "begin\nepoch 0\nstep 2");
        let both = format!("{CLEAR}{UP}{CLEAR}epoch 0\nstep 3");
        assert_eq!(view.add(&n1, &bars(0, 3), 1.0), both);
        assert_eq!(
            view.add(&n1, "\repoch 1\n\rend\nmore\n", 2.0),
            format!("{CLEAR}{UP}{CLEAR}epoch 1\nend\nmore")
        );
    }

    #[test]
    fn a_line_without_an_end_is_shown_after_a_while() {
        let n1 = node("n1");
        let mut view = View::new(false, None);
        assert_eq!(view.add(&n1, "waiting", 0.0), "");
        assert_eq!(view.add(&n1, "", 4.0), "");
        assert_eq!(view.add(&n1, "", 5.0), "waiting\n");
        assert_eq!(view.add(&n1, " done\n", 6.0), "waiting done\n");
    }
}
