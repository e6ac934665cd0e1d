//! Jobs, and what has become of them.

use crate::placement::Placement;

/// A job: a gang of GPUs with an amount of work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Job {
    /// Its id in the trace.
    pub id: u64,
    /// Its arrival, seconds.
    pub arrival_s: f64,
    /// The GPUs that it asks for.
    pub gpus: u32,
    /// Seconds per sample on one GPU.
    pub sample_s: f64,
    /// Its work, samples.
    pub samples: f64,
    /// Its profile among [`crate::Profiles`].
    pub(crate) profile: usize,
}

impl Job {
    /// Time with all its GPUs and without communication, seconds.
    #[must_use]
    pub fn ideal_s(&self) -> f64 {
        self.sample_s * self.samples / f64::from(self.gpus)
    }
}

/// A job that has arrived and not ended, as a policy sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobState {
    /// The job.
    pub job: Job,
    /// Its place among the jobs of the simulation.
    pub index: usize,
    /// Samples that are left.
    pub left: f64,
    /// Since when it has no GPUs, or had none before the present ones, seconds: its arrival, or the
    /// end of its last lease.
    pub waiting_since_s: f64,
    /// The newest start, seconds.
    pub started_s: Option<f64>,
    /// Time with GPUs, seconds.
    pub held_s: f64,
    /// Service so far, GPU-seconds.
    pub served_gpu_s: f64,
    /// What it has now.
    pub run: Option<Run>,
}

/// A job's GPUs and its speed on them.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The GPUs.
    pub placement: Placement,
    /// Their number.
    pub gpus: u32,
    /// Its speed.
    pub speed: f64,
}

impl JobState {
    /// A job that has just arrived.
    #[must_use]
    pub const fn new(job: Job, index: usize) -> Self {
        Self {
            job,
            index,
            left: job.samples,
            waiting_since_s: job.arrival_s,
            started_s: None,
            held_s: 0.0,
            served_gpu_s: 0.0,
            run: None,
        }
    }

    /// GPU-seconds of computing that are left.
    #[must_use]
    pub fn left_gpu_s(&self) -> f64 {
        self.left * self.job.sample_s
    }

    /// Progress over the progress that its time with GPUs could have brought: 0 for a new job, 1
    /// for one that never lost time to the network. Dally's priority.
    #[must_use]
    pub fn score(&self) -> f64 {
        if self.held_s <= 0.0 {
            return 0.0;
        }
        let done = 1.0 - self.left / self.job.samples;
        done * self.job.ideal_s() / self.held_s
    }
}
