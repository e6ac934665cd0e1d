//! LSF: `lsb.acct`, a record for each job that is over, and `lsb.events`, a record for each event
//! of a job.
//!
//! Source: IBM Spectrum LSF 10.1, "lsb.acct" and "lsb.events" in the configuration reference.
//! Records are fields in a fixed order with blanks between. Texts are in quotes, with doubled
//! quotes inside, and may hold line ends. A list follows its length. Lines that begin with `#` are
//! no records. Hosts are listed once for each slot, or once with the number of slots (`16*host`,
//! with `LSF_HPC_EXTENSIONS=SHORT_EVENTFILE`). A host of another cluster is named `host@cluster`.
//! It is no node of this cluster, and a job that ran only on such hosts has no record.

mod acct;
mod events;

pub(super) use acct::{Acct, knows as knows_acct};
pub(super) use events::{Events, knows as knows_events};

use crate::JobOutcome;

/// Bit of a job's status: it has exited without success.
const EXIT: i64 = 0x20;
/// Bit of a job's status: it is done.
const DONE: i64 = 0x40;

/// The outcome by status and termination reason (`TERM_*` in `lsbatch.h`).
const fn outcome(status: i64, reason: i64) -> JobOutcome {
    if status & DONE != 0 {
        return JobOutcome::Completed;
    }
    match reason {
        // Preempted, or requeued by owner or administrator.
        1 | 10 | 11 => JobOutcome::Preempted,
        // Run limit, deadline, processor time limit.
        5 | 6 | 12 => JobOutcome::Timeout,
        // By force or not, owner or administrator.
        8 | 9 | 14 | 15 => JobOutcome::Cancelled,
        _ => JobOutcome::Failed,
    }
}
