//! What the same trainers would do on dedicated nodes: the measure that efficiency is taken by.

use lacuna_model::{Timestamp, TrainerSpec};
use lacuna_planner::{Item, Problem, dp};

use crate::world::{Decider, Kinds, World};
use crate::{Dedicated, Settings, SimError, Trace, TrainerEnd};

/// Samples/s of `max_parallel` equal trainers on `nodes` dedicated nodes, split in the best
/// way that never changes. A fraction of a node counts by interpolation between whole counts.
///
/// `rate` gives samples/s at 0, 1, 2, ... nodes; a trainer may use none or at least `min_nodes`.
#[must_use]
pub fn split_rate(rate: &[f64], min_nodes: u32, max_parallel: u32, nodes: f64) -> f64 {
    let max = (rate.len() as u32).saturating_sub(1);
    let item = Item {
        current: 0,
        min: min_nodes,
        max,
        value: rate.into(),
        rate_now: 0.0,
        up_s: 0.0,
        down_s: 0.0,
    };
    let mut solver = dp::Solver::new();
    let mut whole = |nodes: u32| {
        // No more than these can run at a time, however many may.
        let running = max_parallel.min(nodes / min_nodes.max(1));
        if running == 0 {
            return 0.0;
        }
        let problem = Problem {
            nodes,
            horizon_s: 1.0,
            trainers: vec![item.clone(); running as usize],
            max_change: None,
        };
        solver.solve(&problem).objective
    };
    between(nodes, &mut |n| Ok(whole(n))).unwrap_or(0.0)
}

/// Samples that these trainers do on `nodes` dedicated nodes in `seconds`, by the definition
/// that `settings` choose ([`Dedicated`]).
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

/// What work done is measured by: the same trainers on dedicated nodes.
pub(crate) struct Baseline<'a> {
    trainers: &'a [TrainerSpec],
    kinds: &'a Kinds,
    settings: Settings,
}

impl<'a> Baseline<'a> {
    pub(crate) fn new(trainers: &'a [TrainerSpec], settings: &Settings, kinds: &'a Kinds) -> Self {
        let listed = u32::try_from(trainers.len()).unwrap_or(u32::MAX).max(1);
        Self {
            trainers,
            kinds,
            settings: Settings {
                // The list begins again, since dedicated nodes may be done with it sooner; but
                // more at a time than it has there never are.
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
        }
    }

    /// Samples on `nodes` dedicated nodes in `seconds`.
    pub(crate) fn samples(
        &self,
        start: Timestamp,
        seconds: f64,
        nodes: f64,
    ) -> Result<f64, SimError> {
        match (self.settings.dedicated, self.kinds.only()) {
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

    /// The most nodes that the trainers which run at a time can use.
    pub(crate) fn usable_nodes(&self) -> f64 {
        let mut most: Vec<u32> = self.trainers.iter().map(|spec| spec.max_nodes).collect();
        most.sort_unstable_by(|a, b| b.cmp(a));
        let parallel = self.settings.max_parallel as usize;
        // The list starts again at its end, so the largest can be there more than once.
        most.iter()
            .cycle()
            .take(parallel)
            .map(|&nodes| f64::from(nodes))
            .sum()
    }

    /// A full replay, in which trainers arrive, are admitted and are planned as settings say, and
    /// make room for the next the moment they end. The list starts again at its end, so that the
    /// nodes never starve.
    fn replayed(&self, start: Timestamp, seconds: f64, nodes: f64) -> Result<f64, SimError> {
        between(nodes, &mut |n| {
            let end = start + lacuna_model::Span::from_secs_f64(seconds);
            let trace = Trace::dedicated(n, start, end);
            let mut world = World::new(&trace, self.trainers, self.kinds, &self.settings, false)?;
            world.run(&mut Decider::new(&self.settings, &|| 0.0), &mut |_| {})?;
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
    use super::*;

    #[test]
    fn a_fraction_of_a_node_counts_in_part() {
        // Two trainers, 10/16/18 samples/s on 1/2/3 nodes: the best of 3 nodes is 2 + 1.
        let rate = [0.0, 10.0, 16.0, 18.0];
        assert_eq!(split_rate(&rate, 1, 2, 3.0), 26.0);
        assert_eq!(split_rate(&rate, 1, 2, 4.0), 32.0);
        assert_eq!(split_rate(&rate, 1, 2, 3.25), 27.5);
        assert_eq!(split_rate(&rate, 1, 2, 99.0), 36.0);
        assert_eq!(split_rate(&rate, 2, 2, 3.0), 18.0);
        assert_eq!(split_rate(&rate, 1, u32::MAX, 3.0), 30.0);
        assert!(split_rate(&rate, 1, 2, 0.0).is_sign_positive());
    }
}
