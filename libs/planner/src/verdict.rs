//! Why a plan is as it is: a verdict for each trainer and each hole.

use lacuna_model::{
    Basis, HoleVerdict, Launch, NodeId, OwnerShare, Pool, TrainerId, TrainerRecord, TrainerVerdict,
    Verdict,
};

use crate::decider::Decision;
use crate::displace::Offers;
use crate::translate::Translated;
use crate::{Item, Problem, Sizes};

/// A verdict for each trainer of the problem, in its order: beside the others of its owner, if
/// nodes were shared out over several.
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
        return beside_each_other(problem, &records, sizes);
    }
    let free = free_nodes(problem, sizes);
    let mut verdicts = Vec::with_capacity(records.len());
    for share in &decision.shares {
        let own = |j: &u32| sizes.counts.get(*j as usize).copied().unwrap_or(0);
        let counts: Vec<u32> = share.candidates.iter().map(own).collect();
        // What is left it might have as well.
        let nodes = free + counts.iter().sum::<u32>();
        let problem = problem.part(&share.candidates, nodes);
        let sizes = problem.sizes(counts);
        let theirs = share.candidates.iter();
        let theirs = theirs.filter_map(|&j| records.get(j as usize).copied());
        let own = beside_each_other(&problem, &theirs.collect::<Vec<_>>(), &sizes);
        verdicts.extend(share.candidates.iter().zip(own));
    }
    verdicts.sort_by_key(|(j, _)| **j);
    let mut verdicts: Vec<TrainerVerdict> = verdicts.into_iter().map(|(_, v)| v).collect();
    with_shares(&mut verdicts, &records, decision);
    verdicts
}

/// Tells the verdicts of all trainers the shares of their owners.
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

fn beside_each_other(
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

/// How the rate of a trainer that is measured while it trains is known at the size that it gets.
pub(crate) fn basis(record: &TrainerRecord, after: u32) -> Option<Box<Basis>> {
    let profiled = matches!(record.spec.launch, Launch::Command { profile: true, .. });
    let basis = || match &record.measured {
        Some(measured) => measured.basis(after),
        None => Basis::Assumed,
    };
    (profiled && after > 0).then(|| Box::new(basis()))
}

/// Nodes that nobody gets.
fn free_nodes(problem: &Problem, sizes: &Sizes) -> u32 {
    let used: u32 = sizes.counts.iter().sum();
    problem.nodes.saturating_sub(used)
}

/// What sizes bring over the horizon, before the cost of changing.
pub(crate) fn worth(problem: &Problem, item: &Item, n: u32) -> f64 {
    problem.horizon_s * item.value_at(n)
}

/// Nothing if the trainer had no nodes and gets none, although there are enough in the pool.
fn of_trainer(problem: &Problem, item: &Item, after: u32, free: u32) -> Option<Verdict> {
    let before = item.current;
    // Below its minimum a trainer does nothing.
    let brings_now = if item.is_size(before) {
        worth(problem, item, before)
    } else {
        0.0
    };
    let more = worth(problem, item, after) - brings_now;
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
        .map(|n| (worth(problem, item, n) - brings_now, item.change_cost(n)));
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
    let idle = if takers(problem, sizes, free) {
        HoleVerdict::NotWorthIt
    } else {
        HoleVerdict::NoTaker
    };
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
        // What is in the pool and not in the problem is unusable.
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

/// Whether some trainer could take free nodes at all.
fn takers(problem: &Problem, sizes: &Sizes, free: u32) -> bool {
    problem
        .trainers
        .iter()
        .zip(&sizes.counts)
        .any(|(item, &n)| {
            let next = (n + 1).max(item.min);
            next <= item.max && next - n <= free
        })
}
