//! Holes and planned starts of a trace in order of time, for the replay and for ingest.
//!
//! Ingest publishes planned starts as events `job.planned`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use lacuna_model::{Hole, HoleRecord, NodeId, PlannedStart, Span, Timestamp};

/// All events of one time, in this order: nodes leave, nodes become idle, the batch scheduler
/// announces planned starts of present holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBatch {
    /// Time of the events.
    pub at: Timestamp,
    /// Holes that open, sorted by node. A hole that was open before the window opens in the first
    /// batch, but keeps its own start.
    pub opened: Vec<Hole>,
    /// Nodes whose hole ends, sorted.
    pub closed: Vec<NodeId>,
    /// Changes of planned starts of present holes, sorted by node, at most one a node; `None`
    /// withdraws. A planned start also ends with its hole, without a change.
    pub planned: Vec<(NodeId, Option<Timestamp>)>,
}

/// A part of a trace: `[start, end]`, unbounded on a side that is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Earliest time. Holes that are open then open in a first batch of exactly this time, which
    /// exists even without such holes.
    pub start: Option<Timestamp>,
    /// Latest time.
    pub end: Option<Timestamp>,
}

/// A planned start that has passed before its first announcement is expected after this time.
const SOON: Span = Span::from_secs(1);

/// One change; changes of one time are ordered as the variants.
#[derive(Clone, Copy)]
enum Change<'a> {
    Closed(&'a HoleRecord),
    Opened(&'a HoleRecord),
    Planned(&'a PlannedStart),
}

impl<'a> Change<'a> {
    /// Leaving sorts before opening, so a node with both at one time is idle afterwards. The newest
    /// planned start of a node sorts last.
    fn key(self) -> (u8, &'a NodeId, Timestamp) {
        match self {
            Self::Closed(record) => (0, &record.node, record.from),
            Self::Opened(record) => (1, &record.node, record.from),
            Self::Planned(planned) => (2, &planned.node, planned.at),
        }
    }
}

/// Sorts holes and their planned starts by time. `nodes` restricts them to some nodes. A censored
/// hole never ends, since its end is the end of the trace.
///
/// The records must be free of overlaps within a node, as [`crate::HoleList`] guarantees. The order
/// of `records` and `planned` does not matter. The last of several planned starts for one node and
/// time holds. Planned starts without a present hole are skipped. A planned start that has passed
/// by [`PlannedStart::LAPSE`] is withdrawn in the next batch. The first batch of a window announces
/// the planned starts that hold then, at the earliest for one second later.
#[must_use]
pub fn event_batches<'a>(
    records: impl IntoIterator<Item = &'a HoleRecord>,
    planned: &'a [PlannedStart],
    nodes: Option<&HashSet<NodeId>>,
    window: Window,
) -> Vec<EventBatch> {
    let start = window.start.unwrap_or(Timestamp::from_unix_ms(i64::MIN));
    let end = window.end.unwrap_or(Timestamp::from_unix_ms(i64::MAX));
    let known = |node: &NodeId| nodes.is_none_or(|nodes| nodes.contains(node));
    let mut changes: Vec<(Timestamp, Change<'a>)> = Vec::new();
    for record in records {
        if !known(&record.node) || record.until <= start || record.from > end {
            continue;
        }
        changes.push((record.from.max(start), Change::Opened(record)));
        if !record.censored && record.until <= end {
            changes.push((record.until, Change::Closed(record)));
        }
    }
    let within = |planned: &&PlannedStart| planned.at <= end && known(&planned.node);
    let planned = planned.iter().filter(within);
    changes.extend(planned.map(|one| (one.at.max(start), Change::Planned(one))));
    changes.sort_by(|a, b| (a.0, a.1.key()).cmp(&(b.0, b.1.key())));
    let mut batches: Vec<EventBatch> = Vec::new();
    let blank = |at| EventBatch {
        at,
        opened: Vec::new(),
        closed: Vec::new(),
        planned: Vec::new(),
    };
    batches.extend(window.start.map(blank));
    let mut starts = PlannedStarts::default();
    for together in changes.chunk_by(|a, b| a.0 == b.0) {
        let Some(&(at, _)) = together.first() else {
            continue;
        };
        let first = batches.pop_if(|last| last.at == at);
        let is_first = first.is_some();
        let mut batch = first.unwrap_or_else(|| blank(at));
        for &(_, change) in together {
            match change {
                Change::Closed(record) => {
                    starts.close(&record.node);
                    batch.closed.push(record.node.clone());
                }
                Change::Opened(record) => {
                    starts.open(record);
                    batch.opened.push(Hole {
                        node: record.node.clone(),
                        since: record.from,
                    });
                }
                Change::Planned(planned) => starts.plan(planned),
            }
        }
        batch.planned = starts.changes(at);
        let is_empty = [batch.opened.len(), batch.closed.len(), batch.planned.len()] == [0; 3];
        if is_first || !is_empty {
            batches.push(batch);
        }
    }
    batches
}

/// Planned starts of the present holes, as far as they have been reported.
#[derive(Default)]
struct PlannedStarts<'a> {
    /// Start of each present hole.
    present: HashMap<&'a NodeId, Timestamp>,
    reported: HashMap<&'a NodeId, Timestamp>,
    /// Reported planned starts, the earliest first, with outdated entries.
    passing: BinaryHeap<Reverse<(Timestamp, &'a NodeId)>>,
    /// Announcements of the present time.
    announced: BTreeMap<&'a NodeId, Option<Timestamp>>,
}

impl<'a> PlannedStarts<'a> {
    fn close(&mut self, node: &NodeId) {
        self.present.remove(node);
        self.reported.remove(node);
    }

    fn open(&mut self, record: &'a HoleRecord) {
        self.present.insert(&record.node, record.from);
        self.reported.remove(&record.node);
    }

    fn plan(&mut self, planned: &'a PlannedStart) {
        // Before a window, the announcement may be of an earlier hole.
        let since = self.present.get(&planned.node);
        if since.is_some_and(|&since| since <= planned.at) {
            self.announced.insert(&planned.node, planned.start);
        }
    }

    /// Differences to the reported planned starts.
    fn changes(&mut self, at: Timestamp) -> Vec<(NodeId, Option<Timestamp>)> {
        let has_lapsed = |start: Timestamp| start + PlannedStart::LAPSE < at;
        while let Some(&Reverse((start, node))) = self.passing.peek()
            && has_lapsed(start)
        {
            self.passing.pop();
            if self.reported.get(node) == Some(&start) {
                self.announced.entry(node).or_insert(None);
            }
        }
        let mut changes = Vec::new();
        for (node, start) in std::mem::take(&mut self.announced) {
            let holds = start.filter(|&start| !has_lapsed(start));
            let start = holds.map(|start| if start > at { start } else { at + SOON });
            let before = match start {
                Some(start) => {
                    self.passing.push(Reverse((start, node)));
                    self.reported.insert(node, start)
                }
                None => self.reported.remove(node),
            };
            if before != start {
                changes.push((node.clone(), start));
            }
        }
        changes
    }
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

    fn texts(batches: &[EventBatch]) -> Vec<String> {
        let one = |m: &EventBatch| {
            let minus: String = m.closed.iter().map(|n| format!(" -{n}")).collect();
            let plus: String = m
                .opened
                .iter()
                .map(|h| format!(" +{}@{}", h.node, h.since.unix_seconds()))
                .collect();
            format!("{}{minus}{plus}", m.at.unix_seconds())
        };
        batches.iter().map(one).collect()
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
            texts(&event_batches(&records, &[], None, window)),
            ["20 +a@0 +b@10", "30 -a +a@30", "40 -b"]
        );
        assert_eq!(
            texts(&event_batches(&records, &[], None, Window::default())),
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
            texts(&event_batches(&records, &[], Some(&only), window)),
            ["20 +b@10", "40 -b"]
        );
    }
}
