//! First come first served with EASY backfill, where nodes are interchangeable.

use crate::machine::Backfill;
use crate::queue::{Queue, Verdict};
use crate::state::State;

/// The latest start of the head of the queue, and the nodes that it leaves free then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shadow {
    pub(crate) at: i64,
    pub(crate) spare: u32,
}

/// Starts every job that may start now.
pub(crate) fn schedule(state: &mut State) {
    while let Some(head) = state.queue.front().copied() {
        if head.job.nodes > state.free.count() {
            break;
        }
        state.queue.pop_front();
        let ranges = state.free.take(head.job.nodes);
        state.start(&head, ranges);
    }
    let Some(head) = state.queue.front().copied() else {
        return;
    };
    let nothing_fits =
        state.machine.backfill == Backfill::None || state.free.count() < state.queue.least();
    if nothing_fits && head.reserved_start.is_some() {
        return;
    }
    let shadow = shadow(state, head.job.nodes);
    if let Some(head) = state.queue.front_mut()
        && head.reserved_start.is_none()
    {
        head.reserved_start = Some(shadow.at);
    }
    if !nothing_fits {
        // The queue is taken out of the state while its jobs start.
        let mut queue = std::mem::take(&mut state.queue);
        backfill(state, &mut queue, shadow);
        state.queue = queue;
    }
}

/// The time at which `wanted` nodes are free, by the walltimes of running jobs.
pub(crate) fn shadow(state: &State, wanted: u32) -> Shadow {
    let mut free = state.free.count();
    let mut at = state.now;
    for expected in state.running.expected() {
        let end = state.any_second(expected.until);
        if free >= wanted && end > at {
            break;
        }
        free = free.saturating_add(expected.nodes);
        at = end;
    }
    Shadow {
        at,
        spare: free.saturating_sub(wanted),
    }
}

/// Starts later jobs that do not delay the head.
fn backfill(state: &mut State, queue: &mut Queue, shadow: Shadow) {
    let Shadow { at, mut spare } = shadow;
    let now = state.now;
    queue.sift(state.machine.depth(), state.free.count(), |next| {
        let nodes = next.job.nodes;
        let ends_before = next.job.asked_until(now) <= at;
        if !ends_before && nodes > spare {
            return Verdict::Waits;
        }
        if !ends_before {
            spare -= nodes;
        }
        let ranges = state.free.take(nodes);
        state.start(next, ranges);
        Verdict::Started(state.free.count())
    });
}
