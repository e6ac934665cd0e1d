//! Seeded instances for measurement: an event in a pool of which much is held.
//!
//! Classes are runs in the order of the scheduler, of random sizes; those in front leave
//! earlier, and neighbours often together. At first nothing runs; the other situations follow
//! from an answer to that. The factor of the costs is 1, 5 or 10 times the published ones.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::instance::{Size, networks, scarce};
use crate::patterns::{Charges, Options, Runs, Trainer, solve};

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Situation {
    /// An event as most are: the front class has left and hit whoever held nodes of it, and
    /// new nodes, 2 to 8 % of the pool, have come in up to three places.
    Event,
    /// A large change: a quarter of the classes has left, and 20 to 40 % of the pool is new.
    Storm,
    /// Nothing runs yet: all is free, and every trainer may take any node set.
    Start,
}

/// How large an instance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Trainers and nodes.
    pub size: Size,
    /// Classes of nodes.
    pub classes: u32,
    /// Scenarios of when they leave.
    pub scenarios: u32,
    /// What has happened.
    pub situation: Situation,
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.situation {
            Situation::Event => "event",
            Situation::Storm => "storm",
            Situation::Start => "start",
        };
        write!(f, "{}/{}c/{name}", self.size, self.classes)
    }
}

/// Forward-looking time, seconds.
const HORIZON_S: f64 = 600.0;

/// Random parts of a total, none below 0, by exponential weights: a random cut.
fn parts(total: u32, count: u32, rng: &mut ChaCha8Rng) -> Vec<u32> {
    let weights: Vec<f64> = (0..count)
        .map(|_| 0.2 - (1.0 - rng.random_range(0.0..1.0_f64)).ln())
        .collect();
    let sum: f64 = weights.iter().sum();
    let mut left = total;
    let mut parts: Vec<u32> = weights
        .iter()
        .map(|weight| {
            let part = ((f64::from(total) * weight / sum) as u32).min(left);
            left -= part;
            part
        })
        .collect();
    if let Some(last) = parts.last_mut() {
        *last = last.saturating_add(left);
    }
    parts
}

/// When each class leaves in a scenario: a run of classes shares a moment; those in front
/// leave earlier.
fn scenario(classes: u32, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let mut leave = f64::INFINITY;
    (0..classes)
        .map(|k| {
            if k == 0 || rng.random_bool(0.35) {
                let place = f64::from(k) / f64::from(classes);
                let median = 300.0 * 30_f64.powf(place);
                // A heavy tail: half within the median, a quarter beyond three times it.
                let u: f64 = rng.random_range(0.001..0.999);
                leave = median * u / (1.0 - u);
            }
            leave
        })
        .collect()
}

/// A pool before anybody holds nodes.
struct World {
    free: Vec<u32>,
    leaves: Vec<Vec<f64>>,
    trainers: Vec<Trainer>,
    /// Seconds at the present rate that growing and shrinking cost.
    costs: Vec<(f64, f64)>,
}

impl World {
    fn new(shape: Shape, seed: u64, rng: &mut ChaCha8Rng) -> Option<Self> {
        let problem = scarce(shape.size, &networks(1), seed);
        let classes = shape.classes.max(1);
        let factor = [1.0, 5.0, 10.0].get(rng.random_range(0..3)).copied()?;
        let trainers = problem.trainers.iter().map(|item| Trainer {
            held: Vec::new(),
            rates: item.value.clone(),
            stall_s: factor * item.down_s,
            charges: Charges {
                grow: 0.0,
                shrink: 0.0,
                any: Some(0.0),
            },
        });
        let costs = problem.trainers.iter();
        Some(Self {
            free: parts(shape.size.nodes, classes, rng),
            leaves: (0..shape.scenarios.max(1))
                .map(|_| scenario(classes, rng))
                .collect(),
            trainers: trainers.collect(),
            costs: costs
                .map(|item| (factor * item.up_s, factor * item.down_s))
                .collect(),
        })
    }

    fn runs(&self) -> Option<Runs> {
        let (free, leaves) = (self.free.clone(), self.leaves.clone());
        Runs::new(HORIZON_S, free, leaves, self.trainers.clone()).ok()
    }

    /// Carries out an answer, good but not the best.
    fn settle(&mut self) -> Option<()> {
        let mut runs = self.runs()?;
        let options = Options {
            gap: 0.03,
            ..Options::new(&|| 0.0)
        };
        let answer = solve(&mut runs, &self.free, &[], &options).ok()?;
        for (trainer, column) in self.trainers.iter_mut().zip(answer.chosen) {
            for (k, n) in column.take {
                let n = u32::try_from(n).ok()?;
                trainer.held.push((k, n));
                let free = self.free.get_mut(k as usize)?;
                *free = free.checked_sub(n)?;
            }
        }
        Some(())
    }

    /// The classes in front leave, and new nodes come in so many places.
    fn change(&mut self, leave: u32, new: u32, places: u32, rng: &mut ChaCha8Rng) {
        for free in self.free.iter_mut().take(leave as usize) {
            *free = 0;
        }
        let (mut left, classes) = (new, self.free.len());
        for place in 0..places {
            let part = if place + 1 == places { left } else { left / 2 };
            if let Some(free) = self.free.get_mut(rng.random_range(0..classes)) {
                *free = free.saturating_add(part);
            }
            left -= part;
        }
        for (trainer, &(up, down)) in self.trainers.iter_mut().zip(&self.costs) {
            let before = trainer.held.len();
            trainer.held.retain(|h| h.0 >= leave);
            let hit = trainer.held.len() < before || trainer.held.is_empty();
            let rate = trainer.rate_now();
            trainer.charges = Charges {
                grow: if hit { 0.0 } else { up * rate },
                shrink: if hit { 0.0 } else { down * rate },
                any: hit.then_some(0.0),
            };
        }
        // Time has passed, and forecasts have moved.
        for scenario in &mut self.leaves {
            let factor = rng.random_range(0.8..1.25);
            scenario.iter_mut().for_each(|leave| *leave *= factor);
        }
    }
}

/// An instance of this shape, the same for a seed; nothing if the shape makes none.
#[must_use]
pub fn instance(shape: Shape, seed: u64) -> Option<Runs> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut world = World::new(shape, seed, &mut rng)?;
    let share = |share: f64| (f64::from(shape.size.nodes) * share) as u32;
    match shape.situation {
        Situation::Start => {}
        Situation::Event => {
            world.settle()?;
            let new = share(rng.random_range(0.02..0.08));
            let places = rng.random_range(1..4);
            world.change(1, new, places, &mut rng);
        }
        Situation::Storm => {
            world.settle()?;
            let new = share(rng.random_range(0.2..0.4));
            world.change(shape.classes / 4, new, shape.classes / 2, &mut rng);
        }
    }
    world.runs()
}
