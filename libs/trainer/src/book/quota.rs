//! Quotas: how much one user may have.
//!
//! Trainers are counted at their submission. Nodes are shared among the user's admitted trainers:
//! each may have its least, and what is left goes to all alike up to the most that each can use.
//! The planner is told of no more ([`lacuna_model::TrainerSpec::max_nodes`] in the published
//! view), so that the sizes of its plans keep the quota by themselves; a trainer whose least does
//! not fit waits in the queue, and one that holds more than its share, because another was
//! admitted, gives the rest back.
//!
//! Admission to one of the places of `control.max_parallel` is `trainer::queue`'s business, its
//! rate `trainer::comings`'.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{NodeId, TrainerId, TrainerRecord, TrainerSpec};

use crate::Now;
use crate::book::state::{Out, Trainer};
use crate::book::trial::all_nodes;
use crate::book::{Book, Refusal, RefusalKind};

/// To whom a trainer belongs: the owner that it names, else whoever submitted it.
fn belongs_to<'a>(spec: &'a TrainerSpec, user: &'a str) -> &'a str {
    spec.owner.as_deref().unwrap_or(user)
}

pub(crate) fn user_of(record: &TrainerRecord) -> &str {
    belongs_to(&record.spec, &record.user)
}

impl Book {
    /// All of a submission fits, or it is refused.
    pub(crate) fn check_quotas(&self, specs: &[TrainerSpec], user: &str) -> Result<(), Refusal> {
        let refuse = |reason| {
            Err(Refusal {
                kind: RefusalKind::Quota,
                reason,
            })
        };
        let mut more: BTreeMap<&str, u32> = BTreeMap::new();
        for spec in specs {
            let whose = belongs_to(spec, user);
            *more.entry(whose).or_default() += 1;
            let quota = self.config.control.access.quota_of(whose);
            if let Some(most) = quota.nodes.filter(|most| spec.min_nodes > *most) {
                return refuse(format!(
                    "trainer {} needs {} nodes at least, and {whose} may have {most} at a time",
                    spec.id, spec.min_nodes
                ));
            }
        }
        for (whose, asked) in more {
            let Some(most) = self.config.control.access.quota_of(whose).trainers else {
                continue;
            };
            let has = self.trainers.values().map(|t| &t.record);
            let has = has.filter(|r| !r.phase.is_final() && user_of(r) == whose);
            let has = has.count() as u64;
            if has + u64::from(asked) > u64::from(most) {
                return refuse(format!(
                    "{whose} may have {most} trainers that are not over, and has {has}: {asked} \
                     more would be too many; wait until some are done, or cancel some"
                ));
            }
        }
        Ok(())
    }

    /// Whether a waiting trainer's least fits into its user's nodes.
    pub(crate) fn has_room(&self, id: &TrainerId) -> bool {
        let Some(record) = self.record(id) else {
            return true;
        };
        let user = user_of(record);
        let Some(most) = self.config.control.access.quota_of(user).nodes else {
            return true;
        };
        let fitting = self.active.iter().filter(|id| self.fits(id));
        let active = fitting.filter_map(|id| self.record(id));
        let least = active.filter(|r| user_of(r) == user);
        let least: u64 = least.map(|r| u64::from(r.spec.min_nodes)).sum();
        least + u64::from(record.spec.min_nodes) <= u64::from(most)
    }

    /// The most nodes that an admitted trainer may have now, if its user's are bounded.
    fn share(&self, trainer: &Trainer) -> Option<u32> {
        let user = user_of(&trainer.record);
        let most = self.config.control.access.quota_of(user).nodes?;
        let own = &trainer.record.spec.id;
        let counts = |id: &&TrainerId| *id == own || self.fits(id);
        let active = self.active.iter().filter(counts);
        let active = active.filter_map(|id| self.trainers.get(id));
        let mine: Vec<&TrainerSpec> = active
            .filter(|t| user_of(&t.record) == user)
            .map(|t| &t.record.spec)
            .collect();
        let bounds: Vec<(u32, u32)> = mine.iter().map(|s| (s.min_nodes, s.max_nodes)).collect();
        let at = mine.iter().position(|s| s.id == trainer.record.spec.id)?;
        shares(most, &bounds).get(at).copied()
    }

