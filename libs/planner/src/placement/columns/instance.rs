//! Seeded instances for measurement: an event in a pool of mostly held nodes.
//!
//! Nodes lie in classes of equal nodes of random sizes, in the order of the scheduler. Front
//! classes leave earlier, and neighbours often together. At a start no trainer runs; the other
//! situations follow from a plan for a start. Costs are 1, 5 or 10 times the published ones.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::Item;
use crate::placement::blocks::BlockPlacer;
use crate::placement::{Request, Scenarios, Settings};
use crate::problem::instance::{Size, networks, scarce};

/// The event of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Situation {
    /// A usual event: the front class has left and hit the trainers on it. New nodes, 2 to 8 % of
    /// the pool, have come in up to three places.
    Event,
    /// A large event: a quarter of the classes has left, and 20 to 40 % of the pool is new.
    Storm,
    /// No trainer runs yet: all nodes are free, and every trainer may take any node set.
    Start,
}

/// The size and the event of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Trainers and nodes.
    pub size: Size,
    /// Classes of equal nodes.
    pub classes: u32,
    /// Number of scenarios.
    pub scenarios: u32,
    /// The event.
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

/// A request with the data that it borrows.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The trainers.
    pub trainers: Vec<Item>,
    /// Whether each was hit.
    pub hit: Vec<bool>,
    /// Present owner of each node.
    pub owners: Vec<Option<u32>>,
    /// Departures of the nodes.
    pub scenarios: Scenarios,
}

impl Instance {
    /// The request; starts are free.
    #[must_use]
    pub fn request(&self) -> Request<'_> {
        Request {
            trainers: &self.trainers,
            hit: &self.hit,
            start_s: &[],
            owners: &self.owners,
            scenarios: &self.scenarios,
        }
    }
}

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

/// Leave time of each class in a scenario, seconds. An interval of classes shares one time; front
/// classes leave earlier.
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

/// A pool in classes.
struct World {
    /// Owners by class.
    nodes: Vec<Vec<Option<u32>>>,
    /// By scenario, when each class leaves.
    leaves: Vec<Vec<f64>>,
    trainers: Vec<Item>,
    hit: Vec<bool>,
}

impl World {
    fn new(shape: Shape, seed: u64, rng: &mut ChaCha8Rng) -> Option<Self> {
        let classes = shape.classes.max(1);
        let factor = [1.0, 5.0, 10.0].get(rng.random_range(0..3)).copied()?;
        let mut trainers = scarce(shape.size, &networks(1), seed).trainers;
        for item in &mut trainers {
            item.up_s *= factor;
            item.down_s *= factor;
            (item.current, item.rate_now) = (0, 0.0);
        }
        let sizes = parts(shape.size.nodes, classes, rng);
        Some(Self {
            nodes: sizes.iter().map(|&n| vec![None; n as usize]).collect(),
            leaves: (0..shape.scenarios.max(1))
                .map(|_| scenario(classes, rng))
                .collect(),
            hit: vec![false; trainers.len()],
            trainers,
        })
    }

    fn instance(&self) -> Instance {
        let owners: Vec<Option<u32>> = self.nodes.iter().flatten().copied().collect();
        let scenario = |leaves: &Vec<f64>| -> Vec<f64> {
            let classes = self.nodes.iter().zip(leaves);
            classes
                .flat_map(|(nodes, &leave)| std::iter::repeat_n(leave, nodes.len()))
                .collect()
        };
        let leave = self.leaves.iter().flat_map(scenario).collect();
        Instance {
            trainers: self.trainers.clone(),
            hit: self.hit.clone(),
            scenarios: Scenarios::new(owners.len(), leave),
            owners,
        }
    }

    /// Applies a good plan.
    fn settle(&mut self) {
        let instance = self.instance();
        let plan = BlockPlacer::new(Settings::default()).decide(&instance.request());
        let mut owners = plan.owners.into_iter();
        for node in self.nodes.iter_mut().flatten() {
            *node = owners.next().flatten();
        }
    }

    /// Lets `leave` front classes leave, and `new` nodes come in `places` places.
    fn change(&mut self, leave: u32, new: u32, places: u32, rng: &mut ChaCha8Rng) {
        self.hit.fill(false);
        for nodes in self.nodes.iter_mut().take(leave as usize) {
            for owner in nodes.drain(..).flatten() {
                if let Some(hit) = self.hit.get_mut(owner as usize) {
                    *hit = true;
                }
            }
        }
        let (mut left, classes) = (new, self.nodes.len());
        for place in 0..places {
            let part = if place + 1 == places { left } else { left / 2 };
            if let Some(nodes) = self.nodes.get_mut(rng.random_range(0..classes)) {
                nodes.extend(std::iter::repeat_n(None, part as usize));
            }
            left -= part;
        }
        for (j, item) in (0_u32..).zip(&mut self.trainers) {
            let held = self.nodes.iter().flatten().filter(|&&o| o == Some(j));
            item.current = held.count() as u32;
            let rate = item.value.get(item.current as usize).copied();
            item.rate_now = rate.unwrap_or(0.0);
        }
        // Time has passed, and forecasts have moved.
        for scenario in &mut self.leaves {
            let factor = rng.random_range(0.8..1.25);
            scenario.iter_mut().for_each(|leave| *leave *= factor);
        }
    }
}

/// The instance of a shape and a seed; nothing if the shape allows none.
#[must_use]
pub fn instance(shape: Shape, seed: u64) -> Option<Instance> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut world = World::new(shape, seed, &mut rng)?;
    let share = |share: f64| (f64::from(shape.size.nodes) * share) as u32;
    match shape.situation {
        Situation::Start => {}
        Situation::Event => {
            world.settle();
            let new = share(rng.random_range(0.02..0.08));
            let places = rng.random_range(1..4);
            world.change(1, new, places, &mut rng);
        }
        Situation::Storm => {
            world.settle();
            let new = share(rng.random_range(0.2..0.4));
            world.change(shape.classes / 4, new, shape.classes / 2, &mut rng);
        }
    }
    Some(world.instance())
}
