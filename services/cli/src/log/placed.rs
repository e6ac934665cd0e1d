//! Batch jobs with the nodes that they ran on, as a trace.

use lacuna_trace::Log;

use super::input::Input;
use super::jobs_on_nodes::JobsOnNodes;
use super::machine;
use super::options::LogOptions;
use super::part::HoleHistory;
use super::progress::Bar;
use super::summary::{HoleSource, LogSummary};
use crate::error::{CliError, Result};

/// Reads the jobs.
///
/// # Errors
/// As [`load`](super::load()).
pub(super) fn read(options: &LogOptions, bar: &mut Bar) -> Result<Input> {
    // A sample has used up the first jobs, so the log is opened again.
    let Log::Jobs(mut log) = options.open()? else {
        return Err(CliError::failed("the log has changed while it was read"));
    };
    options.refuse_unused("says on which nodes its jobs ran, and when", None)?;
    let mut summary = LogSummary::new(&options.file, log.format().name(), HoleSource::Placed);
    let mut jobs_on_nodes = JobsOnNodes::read(options, &mut log, bar)?;
    summary.damage(log.damage());
    summary.computer = log.header().computer;
    let (span, holes) = jobs_on_nodes.holes(options.window.start);
    machine::of_placed(options, &jobs_on_nodes, &mut summary)?;
    let recorded = HoleHistory {
        holes,
        span: Some(span),
        begins: "the end of its first job",
        activity: Some(std::mem::take(&mut jobs_on_nodes.activity)),
    };
    let (trace, chosen) = recorded.part(options, &mut summary)?;
    jobs_on_nodes.describe(options, &log, &trace, chosen.as_ref(), &mut summary);
    Ok(Input {
        summary,
        recording: Box::new(trace),
    })
}
