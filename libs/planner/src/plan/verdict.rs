//! Verdicts of a plan over sizes: one for each trainer and each hole.

use lacuna_model::{
    Basis, HoleVerdict, NodeId, OwnerShare, Pool, Tier, TrainerId, TrainerRecord, TrainerVerdict,
    Verdict,
};
use lacuna_rates::Rates;

use super::displace::Offers;
use super::translate::Translated;
use crate::decision::Decision;
use crate::{Item, Mix, MixProblem, NO_NODES, Problem, Sizes};

/// A verdict for each trainer of the problem, in its order. If nodes were shared out over several
/// owners, it compares a trainer only with others of its owner.
pub(crate) fn of_trainers(
    case: &Translated,
    problem: &Problem,
    trainers: &[TrainerRecord],
    decision: &Decision,
) -> Vec<TrainerVerdict> {
    let records = case.trainers.iter().filter_map(|&at| trainers.get(at));
    let records: Vec<&TrainerRecord> = records.collect();
    let sizes = &decision.sizes;
    if decision.shares.is_empty() {
        return side_by_side(problem, &records, sizes);
    }
    let free = free_nodes(problem, sizes);
    let mut verdicts = Vec::with_capacity(records.len());
    for share in &decision.shares {
        let own = |j: &u32| sizes.counts.get(*j as usize).copied().unwrap_or(0);
        let counts: Vec<u32> = share.candidates.iter().map(own).collect();
        // The owner could use the free nodes too.
        let nodes = free + counts.iter().sum::<u32>();
        let problem = problem.part(&share.candidates, nodes);
        let sizes = problem.sizes(counts);
        let own = share.candidates.iter();
        let own = own.filter_map(|&j| records.get(j as usize).copied());
        let own = side_by_side(&problem, &own.collect::<Vec<_>>(), &sizes);
        verdicts.extend(share.candidates.iter().zip(own));
    }
    verdicts.sort_by_key(|(j, _)| **j);
    let mut verdicts: Vec<TrainerVerdict> = verdicts.into_iter().map(|(_, v)| v).collect();
    with_shares(&mut verdicts, &records, decision);
    verdicts
}

/// Adds the shares of the owners to the verdicts of their trainers.
pub(crate) fn with_shares(
    verdicts: &mut [TrainerVerdict],
    records: &[&TrainerRecord],
    decision: &Decision,
) {
    for share in &decision.shares {
        let own = |j: &u32| decision.sizes.counts.get(*j as usize);
        let first = share.candidates.first();
        let owner = first.and_then(|&j| records.get(j as usize)?.spec.owner.clone());
        let share_of = OwnerShare {
            owner,
            nodes: share.fair,
            used: share.candidates.iter().filter_map(own).sum(),
        };
        for &j in &share.candidates {
            if let Some(verdict) = verdicts.get_mut(j as usize) {
                verdict.share = Some(Box::new(share_of.clone()));
            }
        }
    }
}

/// That a trainer cannot run on so few nodes.
pub(crate) fn too_few(record: &TrainerRecord, pool: u32) -> Option<Verdict> {
    let min = record.spec.min_nodes;
    (pool < min).then_some(Verdict::TooFewNodes { pool, min })
}

/// Why a trainer cannot run on the nodes of the pool, if it cannot.
pub(crate) type TooFew<'a> = &'a dyn Fn(&TrainerRecord) -> Option<Verdict>;

