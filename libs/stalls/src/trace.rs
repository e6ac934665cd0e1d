//! The report of a trainer: durations of its newest steps, of all members.

use std::collections::BTreeSet;

use lacuna_model::Follows;
use serde::{Deserialize, Serialize};

use crate::change::{MOST_MEMBERS, within};
use crate::error::Error;

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
    /// Those of them that are loaders on other nodes.
    #[serde(default, skip_serializing_if = "is_none")]
    pub remote: u32,
    /// How the batch follows the members; nothing where the program does not say it, or counts its
    /// samples by their worth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Follows>,
    /// Batches that each of them reads ahead.
    pub depth: u32,
    /// Batches whose gradients are added up for a step.
    #[serde(default = "one")]
    pub passes: u32,
    /// Whether `done` is the moment of a sum's end even if the member computed then.
    #[serde(default)]
    pub ends_known: bool,
    /// Size of each sum of a step, in bytes, in the order in which they are launched.
    pub bytes: Vec<u64>,
    /// Members that sent no times.
    #[serde(default)]
    pub silent: Vec<u32>,
    /// The members, or some of them where there are many: the slowest, and the fastest.
    pub ranks: Vec<RankTimes>,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

impl Trace {
    /// One report of the reports of single members, as programs that know nothing of Lacuna have.
    /// Members count their steps alike; those that not all of them have are left out.
    ///
    /// # Errors
    /// [`Error::Empty`] without reports, [`Error::Limit`] for more than 65536 members, [`Error::Apart`]
    /// for reports of different runs.
    pub fn joined(parts: Vec<Self>) -> Result<Self, Error> {
        let mut parts = parts.into_iter();
        let mut whole = parts.next().ok_or(Error::Empty)?;
        within("the number of members", whole.members, MOST_MEMBERS)?;
        for part in parts {
            let same = [
                ("version", part.version == whole.version),
                ("number of members", part.members == whole.members),
                ("number of workers", part.workers == whole.workers),
                ("number of batches ahead", part.depth == whole.depth),
                ("sizes of the sums", part.bytes == whole.bytes),
            ];
            if let Some(&(what, _)) = same.iter().find(|(_, same)| !same) {
                return Err(Error::Apart { what });
            }
            whole.ends_known &= part.ends_known;
            whole.passes = whole.passes.max(part.passes);
            whole.ranks.extend(part.ranks);
        }
        whole.ranks.sort_by_key(|times| times.rank);
        let spoken: BTreeSet<u32> = whole.ranks.iter().map(|times| times.rank).collect();
        if spoken.len() < whole.ranks.len() {
            return Err(Error::Apart { what: "members" });
        }
        whole.silent = (0..whole.members)
            .filter(|rank| !spoken.contains(rank))
            .collect();
        let steps = whole.ranks.iter().map(|times| times.wait.len()).min();
        for times in &mut whole.ranks {
            times.keep(steps.unwrap_or(0));
        }
        Ok(whole)
    }
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
    /// moment of the end if the member waited then, later if it computed, unless `ends_known`.
    pub done: Vec<Vec<f64>>,
}

impl RankTimes {
    /// Leaves the first steps.
    fn keep(&mut self, steps: usize) {
        let lists = [
            &mut self.wait,
            &mut self.hand,
            &mut self.prep,
            &mut self.fetch,
            &mut self.update,
            &mut self.rest,
        ];
        let sums = self.ready.iter_mut().chain(&mut self.done);
        lists
            .into_iter()
            .chain(sums)
            .for_each(|list| list.truncate(steps));
    }
}
