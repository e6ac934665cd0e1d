//! Running jobs by their true and by their expected ends.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::job::{BatchJob, NodeRange};

/// A job on its nodes.
#[derive(Debug, Clone)]
pub(crate) struct OnNodes {
    pub(crate) job: BatchJob,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) ranges: Vec<NodeRange>,
    /// The expected end, by walltime.
    asked_until: i64,
    number: u64,
}

/// The expected end of a running job, by its walltime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Expected {
    pub(crate) until: i64,
    number: u64,
    pub(crate) nodes: u32,
    slot: u32,
}

/// Running jobs. Memory grows with the jobs that run at once, not with all jobs so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Running {
    slots: Vec<Option<OnNodes>>,
    vacant: Vec<u32>,
    started: u64,
    /// True ends, with the number of the start and the slot.
    ends: BinaryHeap<Reverse<(i64, u64, u32)>>,
    expected: BTreeSet<Expected>,
}

impl Running {
    pub(crate) fn start(&mut self, job: BatchJob, start: i64, end: i64, ranges: Vec<NodeRange>) {
        let number = self.started;
        self.started += 1;
        let asked_until = job.asked_until(start);
        let on_nodes = OnNodes {
            job,
            start,
            end,
            ranges,
            asked_until,
            number,
        };
        let slot = self.vacant.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(slot as usize) {
            Some(vacant) => *vacant = Some(on_nodes),
            None => self.slots.push(Some(on_nodes)),
        }
        self.ends.push(Reverse((end, number, slot)));
        self.expected.insert(Expected {
            until: asked_until,
            number,
            nodes: job.nodes,
            slot,
        });
    }

    /// The next true end.
    pub(crate) fn next_end(&self) -> Option<i64> {
        self.ends.peek().map(|Reverse((end, _, _))| *end)
    }

    /// Removes one job that has ended by `now`.
    pub(crate) fn pop_ended(&mut self, now: i64) -> Option<OnNodes> {
        let &Reverse((end, _, slot)) = self.ends.peek()?;
        if end > now {
            return None;
        }
        self.ends.pop();
        let ended = self.slots.get_mut(slot as usize)?.take()?;
        self.vacant.push(slot);
        self.expected.remove(&Expected {
            until: ended.asked_until,
            number: ended.number,
            nodes: ended.job.nodes,
            slot,
        });
        Some(ended)
    }

    /// The running jobs by expected end. A job with an end in the past may end any second.
    pub(crate) fn expected(&self) -> impl Iterator<Item = &Expected> {
        self.expected.iter()
    }

    /// The nodes of a running job.
    pub(crate) fn job(&self, expected: &Expected) -> Option<&OnNodes> {
        self.slots.get(expected.slot as usize)?.as_ref()
    }

    /// Whether a running job is past its expected end at `now`.
    pub(crate) fn overdue(&self, now: i64) -> bool {
        self.expected
            .first()
            .is_some_and(|first| first.until <= now)
    }
}
