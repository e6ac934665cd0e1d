//! A walk over a simulated log.

use std::cell::RefCell;
use std::rc::Rc;

use lacuna_timeline::batch::Simulator;

use super::Jobs;
use super::feed::Shared;
use crate::{SimError, StepRef, Steps};

/// A node that is no hole.
const BUSY: i64 = i64::MIN;

/// How far a walk has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing has been told.
    Fresh,
    /// The holes at the start have been told; the step after it has been made.
    Begun,
    /// Each step is made when it is asked for.
    Going,
}

/// Simulates as it goes.
pub(super) struct Walk<'a> {
    simulator: Simulator<Jobs<'a>>,
    shared: Rc<RefCell<Shared>>,
    nodes: u32,
    from_s: i64,
    until_s: i64,
    stage: Stage,
    /// A step that the simulator has made and that has not been told: its second.
    ahead: Option<i64>,
    closed: Vec<u32>,
    opened: Vec<(u32, i64)>,
    /// Holes at the start.
    first: Vec<(u32, i64)>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        simulator: Simulator<Jobs<'a>>,
        shared: Rc<RefCell<Shared>>,
        nodes: u32,
        from_s: i64,
        until_s: i64,
    ) -> Self {
        Self {
            simulator,
            shared,
            nodes,
            from_s,
            until_s,
            stage: Stage::Fresh,
            ahead: None,
            closed: Vec::new(),
            opened: Vec::new(),
            first: Vec::new(),
        }
    }

    /// Makes the simulator's next step in which a node changes.
    fn pull(&mut self) -> Result<(), SimError> {
        self.ahead = None;
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
            self.ahead = Some(step.at);
            return Ok(());
        }
        match self.shared.borrow_mut().error.take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Lives through what comes before the start.
    fn begin(&mut self) -> Result<(), SimError> {
        let mut since = vec![BUSY; self.nodes as usize];
        loop {
            self.pull()?;
            if self.ahead.is_none_or(|at| at > self.from_s) {
                break;
            }
            for &node in &self.closed {
                if let Some(since) = since.get_mut(node as usize) {
                    *since = BUSY;
                }
            }
            for &(node, at) in &self.opened {
                if let Some(since) = since.get_mut(node as usize) {
                    *since = at;
                }
            }
        }
        let holes = (0..).zip(since).filter(|&(_, since)| since != BUSY);
        self.first = holes.collect();
        Ok(())
    }
}

impl Steps for Walk<'_> {
    fn next(&mut self) -> Result<Option<StepRef<'_>>, SimError> {
        match self.stage {
            Stage::Fresh => {
                self.stage = Stage::Begun;
                self.begin()?;
                return Ok(Some(StepRef {
                    at_s: 0.0,
                    closed: &[],
                    opened: &self.first,
                }));
            }
            Stage::Begun => {
                self.stage = Stage::Going;
                self.first = Vec::new();
            }
            Stage::Going => self.pull()?,
        }
        let told = self.ahead.filter(|&at| at <= self.until_s);
        Ok(told.map(|at| StepRef {
            at_s: at.saturating_sub(self.from_s) as f64,
            closed: &self.closed,
            opened: &self.opened,
        }))
    }
}
