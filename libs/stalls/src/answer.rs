//! The answer to "why is it slow": the costs of all causes, and what other resources would give.

use std::fmt;

use serde::Serialize;

use crate::advice::Advice;
use crate::change::{Cause, Change};
use crate::error::Error;
use crate::steps::{Steps, median};

/// A replayed step that differs from the measured one by a greater part than this is no model of it.
const TRUSTED: f64 = 0.05;
/// Smallest part of a step that is worth advice.
const WORTH: f64 = 0.05;
/// A member that is behind the others by this part of its own work is slow.
const SLOW: f64 = 0.10;
/// Numbers of workers and members that are replayed, and factors of the link.
const WORKERS: [u32; 7] = [1, 2, 3, 4, 6, 8, 16];
const MEMBERS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
const LINKS: [f64; 3] = [0.5, 2.0, 4.0];

/// What a cause costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// The cause.
    pub cause: Cause,
    /// What its removal alone would save, in seconds of a step.
    pub seconds: f64,
    /// The same in per cent of the replayed step.
    pub percent: f64,
}

/// The step with another number of loader workers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Loaders {
    /// Workers of each member.
    pub workers: u32,
    /// Seconds of a step, if there are cores for them.
    pub step: f64,
}

/// The step with other members or another link. Each member has as many samples as now.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Elsewhere {
    /// Members.
    pub members: u32,
    /// Bandwidth of the link, of what it is now.
    pub link: f64,
    /// Seconds of a step.
    pub step: f64,
}

/// A member that keeps the others waiting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SlowRank {
    /// Its rank.
    pub rank: u32,
    /// Seconds by which its work of a step is longer than the median of the others.
    pub behind: f64,
}

/// Where the time of a step goes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Members that trained together.
    pub members: u32,
    /// Steps that were replayed, and those of the report that were not.
    pub steps: usize,
    /// See [`Steps::left_out`].
    pub left_out: usize,
    /// The mean step as measured, in seconds.
    pub measured: f64,
    /// The mean step as replayed, in seconds.
    pub replayed: f64,
    /// Whether both agree within 5 %. If not, there is no advice, and the costs are those of another
    /// program than the user's.
    pub trusted: bool,
    /// What each cause costs.
    pub costs: Vec<Cost>,
    /// The step without any of them, in seconds: the time in which a member computes.
    pub computes: f64,
    /// The step with other loaders; none for a loader that is never waited for.
    pub loaders: Vec<Loaders>,
    /// The step with other members and links; none of a member alone.
    pub elsewhere: Vec<Elsewhere>,
    /// The slowest member, if it is slow.
    pub slow: Option<SlowRank>,
    /// What to change, the best first.
    pub advice: Vec<Advice>,
}

impl Answer {
    /// Replays steps with each cause taken away.
    ///
    /// # Errors
    /// [`Error`] as [`Steps::replay`].
    pub fn of(steps: &Steps) -> Result<Self, Error> {
        let replayed = steps.replay(&Change::none())?;
        let mut costs = Vec::new();
        let mut bare = Change::none();
        for cause in Cause::ALL {
            let seconds = replayed - steps.replay(&Change::none().without(cause))?;
            costs.push(Cost {
                cause,
                seconds,
                percent: if replayed > 0.0 {
                    100.0 * seconds / replayed
                } else {
                    0.0
                },
            });
            bare = bare.without(cause);
        }
        let measured = steps.measured();
        let mut answer = Self {
            members: steps.members(),
            steps: steps.count(),
            left_out: steps.left_out(),
            measured,
            replayed,
            trusted: (replayed - measured).abs() <= TRUSTED * measured,
            costs,
            computes: steps.replay(&bare)?,
            loaders: loaders(steps)?,
            elsewhere: elsewhere(steps)?,
            slow: slow(steps),
            advice: Vec::new(),
        };
        if answer.trusted {
            answer.advice = answer.advise(steps.workers());
        }
        Ok(answer)
    }

