//! Jobs start when the log says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::machine::Layout;
use crate::queue::Waiting;
use crate::state::State;

/// Jobs that have been submitted and whose recorded start has not come, and those that found
/// too few nodes then.
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

    /// How many jobs wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.conflicts.len()
    }

    /// The job that was submitted first.
    pub(crate) fn first(&self) -> Option<&Waiting> {
        let conflicts = self.conflicts.iter();
        let first = conflicts.min_by_key(|waiting| waiting.index);
        let waiting = self.waiting.values().next();
        first.into_iter().chain(waiting).min_by_key(|w| w.index)
    }

    /// Starts the jobs whose recorded start has come.
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

/// Starts a job if there are nodes for it. The log is believed against reservations to come.
fn start(state: &mut State, waiting: &Waiting) -> bool {
    let nodes = waiting.job.nodes;
    let runs = match state.machine.layout {
        Layout::FirstFit => state.free.lowest(nodes),
        Layout::Contiguous => state.free.block(nodes).map(|run| vec![run]),
    };
    match runs {
        Some(runs) => {
            state.start(waiting, runs);
            true
        }
        None => false,
    }
}
