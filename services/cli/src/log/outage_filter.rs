//! Removes outages from a trace that is not held in memory.

use std::borrow::Cow;
use std::iter::Peekable;
use std::vec::IntoIter;

use lacuna_model::{Span, Timestamp};
use lacuna_sim::{PlannedStartUpdate, PoolStep, PoolSteps, PoolTrace, SimError};

use super::outages::Outage;

/// The intervals in which more than `most` nodes of a trace are idle, in order of time.
///
/// # Errors
/// The trace cannot be read.
pub(super) fn crowded(trace: &dyn PoolTrace, most: u32) -> Result<Vec<Outage>, SimError> {
    let mut steps = trace.steps()?;
    let mut is_idle = vec![false; trace.nodes() as usize];
    let (mut idle, mut since, mut crowded) = (0, None, Vec::new());
    while let Some(step) = steps.next()? {
        for (&node, now) in (step.closed.iter().map(|node| (node, false)))
            .chain(step.opened.iter().map(|(node, _)| (node, true)))
        {
            if let Some(before) = is_idle.get_mut(node as usize) {
                idle = idle - u32::from(*before) + u32::from(now);
                *before = now;
            }
        }
        let at = trace.start() + Span::from_secs_f64(step.at_s);
        match (idle > most, since) {
            (true, None) => since = Some(at),
            (false, Some(from)) => {
                crowded.push((from, at));
                since = None;
            }
            _ => {}
        }
    }
    crowded.extend(since.map(|from| (from, trace.end())));
    Ok(crowded)
}

/// The trace `inner`, but without idle nodes in outages.
pub(super) struct OutageFilter {
    pub(super) inner: Box<dyn PoolTrace>,
    /// In order of time.
    pub(super) outages: Vec<Outage>,
}

impl PoolTrace for OutageFilter {
    fn start(&self) -> Timestamp {
        self.inner.start()
    }

    fn end(&self) -> Timestamp {
        self.inner.end()
    }

    fn nodes(&self) -> u32 {
        self.inner.nodes()
    }

    fn node_name(&self, node: u32) -> Cow<'_, str> {
        self.inner.node_name(node)
    }

    fn history(&self) -> u64 {
        self.inner.history()
    }

    fn steps(&self) -> Result<Box<dyn PoolSteps + '_>, SimError> {
        let start = self.start();
        let second = |at: Timestamp| at.since(start).as_secs_f64().max(0.0);
        let outages = self
            .outages
            .iter()
            .map(|&(from, until)| (second(from), second(until)));
        let edges = outages.filter(|(from, until)| from < until);
        let edges: Vec<f64> = edges.flat_map(|(from, until)| [from, until]).collect();
        Ok(Box::new(Walk {
            steps: self.inner.steps()?,
            start_ms: start.unix_ms(),
            length_s: self.length_s(),
            edges: edges.into_iter().peekable(),
            since: vec![BUSY; self.nodes() as usize],
            wanted: vec![f64::INFINITY; self.nodes() as usize],
            is_out: false,
            is_fresh: true,
            next: None,
            shown: Changes::default(),
        }))
    }
}

/// The start of idleness of a node that is not idle.
const BUSY: i64 = i64::MIN;

/// The changes of a step.
#[derive(Default)]
struct Changes {
    closed: Vec<u32>,
    opened: Vec<(u32, i64)>,
    planned: Vec<PlannedStartUpdate>,
}

struct Walk<'a> {
    steps: Box<dyn PoolSteps + 'a>,
    start_ms: i64,
    length_s: f64,
    /// The beginnings and ends of outages, seconds since the start of the trace.
    edges: Peekable<IntoIter<f64>>,
    /// For each node of the inner trace, the start of its idleness.
    since: Vec<i64>,
    /// For each node of the inner trace, its planned start, seconds since the start of the trace.
    wanted: Vec<f64>,
    is_out: bool,
    /// Whether no step was handed out yet; the first is handed out even if it is empty.
    is_fresh: bool,
    /// The next step of the inner trace.
    next: Option<(f64, Changes)>,
    shown: Changes,
}

