//! Which size a trainer probes next (`probes.rs` has the rules).

use lacuna_model::{MeasuredRate, Phase, TrainerRecord, Work};

use crate::Now;
use crate::controller::trainers::parked::parked;
use crate::controller::trainers::trainer::Trainer;
use crate::settings::{Profile, ProfileOrder};

/// Pairs of reports after which a rate is settled, if they agree.
const ENOUGH: u32 = 3;
/// They agree when the standard error of their mean is no more than this share of it.
const AGREE: f64 = 0.03;
/// Time between two reports, as long as none is known, seconds.
const INTERVAL_S: f64 = 5.0;

/// Whether no more has to be measured at this count.
fn is_settled(record: &TrainerRecord, nodes: u32) -> bool {
    let mut rates = record.measured.iter().flat_map(|measured| &measured.rates);
    rates.any(|rate| rate.nodes == nodes && (rate.from.is_some() || agrees(rate)))
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// On this number of its nodes.
    Size(u32),
    /// On all of its nodes.
    Full,
}

/// Where a trainer is to go on. Its sums must be up to date.
pub(crate) fn next_probe(trainer: &mut Trainer, settings: &Profile, now: Now) -> Option<Next> {
    let record = trainer.record();
    if trainer.is_changing() || record.phase != Phase::Active || record.nodes.is_empty() {
        return None;
    }
    let present = record.nodes.len() as u32;
    let full = present + parked(record).len() as u32;
    let probes = present < full;
    let troubled =
        record.failures > 0 || record.hit_at.is_some() || !trainer.health().may_start(now);
    if troubled {
        return probes.then_some(Next::Full);
    }
    if !is_settled(record, present) {
        if !probes || now.since(trainer.probes().since()) < settings.longest {
            return None;
        }
        trainer.probed_in_vain();
    }
    let trained = trainer.report_interval();
    if !probes && trained.is_none() {
        return None;
    }
    let (record, sums) = (trainer.record(), trainer.probes());
    let open = |size: &u32| !is_settled(record, *size) && !sums.was_in_vain(*size);
    let mut sizes = sizes(record.spec.min_nodes, full).filter(open);
    let size = match settings.order {
        ProfileOrder::LargeToSmall => sizes.rfind(|&size| size < present),
        ProfileOrder::SmallToLarge => sizes.find(|&size| !probes || size > present),
    };
    let interval = trained.unwrap_or(INTERVAL_S);
    let pays = |&size: &u32| {
        let cost = expected_cost(record, (present, size, full), interval);
        sums.allow(cost, settings.share, left_node_s(record, full))
    };
    match size.filter(pays) {
        Some(size) => Some(Next::Size(size)),
        None => probes.then_some(Next::Full),
    }
}

/// What a probe will probably cost, node-seconds: from `present` nodes to `size`, to be measured
/// there with reports every `interval` seconds, and back to `full`.
fn expected_cost(
    record: &TrainerRecord,
    (present, size, full): (u32, u32, u32),
    interval: f64,
) -> f64 {
    let rescale = record.spec.rescale;
    let there = if size < present {
        rescale.down_s
    } else {
        rescale.up_s
    };
    // One report to begin with, then the pairs.
    let measuring = f64::from(ENOUGH + 1) * interval;
    let idle = f64::from(full - size) * (there + measuring);
    idle + f64::from(size) * there + f64::from(full) * rescale.up_s
}

/// Node-seconds that its work will still take on this number of nodes.
fn left_node_s(record: &TrainerRecord, nodes: u32) -> f64 {
    match record.spec.work {
        Work::UntilExit => f64::INFINITY,
        Work::Samples(work) => {
            let rate = record.spec.throughput.at(nodes);
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
