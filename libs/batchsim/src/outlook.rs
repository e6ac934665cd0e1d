//! What an operator's tools would show of the future.

use crate::conservative::Conservative;
use crate::easy;
use crate::job::{BatchJob, Run};
use crate::nodes::NodeSet;
use crate::profile::Count;
use crate::queue::Waiting;
use crate::simulator::Policy;
use crate::state::State;

/// The future as the scheduler knows it: walltimes, not true lengths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outlook {
    /// The present moment, seconds.
    pub at: i64,
    /// Planned starts, by time. EASY plans for the head of the queue alone, conservative
    /// backfill for every job that has a reservation. With recorded starts: the job that was
    /// submitted first among those that wait, as EASY would plan it.
    pub planned: Vec<PlannedStart>,
    /// What runs, by expected end.
    pub busy: Vec<BusyUntil>,
    /// Every present hole, ascending by node, with the moment at which it is wanted.
    pub wanted: Vec<Wanted>,
}

/// A waiting job whose start is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStart {
    /// The job's number.
    pub id: u64,
    /// Its planned start, seconds.
    pub start: i64,
    /// When it would end by its walltime.
    pub until: i64,
    /// The nodes that it is predicted to take.
    pub runs: Vec<Run>,
}

/// A running job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusyUntil {
    /// The job's number.
    pub id: u64,
    /// When it ends at the latest, by its walltime; the next second if that has passed.
    pub until: i64,
    /// Its nodes.
    pub runs: Vec<Run>,
}

/// Adjacent holes that are wanted at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The nodes.
    pub nodes: Run,
    /// The earliest moment at which a planned job or a reservation needs them. Nothing: as
    /// things are known, nobody does.
    pub at: Option<i64>,
}

pub(crate) fn of(state: &State, policy: &Policy) -> Outlook {
    let planned = planned_starts(state, policy);
    let busy = state.running.expected().filter_map(|expected| {
        let on_nodes = state.running.job(expected)?;
        Some(BusyUntil {
            id: on_nodes.job.id,
            until: state.any_second(expected.until),
            runs: on_nodes.runs.clone(),
        })
    });
    Outlook {
        at: state.now,
        busy: busy.collect(),
        wanted: wanted(state, &planned),
        planned,
    }
}

/// [`Outlook::wanted`] alone.
pub(crate) fn wanted_of(state: &State, policy: &Policy) -> Vec<Wanted> {
    wanted(state, &planned_starts(state, policy))
}

/// Planned starts, by time.
fn planned_starts(state: &State, policy: &Policy) -> Vec<PlannedStart> {
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

fn planned(job: &BatchJob, start: i64, runs: Vec<Run>) -> PlannedStart {
    PlannedStart {
        id: job.id,
        start,
        until: job.asked_until(start),
        runs,
    }
}

/// The planned start of one job, all others running on as they do.
fn head(state: &State, head: Option<&Waiting>, alike: bool) -> Vec<PlannedStart> {
    let Some(Waiting { job, .. }) = head else {
        return Vec::new();
    };
    if !alike || state.machine.layout == crate::machine::Layout::Contiguous {
        let found = state
            .sets()
            .find(job.nodes, job.walltime.max(1), state.machine.layout);
        let found = found.map(|(start, runs)| planned(job, start, runs));
        return found.into_iter().collect();
    }
    let at = easy::shadow(state, job.nodes).at;
    let mut free = state.free.clone();
    for expected in state.running.expected() {
        if state.any_second(expected.until) > at {
            break;
        }
        if let Some(on_nodes) = state.running.job(expected) {
            free.insert(&on_nodes.runs);
        }
    }
    let runs = free.lowest(job.nodes);
    runs.map(|runs| planned(job, at, runs))
        .into_iter()
        .collect()
}

/// Which nodes jobs with reserved starts would take by first fit, if all that runs or is
/// planned lasts as long as it asked for.
fn predict(state: &State, policy: &Conservative<Count>) -> Vec<PlannedStart> {
    let reserved = policy.reserved.iter();
    let mut starts: Vec<(i64, &BatchJob)> = reserved
        .filter_map(|entry| Some((entry.slot.as_ref()?.start, &entry.waiting.job)))
        .collect();
    starts.sort_by_key(|&(start, _)| start);
    let mut free = state.free.clone();
    let mut running = state.running.expected().peekable();
    let mut done: Vec<PlannedStart> = Vec::new();
    // The ends of planned jobs, with their places in `done`.
    let mut ends = std::collections::BinaryHeap::new();
    for (start, job) in starts {
        while let Some(expected) = running.next_if(|e| state.any_second(e.until) <= start) {
            if let Some(on_nodes) = state.running.job(expected) {
                free.insert(&on_nodes.runs);
            }
        }
        while let Some(&std::cmp::Reverse((end, place))) = ends.peek() {
            if end > start {
                break;
            }
            ends.pop();
            if let Some(PlannedStart { runs, .. }) = done.get(place) {
                free.insert(runs);
            }
        }
        let runs = free.take(job.nodes);
        ends.push(std::cmp::Reverse((job.asked_until(start), done.len())));
        done.push(planned(job, start, runs));
    }
    done
}

/// The earliest moment at which each present hole is wanted.
fn wanted(state: &State, planned: &[PlannedStart]) -> Vec<Wanted> {
    let plans = planned.iter().map(|plan| {
        let mut nodes = NodeSet::empty(state.machine.nodes);
        nodes.insert(&plan.runs);
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
    let mut wanted: Vec<Wanted> = claims
        .iter()
        .map(|(at, nodes)| (Some(*at), nodes))
        .chain([(None, &left)])
        .flat_map(|(at, nodes)| nodes.runs().map(move |nodes| Wanted { nodes, at }))
        .collect();
    wanted.sort_by_key(|wanted| wanted.nodes.first);
    wanted
}
