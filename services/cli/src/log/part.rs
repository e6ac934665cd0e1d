//! The part of a log in memory that is asked for.

use std::collections::HashSet;

use lacuna_model::{HoleRecord, NodeId, Timestamp};
use lacuna_sim::HoleTrace;

use super::in_memory::HolesInMemory;
use super::options::LogOptions;
use super::outages::Activity;
use super::summary::LogSummary;
use crate::error::{CliError, Result};
use crate::output::{iso, iso_short};

/// The holes of a log and the time that it covers.
pub(super) struct HoleHistory {
    pub(super) holes: Vec<HoleRecord>,
    /// The time in which nodes were watched. It exceeds the time from the first to the last hole if
    /// all nodes were busy at an end. None: the log is a bare list of holes.
    pub(super) span: Option<(Timestamp, Timestamp)>,
    /// The event that begins this time, in words.
    pub(super) begins: &'static str,
    /// Starts and ends of the jobs, if the log has jobs.
    pub(super) activity: Option<Activity>,
}

impl HoleHistory {
    /// The trace of the requested part, which begins at the start of the log or at the first
    /// submission of trainers; and the chosen nodes, if not all count.
    ///
    /// # Errors
    /// Nothing of the log is left, or a file beside it is wrong.
    pub(super) fn part(
        self,
        options: &LogOptions,
        summary: &mut LogSummary,
    ) -> Result<(HoleTrace, Option<HashSet<NodeId>>)> {
        let (memory, notes) = HolesInMemory::new(options, self.holes, self.activity)?;
        summary.notes.extend(notes);
        if let (Some(chosen), Some(nodes)) = (options.first_nodes, &mut summary.machine_nodes) {
            let chosen = u32::try_from(chosen).unwrap_or(u32::MAX);
            if chosen < *nodes {
                (*nodes, summary.nodes_from) = (chosen, "by --first-nodes");
            }
        }
        if summary.machine_nodes.is_none() && memory.has_outages() {
            let chosen = options
                .first_nodes
                .and_then(|count| u32::try_from(count).ok());
            summary.machine_nodes = Some(memory.named().min(chosen.unwrap_or(u32::MAX)));
            summary.nodes_from = "those that had a hole";
        }
        let Some((first, last)) = self.span.or_else(|| memory.span()) else {
            let path = options.file.display();
            let mut error = CliError::failed(format!("{path}: there is no hole in it"));
            error.remedy = summary.warning();
            return Err(error);
        };
        let start = start(options, (first, last))?;
        if let Some(from) = options.window.start.filter(|&from| from < first)
            && self.span.is_some()
        {
            summary.notes.push(format!(
                "--from {} lies before {}, {}, before which the log has almost no data: nodes seem \
                 idle there",
                iso_short(from),
                self.begins,
                iso_short(first)
            ));
        }
        let until = options.window.end.map_or(last, |until| until.min(last));
        summary.left_out = memory.left_out(start, until);
        let trace = memory.trace(start, Some(until));
        Ok((trace, memory.into_chosen()))
    }
}

/// The start: the requested one, else the first submission, but not before the log.
pub(super) fn start(
    options: &LogOptions,
    (first, last): (Timestamp, Timestamp),
) -> Result<Timestamp> {
    let (source, start) = match (options.window.start, options.submitted) {
        (Some(from), _) => ("--from", from),
        (None, Some(submitted)) => ("the first submission", submitted.max(first)),
        (None, None) => ("the beginning of the log", first),
    };
    if start >= last {
        return Err(CliError::failed(format!(
            "nothing of the log is left: {source} is {}, but {} ends at {}",
            iso(start),
            options.file.display(),
            iso(last)
        )));
    }
    match options.window.end {
        Some(until) if until <= start => Err(CliError::failed(format!(
            "nothing of the log is left: --until {} is not after {source}, {}",
            iso(until),
            iso(start)
        ))),
        _ => Ok(start),
    }
}
