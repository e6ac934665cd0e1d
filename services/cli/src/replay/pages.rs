//! The report and the drawing of a replay.

use lacuna_report::{Source, drawing, from_replay, render};
use lacuna_sim::Replayed;

use super::case::Case;
use super::failed::failed;
use super::report::Target;
use super::request::{Request, Shown};
use crate::error::Result;
use crate::files::spare;
use crate::log::{HoleSource, LeftOut};

/// The files of the report and of the drawing, opened before the run: an unwritable one is found
/// before a long run instead of after it.
pub(super) struct Pages {
    report: Option<Target>,
    drawing: Option<Target>,
}

impl Shown {
    /// Whether the history of the replay is drawn.
    pub(super) const fn draws(&self) -> bool {
        self.report.is_some() || self.svg.is_some()
    }
}

impl Pages {
    /// Opens the files that are asked for.
    ///
    /// # Errors
    /// One cannot be written, or is one that is read.
    pub(super) fn open(request: &Request) -> Result<Self> {
        let Shown { report, svg, .. } = &request.shown;
        spare([report, svg].into_iter().flatten(), request.files())?;
        Ok(Self {
            report: report.as_deref().map(Target::open).transpose()?,
            drawing: svg.as_deref().map(Target::open).transpose()?,
        })
    }

    /// Writes the files.
    ///
    /// # Errors
    /// One cannot be written.
    pub(super) fn write(self, case: &Case<'_>, replayed: &Replayed) -> Result<()> {
        if self.report.is_none() && self.drawing.is_none() {
            return Ok(());
        }
        let (machine, notes) = case.log.about();
        let source = Source {
            pool: case.pool_options(),
            simulated: case.log.kind == HoleSource::Simulated,
            machine: &machine,
            left_out: case.log.left_out.as_ref().map(LeftOut::words),
            notes: &notes,
            ..Source::new(&case.log.file, case.trace, &case.trainers)
        };
        let report = from_replay(&source, replayed).map_err(failed)?;
        if let Some(target) = self.report {
            target.write(&render(&report))?;
        }
        if let Some(target) = self.drawing {
            target.write(&drawing(&report))?;
        }
        Ok(())
    }
}
