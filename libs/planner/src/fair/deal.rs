//! Who gets the nodes that remain above the water level (step 3).

#![expect(
    clippy::indexing_slicing,
    reason = "each row of choices is as wide as the nodes that are left at most"
)]

use std::cmp::Ordering;

use super::profile::{Profile, Score};

/// The best that some users come to on a number of nodes: their levels, ascending, and the sum
/// of their gains.
#[derive(Debug, Clone, Default, PartialEq)]
struct State {
    levels: Vec<i64>,
    gain: f64,
}

impl State {
    /// Takes over `before` with one more user.
    fn set(&mut self, before: &Self, score: Score) {
        let at = before.levels.partition_point(|&l| l < score.level);
        let (low, high) = before.levels.split_at(at);
        self.levels.clear();
        self.levels.extend_from_slice(low);
        self.levels.push(score.level);
        self.levels.extend_from_slice(high);
        self.gain = before.gain + score.gain;
    }

    /// Leximin order, then gain. Both have levels for the same users.
    fn compare(&self, other: &Self) -> Ordering {
        let by_levels = self.levels.cmp(&other.levels);
        by_levels.then(self.gain.total_cmp(&other.gain))
    }
}

/// The nodes of each user, `base` at least, `nodes` in all at most.
pub(super) fn deal(profiles: &[Profile], base: &[u32], nodes: u32) -> Vec<u32> {
    let used: u64 = base.iter().map(|&n| u64::from(n)).sum();
    let left = u64::from(nodes).saturating_sub(used) as u32;
    let steps: Vec<Vec<(u32, Score)>> = profiles
        .iter()
        .zip(base)
        .map(|(profile, &from)| profile.steps(from, left).collect())
        .collect();
    // More than all can use need not be looked at.
    let useful: u64 = steps
        .iter()
        .map(|steps| steps.last().map_or(0, |&(n, _)| u64::from(n)))
        .sum();
    let width = useful.min(u64::from(left)) as usize + 1;
    let mut now = vec![State::default(); width];
    let mut scratch = State::default();
    let mut taken = Vec::with_capacity(profiles.len());
    for steps in &steps {
        let mut next: Vec<Option<State>> = vec![None; width];
        let mut choice = vec![0_u32; width];
        for &(n, score) in steps {
            let targets = next.iter_mut().zip(&mut choice).skip(n as usize);
            for (before, (target, choice)) in now.iter().zip(targets) {
                scratch.set(before, score);
                if target
                    .as_ref()
                    .is_none_or(|t| scratch.compare(t) == Ordering::Greater)
                {
                    let target = target.get_or_insert_default();
                    std::mem::swap(target, &mut scratch);
                    *choice = n;
                }
            }
        }
        now = next.into_iter().map(Option::unwrap_or_default).collect();
        taken.push(choice);
    }
    let mut left = width - 1;
    let mut given: Vec<u32> = taken
        .iter()
        .zip(base)
        .rev()
        .map(|(taken, &from)| {
            let n = taken[left];
            left -= n as usize;
            from + n
        })
        .collect();
    given.reverse();
    given
}
