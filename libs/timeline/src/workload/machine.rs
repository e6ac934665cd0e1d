//! A machine made up from the workload model, as a recording of its holes.

use lacuna_model::{HoleRecord, NodeId, Span, Timestamp};

use crate::batch::records;

use super::calibrate::{Workload, WorkloadError, calibrate};

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
    let calibrated = calibrate(workload)?;
    let names = node_names(workload.nodes);
    let zero = ORIGIN - Span::from_secs(calibrated.from);
    let window = calibrated
        .schedule
        .window(calibrated.from, calibrated.until);
    Ok(GeneratedMachine {
        holes: records(&window, &names, zero),
        nodes: names,
        from: ORIGIN,
        until: zero + Span::from_secs(calibrated.until),
        utilisation: calibrated.utilisation,
    })
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
    let workload = Workload {
        nodes,
        days,
        seed,
        utilisation: 1.0 - IDLE,
    };
    Ok(machine(&workload)?.holes)
}