    /// What a cause costs, in seconds of a step.
    #[must_use]
    pub fn cost(&self, cause: Cause) -> f64 {
        let of = |cost: &&Cost| cost.cause == cause;
        self.costs.iter().find(of).map_or(0.0, |cost| cost.seconds)
    }

    fn advise(&self, workers: u32) -> Vec<Advice> {
        let step = self.replayed;
        let least = WORTH * step;
        let mut found: Vec<(f64, Advice)> = Vec::new();
        let best = self.loaders.iter().map(|one| one.step).fold(step, f64::min);
        let enough = |one: &&Loaders| one.workers > workers && one.step <= best + 0.02 * step;
        if let Some(one) = self.loaders.iter().find(enough)
            && step - one.step >= least
        {
            let (then, faster) = (one.workers, one.step);
            let now = workers;
            found.push((
                step - faster,
                Advice::Workers {
                    now,
                    then,
                    step,
                    faster,
                },
            ));
        }
        for &Cost { cause, seconds, .. } in &self.costs {
            if seconds < least {
                continue;
            }
            let faster = step - seconds;
            let advice = match self.slow {
                Some(SlowRank { rank, behind }) if cause == Cause::Straggler => Advice::SlowRank {
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
            found.push((seconds, advice));
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut advice: Vec<_> = found.into_iter().map(|(_, advice)| advice).collect();
        let alone: f64 = self.costs.iter().map(|cost| cost.seconds.max(0.0)).sum();
        let faster = self.computes;
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
}

fn loaders(steps: &Steps) -> Result<Vec<Loaders>, Error> {
    let reads = |rank: &crate::steps::Member| rank.rows.iter().any(|r| r.prep + r.fetch > 0.0);
    if !steps.ranks().iter().any(reads) {
        return Ok(Vec::new());
    }
    let step = |workers| {
        let step = steps.replay(&Change::none().workers(workers)?)?;
        Ok(Loaders { workers, step })
    };
    WORKERS.into_iter().map(step).collect()
}

fn elsewhere(steps: &Steps) -> Result<Vec<Elsewhere>, Error> {
    let now = steps.members();
    if now < 2 {
        return Ok(Vec::new());
    }
    let sizes = MEMBERS.into_iter().filter(|&members| members != now);
    let mut cases: Vec<_> = sizes.map(|members| (members, 1.0)).collect();
    cases.extend(LINKS.map(|link| (now, link)));
    let step = |(members, link): (u32, f64)| {
        let step = steps.replay(&Change::none().members(members)?.link(link)?)?;
        Ok(Elsewhere {
            members,
            link,
            step,
        })
    };
    cases.into_iter().map(step).collect()
}

/// The member that is furthest behind the median of the others, if by a tenth of their work.
fn slow(steps: &Steps) -> Option<SlowRank> {
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
    (skew > 0.0 && skew >= SLOW * others(&work)).then_some(SlowRank { rank, behind: skew })
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milli = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
        writeln!(
            f,
            "a step of {} members: {} measured over {} steps, {} replayed",
            self.members,
            milli(self.measured),
            self.steps,
            milli(self.replayed)
        )?;
        if self.left_out > 0 {
            writeln!(f, "{} unusual steps are left out", self.left_out)?;
        }
        for cost in &self.costs {
            let name = match cost.cause {
                Cause::Preparation => "preparation",
                Cause::Fetch => "fetch",
                Cause::Link => "link",
                Cause::Straggler => "straggler",
            };
            writeln!(
                f,
                "  {name:<12}{:>12}{:>7.1} %",
                milli(cost.seconds),
                cost.percent
            )?;
        }
        writeln!(f, "  without all {:>12}", milli(self.computes))?;
        if !self.trusted {
            return writeln!(
                f,
                "the replayed step is {:+.1} % off the measured one: this program does something that \
                 the replay does not know, so there is no advice",
                100.0 * (self.replayed / self.measured - 1.0)
            );
        }
        for advice in &self.advice {
            writeln!(f, "- {advice}")?;
        }
        Ok(())
    }
}
