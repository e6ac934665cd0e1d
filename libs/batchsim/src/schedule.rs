//! A whole schedule in memory, for workloads that fit there.

use lacuna_model::{HoleRecord, NodeId, Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::job::{BatchError, BatchJob, Placement};
use crate::machine::Machine;
use crate::simulator::Simulator;

/// A time during which one node had no job: `[from, until)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHole {
    /// The node's number, from 0.
    pub node: u32,
    /// Its first second.
    pub from: i64,
    /// The first second after it.
    pub until: i64,
    /// Whether the schedule ended first.
    pub censored: bool,
}

/// What the scheduler made of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Schedule {
    /// How many nodes the machine has.
    pub nodes: u32,
    /// The first second: the first submission.
    pub start: i64,
    /// The first second that is not covered.
    pub end: i64,
    /// Jobs in order of their start.
    pub placements: Vec<Placement>,
    /// Holes in order of their end.
    pub holes: Vec<NodeHole>,
    /// Jobs that had not started at the end.
    pub waiting: usize,
}

/// Runs jobs on a machine of `nodes` nodes, by EASY with first fit, until all have ended or
/// until second `until`.
///
/// Jobs that are submitted at the same second wait in the order in which they are given. A job
/// that runs beyond its walltime is expected to end at the next second, over and over.
///
/// # Errors
/// [`BatchError`] names the job and what was expected.
pub fn simulate(nodes: u32, jobs: &[BatchJob], until: Option<i64>) -> Result<Schedule, BatchError> {
    simulate_on(Machine::new(nodes), jobs, until)
}

/// As [`simulate`], on any machine. Holes are idle nodes that are neither drained nor reserved.
///
/// # Errors
/// [`BatchError`] names what makes no sense, and what was expected.
pub fn simulate_on(
    machine: Machine,
    jobs: &[BatchJob],
    until: Option<i64>,
) -> Result<Schedule, BatchError> {
    for job in jobs {
        machine.admits(job)?;
    }
    let mut order: Vec<(usize, &BatchJob)> = jobs.iter().enumerate().collect();
    order.sort_by_key(|(_, job)| job.submit);
    let nodes = machine.nodes;
    let mut simulator = Simulator::new(machine, order.iter().map(|(_, job)| **job))?;
    let mut since: Vec<Option<i64>> = vec![None; nodes as usize];
    let mut schedule = Schedule {
        nodes,
        start: order.first().map_or(0, |(_, job)| job.submitted()),
        placements: Vec::with_capacity(jobs.len()),
        ..Schedule::default()
    };
    let before = |at: i64| until.is_none_or(|until| at < until);
    while simulator.next_at().is_some_and(before) {
        let Some(step) = simulator.step()? else {
            break;
        };
        if !before(step.at) {
            break;
        }
        for node in step.taken.iter().flat_map(|run| run.nodes()) {
            if let Some(from) = since.get_mut(node as usize).and_then(Option::take) {
                schedule.holes.push(NodeHole {
                    node,
                    from,
                    until: step.at,
                    censored: false,
                });
            }
        }
        for node in step.freed.iter().flat_map(|run| run.nodes()) {
            if let Some(idle) = since.get_mut(node as usize) {
                *idle = Some(step.at);
            }
        }
        for placement in step.started {
            let place = order.get(placement.job).map_or(0, |(place, _)| *place);
            schedule.placements.push(Placement {
                job: place,
                ..placement.clone()
            });
        }
        schedule.end = step.at;
    }
    schedule.end = until.unwrap_or(schedule.end).max(schedule.start);
    schedule.waiting = jobs.len().saturating_sub(schedule.placements.len());
    for (node, idle) in (0..).zip(&since) {
        if let Some(from) = idle.filter(|&from| from < schedule.end) {
            schedule.holes.push(NodeHole {
                node,
                from,
                until: schedule.end,
                censored: true,
            });
        }
    }
    Ok(schedule)
}

impl Schedule {
    /// The part of the schedule's holes within `[from, until)`: holes that began before are
    /// cut at `from`, holes that ended after are cut at `until` and marked as censored.
    #[must_use]
    pub fn window(&self, from: i64, until: i64) -> Vec<NodeHole> {
        let until = until.min(self.end);
        self.holes
            .iter()
            .filter(|hole| hole.until > from && hole.from < until)
            .map(|hole| NodeHole {
                from: hole.from.max(from),
                until: hole.until.min(until),
                censored: hole.until > until || (hole.censored && hole.until == until),
                ..*hole
            })
            .collect()
    }

    /// Share of the node-time in `[from, until)` during which nodes had a job.
    #[must_use]
    pub fn utilisation(&self, from: i64, until: i64) -> f64 {
        let until = until.min(self.end);
        let offered = (until - from) as f64 * f64::from(self.nodes);
        let idle: i64 = self
            .window(from, until)
            .iter()
            .map(|hole| hole.until - hole.from)
            .sum();
        if offered > 0.0 {
            1.0 - idle as f64 / offered
        } else {
            0.0
        }
    }
}

/// Holes as a recording has them: named nodes, second 0 at `origin`, sorted by start and node.
/// Numbers without a name are left out.
#[must_use]
pub fn records(holes: &[NodeHole], names: &[NodeId], origin: Timestamp) -> Vec<HoleRecord> {
    let mut holes: Vec<&NodeHole> = holes.iter().collect();
    holes.sort_unstable_by_key(|hole| (hole.from, hole.node));
    holes
        .into_iter()
        .filter_map(|hole| {
            Some(HoleRecord {
                node: names.get(hole.node as usize)?.clone(),
                from: origin + Span::from_secs(hole.from),
                until: origin + Span::from_secs(hole.until),
                censored: hole.censored,
            })
        })
        .collect()
}
