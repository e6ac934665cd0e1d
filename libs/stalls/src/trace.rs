//! The report of a trainer: durations of its newest steps, of all members.

use serde::{Deserialize, Serialize};

/// The version of reports that is read.
pub const VERSION: u32 = 1;

/// What rank 0 of a trainer reports: `stalls` in its progress. Durations are microseconds, a list
/// over steps each, the oldest step first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// [`VERSION`].
    pub version: u32,
    /// Members that train together.
    pub members: u32,
    /// Worker processes of each member's loader; 0 if the program itself reads.
    pub workers: u32,
    /// Batches that each of them reads ahead.
    pub depth: u32,
    /// Size of each sum of a step, in bytes, in the order in which they are launched.
    pub bytes: Vec<u64>,
    /// Members that sent no times.
    #[serde(default)]
    pub silent: Vec<u32>,
    /// The members, or some of them where there are many: the slowest, and the fastest.
    pub ranks: Vec<RankTimes>,
}

/// The times of one member, by its own clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankTimes {
    /// The member.
    pub rank: u32,
    /// From the moment at which the program asked for a batch until a worker had read it.
    pub wait: Vec<f64>,
    /// From then until the program had it.
    pub hand: Vec<f64>,
    /// Of the reading of the batch, the time in which its thread computed or waited for a processor.
    pub prep: Vec<f64>,
    /// The rest of the reading: its thread slept, for a disk or a network.
    pub fetch: Vec<f64>,
    /// From the last sum to the end of the optimiser.
    pub update: Vec<f64>,
    /// From then until the program asked for the next batch.
    pub rest: Vec<f64>,
    /// For each sum, from the batch's arrival to its launch.
    pub ready: Vec<Vec<f64>>,
    /// For each sum, from the batch's arrival to the moment at which its end was seen. It is the
    /// moment of the end if the member waited then, later if it computed.
    pub done: Vec<Vec<f64>>,
}
