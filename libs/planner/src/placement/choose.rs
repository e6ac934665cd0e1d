//! The choice of nodes for known sizes, without migration.
//!
//! A trainer's new node set contains its old one or is contained in it. So a change of size never
//! moves a process that could have stayed.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path of the simulator; every index comes from an enumeration of the slice"
)]

use rand::Rng;
use rand::seq::SliceRandom;

use lacuna_model::NodeChoice;

use crate::problem::{Slot, Switches};

use super::nearest;

/// The new owner of each slot. `counts[j]` is the new size of trainer j. A trainer that should grow
/// beyond the free slots gets all of them. An owner without a count loses its slots.
///
/// `Random` picks uniformly among the possible nodes, since the published model leaves the choice
/// open; it alone makes `rng`, if a size changes. `Together` keeps release groups whole where it
/// can, so that the departure of one group hits few trainers. Where distance matters (`apart`), it
/// takes the nearest nodes instead: the fewest leaves, the tightest fit.
pub fn assign<R: Rng>(
    choice: NodeChoice,
    slots: &[Slot],
    apart: Option<&Switches>,
    counts: &[u32],
    rng: impl FnOnce() -> R,
) -> Vec<Option<u32>> {
    let mut owners: Vec<Option<u32>> = slots
        .iter()
        .map(|slot| slot.owner.filter(|&j| (j as usize) < counts.len()))
        .collect();
    let mut held = vec![0_u32; counts.len()];
    for owner in owners.iter().flatten() {
        held[*owner as usize] += 1;
    }
    if held == counts {
        return owners;
    }
    let mut rng = (choice == NodeChoice::Random).then(rng);
    let mut losers: Vec<Vec<u32>> = vec![Vec::new(); counts.len()];
    for (at, owner) in owners.iter().enumerate() {
        if let Some(j) = owner {
            let j = *j as usize;
            if counts[j] < held[j] {
                losers[j].push(at as u32);
            }
        }
    }
    for (j, nodes) in losers.iter_mut().enumerate().filter(|(_, n)| !n.is_empty()) {
        let surplus = (held[j] - counts[j]) as usize;
        match &mut rng {
            Some(rng) => {
                let (chosen, _) = nodes.partial_shuffle(rng, surplus);
                chosen.iter().for_each(|&at| owners[at as usize] = None);
            }
            None => {
                let given = match apart {
                    Some(switches) => give_up_far(switches, nodes, surplus),
                    None => give_up(slots, nodes, surplus),
                };
                for at in given {
                    owners[at as usize] = None;
                }
            }
        }
    }
    let mut growers: Vec<(usize, u32)> = (0..counts.len())
        .filter(|&j| counts[j] > held[j])
        .map(|j| (j, counts[j] - held[j]))
        .collect();
    if growers.is_empty() {
        return owners;
    }
    match &mut rng {
        Some(rng) => {
            let mut free: Vec<u32> = (0..slots.len() as u32)
                .filter(|&at| owners[at as usize].is_none())
                .collect();
            let wanted: usize = growers.iter().map(|&(_, more)| more as usize).sum();
            let (chosen, _) = free.partial_shuffle(rng, wanted.min(slots.len()));
            let mut chosen = chosen.iter();
            for (j, more) in growers {
                for &at in chosen.by_ref().take(more as usize) {
                    owners[at as usize] = Some(j as u32);
                }
            }
        }
        None => {
            // The largest growth first: it has the best use for the largest groups.
            growers.sort_by_key(|&(j, more)| (std::cmp::Reverse(more), j));
            match apart {
                Some(switches) => hand_out_near(slots, switches, &mut owners, &growers),
                None => hand_out(slots, &mut owners, &growers),
            }
        }
    }
    owners
}

/// Slots of one trainer that were released together.
struct Group {
    since_ms: i64,
    /// In the order of the pool.
    slots: Vec<u32>,
}

/// Splits slots into release groups, in order of release.
fn groups(slots: &[Slot], mut members: Vec<u32>) -> Vec<Group> {
    members.sort_by_key(|&at| (slots[at as usize].since_ms, at));
    let mut groups: Vec<Group> = Vec::new();
    for at in members {
        let since_ms = slots[at as usize].since_ms;
        match groups.last_mut() {
            Some(group) if group.since_ms == since_ms => group.slots.push(at),
            _ => groups.push(Group {
                since_ms,
                slots: vec![at],
            }),
        }
    }
    groups
}

/// The `surplus` of `nodes` that a shrinking trainer gives up: whole small groups first, then the
/// front of the smallest remaining group.
fn give_up(slots: &[Slot], nodes: &[u32], surplus: usize) -> Vec<u32> {
    let mut groups = groups(slots, nodes.to_vec());
    groups.sort_by_key(|group| (group.slots.len(), group.since_ms));
    let mut given: Vec<u32> = Vec::with_capacity(surplus);
    for group in groups {
        let more = (surplus - given.len()).min(group.slots.len());
        given.extend(group.slots.iter().take(more));
    }
    given
}

/// The `surplus` of `nodes` that a shrinking trainer gives up: all but the nearest.
fn give_up_far(switches: &Switches, nodes: &[u32], surplus: usize) -> Vec<u32> {
    let held: Vec<usize> = nodes.iter().map(|&at| at as usize).collect();
    let kept = nearest(switches, &held, &[], held.len() - surplus);
    let given = nodes.iter().copied();
    given
        .filter(|&at| kept.binary_search(&(at as usize)).is_err())
        .collect()
}

