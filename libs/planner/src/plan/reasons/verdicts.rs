//! Verdicts on trainers and holes, from the reasons.

use lacuna_model::{HoleVerdict, More, NodeId, TrainerId, TrainerReason, TrainerVerdict, Verdict};

use super::input::ReportInput;
use crate::plan::verdict::{basis, changed, with_shares};

/// A verdict for each trainer. `old_value` is the value of its present nodes.
pub(super) fn of_trainers(
    input: &ReportInput<'_>,
    reasons: &[TrainerReason],
    old_value: &[f64],
) -> Vec<TrainerVerdict> {
    let records = input.case.trainers.iter();
    let records = records.filter_map(|&at| input.trainers.get(at));
    let records: Vec<_> = records.collect();
    let verdicts = records
        .iter()
        .zip(input.candidates)
        .zip(reasons.iter().zip(old_value))
        .map(|((record, candidate), (reason, &old))| {
            let item = &candidate.item;
            let (before, after) = (item.current, reason.kept + reason.gained);
            let cost = reason.cost;
            let too_few = (input.too_few)(record).filter(|_| after == 0);
            let changes = reason.gained > 0 || reason.lost > 0;
            let verdict = match &reason.more {
                _ if too_few.is_some() => too_few.unwrap_or(Verdict::Outbid),
                _ if after > before && before == 0 => Verdict::Start,
                _ if item.kinds.is_some() && after > 0 && before > 0 && changes => {
                    changed(true, reason.worth - old, cost)
                }
                _ if after > before => Verdict::Grow {
                    gain: reason.worth - old,
                    cost,
                },
                _ if after < before => Verdict::Shrink {
                    loss: old - reason.worth,
                    cost,
                },
                More::NotWorthIt(offer) => Verdict::RescaleNotWorthIt {
                    gain: offer.gain,
                    cost: offer.cost,
                },
                _ if after == 0 => Verdict::Outbid,
                _ => Verdict::Keep,
            };
            TrainerVerdict {
                trainer: record.spec.id.clone(),
                before,
                after,
                verdict,
                basis: basis(record, after),
                share: None,
            }
        });
    let mut verdicts: Vec<TrainerVerdict> = verdicts.collect();
    with_shares(&mut verdicts, &records, input.decision);
    verdicts
}

/// A verdict for each hole of the pool, in its order. `taken` says whether any trainer can take the
/// hole of this place.
pub(super) fn of_holes(
    input: &ReportInput<'_>,
    owners: &[Option<u32>],
    taken: impl Fn(usize) -> bool,
) -> Vec<(NodeId, HoleVerdict)> {
    let case = input.case;
    let name = |j: u32| -> Option<TrainerId> {
        let place = *case.trainers.get(j as usize)?;
        Some(input.trainers.get(place)?.spec.id.clone())
    };
    let mut verdicts: Vec<(NodeId, HoleVerdict)> = input
        .pool
        .holes
        .iter()
        .map(|pooled| (pooled.hole.node.clone(), HoleVerdict::Unusable))
        .collect();
    for ((slot, owner), &hole) in case.slots.iter().zip(owners).zip(&case.holes) {
        let hole = hole as usize;
        if let Some((_, verdict)) = verdicts.get_mut(hole) {
            *verdict = match owner.and_then(name) {
                Some(trainer) if slot.owner == *owner => HoleVerdict::Kept { trainer },
                Some(trainer) => HoleVerdict::Assigned { trainer },
                None if taken(hole) => HoleVerdict::NotWorthIt,
                None => HoleVerdict::NoBidder,
            };
        }
    }
    verdicts
}
