//! Events in the order of their times; of one time, in the order in which they came.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// A job arrives.
    Arrives(usize),
    /// A hold of a job ends, if it is still that of this epoch.
    Ends(usize, u32),
    /// The policy is asked.
    Round,
    /// The policy is asked, if it still wants to be.
    Wake,
}

#[derive(Debug)]
struct Queued {
    at_s: f64,
    number: u64,
    event: Event,
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> Ordering {
        let times = self.at_s.total_cmp(&other.at_s);
        times.then(self.number.cmp(&other.number))
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Queued {}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    heap: BinaryHeap<Reverse<Queued>>,
    pushed: u64,
}

impl Queue {
    pub(super) fn push(&mut self, at_s: f64, event: Event) {
        let number = self.pushed;
        self.pushed += 1;
        self.heap.push(Reverse(Queued {
            at_s,
            number,
            event,
        }));
    }

    /// The next event with its time.
    pub(super) fn pop(&mut self) -> Option<(f64, Event)> {
        let Reverse(next) = self.heap.pop()?;
        Some((next.at_s, next.event))
    }

    /// The next event, if it is due by then.
    pub(super) fn pop_until(&mut self, at_s: f64) -> Option<Event> {
        let due = self
            .heap
            .peek()
            .is_some_and(|Reverse(next)| next.at_s <= at_s);
        if due {
            self.pop().map(|(_, event)| event)
        } else {
            None
        }
    }
}