/// Gives the nearest free slots to growing trainers `(trainer, count)`, the newest where several are
/// as near.
fn hand_out_near(
    slots: &[Slot],
    switches: &Switches,
    owners: &mut [Option<u32>],
    growers: &[(usize, u32)],
) {
    let mut free: Vec<usize> = (0..slots.len())
        .filter(|&at| owners[at].is_none())
        .collect();
    free.sort_by_key(|&at| (slots[at].since_ms, at));
    for &(j, more) in growers {
        let owner = Some(j as u32);
        let own: Vec<usize> = (0..slots.len()).filter(|&at| owners[at] == owner).collect();
        for at in nearest(switches, &free, &own, more as usize) {
            owners[at] = owner;
        }
        free.retain(|&at| owners[at].is_none());
    }
}

/// Gives free slots to growing trainers `(trainer, count)`. Slots of the trainer's own release
/// groups come first, then the largest groups that fit whole, then the end of the smallest group
/// with enough slots.
fn hand_out(slots: &[Slot], owners: &mut [Option<u32>], growers: &[(usize, u32)]) {
    let free: Vec<u32> = (0..slots.len() as u32)
        .filter(|&at| owners[at as usize].is_none())
        .collect();
    let mut free = groups(slots, free);
    for &(j, more) in growers {
        let owner = Some(j as u32);
        let mut more = more as usize;
        let mut akin: Vec<i64> = slots
            .iter()
            .zip(owners.iter())
            .filter(|(_, o)| **o == owner)
            .map(|(slot, _)| slot.since_ms)
            .collect();
        akin.sort_unstable();
        akin.dedup();
        while more > 0 {
            let best = free
                .iter()
                .enumerate()
                .filter(|(_, group)| !group.slots.is_empty())
                .max_by_key(|(_, group)| {
                    let size = group.slots.len();
                    let related = akin.binary_search(&group.since_ms).is_ok();
                    let fit = if size <= more {
                        size as i64
                    } else {
                        -(size as i64)
                    };
                    (related, size <= more, fit, group.since_ms)
                })
                .map(|(at, _)| at);
            let Some(group) = best.and_then(|at| free.get_mut(at)) else {
                return;
            };
            let keep = group.slots.len().saturating_sub(more);
            for at in group.slots.drain(keep..) {
                owners[at as usize] = owner;
                more -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn slot(since_ms: i64, owner: Option<u32>) -> Slot {
        Slot { since_ms, owner }
    }

    #[test]
    fn growing_takes_a_whole_group_rather_than_pieces() {
        let since = [1, 1, 2, 2, 2, 3];
        let slots: Vec<Slot> = since.iter().map(|&s| slot(s, None)).collect();
        let rng = || ChaCha8Rng::seed_from_u64(1);
        let owners = assign(NodeChoice::Together, &slots, None, &[2, 3], rng);
        assert_eq!(owners, [Some(0), Some(0), Some(1), Some(1), Some(1), None]);
    }

    #[test]
    fn shrinking_gives_up_the_small_group() {
        let slots = [
            slot(1, Some(0)),
            slot(1, Some(0)),
            slot(2, Some(0)),
            slot(3, Some(1)),
        ];
        let rng = || ChaCha8Rng::seed_from_u64(1);
        let owners = assign(NodeChoice::Together, &slots, None, &[2, 2], rng);
        assert_eq!(owners, [Some(0), Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn random_choice_is_uniform() {
        let slots: Vec<Slot> = (0..5).map(|_| slot(1, None)).collect();
        let mut hits = [0_u32; 5];
        for seed in 0..5_000 {
            let rng = || ChaCha8Rng::seed_from_u64(seed);
            let owners = assign(NodeChoice::Random, &slots, None, &[2], rng);
            for (at, owner) in owners.iter().enumerate() {
                hits[at] += u32::from(owner.is_some());
            }
        }
        for hit in hits {
            assert!((1_850..2_150).contains(&hit), "{hits:?}");
        }
    }

    proptest! {
        #[test]
        fn sizes_are_met_without_migration(
            pool in proptest::collection::vec((0_i64..6, proptest::option::of(0_u32..4)), 0..40),
            wishes in proptest::collection::vec(0_u32..12, 4),
            together: bool,
            seed: u64,
        ) {
            let slots: Vec<Slot> = pool.iter().map(|&(s, o)| slot(s, o)).collect();
            let mut left = slots.len() as u32;
            let counts: Vec<u32> = wishes
                .iter()
                .map(|&wish| {
                    let n = wish.min(left);
                    left -= n;
                    n
                })
                .collect();
            let choice = if together { NodeChoice::Together } else { NodeChoice::Random };
            let rng = || ChaCha8Rng::seed_from_u64(seed);
            let owners = assign(choice, &slots, None, &counts, rng);
            prop_assert_eq!(owners.len(), slots.len());
            for (j, &count) in counts.iter().enumerate() {
                let owner = Some(j as u32);
                let new = owners.iter().filter(|o| **o == owner).count();
                prop_assert_eq!(new, count as usize);
                let gained = (0..slots.len()).any(|at| owners[at] == owner && slots[at].owner != owner);
                let lost = (0..slots.len()).any(|at| owners[at] != owner && slots[at].owner == owner);
                prop_assert!(!(gained && lost), "trainer {} moved", j);
            }
        }
    }
}
