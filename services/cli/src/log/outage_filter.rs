//! Removes outages, times in which too many nodes are idle to be called holes, from a trace that is
//! not held in memory.

use std::borrow::Cow;

use lacuna_model::{Span, Timestamp};
use lacuna_sim::{PlannedStartUpdate, PoolStep, PoolSteps, PoolTrace, SimError};

use super::outages::Outage;

/// The outages of a trace, in order of time.
///
/// # Errors
/// The trace cannot be read.
pub(super) fn outages(trace: &dyn PoolTrace, most: u32) -> Result<Vec<Outage>, SimError> {
    let mut steps = trace.steps()?;
    let mut is_idle = vec![false; trace.nodes() as usize];
    let (mut idle, mut since, mut outages) = (0, None, Vec::new());
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
                outages.push((from, at));
                since = None;
            }
            _ => {}
        }
    }
    outages.extend(since.map(|from| (from, trace.end())));
    Ok(outages)
}

/// The trace `inner`, but without idle nodes while it has more than `most` of them.
pub(super) struct OutageFilter {
    pub(super) inner: Box<dyn PoolTrace>,
    pub(super) most: u32,
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
        Ok(Box::new(Walk {
            steps: self.inner.steps()?,
            start_ms: self.start().unix_ms(),
            most: self.most,
            since: vec![BUSY; self.nodes() as usize],
            wanted: vec![f64::INFINITY; self.nodes() as usize],
            hints: Vec::new(),
            idle: 0,
            crowded: false,
            fresh: true,
            closed: Vec::new(),
            opened: Vec::new(),
        }))
    }
}

/// The start of idleness of a node that is not idle.
const BUSY: i64 = i64::MIN;

struct Walk<'a> {
    steps: Box<dyn PoolSteps + 'a>,
    start_ms: i64,
    most: u32,
    /// For each node of `inner`, the start of its idleness.
    since: Vec<i64>,
    /// For each node of `inner`, its planned start, seconds since the start of the trace.
    wanted: Vec<f64>,
    hints: Vec<PlannedStartUpdate>,
    idle: u32,
    crowded: bool,
    /// Whether no step was handed out yet; the first is handed out even if it is empty.
    fresh: bool,
    closed: Vec<u32>,
    opened: Vec<(u32, i64)>,
}

impl Walk<'_> {
    /// The idle nodes, each with the start of its hole, not before `earliest`.
    fn present(since: &[i64], earliest: i64) -> impl Iterator<Item = (u32, i64)> {
        let idle = (0..).zip(since).filter(|&(_, &since)| since != BUSY);
        idle.map(move |(node, &since)| (node, since.max(earliest)))
    }
}

impl PoolSteps for Walk<'_> {
    fn next(&mut self) -> Result<Option<PoolStep<'_>>, SimError> {
        loop {
            let Some(step) = self.steps.next()? else {
                return Ok(None);
            };
            let at_s = step.at_s;
            self.closed.clear();
            self.opened.clear();
            self.hints.clear();
            let before = self.crowded;
            if !before {
                self.closed.extend_from_slice(step.closed);
                self.opened.extend_from_slice(step.opened);
                self.hints.extend_from_slice(step.planned);
            }
            // If an outage begins with this step, all nodes that were idle before it leave.
            let leaves: Vec<u32> = if before || self.idle + (step.opened.len() as u32) <= self.most
            {
                Vec::new()
            } else {
                Self::present(&self.since, i64::MIN)
                    .map(|(node, _)| node)
                    .collect()
            };
            for &node in step.closed {
                if let Some(since) = self.since.get_mut(node as usize) {
                    self.idle -= u32::from(*since != BUSY);
                    *since = BUSY;
                }
                if let Some(wanted) = self.wanted.get_mut(node as usize) {
                    *wanted = f64::INFINITY;
                }
            }
            for hint in step.planned {
                if let Some(wanted) = self.wanted.get_mut(hint.node as usize) {
                    *wanted = hint.at_s;
                }
            }
            for &(node, from) in step.opened {
                if let Some(since) = self.since.get_mut(node as usize) {
                    self.idle += u32::from(*since == BUSY);
                    *since = from;
                }
            }
            self.crowded = self.idle > self.most;
            match (before, self.crowded) {
                (false, false) => {}
                (false, true) => {
                    self.opened.clear();
                    self.hints.clear();
                    self.closed = leaves;
                }
                (true, false) => {
                    let now_ms = self.start_ms.saturating_add((at_s * 1000.0).round() as i64);
                    self.opened.extend(Self::present(&self.since, now_ms));
                    // After an outage all planned starts are new to the reader.
                    let wanted = self.wanted.iter().enumerate();
                    self.hints.extend(wanted.filter_map(|(node, &at_s)| {
                        let node = u32::try_from(node).ok()?;
                        at_s.is_finite()
                            .then_some(PlannedStartUpdate { node, at_s })
                    }));
                }
                (true, true) if !self.fresh => continue,
                (true, true) => {}
            }
            self.fresh = false;
            return Ok(Some(PoolStep {
                at_s,
                closed: &self.closed,
                opened: &self.opened,
                planned: &self.hints,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::outages::leave_out;
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
            let (kept, left_out) = leave_out(&holes, most);
            let whole = HoleTrace::new(&holes, None, start, end);
            assert_eq!(outages(&whole, most).unwrap(), left_out);
            let walked = OutageFilter {
                inner: Box::new(whole),
                most,
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
            Ok(step.map(|&(closed, opened, hints)| PoolStep {
                at_s,
                closed,
                opened,
                planned: hints,
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
        let walked = OutageFilter {
            inner: Box::new(Scripted(STEPS)),
            most: 2,
        };
        let mut steps = walked.steps().unwrap();
        let mut found = Vec::new();
        while let Some(step) = steps.next().unwrap() {
            let hints = step.planned.iter().map(|hint| (hint.node, hint.at_s));
            found.push((step.at_s, step.opened.len(), hints.collect::<Vec<_>>()));
        }
        let expected = [
            (0.0, 2, vec![(0, 50.0)]),
            (1.0, 0, vec![]),
            (3.0, 2, vec![(0, 40.0)]),
            (4.0, 0, vec![]),
        ];
        assert_eq!(found, expected);
    }
}
