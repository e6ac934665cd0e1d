//! The answer to "why is it slow": the costs of all causes, and what other resources would give.

use lacuna_model::{
    Advice, Cause, CauseCost, Follows, SlowMember, StepCosts, StepElsewhere, StepWithWorkers,
};

use crate::change::Change;
use crate::error::Error;
use crate::steps::{Steps, median};

/// Smallest part of a step that is worth advice.
const WORTH: f64 = 0.05;
/// A member that is behind the others by this part of its own work is slow.
const SLOW: f64 = 0.10;
/// Numbers of workers and members that are replayed, and factors of the link.
const WORKERS: [u32; 12] = [0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128];
/// Most workers that are advised: more need other nodes as loaders.
const MOST_ADVISED: u32 = 16;
const MEMBERS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const LINKS: [f64; 5] = [0.125, 0.25, 0.5, 2.0, 4.0];

/// Replays steps with each cause taken away.
///
/// # Errors
/// [`Error`] as [`Steps::replay`].
pub fn answer(steps: &Steps) -> Result<StepCosts, Error> {
    let replayed = steps.replay(&Change::none())?;
    let mut costs = Vec::new();
    let mut bare = Change::none();
    for cause in Cause::ALL {
        let seconds = replayed - steps.replay(&Change::none().without(cause))?;
        let part = if replayed > 0.0 {
            seconds / replayed
        } else {
            0.0
        };
        costs.push(CauseCost {
            cause,
            seconds,
            percent: 100.0 * part,
        });
        bare = bare.without(cause);
    }
    let measured = steps.measured();
    let count = |steps: usize| u32::try_from(steps).unwrap_or(u32::MAX);
    let mut found = StepCosts {
        members: steps.members(),
        workers: steps.workers(),
        remote: steps.remote(),
        follows: steps.follows(),
        steps: count(steps.count()),
        left_out: count(steps.left_out()),
        measured,
        replayed,
        trusted: (replayed - measured).abs() <= StepCosts::TRUSTED * measured,
        costs,
        computes: steps.replay(&bare)?,
        loaders: loaders(steps)?,
        elsewhere: elsewhere(steps)?,
        slow: slow(steps),
        advice: Vec::new(),
    };
    if found.trusted {
        found.advice = advise(&found, steps.workers());
    }
    Ok(found)
}

fn advise(found: &StepCosts, workers: u32) -> Vec<Advice> {
    let step = found.replayed;
    let least = WORTH * step;
    let mut ranked: Vec<(f64, Advice)> = Vec::new();
    let offered = || {
        found
            .loaders
            .iter()
            .filter(|one| one.workers <= MOST_ADVISED)
    };
    let best = offered().map(|one| one.step).fold(step, f64::min);
    let enough = |one: &&StepWithWorkers| one.workers > workers && one.step <= best + 0.02 * step;
    if let Some(one) = offered().find(enough)
        && step - one.step >= least
    {
        let (then, faster) = (one.workers, one.step);
        let now = workers;
        ranked.push((
            step - faster,
            Advice::Workers {
                now,
                then,
                step,
                faster,
            },
        ));
    }
    for &CauseCost { cause, seconds, .. } in &found.costs {
        if seconds < least {
            continue;
        }
        let faster = step - seconds;
        let advice = match found.slow {
            Some(SlowMember { rank, behind }) if cause == Cause::Straggler => Advice::SlowMember {
                rank,
                behind,
                step,
                faster,
            },
            _ => Advice::Remove {
                cause,
                step,
                faster,
            },
        };
        ranked.push((seconds, advice));
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut advice: Vec<_> = ranked.into_iter().map(|(_, advice)| advice).collect();
    let alone: f64 = found.costs.iter().map(|cost| cost.seconds.max(0.0)).sum();
    let faster = found.computes;
    if step - faster - alone >= least {
        advice.push(Advice::Together {
            step,
            alone,
            faster,
        });
    } else if advice.is_empty() {
        advice.push(Advice::Nothing { step, faster });
    }
    advice
}

fn loaders(steps: &Steps) -> Result<Vec<StepWithWorkers>, Error> {
    let reads = |rank: &crate::steps::Member| rank.rows.iter().any(|r| r.prep + r.fetch > 0.0);
    if !steps.ranks().iter().any(reads) {
        return Ok(Vec::new());
    }
    let step = |workers| {
        let step = steps.replay(&Change::none().workers(workers)?)?;
        Ok(StepWithWorkers { workers, step })
    };
    WORKERS.into_iter().map(step).collect()
}

fn elsewhere(steps: &Steps) -> Result<Vec<StepElsewhere>, Error> {
    let now = steps.members();
    if now < 2 {
        return Ok(Vec::new());
    }
    let sizes = MEMBERS.into_iter().filter(|&members| members != now);
    let mut cases: Vec<_> = sizes.map(|members| (members, 1.0)).collect();
    cases.extend(LINKS.map(|link| (now, link)));
    let step = |(members, link): (u32, f64)| {
        let over = f64::from(now) / f64::from(members);
        let share = match steps.follows() {
            Some(Follows::Whole) => over,
            _ => 1.0,
        };
        let change = Change::none().members(members)?.share(share)?.link(link)?;
        let step = steps.replay(&change.reading(steps.reading(over))?)?;
        Ok(StepElsewhere {
            members,
            link,
            step,
        })
    };
    cases.into_iter().map(step).collect()
}

/// The member that is furthest behind the median of the others, if by a tenth of their work.
fn slow(steps: &Steps) -> Option<SlowMember> {
    let behind: Vec<f64> = (steps.behind().iter())
        .map(|one| one.ready.last().copied().unwrap_or(0.0) + one.after)
        .collect();
    let work: Vec<f64> = (steps.ranks().iter())
        .map(|rank| {
            let of = |row: &crate::steps::Row| row.ready.last().copied().unwrap_or(0.0) + row.after;
            rank.rows.iter().map(of).sum::<f64>() / crate::steps::as_f64(rank.rows.len())
        })
        .collect();
    let (place, last) = behind
        .iter()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(b.1))?;
    let others = |list: &[f64]| {
        let rest = list.iter().enumerate().filter(|(other, _)| *other != place);
        median(rest.map(|(_, &value)| value).collect())
    };
    if behind.len() < 2 {
        return None;
    }
    let skew = last - others(&behind);
    let rank = steps.ranks().get(place)?.rank;
    (skew > 0.0 && skew >= SLOW * others(&work)).then_some(SlowMember { rank, behind: skew })
}
