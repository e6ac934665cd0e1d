//! A walk over a simulated log.

use std::cell::RefCell;
use std::rc::Rc;

use lacuna_batchsim::{Announcer, Simulator};

use super::Jobs;
use super::feed::Shared;
use crate::{PlannedStartUpdate, PoolStep, PoolSteps, SimError};

/// The start of a hole, for a node without one.
const BUSY: i64 = i64::MIN;

/// A walk that simulates as it goes. The simulator is never ahead of the current step, so its
/// planned starts are those of the step.
pub(super) struct Walk<'a> {
    simulator: Simulator<Jobs<'a>>,
    shared: Rc<RefCell<Shared>>,
    nodes: u32,
    from_s: i64,
    until_s: i64,
    /// Whether the step at the start is given out.
    begun: bool,
    /// Planned starts, if the walk gives them.
    announcer: Option<Announcer>,
    planned: Vec<PlannedStartUpdate>,
    closed: Vec<u32>,
    opened: Vec<(u32, i64)>,
}

impl<'a> Walk<'a> {
    /// `planned_starts` says whether steps have planned starts.
    pub(super) fn new(
        simulator: Simulator<Jobs<'a>>,
        shared: Rc<RefCell<Shared>>,
        nodes: u32,
        (from_s, until_s): (i64, i64),
        planned_starts: bool,
    ) -> Self {
        Self {
            simulator,
            shared,
            nodes,
            from_s,
            until_s,
            begun: false,
            announcer: planned_starts.then(|| Announcer::new(nodes)),
            planned: Vec::new(),
            closed: Vec::new(),
            opened: Vec::new(),
        }
    }

    /// The walk through the time before its start in its place. Steps at the start belong to the other.
    pub(super) const fn before(mut self) -> Self {
        self.begun = true;
        self.until_s = self.from_s.saturating_sub(1);
        self
    }

    /// Makes the simulator's next step in which a node changes, and gives its time.
    fn pull(&mut self) -> Result<Option<i64>, SimError> {
        self.closed.clear();
        self.opened.clear();
        while let Some(step) = self.simulator.step()? {
            if step.freed.is_empty() && step.taken.is_empty() {
                continue;
            }
            let since_ms = step.at.saturating_mul(1000);
            self.closed
                .extend(step.taken.iter().flat_map(|run| run.nodes()));
            let freed = step.freed.iter().flat_map(|run| run.nodes());
            self.opened.extend(freed.map(|node| (node, since_ms)));
            return Ok(Some(step.at));
        }
        match self.shared.borrow_mut().error.take() {
            Some(error) => Err(error.into()),
            None => Ok(None),
        }
    }

    /// Simulates up to the start and gives the step there.
    fn begin(&mut self) -> Result<(), SimError> {
        let mut since = vec![BUSY; self.nodes as usize];
        let from_s = self.from_s;
        while self.simulator.next_at().is_some_and(|at| at <= from_s) {
            let Some(step) = self.simulator.tick()? else {
                break;
            };
            let since_ms = step.at.saturating_mul(1000);
            for (runs, value) in [(step.taken, BUSY), (step.freed, since_ms)] {
                for node in runs.iter().flat_map(|run| run.nodes()) {
                    if let Some(since) = since.get_mut(node as usize) {
                        *since = value;
                    }
                }
            }
        }
        let holes = (0..).zip(since).filter(|&(_, since)| since != BUSY);
        self.opened.extend(holes);
        Ok(())
    }
}

impl PoolSteps for Walk<'_> {
    fn next(&mut self) -> Result<Option<PoolStep<'_>>, SimError> {
        let at = if self.begun {
            match self.pull()? {
                Some(at) if at <= self.until_s => at,
                _ => return Ok(None),
            }
        } else {
            self.begun = true;
            self.begin()?;
            self.from_s
        };
        if let Some(announcer) = &mut self.announcer {
            let closed = self.closed.iter().copied();
            let changes = announcer.step(at, closed, &self.simulator.planned_holes());
            let after_s = |start: i64| start.saturating_sub(self.from_s) as f64;
            self.planned.clear();
            self.planned
                .extend(changes.iter().map(|&(node, start)| PlannedStartUpdate {
                    node,
                    at_s: start.map_or(f64::INFINITY, after_s),
                }));
        }
        Ok(Some(PoolStep {
            // Before the start it is below zero.
            at_s: at.saturating_sub(self.from_s) as f64,
            closed: &self.closed,
            opened: &self.opened,
            planned: &self.planned,
        }))
    }
}
