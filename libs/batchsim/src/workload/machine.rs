//! A generated machine, as a trace of its holes.

use lacuna_model::{HoleRecord, NodeId, PlannedStart, Span, Timestamp};

use crate::{Announcer, BatchError, Machine, Simulator, records};

use super::calibrate::{Calibrated, Workload, WorkloadError, calibrate};

/// Midnight of the generated machine's first day: Monday, 6 January 2025, UTC.
const ORIGIN: Timestamp = Timestamp::from_unix(1_736_121_600);

/// The idle share of a generated machine's node-time, in the middle of the 4 to 10 % of big
/// machines.
const IDLE: f64 = 0.07;

/// A generated machine.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratedMachine {
    /// The nodes' names, in the order of the scheduler's first fit.
    pub nodes: Vec<NodeId>,
    /// The holes, sorted by start.
    pub holes: Vec<HoleRecord>,
    /// Midnight of the first day.
    pub from: Timestamp,
    /// Midnight after the last day.
    pub until: Timestamp,
    /// Share of the node-time used by batch jobs.
    pub utilisation: f64,
}

/// Names from `n1` on, with leading zeros so that they sort by number.
#[must_use]
pub fn node_names(nodes: u32) -> Vec<NodeId> {
    let digits = nodes.to_string().len();
    (1..=nodes)
        .filter_map(|number| NodeId::new(format!("n{number:0digits$}")).ok())
        .collect()
}

/// Draws a workload and simulates it: the holes of `workload.days` days after a warm-up. Holes that
/// are older than the first day begin at its midnight.
///
/// # Errors
/// As [`calibrate`].
pub fn machine(workload: &Workload) -> Result<GeneratedMachine, WorkloadError> {
    Ok(recorded(workload.nodes, &calibrate(workload)?))
}

/// The Unix time of second 0 of a calibrated workload.
fn zero(calibrated: &Calibrated) -> Timestamp {
    ORIGIN - Span::from_secs(calibrated.from)
}

/// The days that count.
fn recorded(nodes: u32, calibrated: &Calibrated) -> GeneratedMachine {
    let names = node_names(nodes);
    let zero = zero(calibrated);
    let window = calibrated
        .schedule
        .window(calibrated.from, calibrated.until);
    GeneratedMachine {
        holes: records(&window, &names, zero),
        nodes: names,
        from: ORIGIN,
        until: zero + Span::from_secs(calibrated.until),
        utilisation: calibrated.utilisation,
    }
}

/// The holes of a generated machine that leaves about 7 % of its node-time idle. The share varies
/// with the workload.
///
/// # Errors
/// As [`calibrate`].
pub fn generated_machine(
    nodes: u32,
    days: u32,
    seed: u64,
) -> Result<Vec<HoleRecord>, WorkloadError> {
    Ok(machine(&workload(nodes, days, seed))?.holes)
}

/// The holes of [`generated_machine`], and the planned starts that its batch scheduler announces
/// for them, both in order of time. Planned starts change when a job is submitted, starts or ends.
/// Holes and planned starts that are older than the first midnight begin there.
///
/// # Errors
/// As [`calibrate`].
pub fn generated_trace(
    nodes: u32,
    days: u32,
    seed: u64,
) -> Result<(Vec<HoleRecord>, Vec<PlannedStart>), WorkloadError> {
    let calibrated = calibrate(&workload(nodes, days, seed))?;
    let machine = recorded(nodes, &calibrated);
    let planned = planned_starts(&machine.nodes, &calibrated)?;
    Ok((machine.holes, planned))
}

/// The workload of a machine as busy as big ones.
fn workload(nodes: u32, days: u32, seed: u64) -> Workload {
    Workload {
        nodes,
        days,
        seed,
        utilisation: 1.0 - IDLE,
    }
}

/// The planned starts that the scheduler announces during the calibrated schedule.
fn planned_starts(
    names: &[NodeId],
    calibrated: &Calibrated,
) -> Result<Vec<PlannedStart>, BatchError> {
    let (from, until) = (calibrated.from, calibrated.until);
    let nodes = calibrated.schedule.nodes;
    let mut simulator = Simulator::new(Machine::new(nodes), calibrated.jobs.iter().copied())?;
    let mut announcer = Announcer::new(nodes);
    let zero = zero(calibrated);
    let second = |at: i64| zero + Span::from_secs(at);
    let mut planned = Vec::new();
    let mut announce = |at: i64, changes: &[(u32, Option<i64>)]| {
        planned.extend(changes.iter().filter_map(|&(node, start)| {
            Some(PlannedStart {
                at: second(at),
                node: names.get(node as usize)?.clone(),
                start: start.map(second),
            })
        }));
    };
    while simulator.next_at().is_some_and(|at| at <= from) {
        simulator.tick()?;
    }
    announce(from, announcer.step(from, [], &simulator.planned_holes()));
    while simulator.next_at().is_some_and(|at| at < until) {
        let Some(step) = simulator.tick()? else {
            break;
        };
        let at = step.at;
        let taken: Vec<u32> = step.taken.iter().flat_map(|range| range.nodes()).collect();
        announce(at, announcer.step(at, taken, &simulator.planned_holes()));
    }
    Ok(planned)
}
