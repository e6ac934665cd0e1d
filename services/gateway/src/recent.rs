//! The newest events: those of one moment about neighbouring nodes are one line.

use std::collections::{BTreeSet, VecDeque};

use lacuna_model::{EventKind, NodeEvent, NodeId, Span, Timestamp, Topology};
use serde::Serialize;

/// Most lines.
const LINES: usize = 60;
/// Events within this time of each other may share a line.
const TOGETHER: Span = Span::from_secs(60);
/// Most nodes of a line that are named.
const NAMED: usize = 3;
/// Most lines, from the newest back, in which an event may find its fellows.
const BACK: usize = 8;

/// One line: an event, or several alike.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct EventRow {
    /// The newest of them, milliseconds since 1970.
    at: i64,
    what: &'static str,
    whom: String,
    note: String,
    /// The nodes of the line.
    #[serde(skip)]
    nodes: BTreeSet<NodeId>,
    /// The rack of its nodes; none for an event that is not about one node.
    #[serde(skip)]
    rack: Option<String>,
}

/// The newest lines, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    lines: VecDeque<EventRow>,
}

/// The leaf of a node, else its name without the last number.
fn rack(node: &NodeId, topology: &Topology) -> String {
    if let Some(leaf) = topology.path(node).and_then(|path| path.first()) {
        return leaf.clone();
    }
    let name = node.as_str();
    let (host, domain) = name.split_at(name.find('.').unwrap_or(name.len()));
    let head = host.trim_end_matches(|c: char| c.is_ascii_digit());
    format!("{head}*{domain}")
}

fn line(event: &NodeEvent, topology: &Topology) -> EventRow {
    let many = |nodes: &[NodeId]| match nodes {
        [one] => one.to_string(),
        _ => format!("{} nodes", nodes.len()),
    };
    let none = String::new;
    let (what, whom, note, one) = match &event.kind {
        EventKind::NodeIdle { node } => ("idle", node.to_string(), none(), Some(node)),
        EventKind::NodeBusy { node } => ("taken", node.to_string(), none(), Some(node)),
        EventKind::NodeDown { node, reason } => {
            ("down", node.to_string(), reason.clone(), Some(node))
        }
        EventKind::NodeWanted { node, .. } => ("wanted", node.to_string(), none(), Some(node)),
        EventKind::NodeReleased { node } => ("given back", node.to_string(), none(), Some(node)),
        EventKind::JobPlanned { job, nodes, .. } => ("planned", many(nodes), job.to_string(), None),
        EventKind::Reservation { name, nodes, .. } => ("reserved", many(nodes), name.clone(), None),
        EventKind::Snapshot { idle } => ("snapshot", format!("{} idle", idle.len()), none(), None),
    };
    EventRow {
        at: event.at.unix_ms(),
        what,
        whom,
        note,
        nodes: one.into_iter().cloned().collect(),
        rack: one.map(|node| rack(node, topology)),
    }
}

impl Recent {
    /// Takes an event.
    pub(crate) fn take(&mut self, event: &NodeEvent, topology: &Topology) {
        let mut new = line(event, topology);
        let close = |at: i64| {
            let apart = Timestamp::from_unix_ms(new.at).since(Timestamp::from_unix_ms(at));
            apart.as_ms().abs() <= TOGETHER.as_ms()
        };
        let fellow = self.lines.iter().rev().take(BACK).position(|line| {
            let alike = (line.what, &line.note, &line.rack) == (new.what, &new.note, &new.rack);
            new.rack.is_some() && alike && new.nodes.is_disjoint(&line.nodes) && close(line.at)
        });
        if let Some(at) = fellow
            && let Some(known) = self.lines.remove(self.lines.len() - 1 - at)
            && let Some(rack) = &new.rack
        {
            let mut nodes = known.nodes;
            nodes.extend(std::mem::take(&mut new.nodes));
            new.nodes = nodes;
            new.whom = if new.nodes.len() > NAMED {
                format!("{rack}: {} nodes", new.nodes.len())
            } else {
                let names: Vec<&str> = new.nodes.iter().map(NodeId::as_str).collect();
                names.join(", ")
            };
        } else if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(new);
    }

    /// The lines, the newest first.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &EventRow> {
        self.lines.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use lacuna_testkit::{events, node};

    use super::*;

    fn shown(recent: &Recent) -> Vec<(&str, &str)> {
        recent
            .lines()
            .map(|line| (line.what, line.whom.as_str()))
            .collect()
    }

    #[test]
    fn events_of_one_rack_and_moment_are_one_line() {
        let topology = Topology::new([(node("x"), vec!["l7".to_owned()])].into()).unwrap();
        let mut recent = Recent::default();
        for event in events(
            1,
            &[
                ("idle", "r1n01.hall"),
                ("idle", "r2n01.hall"),
                ("idle", "r1n02.hall"),
                ("busy", "r1n02.hall"),
                ("idle", "r1n03.hall"),
                ("idle", "r1n04.hall"),
                ("idle", "r2n02.hall"),
                ("idle", "r1n04.hall"),
                ("idle", "x"),
            ],
        ) {
            recent.take(&event, &topology);
        }
        assert_eq!(
            shown(&recent),
            [
                ("idle", "x"),
                ("idle", "r1n04.hall"),
                ("idle", "r2n01.hall, r2n02.hall"),
                ("idle", "r1n*.hall: 4 nodes"),
                ("taken", "r1n02.hall"),
            ]
        );
        assert_eq!(rack(&node("x"), &topology), "l7");
    }

    #[test]
    fn later_events_begin_another_line_and_old_lines_go() {
        let mut recent = Recent::default();
        for second in 0..200 {
            let mut event = events(1, &[("idle", "n1")]).remove(0);
            event.at = Timestamp::from_unix(61 * second);
            recent.take(&event, &Topology::default());
        }
        assert_eq!(recent.lines().count(), LINES);
        assert_eq!(shown(&recent)[0], ("idle", "n1"));
    }
}
