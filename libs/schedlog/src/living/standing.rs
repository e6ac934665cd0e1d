//! Whether a node is a hole.

use lacuna_model::Timestamp;

use super::settings::Marks;
use super::{Base, JobReport, JobState, NodeReport};

/// What a node is to us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// No job is there, or only pilots of ours that may stay.
    Hole,
    /// A pilot of ours is there and has been chosen to be preempted.
    Wanted {
        /// When it was chosen.
        since: Timestamp,
    },
    /// A job of others is there, or the node is promised to one, or a job's end is not over.
    Taken,
    /// Nobody can use it.
    Unusable {
        /// Why, in the scheduler's words and ours.
        reason: String,
    },
}

impl Marks {
    /// Whether a job is a pilot of ours.
    #[must_use]
    pub fn fit(&self, job: &JobReport) -> bool {
        let comment = Some(job.comment.as_str());
        self.fit_texts(&job.partition, &job.account, &job.user, comment, &job.name)
    }

    /// As [`Marks::fit`], of a job in other words; a scheduler without comments has none.
    pub(super) fn fit_texts(
        &self,
        partition: &str,
        account: &str,
        user: &str,
        comment: Option<&str>,
        name: &str,
    ) -> bool {
        let Some(wanted) = &self.partition else {
            return false;
        };
        let same = |mark: &Option<String>, found: &str| mark.as_deref().is_none_or(|m| m == found);
        let begins = |mark: &Option<String>, found: &str| {
            mark.as_deref().is_none_or(|m| found.starts_with(m))
        };
        partition == wanted
            && same(&self.account, account)
            && same(&self.user, user)
            && comment.is_none_or(|comment| begins(&self.comment, comment))
            && begins(&self.name, name)
    }
}

/// Judges a node by its state and the jobs that name it. Of two answers that contradict each
/// other, since they are not of the same moment, the one that forbids more holds.
#[must_use]
pub fn standing<'a>(
    node: &NodeReport,
    jobs: impl IntoIterator<Item = &'a JobReport>,
    pilots: &Marks,
    planned_are_holes: bool,
) -> Standing {
    if let Some(why) = node.flags.unusable() {
        let reason = match node.reason.as_str() {
            "" => why.to_owned(),
            said => format!("{why}: {said}"),
        };
        return Standing::Unusable { reason };
    }
    let wanted_partition = |name: &str| {
        pilots
            .partition
            .as_deref()
            .is_none_or(|wanted| wanted == name)
    };
    let mut open = node.partitions.iter().filter(|p| wanted_partition(&p.name));
    if !open.clone().any(|p| p.up) {
        let reason = match open.next() {
            Some(partition) => format!("partition {} is closed", partition.name),
            None => "in no partition of ours".to_owned(),
        };
        return Standing::Unusable { reason };
    }
    let mut ours = 0_usize;
    let mut wanted = None;
    for job in jobs {
        match job.state {
            JobState::Over(_) | JobState::Pending => continue,
            JobState::Running | JobState::Configuring if pilots.fit(job) => {}
            _ => return Standing::Taken,
        }
        ours = ours.saturating_add(1);
        // Of several the first that was chosen.
        wanted = match (wanted, job.preempted) {
            (Some(a), Some(b)) if b < a => Some(b),
            (None, found) => found,
            (found, _) => found,
        };
    }
    if let Some(since) = wanted {
        return Standing::Wanted { since };
    }
    let flags = &node.flags;
    if flags.completing || flags.reserved {
        return Standing::Taken;
    }
    match (flags.base, ours) {
        // Slurm lets our pilot stay until the promise falls due, and then preempts it.
        (_, 1..) => Standing::Hole,
        (Base::Idle, 0) if !flags.planned || planned_are_holes => Standing::Hole,
        // In use by a job that `squeue` does not show us, or that has begun or ended between
        // the two answers.
        _ => Standing::Taken,
    }
}
