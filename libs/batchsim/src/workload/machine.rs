//! A machine made up from the workload model, as a recording of its holes.

use lacuna_model::{HoleRecord, NodeId, PlannedStart, Span, Timestamp};

use crate::{Announcer, BatchError, Machine, Simulator, records};

use super::calibrate::{Calibrated, Workload, WorkloadError, calibrate};

/// Midnight of the generated machine's first day: Monday, 6 January 2025, UTC.
const ORIGIN: Timestamp = Timestamp::from_unix(1_736_121_600);

/// A generated machine leaves this share of its node-time idle, in the middle of the 4 to 10 %
/// that big machines do.
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

/// Names `n1` to as many as there are, with leading zeros so that they sort by number.
#[must_use]
pub fn node_names(nodes: u32) -> Vec<NodeId> {
    let digits = nodes.to_string().len();
    (1..=nodes)
        .filter_map(|number| NodeId::new(format!("n{number:0digits$}")).ok())
        .collect()
}

/// Draws a workload and runs it through the scheduler: the holes of `workload.days` days, after
/// a warm-up. Holes that are older than the first day begin at its midnight.
///
/// # Errors
/// As [`calibrate`].
pub fn machine(workload: &Workload) -> Result<GeneratedMachine, WorkloadError> {
    Ok(recorded(workload.nodes, &calibrate(workload)?))
}

/// Second 0 of what was calibrated.
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

/// The holes of a generated machine that leaves 7 % of its node-time idle, give or take what
/// the workload's own variation makes of it.
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
/// of them whenever a job is submitted, starts or ends; both in order of time. Holes and planned
/// starts that are older than the first midnight begin there.
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

/// A machine as busy as big ones are.
fn workload(nodes: u32, days: u32, seed: u64) -> Workload {
    Workload {
        nodes,
        days,
        seed,
        utilisation: 1.0 - IDLE,
    }
}

/// What the scheduler announces while it makes the calibrated schedule.
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
    announce(from, announcer.step(from, [], &simulator.wanted()));
    while simulator.next_at().is_some_and(|at| at < until) {
        let Some(step) = simulator.tick()? else {
            break;
        };
        let at = step.at;
        let taken: Vec<u32> = step.taken.iter().flat_map(|run| run.nodes()).collect();
        announce(at, announcer.step(at, taken, &simulator.wanted()));
    }
    Ok(planned)
}
