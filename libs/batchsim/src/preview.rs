//! The planned starts and expected ends that an operator's tools would show.

use crate::conservative::Conservative;
use crate::easy;
use crate::job::{BatchJob, NodeRange};
use crate::nodes::NodeSet;
use crate::policy::Policy;
use crate::profile::Count;
use crate::queue::Waiting;
use crate::state::State;

/// The future as the scheduler knows it, by walltimes and not by true lengths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preview {
    /// The present time, seconds.
    pub at: i64,
    /// Planned starts, by time. EASY plans only the head of the queue, conservative backfill every
    /// job that has a reservation. With recorded starts, the waiting job that was submitted first
    /// is planned as under EASY.
    pub planned: Vec<PreviewedStart>,
    /// Running jobs, by expected end.
    pub busy: Vec<BusyUntil>,
    /// Every present hole with its planned end, ascending by node.
    pub holes: Vec<PlannedHoles>,
}

/// A waiting job whose start is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewedStart {
    /// The job's number.
    pub id: u64,
    /// The planned start, seconds.
    pub start: i64,
    /// The end of the job by its walltime, seconds.
    pub until: i64,
    /// The nodes that the job is predicted to take.
    pub ranges: Vec<NodeRange>,
}

/// A running job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusyUntil {
    /// The job's number.
    pub id: u64,
    /// The latest end of the job, by its walltime, seconds; the next second if that has passed.
    pub until: i64,
    /// The nodes of the job.
    pub ranges: Vec<NodeRange>,
}

/// Adjacent holes with the same planned end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedHoles {
    /// The nodes of the holes.
    pub nodes: NodeRange,
    /// The earliest start of a planned job or a reservation that needs the nodes, seconds. `None`
    /// if none is known.
    pub at: Option<i64>,
}

pub(crate) fn of(state: &State, policy: &Policy) -> Preview {
    let planned = planned_starts(state, policy);
    let busy = state.running.expected().filter_map(|expected| {
        let on_nodes = state.running.job(expected)?;
        Some(BusyUntil {
            id: on_nodes.job.id,
            until: state.any_second(expected.until),
            ranges: on_nodes.ranges.clone(),
        })
    });
    Preview {
        at: state.now,
        busy: busy.collect(),
        holes: planned_holes(state, &planned),
        planned,
    }
}

/// [`Preview::holes`] alone.
pub(crate) fn holes_of(state: &State, policy: &Policy) -> Vec<PlannedHoles> {
    planned_holes(state, &planned_starts(state, policy))
}

/// Planned starts, by time.
fn planned_starts(state: &State, policy: &Policy) -> Vec<PreviewedStart> {
    let mut planned = match policy {
        Policy::Easy => head(state, state.queue.front(), true),
        Policy::Named => head(state, state.queue.front(), false),
        Policy::Recorded(policy) => head(state, policy.first(), state.blocks.is_none()),
        Policy::Counted(policy) => predict(state, policy),
        Policy::Placed(policy) => {
            let reserved = policy.reserved.iter();
            let placed = reserved.filter_map(|entry| {
                let slot = entry.slot.as_ref()?;
                Some(planned(&entry.waiting.job, slot.start, slot.part.clone()))
            });
            placed.collect()
        }
    };
    planned.sort_by_key(|planned| planned.start);
    planned
}

fn planned(job: &BatchJob, start: i64, ranges: Vec<NodeRange>) -> PreviewedStart {
    PreviewedStart {
        id: job.id,
        start,
        until: job.asked_until(start),
        ranges,
    }
}

/// The planned start of one job if all running jobs last until their walltimes.
fn head(state: &State, head: Option<&Waiting>, alike: bool) -> Vec<PreviewedStart> {
    let Some(Waiting { job, .. }) = head else {
        return Vec::new();
    };
    if !alike || state.machine.layout == crate::machine::Layout::Contiguous {
        let found = state
            .sets()
            .find(job.nodes, job.walltime.max(1), state.machine.layout);
        let found = found.map(|(start, ranges)| planned(job, start, ranges));
        return found.into_iter().collect();
    }
    let at = easy::shadow(state, job.nodes).at;
    let mut free = state.free.clone();
    for expected in state.running.expected() {
        if state.any_second(expected.until) > at {
            break;
        }
        if let Some(on_nodes) = state.running.job(expected) {
            free.insert(&on_nodes.ranges);
        }
    }
    let ranges = free.lowest(job.nodes);
    ranges
        .map(|ranges| planned(job, at, ranges))
        .into_iter()
        .collect()
}

/// The nodes that jobs with reserved starts would take by first fit, if all running and planned
/// jobs last until their walltimes.
fn predict(state: &State, policy: &Conservative<Count>) -> Vec<PreviewedStart> {
    let reserved = policy.reserved.iter();
    let mut starts: Vec<(i64, &BatchJob)> = reserved
        .filter_map(|entry| Some((entry.slot.as_ref()?.start, &entry.waiting.job)))
        .collect();
    starts.sort_by_key(|&(start, _)| start);
    let mut free = state.free.clone();
    let mut running = state.running.expected().peekable();
    let mut done: Vec<PreviewedStart> = Vec::new();
    // The ends of planned jobs, with their places in `done`.
    let mut ends = std::collections::BinaryHeap::new();
    for (start, job) in starts {
        while let Some(expected) = running.next_if(|e| state.any_second(e.until) <= start) {
            if let Some(on_nodes) = state.running.job(expected) {
                free.insert(&on_nodes.ranges);
            }
        }
        while let Some(&std::cmp::Reverse((end, place))) = ends.peek() {
            if end > start {
                break;
            }
            ends.pop();
            if let Some(PreviewedStart { ranges, .. }) = done.get(place) {
                free.insert(ranges);
            }
        }
        let ranges = free.take(job.nodes);
        ends.push(std::cmp::Reverse((job.asked_until(start), done.len())));
        done.push(planned(job, start, ranges));
    }
    done
}

/// The planned end of each present hole.
fn planned_holes(state: &State, planned: &[PreviewedStart]) -> Vec<PlannedHoles> {
    let plans = planned.iter().map(|plan| {
        let mut nodes = NodeSet::empty(state.machine.nodes);
        nodes.insert(&plan.ranges);
        (plan.start, nodes)
    });
    let mut claims: Vec<(i64, NodeSet)> = plans.collect();
    if let Some(blocks) = &state.blocks {
        let ahead = blocks.reservations.after(state.now);
        claims.extend(ahead.iter().cloned());
    }
    claims.sort_by_key(|(at, _)| *at);
    let mut left = state.free.clone();
    for (_, nodes) in &mut claims {
        nodes.keep(&left);
        left.minus(nodes);
    }
    let mut holes: Vec<PlannedHoles> = claims
        .iter()
        .map(|(at, nodes)| (Some(*at), nodes))
        .chain([(None, &left)])
        .flat_map(|(at, nodes)| nodes.ranges().map(move |nodes| PlannedHoles { nodes, at }))
        .collect();
    holes.sort_by_key(|holes| holes.nodes.first);
    holes
}
