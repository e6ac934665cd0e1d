//! Sizes first, where distance matters: the rate that a size can attain, and sizes without nodes
//! that only put a trainer's nodes farther apart.
//!
//! A policy over sizes does not choose nodes. So each size is valued at the nearest tier at which
//! the trainer could have it if it were alone. [`super::choose`] then takes near nodes, and the
//! trainers that came off worse give up the nodes that do not pay.

use crate::Item;
use crate::problem::{Candidate, Mix, Shape, Situation, Switches, mixes_of};

use super::{Bounds, Sets, below, lighter, places, uncross};

/// Lowers the values of sizes to those at the nearest tier that each trainer can attain alone.
/// `owners` has the present owner of each node.
pub(crate) fn lower(items: &mut [Item], owners: &[Option<u32>], switches: &Switches) {
    let free: Vec<usize> = places(owners, None).collect();
    let most = |nodes: &[usize], level| {
        let below = below(switches, nodes.iter().copied(), level);
        below.values().map(Vec::len).max().unwrap_or(0)
    };
    let levels = 0..=switches.levels();
    let most_free: Vec<usize> = levels.clone().map(|level| most(&free, level)).collect();
    for (j, item) in (0..).zip(items) {
        if item.far.is_free() {
            continue;
        }
        let held: Vec<usize> = places(owners, Some(j)).collect();
        let tier = switches.tier(held.iter().copied());
        // By level: the most nodes below one switch, of its own alone and with free ones.
        let (mut own, mut with_free) = (Vec::new(), Vec::new());
        for (level, &most_free) in levels.clone().zip(&most_free) {
            own.push(most(&held, level));
            with_free.push(match held.first() {
                None => most_free,
                Some(_) if level < tier => 0,
                Some(&first) => {
                    let near =
                        |&&at: &&usize| switches.switch(at, level) == switches.switch(first, level);
                    held.len() + free.iter().filter(near).count()
                }
            });
        }
        let share = |n: u32| {
            let nodes = n as usize;
            let most = if nodes <= held.len() {
                &own
            } else {
                &with_free
            };
            let near = most.iter().position(|&most| most >= nodes);
            item.far.share(n, near.unwrap_or(switches.levels()))
        };
        let values = (0_u32..).zip(item.value.iter());
        let value: Vec<f64> = values.map(|(n, value)| value * share(n)).collect();
        let over_kinds = item.kinds.as_ref().map(|kinds| {
            let value = |mix: Mix, value: f64| value * share(mix.iter().sum());
            kinds.value.map(value)
        });
        item.value = value.into();
        if let Some((kinds, value)) = item.kinds.as_mut().zip(over_kinds) {
            kinds.value = value;
        }
    }
}

/// Takes from each trainer the nodes that put it farther apart than they are worth over the horizon.
pub(crate) fn trim(
    owners: &mut [Option<u32>],
    situation: &Situation<'_>,
    switches: &Switches,
    horizon_s: f64,
) {
    let sets = Sets::new(owners, situation.candidates.len());
    let before: Vec<Option<u32>> = situation.slots.iter().map(|slot| slot.owner).collect();
    let mix = |set: &[usize]| {
        let kinds = set.iter().map(|&at| (Some(0), situation.kind(at)));
        mixes_of(1, kinds).first().copied().unwrap_or_default()
    };
    let items: Vec<Item> = situation.candidates.iter().map(Candidate::sized).collect();
    let runs = |j: usize, set: &[usize]| items.get(j).is_some_and(|item| item.is_mix(mix(set)));
    let bounds = Bounds {
        flexible: items.iter().map(|item| !item.runs()).collect(),
        runs: Box::new(runs),
    };
    let trainers = items.iter().zip(situation.held()).zip(sets.iter());
    for ((item, held), set) in trainers {
        let worth = |set: &[usize]| {
            let shape = Shape::new(mix(set), switches.tier(set.iter().copied()));
            horizon_s * item.rate_on(&shape) - item.cost_of(shape.mix)
        };
        let nested = |near: &[usize]| {
            let is_held = |at: &usize| held.binary_search(&(*at as u32)).is_ok();
            let kept = near.iter().filter(|at| is_held(at)).count();
            kept == held.len() || kept == near.len()
        };
        let mut best = (worth(set), set.to_vec());
        for level in 0..switches.tier(set.iter().copied()) {
            for near in below(switches, set.iter().copied(), level).into_values() {
                let fits = item.is_size(near.len() as u32) && item.is_mix(mix(&near));
                if fits && nested(&near) && worth(&near) > best.0 {
                    best = (worth(&near), near);
                }
            }
        }
        for at in set.iter().filter(|at| best.1.binary_search(at).is_err()) {
            if let Some(owner) = owners.get_mut(*at) {
                *owner = None;
            }
        }
    }
    uncross(switches, switches.crossing(), &before, owners, &bounds);
    let worth = |owners: &[Option<u32>]| -> f64 {
        let owned = || owners.iter().copied().enumerate();
        let tiers = switches.tiers(owned(), items.len());
        let crowds = switches.crowds(owned(), items.len());
        let of = items.iter().zip(tiers).zip(crowds);
        let of = of.zip(situation.mixes(owners.iter().copied()));
        of.map(|(((item, tier), crowd), mix)| {
            let shape = Shape { mix, tier, crowd };
            horizon_s * item.rate_on(&shape) - item.cost_of(mix)
        })
        .sum()
    };
    let mut best: Option<(f64, Vec<Option<u32>>)> = None;
    for fewer in lighter(switches, &before, owners, &bounds) {
        let value = worth(&fewer);
        if value > best.as_ref().map_or_else(|| worth(owners), |best| best.0) {
            best = Some((value, fewer));
        }
    }
    if let Some((_, fewer)) = best {
        owners.copy_from_slice(&fewer);
    }
}
