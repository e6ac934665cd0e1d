//! One record for batch jobs of every scheduler.

use lacuna_model::{Span, Timestamp};
use lacuna_records::JobOutcome;

/// One life of a batch job on its nodes: a requeued job has one record for each start.
///
/// Readers fill the same record repeatedly; [`JobRecord::clear`] keeps its memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobRecord {
    /// Job id, with array index or component.
    pub id: String,
    /// Time of submission.
    pub submit: Option<Timestamp>,
    /// Start; `None` if the job never started.
    pub start: Option<Timestamp>,
    /// End; `None` if the job never started, or still ran when the log ended.
    pub end: Option<Timestamp>,
    /// Number of nodes, held or requested; 0 if the log does not contain it.
    pub nodes: u32,
    /// Requested walltime; `None` if unlimited, or if the log does not contain it.
    pub walltime: Option<Span>,
    /// Nodes in Slurm's notation (`n[1-4,7],login`), see [`lacuna_records::hosts`]; empty if the log does
    /// not contain them.
    pub hosts: String,
    /// Outcome of the job.
    pub outcome: JobOutcome,
    /// User who submitted the job; empty if the log does not contain it.
    pub user: String,
    /// Queue or partition; empty if the log does not contain it.
    pub queue: String,
    /// Name of the job, up to a delimiter of the log in it; empty if the log does not contain it.
    pub name: String,
    /// Account or project; empty if the log does not contain it.
    pub account: String,
}

impl JobRecord {
    /// Empties the record but keeps its memory.
    pub fn clear(&mut self) {
        let Self {
            id,
            submit,
            start,
            end,
            nodes,
            walltime,
            hosts,
            outcome,
            user,
            queue,
            name,
            account,
        } = self;
        for text in [id, hosts, user, queue, name, account] {
            text.clear();
        }
        (*submit, *start, *end, *walltime) = (None, None, None, None);
        *nodes = 0;
        *outcome = JobOutcome::Unknown;
    }
}
