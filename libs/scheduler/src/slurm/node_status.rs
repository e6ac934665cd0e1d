//! Classification of a node of Slurm.

use crate::job::JobState;
use crate::node_status::NodeStatus;
use crate::shared::Marks;
use crate::slurm::{Base, JobReport, NodeReport};

impl Marks {
    /// Whether a job is one of our own pilots.
    #[must_use]
    pub fn fit(&self, job: &JobReport) -> bool {
        let comment = Some(job.comment.as_str());
        self.fit_texts(&job.partition, &job.account, &job.user, comment, &job.name)
    }
}

/// Classifies a node by its state and the jobs that name it. The answers of `sinfo` and `squeue`
/// are of different moments and may contradict each other. The more restrictive one holds then.
#[must_use]
pub fn node_status<'a>(
    node: &NodeReport,
    jobs: impl IntoIterator<Item = &'a JobReport>,
    pilots: &Marks,
    planned_are_holes: bool,
) -> NodeStatus {
    if let Some(why) = node.flags.unusable() {
        let reason = match node.reason.as_str() {
            "" => why.to_owned(),
            text => format!("{why}: {text}"),
        };
        return NodeStatus::Unusable { reason };
    }
    let wanted_partition = |name: &str| pilots.has(name).unwrap_or(true);
    let mut open = node.partitions.iter().filter(|p| wanted_partition(&p.name));
    if !open.clone().any(|p| p.up) {
        let reason = match open.next() {
            Some(partition) => format!("partition {} is closed", partition.name),
            None => "in no partition of ours".to_owned(),
        };
        return NodeStatus::Unusable { reason };
    }
    let mut ours = 0_usize;
    let mut wanted = None;
    for job in jobs {
        match job.state {
            JobState::Over(_) | JobState::Pending => continue,
            JobState::Running | JobState::Configuring if pilots.fit(job) => {}
            _ => return NodeStatus::Taken,
        }
        ours = ours.saturating_add(1);
        // With several preempted pilots, the earliest choice counts.
        wanted = match (wanted, job.preempted) {
            (Some(a), Some(b)) if b < a => Some(b),
            (None, found) => found,
            (found, _) => found,
        };
    }
    if let Some(since) = wanted {
        return NodeStatus::Wanted { since };
    }
    let flags = &node.flags;
    if flags.completing || flags.reserved {
        return NodeStatus::Taken;
    }
    match (flags.base, ours) {
        // Slurm lets a pilot stay until the planned start, and then preempts it.
        (_, 1..) => NodeStatus::Hole,
        (Base::Idle, 0) if !flags.planned || planned_are_holes => NodeStatus::Hole,
        // `squeue` does not show the job to us, or the job has begun or ended between the two
        // answers.
        _ => NodeStatus::Taken,
    }
}
