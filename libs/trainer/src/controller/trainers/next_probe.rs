//! Which nodes a trainer probes next (`probes.rs` has the rules).

use lacuna_model::{
    Measured, MeasuredRate, NodeId, NodeKinds, Phase, StepCosts, Tier, Topology, TrainerRecord,
    Work,
};
use lacuna_rates::{Rates, Site};

use crate::Now;
use crate::controller::kinds::can_use;
use crate::controller::trainers::parked::{all_nodes, parked};
use crate::controller::trainers::reach::Reach;
use crate::controller::trainers::trainer::Trainer;
use crate::settings::{Profile, ProfileOrder};

/// Pairs of reports after which a rate is settled, if they agree.
const ENOUGH: u32 = 3;
/// They agree when the standard error of their mean is no more than this share of it.
const AGREE: f64 = 0.03;
/// Time between two reports, as long as none is known, seconds.
const INTERVAL_S: f64 = 5.0;

/// Whether no more has to be measured at this count and tier.
fn is_settled(known: Option<&Measured>, (nodes, tier): (u32, Tier)) -> bool {
    let rate = known.and_then(|measured| measured.rate(nodes, tier));
    rate.is_some_and(|rate| rate.from.is_some() || agrees(rate))
}

/// Whether a size need not be tried: the replay of a step says its rate, and was met at others.
fn is_replayed(known: Option<&Measured>, (nodes, tier): (u32, Tier)) -> bool {
    let replay = known.and_then(|measured| measured.replay.as_deref());
    replay.is_some_and(|replay| {
        let judged = &replay.judged;
        let says = judged.rates.iter().any(|point| point.nodes == nodes);
        says && tier == replay.tier && judged.met > 0 && judged.error <= StepCosts::TRUSTED
    })
}

fn agrees(rate: &MeasuredRate) -> bool {
    let error = rate.spread / f64::from(rate.count).sqrt();
    rate.count >= ENOUGH && error <= AGREE * rate.rate
}

/// Sizes worth knowing of a trainer that has `full` nodes: fewest first.
fn sizes(min: u32, full: u32) -> impl DoubleEndedIterator<Item = u32> {
    (0..u32::BITS).filter_map(move |doublings| {
        let size = u64::from(min) << doublings;
        u32::try_from(size).ok().filter(|&size| size < full)
    })
}

/// Where a trainer is to go on, if not where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// On these of its nodes, more or fewer than now.
    Nodes(Vec<NodeId>),
    /// On all of its nodes.
    Full,
}

/// Nodes that a trainer could go on with, fewest first: of each size the near ones, and the far ones
/// where they are at another tier. More nodes than now are reached by joining, the near ones first.
fn candidates(record: &TrainerRecord, topology: &Topology) -> Vec<Vec<NodeId>> {
    let (nodes, parked) = (&record.nodes, parked(record));
    let full = (nodes.len() + parked.len()) as u32;
    let mut found = Vec::new();
    for size in sizes(record.spec.min_nodes, full).map(|size| size as usize) {
        if size >= nodes.len() {
            found.extend((size > nodes.len()).then(|| joined(nodes, parked, topology, size)));
            continue;
        }
        let near = Reach::Near.of(topology, nodes, size);
        let far = Reach::Far.of(topology, nodes, size);
        let is_apart = topology.tier(&far) != topology.tier(&near);
        found.extend(is_apart.then_some(far));
        found.push(near);
    }
    found
}

/// The members with the nearest of the parked nodes, `size` in all, sorted.
pub(crate) fn joined(
    nodes: &[NodeId],
    parked: &[NodeId],
    topology: &Topology,
    size: usize,
) -> Vec<NodeId> {
    let first = nodes.iter().take(1);
    let around: Vec<NodeId> = first.chain(parked).cloned().collect();
    let more = size.saturating_sub(nodes.len());
    let near = Reach::Near.of(topology, &around, more + 1);
    let mut all: Vec<NodeId> = nodes.iter().chain(near.iter().skip(1)).cloned().collect();
    all.sort();
    all
}

