//! What a simulation comes to.

use crate::layout::Layout;
use crate::placement::Placement;

/// One job that has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ended {
    /// Its id.
    pub id: u64,
    /// Arrival and end, seconds.
    pub arrival_s: f64,
    /// End, seconds.
    pub end_s: f64,
    /// Time with GPUs, seconds.
    pub held_s: f64,
    /// GPU-seconds held.
    pub held_gpu_s: f64,
    /// Wall-clock time lost to communication, seconds.
    pub communication_s: f64,
    /// GPU-seconds lost to communication.
    pub communication_gpu_s: f64,
    /// Starts after the first, and moves.
    pub restarts: u32,
}

impl Ended {
    /// From arrival to end, seconds.
    #[must_use]
    pub fn completion_s(&self) -> f64 {
        self.end_s - self.arrival_s
    }
}

/// How far a gang is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Within a machine.
    Machine,
    /// Over machines of a rack.
    Rack,
    /// Over racks.
    Racks,
}

impl Kind {
    /// The kind of a placement.
    #[must_use]
    pub fn of(placement: &Placement, layout: Layout) -> Self {
        match placement.racks(layout).count() {
            ..=1 if placement.machines() <= 1 => Self::Machine,
            ..=1 => Self::Rack,
            _ => Self::Racks,
        }
    }
}

/// A machine's GPUs in the hands of one gang for some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// The machine.
    pub machine: u32,
    /// Number of its GPUs.
    pub gpus: u32,
    /// How far the gang is spread.
    pub kind: Kind,
    /// Start, seconds.
    pub from_s: f64,
    /// End, seconds.
    pub until_s: f64,
}

/// A whole simulation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// The jobs in the order of their ends.
    pub jobs: Vec<Ended>,
    /// The GPUs of the cluster.
    pub gpus: u32,
    /// Number of plans.
    pub plans: u64,
    /// What gangs had, if it was asked for.
    pub segments: Vec<Segment>,
}

impl Outcome {
    /// From the first arrival to the last end, seconds.
    #[must_use]
    pub fn makespan_s(&self) -> f64 {
        let first = self.jobs.iter().map(|job| job.arrival_s).reduce(f64::min);
        let last = self.jobs.iter().map(|job| job.end_s).reduce(f64::max);
        first.zip(last).map_or(0.0, |(first, last)| last - first)
    }

    /// Mean time from arrival to end, seconds; 0 without jobs.
    #[must_use]
    pub fn mean_completion_s(&self) -> f64 {
        let all: f64 = self.jobs.iter().map(Ended::completion_s).sum();
        all / self.jobs.len().max(1) as f64
    }

    /// A quantile of the time from arrival to end, seconds: the smallest completion time that at
    /// least this share of jobs does not exceed; 0 without jobs.
    #[must_use]
    pub fn completion_quantile_s(&self, share: f64) -> f64 {
        let mut all: Vec<f64> = self.jobs.iter().map(Ended::completion_s).collect();
        all.sort_unstable_by(f64::total_cmp);
        let at = (share * all.len() as f64).ceil() as usize;
        all.get(at.max(1) - 1).copied().unwrap_or(0.0)
    }

    /// Sum over jobs of wall-clock time lost to communication, seconds.
    #[must_use]
    pub fn communication_s(&self) -> f64 {
        self.jobs.iter().map(|job| job.communication_s).sum()
    }

    /// Sum over jobs of GPU-time lost to communication, GPU-seconds.
    #[must_use]
    pub fn communication_gpu_s(&self) -> f64 {
        self.jobs.iter().map(|job| job.communication_gpu_s).sum()
    }

    /// GPU-seconds held.
    #[must_use]
    pub fn held_gpu_s(&self) -> f64 {
        self.jobs.iter().map(|job| job.held_gpu_s).sum()
    }

    /// GPU-time held over the GPU-time of the makespan.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let whole = self.makespan_s() * f64::from(self.gpus);
        if whole > 0.0 {
            self.held_gpu_s() / whole
        } else {
            0.0
        }
    }

    /// Starts after the first, and moves, of all jobs.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.jobs.iter().map(|job| u64::from(job.restarts)).sum()
    }
}
