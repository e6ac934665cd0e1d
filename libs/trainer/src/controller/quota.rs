//! Quotas: how much one owner may have.
//!
//! Trainers are counted at their submission. Nodes are shared among the owner's admitted trainers:
//! each may have its minimum, and the rest is shared equally up to the maximum of each. The
//! published view names no more ([`lacuna_model::TrainerSpec::max_nodes`]), so plans keep the
//! quota. A trainer whose minimum does not fit waits in the queue. A trainer that holds more than
//! its share, because another was admitted, gives the rest back.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{NodeId, TrainerId, TrainerSpec};

use crate::Now;
use crate::controller::out::Out;
use crate::controller::trainers::{Trainer, all_nodes};
use crate::controller::{Controller, Refusal, RefusalKind};

impl Controller {
    /// All of a submission fits, or it is refused.
    pub(super) fn check_quotas(&self, specs: &[TrainerSpec], user: &str) -> Result<(), Refusal> {
        let refuse = |reason| {
            Err(Refusal {
                kind: RefusalKind::Quota,
                reason,
            })
        };
        let access = &self.config.control.access;
        let mut more: BTreeMap<&str, u32> = BTreeMap::new();
        for spec in specs.iter().filter(|spec| spec.kinds.loads_for().is_none()) {
            let owner = spec.owner_or(user);
            *more.entry(owner).or_default() += 1;
            let quota = access.quota_of(owner);
            if let Some(most) = quota.nodes.filter(|most| spec.min_nodes > *most) {
                return refuse(format!(
                    "trainer {} needs {} nodes at least, and {owner} may have {most} at a time",
                    spec.id, spec.min_nodes
                ));
            }
        }
        for (owner, asked) in more {
            let Some(most) = access.quota_of(owner).trainers else {
                continue;
            };
            let own =
                |t: &&Trainer| !t.record().phase.is_final() && t.owner() == owner && !t.loads();
            let has = self.trainers.iter().filter(own).count() as u64;
            if has + u64::from(asked) > u64::from(most) {
                return refuse(format!(
                    "{owner} may have {most} trainers that are not over, and has {has}: {asked} \
                     more would be too many; wait until some are done, or cancel some"
                ));
            }
        }
        Ok(())
    }

    /// Whether a waiting trainer's least fits into its owner's nodes.
    pub(super) fn has_room(&self, trainer: &Trainer) -> bool {
        let owner = trainer.owner();
        let Some(most) = self.config.control.access.quota_of(owner).nodes else {
            return true;
        };
        let own = |t: &&Trainer| self.fits(t) && t.owner() == owner;
        let admitted = self.trainers.admitted().filter(own);
        let least: u64 = admitted.map(|t| u64::from(t.bounds().0)).sum();
        least + u64::from(trainer.bounds().0) <= u64::from(most)
    }

    /// The most nodes that an admitted trainer may have now, if its owner's are bounded.
    fn share(&self, trainer: &Trainer) -> Option<u32> {
        let owner = trainer.owner();
        let most = self.config.control.access.quota_of(owner).nodes?;
        let counts = |t: &&Trainer| t.id() == trainer.id() || self.fits(t);
        let admitted = self.trainers.admitted().filter(counts);
        let own: Vec<&Trainer> = admitted.filter(|t| t.owner() == owner).collect();
        let bounds: Vec<(u32, u32)> = own.iter().map(|t| t.bounds()).collect();
        let at = own.iter().position(|t| t.id() == trainer.id())?;
        shares(most, &bounds).get(at).copied()
    }

    /// The most nodes that a trainer can use, within its share.
    pub(super) fn most_in_quota(&self, trainer: &Trainer) -> u32 {
        let (min, max) = trainer.bounds();
        let share = self.share(trainer).unwrap_or(max);
        max.min(share).max(min)
    }

    /// Drops nodes of a plan that are beyond a trainer's share, its own last.
    pub(super) fn fit_quota(&self, id: &TrainerId, want: &mut BTreeSet<NodeId>) {
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        let Some(share) = self.share(trainer).filter(|s| want.len() > *s as usize) else {
            return;
        };
        let (mut kept, new): (Vec<NodeId>, Vec<NodeId>) = std::mem::take(want)
            .into_iter()
            .partition(|node| trainer.is_member(node));
        kept.extend(new);
        kept.truncate(share as usize);
        want.extend(kept);
    }

    /// A trainer that holds more than a share that has become smaller gives the rest back.
    pub(super) fn keep_quotas(&mut self, now: Now, out: &mut Out) {
        let bounds_nodes = self.config.control.access.bounds_nodes();
        if !self.publication.is_due() || !bounds_nodes || !self.connected {
            return;
        }
        let mut back = Vec::new();
        for trainer in self.trainers.admitted() {
            let Some(share) = self.share(trainer) else {
                continue;
            };
            let held = all_nodes(trainer.record());
            let over = held.len().saturating_sub(share as usize);
            back.extend(self.nodes.by_age(&held).into_iter().take(over));
        }
        if !back.is_empty() {
            let reason = "its owner's quota is shared again";
            self.take(back, reason, now.cluster, now, out);
        }
    }
}

/// Shares of `most` nodes: each its least, then all alike up to their most. A rest that does not
/// suffice for all goes to the first of them.
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
