//! A list of holes, or of the states of nodes, as a trace.

use lacuna_sim::PoolTrace as _;
use lacuna_trace::{HoleList, HoleLog};

use super::error::unreadable;
use super::input::Input;
use super::options::LogOptions;
use super::part::HoleHistory;
use super::progress::Bar;
use super::summary::{HoleSource, LogSummary};
use super::{jobs_on_nodes, machine};
use crate::error::{CliError, Result};

/// Reads the list.
///
/// # Errors
/// As [`load`](super::load()).
pub(super) fn read(options: &LogOptions, mut log: HoleLog, bar: &mut Bar) -> Result<Input> {
    options.refuse_unused("has the idle nodes themselves", options.of_jobs())?;
    let mut summary = LogSummary::new(&options.file, log.format().name(), HoleSource::Holes);
    let mut records = 0_u64;
    let list = HoleList::collect((&mut log).inspect(|_| {
        records += 1;
        if records.is_multiple_of(4096) {
            bar.reading(&options.file, records);
        }
    }))
    .map_err(unreadable)?;
    summary.damage(log.damage());
    summary.refused_holes = list.refused;
    if options.reading.strict && list.refused.total() > 0 {
        return Err(CliError::failed(format!(
            "{}: holes contradict each other: {} end before they start, {} are there twice, {} \
             overlap another of their node",
            options.file.display(),
            list.refused.not_positive,
            list.refused.duplicates,
            list.refused.overlaps
        )));
    }
    machine::of_holes(options, &list.records, log.nodes(), &mut summary)?;
    let span = log.span();
    if span.is_none() {
        summary.notes.push(
            "a list of holes has nothing but holes: the time from the first to the last counts as \
             observed"
                .to_owned(),
        );
    }
    let recorded = HoleHistory {
        holes: list.records,
        span,
        begins: "its first look at the nodes",
        activity: None,
    };
    let (trace, _) = recorded.part(options, &mut summary)?;
    if summary.machine_nodes.is_none() {
        summary.notes.push(format!(
            "shares are of the {} that had a hole: say with --machine-nodes how many there are",
            jobs_on_nodes::nodes(trace.nodes())
        ));
    }
    Ok(Input {
        summary,
        recording: Box::new(trace),
    })
}
