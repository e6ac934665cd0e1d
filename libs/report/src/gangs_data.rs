//! What a policy of gangs did on one trace.

/// How far a gang is spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Within a machine.
    Machine,
    /// Over machines of a rack.
    Rack,
    /// Over racks.
    Racks,
}

/// GPUs of a machine in the hands of a gang for some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GangSegment {
    /// The machine's number.
    pub machine: u32,
    /// Number of GPUs.
    pub gpus: u32,
    /// How far the gang is spread.
    pub spread: Spread,
    /// Start, seconds.
    pub from_s: f64,
    /// End, seconds.
    pub until_s: f64,
}

/// A policy on one trace and cluster.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GangsPolicy {
    /// Its name.
    pub name: String,
    /// Times from arrival to end, seconds, in any order.
    pub completion_s: Vec<f64>,
    /// What gangs had.
    pub segments: Vec<GangSegment>,
}