impl Walk<'_> {
    /// The idle nodes, each with the start of its hole, not before `earliest`.
    fn present(&self, earliest: i64) -> Vec<(u32, i64)> {
        let idle = (0..).zip(&self.since).filter(|&(_, &since)| since != BUSY);
        idle.map(|(node, &since)| (node, since.max(earliest)))
            .collect()
    }

    /// Applies changes of the inner trace.
    fn take(&mut self, changes: &Changes) {
        let Self { since, wanted, .. } = self;
        for &node in &changes.closed {
            if let Some(since) = since.get_mut(node as usize) {
                *since = BUSY;
            }
            if let Some(wanted) = wanted.get_mut(node as usize) {
                *wanted = f64::INFINITY;
            }
        }
        for hint in &changes.planned {
            if let Some(wanted) = wanted.get_mut(hint.node as usize) {
                *wanted = hint.at_s;
            }
        }
        for &(node, from) in &changes.opened {
            if let Some(since) = since.get_mut(node as usize) {
                *since = from;
            }
        }
    }

    /// The step at which an outage begins or ends, with the inner changes of the same moment.
    fn edge(&mut self, at_s: f64) {
        let before = self.present(i64::MIN);
        if let Some((_, changes)) = self.next.take_if(|(next_s, _)| *next_s <= at_s) {
            self.take(&changes);
        }
        self.is_out = !self.is_out;
        self.shown = Changes::default();
        if self.is_out {
            self.shown.closed = before.into_iter().map(|(node, _)| node).collect();
            return;
        }
        let now_ms = self.start_ms.saturating_add((at_s * 1000.0).round() as i64);
        self.shown.opened = self.present(now_ms);
        // After an outage all planned starts are new to the reader.
        let wanted = (0..).zip(&self.wanted).filter(|(_, at_s)| at_s.is_finite());
        let hint = |(node, &at_s)| PlannedStartUpdate { node, at_s };
        self.shown.planned = wanted.map(hint).collect();
    }
}