/// Where a trainer is to go on. Its sums must be up to date.
pub(crate) fn next_probe(
    trainer: &mut Trainer,
    settings: &Profile,
    (topology, kinds): (&Topology, &NodeKinds),
    now: Now,
) -> Option<Next> {
    let record = trainer.record();
    if trainer.is_changing() || record.phase != Phase::Active || record.nodes.is_empty() {
        return None;
    }
    let place = |nodes: &[NodeId]| (nodes.len() as u32, topology.tier(nodes));
    let present = place(&record.nodes);
    let full = present.0 + parked(record).len() as u32;
    let probes = present.0 < full;
    let troubled = record.failures > 0 || record.hit_at.is_some() || record.tries.rest().is_some();
    // Nodes of several kinds are not measured.
    let all = all_nodes(record);
    let site = Site::of(&record.spec, &all, kinds, topology).filter(|_| !troubled);
    let Some(Site { kind, .. }) = site else {
        return probes.then_some(Next::Full);
    };
    let measured = record.measured.as_deref();
    if !is_settled(measured.and_then(|all| all.of(kind.as_ref())), present) {
        if !probes || now.since(trainer.probes().since()) < settings.longest {
            return None;
        }
        trainer.probed_in_vain(present);
    }
    let trained = trainer.report_interval();
    if !probes && trained.is_none() {
        return None;
    }
    let (record, sums) = (trainer.record(), trainer.probes());
    let measured = record.measured.as_deref();
    let known = measured.and_then(|all| all.of(kind.as_ref()));
    let mut open = candidates(record, topology);
    open.retain(|nodes| {
        let at = place(nodes);
        can_use(&record.spec, nodes.iter(), kinds)
            && !is_settled(known, at)
            && !is_replayed(known, at)
            && !sums.was_in_vain(at)
    });
    let mut open = open.into_iter();
    let size = |nodes: &Vec<NodeId>| nodes.len() as u32;
    let nodes = match settings.order {
        ProfileOrder::LargeToSmall => open.rfind(|nodes| size(nodes) < present.0),
        ProfileOrder::SmallToLarge => open.find(|nodes| !probes || size(nodes) > present.0),
    };
    let interval = trained.unwrap_or(INTERVAL_S);
    let pays = |nodes: &Vec<NodeId>| {
        let lost_s = lost_s(record, now);
        let cost = expected_cost(record, (present.0, size(nodes), full), interval, lost_s);
        sums.allow(cost, settings.share, left_node_s(record, full))
    };
    match nodes.filter(pays) {
        Some(nodes) => Some(Next::Nodes(nodes)),
        None => probes.then_some(Next::Full),
    }
}

/// What a probe will probably cost, node-seconds: from `present` nodes to `size`, to be measured
/// there with reports every `interval` seconds, and back to `full`. The first change throws `lost_s`
/// seconds of work away.
fn expected_cost(
    record: &TrainerRecord,
    (present, size, full): (u32, u32, u32),
    interval: f64,
    lost_s: f64,
) -> f64 {
    let rescale = Rates::of(record).rescale();
    let there = if size < present {
        rescale.down_s
    } else {
        rescale.up_s
    };
    // One report to begin with, then the pairs.
    let measuring = f64::from(ENOUGH + 1) * interval;
    let idle = f64::from(full - size) * (there + measuring);
    idle + f64::from(size) * there + f64::from(full) * (rescale.up_s + lost_s)
}

/// Seconds of work that a probe throws away. Without a checkpoint that is all that it has done, which
/// is more than any probe may cost. Members that regroup keep their work.
fn lost_s(record: &TrainerRecord, now: Now) -> f64 {
    if record.spec.launch.regroups() {
        0.0
    } else {
        record.unsaved_s(now.cluster)
    }
}

/// Node-seconds that its work will still take on this number of nodes.
fn left_node_s(record: &TrainerRecord, nodes: u32) -> f64 {
    match record.spec.work {
        Work::UntilExit => f64::INFINITY,
        Work::Samples(work) => {
            let rate = Rates::of(record).curve().at(nodes);
            f64::from(nodes) * (work - record.samples()).max(0.0) / rate
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_doubled_from_the_minimum_and_stay_below_what_there_is() {
        let of = |min, full| sizes(min, full).collect::<Vec<_>>();
        assert_eq!(of(1, 8), [1, 2, 4]);
        assert_eq!(of(3, 13), [3, 6, 12]);
        assert_eq!(of(4, 4), [0_u32; 0]);
    }
}
