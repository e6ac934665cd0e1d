//! The list of schedulers: the row of each, and what is found by going through the rows.

use lacuna_model::pilots::Pilots;
use lacuna_model::{SchedulerName, SettingError};

use crate::live::Live;
use crate::scheduler::{Scheduler, Sections};
use crate::submit::Submission;
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

/// Checks that pilots can be submitted to the scheduler of `[control.pilots]`, and by a helper if one
/// is set.
///
/// # Errors
/// The setting, if none can.
pub fn check_pilots(pilots: &Pilots) -> Result<(), SettingError> {
    let key = "control.pilots.scheduler";
    let ways = row(pilots.scheduler).pilots();
    let ways = ways.map_err(|lacks| lacks.setting(key))?;
    if !pilots.by_helper() {
        return Ok(());
    }
    let submitter = (ways.submitter)(Submission {
        name: pilots.name.clone(),
        mark: String::new(),
        partition: pilots.partition.clone(),
        account: pilots.account.clone(),
        qos: pilots.qos.clone(),
        exclusive: pilots.exclusive,
        output: pilots.output.clone(),
        extra: pilots.extra.clone(),
        script: String::new(),
        chunk: pilots.chunk.clone(),
        time_min: None,
        all_users: true,
        programs: (ways.programs)(),
    });
    let owned = submitter.owned("");
    owned.map(|_| ()).map_err(|lacks| SettingError {
        key: "control.pilots.helper",
        value: pilots.helper.join(" "),
        expected: lacks.remedy,
    })
}

impl Sections<'_> {
    /// The live schedulers that the sections configure.
    #[must_use]
    pub fn live(&self) -> Vec<Box<dyn Live>> {
        let all = SchedulerName::ALL.into_iter();
        all.filter_map(|name| row(name).live(self)).collect()
    }
}
