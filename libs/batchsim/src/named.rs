//! First come first served with EASY backfill, where nodes are not interchangeable: jobs need
//! adjacent nodes, or nodes are drained or reserved.
//!
//! The head of the queue has a reservation for the first time at which it fits, by walltimes, known
//! outages and reservations. It is on the nodes that first fit (or the lowest block) finds for that
//! time. A later job may use any other nodes, or these until then. So no backfilled job delays the
//! reserved start, and a node that is freed early may improve it.

use crate::machine::Backfill;
use crate::profile::Profile;
use crate::queue::{Queue, Verdict};
use crate::state::State;

/// Starts every job that may start now.
pub(crate) fn schedule(state: &mut State) {
    if state.queue.len() == 0 {
        return;
    }
    let layout = state.machine.layout;
    let known = state
        .queue
        .front()
        .is_some_and(|h| h.reserved_start.is_some());
    if known && state.free.count() < state.queue.least() {
        return;
    }
    let mut profile = state.sets();
    while let Some(head) = state.queue.front().copied() {
        let length = head.job.walltime.max(1);
        let Some(part) = profile.fits_now(head.job.nodes, length, layout) else {
            break;
        };
        profile.take(state.now, head.job.asked_until(state.now), &part);
        state.queue.pop_front();
        state.start(&head, part);
    }
    let now = state.now;
    if let Some(head) = state.queue.front_mut() {
        let found = profile.find(head.job.nodes, head.job.walltime.max(1), layout);
        // A job that fits at no known time has no reservation and holds no nodes.
        if let Some((at, part)) = found {
            profile.take(at, head.job.asked_until(at), &part);
            head.reserved_start = head.reserved_start.or(Some(at.max(now)));
        }
        if state.machine.backfill != Backfill::None && state.free.count() >= state.queue.least() {
            let mut queue = std::mem::take(&mut state.queue);
            backfill(state, &mut queue, &mut profile);
            state.queue = queue;
        }
    }
}

/// Starts later jobs that do not delay the head, whose nodes are taken in the profile.
fn backfill(state: &mut State, queue: &mut Queue, profile: &mut Profile<crate::nodes::NodeSet>) {
    let (now, layout) = (state.now, state.machine.layout);
    queue.sift(state.machine.depth(), state.free.count(), |next| {
        let length = next.job.walltime.max(1);
        let Some(part) = profile.fits_now(next.job.nodes, length, layout) else {
            return Verdict::Waits;
        };
        profile.take(now, next.job.asked_until(now), &part);
        state.start(next, part);
        Verdict::Started(state.free.count())
    });
}
