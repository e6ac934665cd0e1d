//! What a policy sees, and what it answers.

use crate::cluster::Cluster;
use crate::job::JobState;
use crate::placement::Placement;
use crate::speed::Speeds;
use crate::terms::Terms;

/// What a policy sees. All jobs are settled: their figures are those of now.
#[derive(Debug)]
pub struct View<'a> {
    /// The time, seconds.
    pub now_s: f64,
    /// The cluster with its free GPUs.
    pub cluster: &'a Cluster,
    /// Jobs without GPUs, in order of arrival.
    pub waiting: &'a [&'a JobState],
    /// Jobs with GPUs, in order of arrival.
    pub running: &'a [&'a JobState],
    /// The speeds of placements.
    pub speeds: &'a Speeds,
    /// The terms.
    pub terms: &'a Terms,
}

impl View<'_> {
    /// The length of a lease, seconds; an hour without leases.
    pub(super) fn lease_s(&self) -> f64 {
        self.terms.lease.map_or(3600.0, |lease| lease.length_s)
    }

    /// The speed of a job with the GPUs that it asks for, consolidated.
    pub(super) fn consolidated(&self, job: &JobState) -> f64 {
        self.speeds.consolidated(&job.job, job.job.gpus)
    }
}

/// What a policy answers: jobs that give their GPUs back, and then jobs that get GPUs, each by its
/// [`JobState::index`]. A job in both moves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Running jobs that give their GPUs back.
    pub stops: Vec<usize>,
    /// Jobs without GPUs, or stopped by this plan, with the GPUs that they get.
    pub starts: Vec<(usize, Placement)>,
}

/// A policy.
pub trait Policy {
    /// Plans.
    fn plan(&mut self, view: &View<'_>) -> Plan;

    /// When the policy wants to plan again though nothing happens, seconds; asked after each plan.
    fn wake_s(&self) -> Option<f64> {
        None
    }
}
