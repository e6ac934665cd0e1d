//! The list of schedulers: the row of each, and what is found by going through the rows.

use lacuna_model::{SchedulerName, SettingError};

use crate::live::Live;
use crate::scheduler::{Scheduler, Sections};
use crate::{flux, lsf, pbs, slurm};

/// The row of a scheduler.
#[must_use]
pub const fn row(name: SchedulerName) -> &'static dyn Scheduler {
    match name {
        SchedulerName::Slurm => &slurm::Row,
        SchedulerName::Pbs => &pbs::Row,
        SchedulerName::Lsf => &lsf::Row,
        SchedulerName::Flux => &flux::Row,
    }
}

/// Checks that pilots can be submitted to the scheduler of `[control.pilots]`.
///
/// # Errors
/// The setting, if none can.
pub fn check_pilots(name: SchedulerName) -> Result<(), SettingError> {
    let ways = row(name).pilots();
    ways.map(|_| ())
        .map_err(|lacks| lacks.setting("control.pilots.scheduler"))
}

impl Sections<'_> {
    /// The live schedulers that the sections configure.
    #[must_use]
    pub fn live(&self) -> Vec<Box<dyn Live>> {
        let all = SchedulerName::ALL.into_iter();
        all.filter_map(|name| row(name).live(self)).collect()
    }
}
