//! Dedicated samples of a replay ([`lacuna_trainer::measure`]): by the best static split, or by a
//! replay on nodes that never leave.

use lacuna_forecast::Fits;
use lacuna_model::{Timestamp, TrainerSpec};
use lacuna_trainer::measure::split_rate;

use crate::world::{Decisions, Kinds, World};
use crate::{Annotated, Dedicated, HoleTrace, Settings, SimError, TrainerEnd};

/// Samples of these trainers on `nodes` dedicated nodes in `seconds`, by the definition that
/// `settings` choose ([`Dedicated`]).
///
/// # Errors
/// As [`crate::replay`].
pub fn dedicated_samples(
    trainers: &[TrainerSpec],
    settings: &Settings,
    start: Timestamp,
    seconds: f64,
    nodes: f64,
) -> Result<f64, SimError> {
    let kinds = Kinds::new(trainers, settings)?;
    Baseline::new(trainers, settings, &kinds).samples(start, seconds, nodes)
}

/// The reference of efficiency: the same trainers on dedicated nodes.
pub(crate) struct Baseline<'a> {
    trainers: &'a [TrainerSpec],
    kinds: &'a Kinds,
    settings: Settings,
    /// The share of the nodes that is of each kind or an earlier one, where trainers tell kinds
    /// apart.
    upto: Vec<f64>,
}

impl<'a> Baseline<'a> {
    pub(crate) fn new(trainers: &'a [TrainerSpec], settings: &Settings, kinds: &'a Kinds) -> Self {
        let listed = u32::try_from(trainers.len()).unwrap_or(u32::MAX).max(1);
        Self {
            trainers,
            kinds,
            settings: Settings {
                // The list begins again, since dedicated nodes may finish it sooner. Its length
                // still limits the trainers at a time.
                max_parallel: if settings.endless {
                    settings.max_parallel
                } else {
                    settings.max_parallel.min(listed)
                },
                trainer_end: TrainerEnd::Immediate,
                endless: true,
                verify: false,
                policy: lacuna_model::Policy::Dp,
                ..settings.clone()
            },
            upto: Vec::new(),
        }
    }

    /// With these shares of nodes of each kind, where trainers tell kinds apart.
    pub(crate) fn with_shares(mut self, shares: impl Iterator<Item = f64>) -> Self {
        let sums = shares.scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        });
        self.upto = sums.collect();
        self
    }

    /// Samples on `nodes` dedicated nodes in `seconds`.
    pub(crate) fn samples(
        &self,
        start: Timestamp,
        seconds: f64,
        nodes: f64,
    ) -> Result<f64, SimError> {
        let only = self.kinds.only().filter(|_| self.kinds.nodes().is_none());
        match (self.settings.dedicated, only) {
            (Dedicated::ByKind | Dedicated::Split, Some(kind)) => {
                let parallel = self.settings.max_parallel;
                Ok(seconds * split_rate(kind.rates(), kind.min(), parallel, nodes))
            }
            (Dedicated::Split, None) => Err(SimError::Setting {
                what: "dedicated split",
                expected: "trainers that are all alike",
            }),
            (Dedicated::ByKind, None) | (Dedicated::StaticReplay, _) => {
                self.replayed(start, seconds, nodes)
            }
        }
    }

    /// Most nodes that the trainers at a time can use.
    pub(crate) fn usable_nodes(&self) -> f64 {
        let mut most: Vec<u32> = self.trainers.iter().map(|spec| spec.max_nodes).collect();
        most.sort_unstable_by(|a, b| b.cmp(a));
        let parallel = self.settings.max_parallel as usize;
        // The list begins again at its end, so the largest trainer can be admitted more than once.
        most.iter()
            .cycle()
            .take(parallel)
            .map(|&nodes| f64::from(nodes))
            .sum()
    }

    /// A full replay: trainers arrive, are admitted and get nodes by the settings, and free their
    /// nodes the moment they end. The list begins again at its end, so that no node lacks work.
    fn replayed(&self, start: Timestamp, seconds: f64, nodes: f64) -> Result<f64, SimError> {
        between(nodes, &mut |n| {
            let end = start + lacuna_model::Span::from_secs_f64(seconds);
            let trace = HoleTrace::dedicated(n, start, end);
            let names = self.kinds.nodes().unwrap_or_default();
            let ends = self.upto.iter().take(names.len().saturating_sub(1));
            let ends: Vec<u32> = ends
                .map(|upto| (f64::from(n) * upto).round() as u32)
                .collect();
            let trace = Annotated::new(&trace).split(names, &ends);
            let (kinds, fits) = (self.kinds, Fits::Inside);
            let mut world = World::new(&trace, self.trainers, kinds, &self.settings, false, fits)?;
            world.run(&mut Decisions::new(&self.settings, &|| 0.0), &mut |_| {})?;
            Ok(world.tally.samples)
        })
    }
}

/// Interpolates between whole counts.
fn between(
    nodes: f64,
    whole: &mut dyn FnMut(u32) -> Result<f64, SimError>,
) -> Result<f64, SimError> {
    let (below, share) = (nodes.max(0.0).floor(), nodes.max(0.0).fract());
    let low = whole(below as u32)?;
    if share == 0.0 {
        return Ok(low);
    }
    let high = whole(below as u32 + 1)?;
    Ok(low + (high - low) * share)
}

#[cfg(test)]
mod tests {
    use lacuna_planner::{Far, Item, Problem, dp};

    use super::*;

    /// A second way to the same number: the planner's exact method for equal trainers.
    fn planned(rate: &[f64], min_nodes: u32, parallel: u32, nodes: u32) -> f64 {
        let running = parallel.min(nodes / min_nodes.max(1));
        if running == 0 {
            return 0.0;
        }
        let item = Item {
            current: 0,
            min: min_nodes,
            max: (rate.len() as u32).saturating_sub(1),
            value: rate.into(),
            rate_now: 0.0,
            up_s: 0.0,
            pilot_s: 0.0,
            far: Far::default(),
            kinds: None,
            down_s: 0.0,
            lost: lacuna_planner::Lost::default(),
        };
        let problem = Problem {
            nodes,
            horizon_s: 1.0,
            trainers: vec![item; running as usize],
        };
        dp::Solver::new().solve(&problem).objective
    }

    #[test]
    fn the_split_is_that_of_the_planners_exact_method() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for round in 0..600 {
            let (max, min) = (1 + random(12), 1 + random(4));
            // Every other curve is concave, as most real ones are; the rest are arbitrary.
            let mut rate = vec![0.0];
            let mut gain = 100.0;
            for _ in 0..max {
                gain = match round % 2 {
                    0 => gain * (0.5 + random(50) as f64 / 100.0),
                    _ => random(100) as f64,
                };
                rate.push(rate.last().unwrap() + gain);
            }
            let (parallel, nodes) = (1 + random(7) as u32, random(40) as u32);
            let expected = planned(&rate, min as u32, parallel, nodes);
            let found = split_rate(&rate, min as u32, parallel, f64::from(nodes));
            assert!(
                (found - expected).abs() <= 1e-9 * expected,
                "{rate:?} min {min}, {parallel} on {nodes}: {found}, not {expected}"
            );
        }
    }
}
