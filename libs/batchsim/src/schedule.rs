//! A whole schedule in memory, for workloads that fit into it.

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
    /// The first second of the hole.
    pub from: i64,
    /// The first second after it.
    pub until: i64,
    /// Whether the schedule ended before the hole.
    pub censored: bool,
}

/// The schedule of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Schedule {
    /// The number of nodes of the machine.
    pub nodes: u32,
    /// The first second: the first submission.
    pub start: i64,
    /// The first second after the schedule.
    pub end: i64,
    /// Jobs in order of their start.
    pub placements: Vec<Placement>,
    /// Holes in order of their end.
    pub holes: Vec<NodeHole>,
    /// Jobs that had not started at the end.
    pub waiting: usize,
}

/// Schedules jobs on a machine of `nodes` nodes, by EASY with first fit, until all have ended or
/// until second `until`.
///
/// Jobs submitted at the same second wait in the order of the list. A job beyond its walltime is
/// expected to end at the next second, again and again.
///
/// # Errors
/// [`BatchError`] names the job and what was expected.
pub fn simulate(nodes: u32, jobs: &[BatchJob], until: Option<i64>) -> Result<Schedule, BatchError> {
    simulate_on(Machine::new(nodes), jobs, until)
}

/// [`simulate`] on any machine. Holes are idle nodes that are neither drained nor reserved.
///
/// # Errors
/// [`BatchError`] names the invalid value and what was expected.
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
        for node in step.taken.iter().flat_map(|range| range.nodes()) {
            if let Some(from) = since.get_mut(node as usize).and_then(Option::take) {
                schedule.holes.push(NodeHole {
                    node,
                    from,
                    until: step.at,
                    censored: false,
                });
            }
        }
        for node in step.freed.iter().flat_map(|range| range.nodes()) {
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
    /// The holes within `[from, until)`. Holes that began before are cut at `from`. Holes that
    /// ended after are cut at `until` and marked as censored.
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

    /// The share of the node-time in `[from, until)` with a job.
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

/// Holes as records of a trace: with named nodes, second 0 at `origin`, sorted by start and node.
/// Nodes without a name are left out.
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
