//! Recorded holes as what happened one moment after the other.

use std::collections::HashSet;

use lacuna_model::{Hole, HoleRecord, NodeId, Timestamp};

/// Everything that happened at one time: first nodes leave, then nodes become idle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Timestamp,
    /// Holes that open, sorted by node. A hole that was open before the window began opens in
    /// the window's first moment but keeps its own start.
    pub opened: Vec<Hole>,
    /// Nodes whose hole ends, sorted.
    pub closed: Vec<NodeId>,
}

/// A part of a recording: `[start, end]`, to either side open if absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Nothing before this is told; holes open at this time open in a first moment at exactly
    /// this time (which exists even if there are none).
    pub start: Option<Timestamp>,
    /// Nothing after this is told.
    pub end: Option<Timestamp>,
}

/// Puts past holes into the order of time. `nodes` restricts them to some nodes. A censored
/// hole never ends, because its end is that of the recording.
///
/// The records must be free of overlaps within a node, as [`crate::HoleList`] guarantees; their
/// order does not matter.
#[must_use]
pub fn moments<'a>(
    records: impl IntoIterator<Item = &'a HoleRecord>,
    nodes: Option<&HashSet<NodeId>>,
    window: Window,
) -> Vec<Moment> {
    let start = window.start.unwrap_or(Timestamp::from_unix_ms(i64::MIN));
    let end = window.end.unwrap_or(Timestamp::from_unix_ms(i64::MAX));
    // Leaving sorts before opening, so that a node that does both at once is idle afterwards.
    let mut changes: Vec<(Timestamp, bool, &HoleRecord)> = Vec::new();
    for record in records {
        let known = nodes.is_none_or(|nodes| nodes.contains(&record.node));
        if !known || record.until <= start || record.from > end {
            continue;
        }
        changes.push((record.from.max(start), true, record));
        if !record.censored && record.until <= end {
            changes.push((record.until, false, record));
        }
    }
    changes.sort_by(|a, b| {
        (a.0, a.1)
            .cmp(&(b.0, b.1))
            .then_with(|| a.2.node.cmp(&b.2.node))
    });
    let mut moments: Vec<Moment> = Vec::new();
    let blank = |at| Moment {
        at,
        opened: Vec::new(),
        closed: Vec::new(),
    };
    moments.extend(window.start.map(blank));
    for (at, opens, record) in changes {
        if moments.last().is_none_or(|last| last.at != at) {
            moments.push(blank(at));
        }
        let Some(moment) = moments.last_mut() else {
            continue;
        };
        if opens {
            moment.opened.push(Hole {
                node: record.node.clone(),
                since: record.from,
            });
        } else {
            moment.closed.push(record.node.clone());
        }
    }
    moments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(node: &str, from: i64, until: i64, censored: bool) -> HoleRecord {
        HoleRecord {
            node: NodeId::new(node).unwrap(),
            from: Timestamp::from_unix(from),
            until: Timestamp::from_unix(until),
            censored,
        }
    }

    fn told(moments: &[Moment]) -> Vec<String> {
        let one = |m: &Moment| {
            let minus: String = m.closed.iter().map(|n| format!(" -{n}")).collect();
            let plus: String = m
                .opened
                .iter()
                .map(|h| format!(" +{}@{}", h.node, h.since.unix_seconds()))
                .collect();
            format!("{}{minus}{plus}", m.at.unix_seconds())
        };
        moments.iter().map(one).collect()
    }

    #[test]
    fn a_window_opens_with_the_holes_that_are_open_then() {
        let records = [
            hole("b", 10, 40, false),
            hole("a", 0, 30, false),
            hole("past", 0, 20, false),
            hole("a", 30, 90, true),
            hole("later", 60, 70, false),
        ];
        let window = Window {
            start: Some(Timestamp::from_unix(20)),
            end: Some(Timestamp::from_unix(50)),
        };
        assert_eq!(
            told(&moments(&records, None, window)),
            ["20 +a@0 +b@10", "30 -a +a@30", "40 -b"]
        );
        assert_eq!(
            told(&moments(&records, None, Window::default())),
            [
                "0 +a@0 +past@0",
                "10 +b@10",
                "20 -past",
                "30 -a +a@30",
                "40 -b",
                "60 +later@60",
                "70 -later"
            ]
        );
        let only = HashSet::from([NodeId::new("b").unwrap()]);
        assert_eq!(
            told(&moments(&records, Some(&only), window)),
            ["20 +b@10", "40 -b"]
        );
    }
}
