//! What distance costs a trainer that was never apart (`Distance::Replayed`).
//!
//! Trainers of its owner that were measured at both tiers tell of the link: it is the one over which
//! their own replayed steps would cost what the tier costs them. The replayed step of the trainer
//! over that link, beside its step now, is the cost.

use lacuna_model::{Distance, Measured, MeasuredRate, StepModel, Tier};

/// A share is replaced when it is off by more than this part: every replacement makes a new plan.
const OFF: f64 = 0.05;
/// A tier tells of its link where it costs a trainer this part of its rate or more.
const TELLS: f64 = 0.02;

/// What distance costs a trainer that was never apart, over the links of others. Nothing where its
/// owner says it, or where it is within [`OFF`] of what it is.
pub(crate) fn over_links(
    replay: &StepModel,
    links: &[Option<f64>],
    now: &Distance,
) -> Option<Distance> {
    let before = match now {
        Distance::Free => &[],
        Distance::Replayed(shares) => shares.as_slice(),
        Distance::Shares(_) | Distance::Measured(_) | Distance::Fitted(_) => return None,
    };
    let is_known = links.iter().any(Option::is_some);
    if !is_known || replay.tier != Tier(0) || replay.judged.error > StepModel::MOST_OFF {
        return None;
    }
    let share = |link: &Option<f64>| {
        let step = link.and_then(|slower| replay.step_with(slower));
        step.map(|step| 1.0 / step)
            .filter(|share| share.is_finite())
    };
    // A tier of which no link is known costs what the one before it does.
    let mut last = 1.0_f64;
    let shares = links.iter().take(Distance::MOST_TIERS).map(|link| {
        last = share(link).unwrap_or(last).clamp(f64::MIN_POSITIVE, last);
        last
    });
    let shares: Vec<f64> = shares.collect();
    let is_off = |(now, before): (&f64, &f64)| (now - before).abs() > OFF * before;
    let is_new = shares.len() != before.len() || shares.iter().zip(before).any(is_off);
    is_new.then_some(Distance::Replayed(shares))
}

/// By tier from 1 on: how many times as long a byte takes as on one leaf, by what the tier costs a
/// trainer at a count that was measured at both, and by the replay of its step.
pub(crate) fn links(measured: &Measured) -> Vec<Option<f64>> {
    let Some(replay) = measured.replay.as_deref() else {
        return Vec::new();
    };
    let slower = |far: &Vec<MeasuredRate>| {
        let both = far.iter().filter(|far| far.nodes > 1).filter_map(|far| {
            let near = measured.rate(far.nodes, Tier(0))?.rate;
            Some((far.nodes.abs_diff(replay.nodes), near / far.rate))
        });
        let nearest = both.min_by_key(|(apart, _)| *apart);
        nearest
            .map(|(_, slower)| slower)
            .filter(|slower| slower * (1.0 - TELLS) >= 1.0)
    };
    let tiers = (1..=u8::MAX).map(Tier).zip(&measured.apart);
    let link = |(tier, far): (Tier, &Vec<MeasuredRate>)| match replay.tier {
        Tier(0) => replay.link_with(slower(far)?),
        of if of == tier => replay.link_with(1.0 / slower(far)?).map(|link| 1.0 / link),
        _ => None,
    };
    tiers.map(link).collect()
}