    /// The most nodes that a trainer can use, within its share.
    pub(crate) fn most_in_quota(&self, trainer: &Trainer) -> u32 {
        let spec = &trainer.record.spec;
        let share = self.share(trainer).unwrap_or(spec.max_nodes);
        spec.max_nodes.min(share).max(spec.min_nodes)
    }

    /// Drops what is beyond a trainer's share of what a plan gives it, its own nodes last.
    pub(crate) fn fit_quota(&self, id: &TrainerId, want: &mut BTreeSet<NodeId>) {
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        let Some(share) = self.share(trainer).filter(|s| want.len() > *s as usize) else {
            return;
        };
        let have = &trainer.record.nodes;
        let (mut kept, new): (Vec<NodeId>, Vec<NodeId>) = std::mem::take(want)
            .into_iter()
            .partition(|node| have.binary_search(node).is_ok());
        kept.extend(new);
        kept.truncate(share as usize);
        want.extend(kept);
    }

    /// Whoever holds more than a share that has become smaller gives the rest back.
    pub(crate) fn keep_quotas(&mut self, now: Now, out: &mut Out) {
        if !self.changed || !self.config.control.access.bounds_nodes() || !self.connected {
            return;
        }
        let mut back = Vec::new();
        for id in &self.active {
            let Some(trainer) = self.trainers.get(id) else {
                continue;
            };
            let Some(share) = self.share(trainer) else {
                continue;
            };
            let held = all_nodes(&trainer.record);
            let over = held.len().saturating_sub(share as usize);
            back.extend(self.by_age(&held).into_iter().take(over));
        }
        if !back.is_empty() {
            self.take(
                back,
                "its user's quota is shared anew",
                now.cluster,
                now,
                out,
            );
        }
    }
}

/// Shares of `most` nodes: everybody their least, then all alike up to their most. What is left of
/// equals goes to the first of them.
fn shares(most: u32, bounds: &[(u32, u32)]) -> Vec<u32> {
    let at = |level: u32| {
        let bounds = bounds.iter();
        bounds.map(move |(min, max)| level.min(*max).max(*min))
    };
    let sum = |level: u32| at(level).map(u64::from).sum::<u64>();
    // The highest level that the nodes reach.
    let (mut level, mut beyond) = (0, most);
    while level < beyond {
        let middle = beyond - (beyond - level) / 2;
        if sum(middle) <= u64::from(most) {
            level = middle;
        } else {
            beyond = middle - 1;
        }
    }
    let mut shares: Vec<u32> = at(level).collect();
    let mut left = u64::from(most).saturating_sub(sum(level));
    for (share, (_, max)) in shares.iter_mut().zip(bounds) {
        if left > 0 && *share == level && *share < *max {
            *share += 1;
            left -= 1;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::shares;

    /// One node in turn: the smallest share that may still grow, the first of equals.
    fn in_turn(most: u32, bounds: &[(u32, u32)]) -> Vec<u32> {
        let mut shares: Vec<u32> = bounds.iter().map(|(min, _)| *min).collect();
        for _ in shares.iter().sum()..most {
            let growing = shares.iter_mut().zip(bounds);
            let growing = growing.filter(|(share, (_, max))| **share < *max);
            if let Some(share) = growing.map(|(share, _)| share).min() {
                *share += 1;
            }
        }
        shares
    }

    #[test]
    fn shares_are_those_of_one_node_in_turn() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for _ in 0..500 {
            let bounds: Vec<(u32, u32)> = (0..rng.random_range(1..6))
                .map(|_| {
                    let min = rng.random_range(1..6);
                    (min, min + rng.random_range(0..12))
                })
                .collect();
            let most = rng.random_range(0..50);
            assert_eq!(
                shares(most, &bounds),
                in_turn(most, &bounds),
                "{most} {bounds:?}"
            );
        }
    }

    #[test]
    fn shares_are_alike_within_the_bounds_and_never_beyond_the_quota() {
        assert_eq!(shares(10, &[(1, 8), (1, 8)]), [5, 5]);
        assert_eq!(shares(10, &[(1, 2), (1, 8), (1, 8)]), [2, 4, 4]);
        assert_eq!(shares(9, &[(4, 8), (1, 8)]), [5, 4]);
        assert_eq!(shares(3, &[(1, 8), (1, 8)]), [2, 1]);
        assert_eq!(shares(100, &[(1, 8)]), [8]);
        assert_eq!(
            shares(3, &[(2, 8), (2, 8)]),
            [2, 2],
            "the least is never cut"
        );
    }
}