impl PoolSteps for Walk<'_> {
    fn next(&mut self) -> Result<Option<PoolStep<'_>>, SimError> {
        loop {
            if self.next.is_none() {
                self.next = self.steps.next()?.map(|step| {
                    let changes = Changes {
                        closed: step.closed.to_vec(),
                        opened: step.opened.to_vec(),
                        planned: step.planned.to_vec(),
                    };
                    (step.at_s, changes)
                });
            }
            let next_s = self.next.as_ref().map_or(self.length_s, |(at_s, _)| *at_s);
            let at_s = if let Some(edge_s) = self.edges.next_if(|edge_s| *edge_s <= next_s) {
                self.edge(edge_s);
                edge_s
            } else {
                let Some((at_s, changes)) = self.next.take() else {
                    return Ok(None);
                };
                self.take(&changes);
                if self.is_out && !self.is_fresh {
                    continue;
                }
                self.shown = if self.is_out {
                    Changes::default()
                } else {
                    changes
                };
                at_s
            };
            self.is_fresh = false;
            return Ok(Some(PoolStep {
                at_s,
                closed: &self.shown.closed,
                opened: &self.shown.opened,
                planned: &self.shown.planned,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::outages;
    use lacuna_model::{HoleRecord, NodeId};
    use lacuna_sim::HoleTrace;
    use lacuna_sim::pool_stats::{PoolOptions, pool_stats};

    /// Holes of a machine: those of one node do not overlap.
    fn holes() -> Vec<HoleRecord> {
        let mut holes = Vec::new();
        for node in 0..12_i64 {
            let mut at = node * 7 % 5;
            for round in 0..40 {
                let from = at + 3 + (node * 31 + round * 17) % 29;
                let until = from + 1 + (node * 13 + round * 23) % 37;
                holes.push(HoleRecord {
                    node: NodeId::new(format!("n{node}")).unwrap(),
                    from: Timestamp::from_unix(from),
                    until: Timestamp::from_unix(until),
                    censored: false,
                });
                at = until;
            }
        }
        holes.sort_by_key(|hole| hole.from);
        holes
    }

    #[test]
    fn the_filter_leaves_out_what_leave_out_leaves_out_in_memory() {
        let holes = holes();
        let start = holes.first().unwrap().from;
        let end = holes.iter().map(|hole| hole.until).max();
        let mut seen = 0;
        for most in [0, 3, 6, 8, 12] {
            let left_out = outages::crowded(&holes, most);
            let kept = outages::leave_out(&holes, &left_out);
            let whole = HoleTrace::new(&holes, None, start, end);
            assert_eq!(crowded(&whole, most).unwrap(), left_out);
            let walked = OutageFilter {
                inner: Box::new(whole),
                outages: left_out.clone(),
            };
            let stats = pool_stats(&walked, PoolOptions::default()).unwrap();
            let expected: f64 = kept.iter().map(|h| h.length().as_secs_f64()).sum();
            let found = stats.equivalent_nodes * stats.hours * 3600.0;
            assert!(
                (found - expected).abs() < 1e-6,
                "{most}: {found} {expected}"
            );
            assert!(stats.idle.max <= most, "{most}: {:?}", stats.idle);
            seen += u32::from(!left_out.is_empty() && expected > 0.0);
        }
        assert!(seen >= 3, "the cases are too easy");
    }

    /// At each second nodes that leave, nodes that come, and planned starts.
    type Changes = (
        &'static [u32],
        &'static [(u32, i64)],
        &'static [PlannedStartUpdate],
    );

    /// A trace of four nodes with scripted steps.
    struct Scripted(&'static [Changes]);

    impl PoolTrace for Scripted {
        fn start(&self) -> Timestamp {
            Timestamp::from_unix(0)
        }

        fn end(&self) -> Timestamp {
            Timestamp::from_unix(100)
        }

        fn nodes(&self) -> u32 {
            4
        }

        fn node_name(&self, node: u32) -> Cow<'_, str> {
            Cow::Owned(node.to_string())
        }

        fn steps(&self) -> Result<Box<dyn PoolSteps + '_>, SimError> {
            Ok(Box::new(ScriptedSteps(self, 0)))
        }
    }

    struct ScriptedSteps<'a>(&'a Scripted, usize);

    impl PoolSteps for ScriptedSteps<'_> {
        fn next(&mut self) -> Result<Option<PoolStep<'_>>, SimError> {
            let at_s = self.1 as f64;
            let step = self.0.0.get(self.1);
            self.1 += 1;
            Ok(step.map(|&(closed, opened, planned_starts)| PoolStep {
                at_s,
                closed,
                opened,
                planned: planned_starts,
            }))
        }
    }

    const fn hint(node: u32, at_s: f64) -> PlannedStartUpdate {
        PlannedStartUpdate { node, at_s }
    }

    #[test]
    fn planned_starts_of_an_outage_come_with_the_returning_holes() {
        const STEPS: &[Changes] = &[
            (&[], &[(0, 0), (1, 0)], &[hint(0, 50.0)]),
            // An outage, during which planned starts change.
            (
                &[],
                &[(2, 1000), (3, 1000)],
                &[hint(2, 60.0), hint(0, 40.0)],
            ),
            (&[2], &[], &[hint(1, 70.0), hint(3, 80.0)]),
            (&[3], &[], &[hint(1, f64::INFINITY)]),
            (&[], &[(3, 4000)], &[hint(1, 90.0)]),
        ];
        let at = Timestamp::from_unix;
        let walked = OutageFilter {
            inner: Box::new(Scripted(STEPS)),
            outages: vec![(at(1), at(3))],
        };
        let mut steps = walked.steps().unwrap();
        let mut found = Vec::new();
        while let Some(step) = steps.next().unwrap() {
            let planned_starts = step.planned.iter().map(|hint| (hint.node, hint.at_s));
            found.push((
                step.at_s,
                step.opened.len(),
                planned_starts.collect::<Vec<_>>(),
            ));
        }
        let expected = [
            (0.0, 2, vec![(0, 50.0)]),
            (1.0, 0, vec![]),
            (3.0, 2, vec![(0, 40.0)]),
            (4.0, 1, vec![(1, 90.0)]),
        ];
        assert_eq!(found, expected);
    }
}
