//! Reads the log that the options name, as a trace.

use lacuna_trace::Log;

use super::from_slurm::Accounting;
use super::input::Input;
use super::options::LogOptions;
use super::progress::Bar;
use super::sample::Sample;
use super::{holes, placed, simulated};
use crate::error::Result;

/// Reads a log of any format; Slurm is asked for it first, if it is Slurm's accounting.
///
/// # Errors
/// The log cannot be read, is damaged under `--strict`, or has no hole in the requested part; the
/// size of its machine is unknown; a file beside it is wrong.
pub fn load(options: &LogOptions, bar: &mut Bar) -> Result<Input> {
    let Some(accounting) = Accounting::of(options, bar)? else {
        return read(options, bar);
    };
    let mut input = read(&accounting.read_by(options), bar).map_err(|mut error| {
        error.message = accounting.named(&error.message);
        error
    })?;
    let summary = &mut input.summary;
    for note in &mut summary.notes {
        *note = accounting.named(note);
    }
    summary.file = accounting.name;
    summary.notes.extend(accounting.notes);
    Ok(input)
}

fn read(options: &LogOptions, bar: &mut Bar) -> Result<Input> {
    let log = match options.open()? {
        Log::Holes(log) => return holes::read(options, log, bar),
        Log::Jobs(log) => log,
    };
    let sample = Sample::take(options, log)?;
    let mut input = if sample.names_nodes || options.from_slurm.is_some() {
        placed::read(options, bar)?
    } else {
        simulated::read(options, &sample, bar)?
    };
    // The hours of the day shift with the zone.
    if sample.format.has_local_times() && !options.names_zone {
        let note = "times that name no zone are taken as UTC (--time-zone)";
        input.summary.note(note.to_owned());
    }
    Ok(input)
}