/// A verdict for each trainer of a problem over mixes, in its order, with their new mixes.
pub(crate) fn over_kinds(
    case: &Translated,
    (problem, mixes, too_few): (&MixProblem, &[Mix], TooFew<'_>),
    trainers: &[TrainerRecord],
    decision: &Decision,
) -> Vec<TrainerVerdict> {
    let records = case.trainers.iter().filter_map(|&at| trainers.get(at));
    let records: Vec<&TrainerRecord> = records.collect();
    let verdicts = records.iter().zip(&problem.trainers).zip(mixes);
    let mut verdicts: Vec<TrainerVerdict> = verdicts
        .map(|((record, item), &mix)| {
            let after = mix.iter().sum();
            let (present, horizon_s) = (item.present(), problem.horizon_s);
            let gained = horizon_s * (item.value_of(mix) - item.value_of(present).max(0.0));
            let cost = item.cost_of(mix);
            let verdict = if mix == NO_NODES {
                too_few(record).unwrap_or(Verdict::Outbid)
            } else if present == NO_NODES {
                Verdict::Start
            } else {
                changed(present != mix, gained, cost)
            };
            TrainerVerdict {
                trainer: record.spec.id.clone(),
                before: item.current,
                after,
                verdict,
                basis: basis(record, after),
                share: None,
            }
        })
        .collect();
    with_shares(&mut verdicts, &records, decision);
    verdicts
}

/// The verdict on a trainer that keeps or changes nodes of several kinds.
pub(crate) fn changed(is: bool, gain: f64, cost: f64) -> Verdict {
    match is {
        false => Verdict::Keep,
        true if gain >= 0.0 => Verdict::Grow { gain, cost },
        true => Verdict::Shrink { loss: -gain, cost },
    }
}

fn side_by_side(
    problem: &Problem,
    records: &[&TrainerRecord],
    sizes: &Sizes,
) -> Vec<TrainerVerdict> {
    let free = free_nodes(problem, sizes);
    let name = |ordinal: u32| -> Option<TrainerId> {
        Some(records.get(ordinal as usize)?.spec.id.clone())
    };
    let mut offers = None;
    let mut no_nodes = |item: &Item| {
        let offers = offers.get_or_insert_with(|| Offers::new(problem, sizes, free));
        match offers.best(problem, item) {
            Some(exchange) => Verdict::DisplacingCosts {
                nodes: exchange.nodes,
                from: exchange.from.iter().filter_map(|&at| name(at)).collect(),
                gain: exchange.gain,
                loss: exchange.loss,
                cost: exchange.cost,
            },
            None => Verdict::Outbid,
        }
    };
    records
        .iter()
        .zip(&problem.trainers)
        .zip(&sizes.counts)
        .map(|((record, item), &after)| TrainerVerdict {
            trainer: record.spec.id.clone(),
            before: item.current,
            after,
            verdict: of_trainer(problem, item, after, free).unwrap_or_else(|| no_nodes(item)),
            basis: basis(record, after),
            share: None,
        })
        .collect()
}

/// The basis of the rate of a profiled trainer at its new size.
pub(crate) fn basis(record: &TrainerRecord, after: u32) -> Option<Box<Basis>> {
    let is_measured = record.spec.is_profiled() && record.spec.kinds.is_any() && after > 0;
    is_measured.then(|| Box::new(Rates::of(record).basis(after, Tier(0))))
}

/// Number of nodes that no trainer gets.
fn free_nodes(problem: &Problem, sizes: &Sizes) -> u32 {
    let used: u32 = sizes.counts.iter().sum();
    problem.nodes.saturating_sub(used)
}

/// The verdict on a trainer; nothing if it had no nodes and gets none, with enough in the pool.
fn of_trainer(problem: &Problem, item: &Item, after: u32, free: u32) -> Option<Verdict> {
    let before = item.current;
    // Below its minimum a trainer has no value.
    let present = if item.is_size(before) {
        problem.value(item, before)
    } else {
        0.0
    };
    let more = problem.value(item, after) - present;
    let cost = item.change_cost(after);
    if after == 0 && problem.nodes < item.min {
        return Some(Verdict::TooFewNodes {
            pool: problem.nodes,
            min: item.min,
        });
    }
    if after > before {
        return Some(if before == 0 {
            Verdict::Start
        } else {
            Verdict::Grow { gain: more, cost }
        });
    }
    if after < before {
        return Some(Verdict::Shrink { loss: -more, cost });
    }
    if after == 0 {
        return None;
    }
    let larger = before + 1..=item.max.min(before.saturating_add(free));
    let best = larger
        .max_by(|&a, &b| {
            let gain = |n| item.gain(problem.horizon_s, n);
            gain(a).total_cmp(&gain(b))
        })
        .map(|n| (problem.value(item, n) - present, item.change_cost(n)));
    Some(match best {
        Some((gain, cost)) if gain <= cost => Verdict::RescaleNotWorthIt { gain, cost },
        _ => Verdict::Keep,
    })
}

/// A verdict for each hole of the pool, sorted by node.
pub(crate) fn of_holes(
    case: &Translated,
    problem: &Problem,
    pool: &Pool,
    trainers: &[TrainerRecord],
    sizes: &Sizes,
    owners: &[Option<u32>],
) -> Vec<(NodeId, HoleVerdict)> {
    let free = free_nodes(problem, sizes);
    let idle = if has_bidder(problem, sizes, free) {
        HoleVerdict::NotWorthIt
    } else {
        HoleVerdict::NoBidder
    };
    holes(case, pool, trainers, owners, &idle)
}

/// A verdict for each hole of the pool, sorted by node. `idle` is that of a hole without a trainer.
pub(crate) fn holes(
    case: &Translated,
    pool: &Pool,
    trainers: &[TrainerRecord],
    owners: &[Option<u32>],
    idle: &HoleVerdict,
) -> Vec<(NodeId, HoleVerdict)> {
    let name = |ordinal: u32| -> Option<TrainerId> {
        let place = case.trainers.get(ordinal as usize)?;
        Some(trainers.get(*place)?.spec.id.clone())
    };
    let usable = case.nodes.iter().zip(&case.slots).zip(owners);
    let mut verdicts: Vec<(NodeId, HoleVerdict)> = usable
        .map(|((node, slot), owner)| {
            let verdict = match owner.and_then(name) {
                Some(trainer) if slot.owner == *owner => HoleVerdict::Kept { trainer },
                Some(trainer) => HoleVerdict::Assigned { trainer },
                None => idle.clone(),
            };
            (node.clone(), verdict)
        })
        .collect();
    if verdicts.len() < pool.holes.len() {
        // Holes of the pool outside the problem are unusable.
        let mut known: Vec<&NodeId> = case.nodes.iter().collect();
        known.sort_unstable();
        let unknown = pool
            .holes
            .iter()
            .map(|pooled| &pooled.hole.node)
            .filter(|node| known.binary_search(node).is_err());
        verdicts.extend(unknown.map(|node| (node.clone(), HoleVerdict::Unusable)));
    }
    verdicts.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    verdicts
}

/// Whether any trainer can take free nodes.
fn has_bidder(problem: &Problem, sizes: &Sizes, free: u32) -> bool {
    problem
        .trainers
        .iter()
        .zip(&sizes.counts)
        .any(|(item, &n)| {
            let next = (n + 1).max(item.min);
            next <= item.max && next - n <= free
        })
}
