//! The policy by which jobs start at their recorded starts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::machine::Layout;
use crate::queue::Waiting;
use crate::state::State;

/// Submitted jobs whose recorded start has not come, and those with too few free nodes at their
/// recorded start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded {
    /// Recorded starts with the jobs' places in the order of submission.
    due: BinaryHeap<Reverse<(i64, u64)>>,
    waiting: BTreeMap<u64, Waiting>,
    conflicts: VecDeque<Waiting>,
}

impl Recorded {
    /// The next recorded start.
    pub(crate) fn next_start(&self) -> Option<i64> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// The number of waiting jobs.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.conflicts.len()
    }

    /// The waiting job that was submitted first.
    pub(crate) fn first(&self) -> Option<&Waiting> {
        let conflicts = self.conflicts.iter();
        let first = conflicts.min_by_key(|waiting| waiting.index);
        let waiting = self.waiting.values().next();
        first.into_iter().chain(waiting).min_by_key(|w| w.index)
    }

    /// Starts the jobs whose recorded start has passed.
    pub(crate) fn schedule(&mut self, state: &mut State) {
        while let Some(waiting) = state.queue.pop_front() {
            match waiting.job.recorded_start {
                Some(start) => {
                    let start = start.max(state.now);
                    self.due.push(Reverse((start, waiting.index)));
                    self.waiting.insert(waiting.index, waiting);
                }
                None => state.totals.unrecorded += 1,
            }
        }
        let now = state.now;
        self.conflicts.retain(|waiting| !start(state, waiting));
        while let Some(&Reverse((at, index))) = self.due.peek() {
            if at > now {
                break;
            }
            self.due.pop();
            if let Some(waiting) = self.waiting.remove(&index)
                && !start(state, &waiting)
            {
                state.totals.conflicts += 1;
                self.conflicts.push_back(waiting);
            }
        }
    }
}

/// Starts a job if enough nodes are free. The log overrides reservations that have not begun.
fn start(state: &mut State, waiting: &Waiting) -> bool {
    let nodes = waiting.job.nodes;
    let ranges = match state.machine.layout {
        Layout::FirstFit => state.free.lowest(nodes),
        Layout::Contiguous => state.free.block(nodes).map(|range| vec![range]),
    };
    match ranges {
        Some(ranges) => {
            state.start(waiting, ranges);
            true
        }
        None => false,
    }
}
