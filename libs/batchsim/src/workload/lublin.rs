//! The job model of Lublin and Feitelson (2003).
//!
//! The constants are those of the authors' program for the "whole sample" (batch and interactive
//! jobs together). The Parallel Workloads Archive has it as `m_lublin99`.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Gamma, GammaError};

/// Share of jobs on one node.
const SERIAL: f64 = 0.244;
/// Share of jobs on a power of two of nodes.
const POWER_OF_TWO: f64 = 0.576;
/// Log2 of the smallest parallel job, less a bit so that two nodes are not too rare.
const SIZE_LOW: f64 = 0.8;
/// The middle of the two-stage uniform lies this far below log2 of the machine (the authors
/// recommend 1.5 to 3.5; their own 128 nodes have 7 - 4.5).
const SIZE_MIDDLE_BELOW: f64 = 2.5;
/// Share of parallel jobs in the lower stage.
const SIZE_LOWER: f64 = 0.86;
/// First gamma of log runtime: shape and scale (short jobs).
const SHORT: (f64, f64) = (4.2, 0.94);
/// Second gamma of log runtime (long jobs).
const LONG: (f64, f64) = (312.0, 0.03);
/// The share of short jobs is `SHORT_SLOPE * nodes + SHORT_AT_ZERO`, within [0, 1].
const SHORT_SLOPE: f64 = -0.0054;
/// See [`SHORT_SLOPE`].
const SHORT_AT_ZERO: f64 = 0.78;
/// Log seconds beyond which a runtime is drawn again (e^12 s is just under two days).
const LOG_RUNTIME_MAX: f64 = 12.0;
/// Gamma of the log of the time between arrivals in the rush hours.
const RUSH: (f64, f64) = (10.2303, 0.4871);
/// Factor on the shape of [`RUSH`] that makes it hold for the whole day.
const RUSH_TO_DAY: f64 = 1.0225;
/// Log seconds beyond which a time between arrivals is drawn again (e^13 s is five days).
const LOG_GAP_MAX: f64 = 13.0;
/// Gamma of the time of day of arrivals, in half hours after [`DAY_SHIFT`].
const DAILY: (f64, f64) = (8.1737, 3.9631);
/// Half hours from midnight to the start of the daily cycle.
const DAY_SHIFT: usize = 11;
/// Half hours in a day.
const BUCKETS: usize = 48;
/// Seconds in half an hour.
const BUCKET_S: f64 = 1800.0;

/// Requested walltimes are runtime times a factor drawn uniformly from 1 to this, as in the
/// f-model of Mu'alem and Feitelson (IEEE TPDS 12(6), 2001) with f = 3: users ask for about
/// 2.5 times what they need.
const OVER_ESTIMATE: f64 = 4.0;
/// Walltimes are rounded up to this many seconds, as people do.
const WALLTIME_STEP: f64 = 300.0;
/// No walltime beyond two days: queues have limits (and no runtime reaches it).
const WALLTIME_MAX: f64 = 172_800.0;

/// Size and lengths of a job; everything but its arrival.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    pub(super) nodes: u32,
    pub(super) runtime: i64,
    pub(super) walltime: i64,
}

/// Draws jobs for a machine of a given size. Shapes and arrivals have their own streams of
/// random numbers, so that a change of load changes no job.
#[derive(Debug, Clone)]
pub(super) struct Model {
    nodes: u32,
    shapes: ChaCha8Rng,
    short: Gamma<f64>,
    long: Gamma<f64>,
}

impl Model {
    pub(super) fn new(nodes: u32, seed: u64) -> Result<Self, GammaError> {
        let mut shapes = ChaCha8Rng::seed_from_u64(seed);
        shapes.set_stream(1);
        Ok(Self {
            nodes,
            shapes,
            short: Gamma::new(SHORT.0, SHORT.1)?,
            long: Gamma::new(LONG.0, LONG.1)?,
        })
    }

    /// The next job's shape.
    pub(super) fn shape(&mut self) -> Shape {
        let nodes = self.size();
        let runtime = self.runtime(nodes);
        Shape {
            nodes,
            runtime: runtime as i64,
            walltime: self.walltime(runtime),
        }
    }

    /// Two-stage uniform in log2, with extra weight on one node and on powers of two.
    fn size(&mut self) -> u32 {
        let kind: f64 = self.shapes.random();
        if kind <= SERIAL {
            return 1;
        }
        let high = f64::from(self.nodes).log2();
        let middle = (high - SIZE_MIDDLE_BELOW).max(SIZE_LOW.min(high));
        let low = SIZE_LOW.min(middle);
        let stage: f64 = self.shapes.random();
        let within: f64 = self.shapes.random();
        let (from, to) = if stage <= SIZE_LOWER {
            (low, middle)
        } else {
            (middle, high)
        };
        let mut log2 = from + (to - from) * within;
        if kind <= SERIAL + POWER_OF_TWO {
            log2 = log2.round();
        }
        (log2.exp2().round() as u32).clamp(1, self.nodes)
    }

    /// Hyper-gamma of the log of the runtime in seconds, at least one second.
    fn runtime(&mut self, nodes: u32) -> f64 {
        let short = (SHORT_SLOPE * f64::from(nodes) + SHORT_AT_ZERO).clamp(0.0, 1.0);
        loop {
            let kind: f64 = self.shapes.random();
            let log = if kind <= short {
                self.short.sample(&mut self.shapes)
            } else {
                self.long.sample(&mut self.shapes)
            };
            if log <= LOG_RUNTIME_MAX {
                return log.exp().floor().max(1.0);
            }
        }
    }

    /// The walltime that the user requests, seconds.
    fn walltime(&mut self, runtime: f64) -> i64 {
        let factor = self.shapes.random_range(1.0..=OVER_ESTIMATE);
        let asked = (runtime * factor / WALLTIME_STEP).ceil() * WALLTIME_STEP;
        asked.min(WALLTIME_MAX).max(runtime) as i64
    }
}

/// Arrival times, in seconds from midnight, with the daily cycle. Each time between arrivals
/// is a number of points drawn from a gamma; a half hour costs as many points as its share of
/// the day's arrivals, so that busy hours pass slowly.
#[derive(Debug, Clone)]
pub(super) struct Arrivals {
    rng: ChaCha8Rng,
    gap: Gamma<f64>,
    /// Points of each half hour of the day; 1 on average.
    weights: [f64; BUCKETS],
    /// Factor on every time between arrivals.
    scale: f64,
    /// The whole half hours that have passed.
    bucket: u64,
    /// Points spent within the present half hour.
    spent: f64,
}

impl Arrivals {
    pub(super) fn new(seed: u64, scale: f64) -> Result<Self, GammaError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(2);
        Ok(Self {
            rng,
            gap: Gamma::new(RUSH.0 * RUSH_TO_DAY, RUSH.1)?,
            weights: daily_weights(),
            scale,
            bucket: 0,
            spent: 0.0,
        })
    }
}

impl Iterator for Arrivals {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        let log = loop {
            let log = self.gap.sample(&mut self.rng);
            if log <= LOG_GAP_MAX {
                break log;
            }
        };
        self.spent += self.scale * log.exp() / BUCKET_S;
        loop {
            let weight = self.weights.get(self.bucket as usize % BUCKETS).copied()?;
            if self.spent <= weight {
                let within = self.spent / weight;
                return Some(((self.bucket as f64 + within) * BUCKET_S) as i64);
            }
            self.spent -= weight;
            self.bucket += 1;
        }
    }
}

/// Mean seconds between arrivals at scale 1: the mean of `exp(x)` where `x` has the gamma
/// density of [`Arrivals`] up to [`LOG_GAP_MAX`]. Drawn means come near it only slowly, because
/// rare gaps of days weigh much. By Simpson's rule; the density's constant cancels.
pub(super) fn mean_gap() -> f64 {
    const STEPS: u32 = 20_000;
    let (shape, scale) = (RUSH.0 * RUSH_TO_DAY, RUSH.1);
    let density = |x: f64| x.powf(shape - 1.0) * (-x / scale).exp();
    let step = LOG_GAP_MAX / f64::from(STEPS);
    let (mut mass, mut mean) = (0.0, 0.0);
    for number in 0..=STEPS {
        let x = f64::from(number) * step;
        let weight = match number {
            0 | STEPS => 1.0,
            _ if number % 2 == 1 => 4.0,
            _ => 2.0,
        };
        mass += weight * density(x);
        mean += weight * density(x) * x.exp();
    }
    mean / mass
}

/// The share of each half hour in the day's arrivals, times 48. The density is integrated by
/// Simpson's rule; its constant factor cancels.
fn daily_weights() -> [f64; BUCKETS] {
    let (shape, scale) = DAILY;
    let density = |x: f64| x.powf(shape - 1.0) * (-x / scale).exp();
    let mut weights = [0.0; BUCKETS];
    for number in DAY_SHIFT..BUCKETS + DAY_SHIFT {
        let x = number as f64;
        let area = (density(x - 0.5) + 4.0 * density(x) + density(x + 0.5)) / 6.0;
        if let Some(weight) = weights.get_mut((number - 1) % BUCKETS) {
            *weight = area;
        }
    }
    let mean = weights.iter().sum::<f64>() / BUCKETS as f64;
    weights.map(|weight| weight / mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_jobs_arrive_in_the_afternoon_and_few_at_night() {
        let weights = daily_weights();
        let busiest = (0..BUCKETS).max_by(|&a, &b| weights[a].total_cmp(&weights[b]));
        // The mode of the gamma is 28.4 half hours: a quarter past two.
        assert_eq!(busiest, Some(27));
        assert!(weights[10] < 0.2 && weights[27] > 1.5, "{weights:?}");
        assert!((weights.iter().sum::<f64>() - 48.0).abs() < 1e-9);
    }

    #[test]
    fn sizes_and_runtimes_have_the_published_shares() {
        let seed = 7;
        println!("seed {seed}");
        let mut model = Model::new(128, seed).unwrap();
        let jobs: Vec<Shape> = (0..200_000).map(|_| model.shape()).collect();
        let share = |test: &dyn Fn(&Shape) -> bool| {
            jobs.iter().filter(|job| test(job)).count() as f64 / jobs.len() as f64
        };
        // Serial jobs, and parallel ones that round down to one node: 2^0.5 < 2^par < 1.5
        // happens only for par below log2(1.5), which is under SIZE_LOW.
        assert!((share(&|job| job.nodes == 1) - 0.244).abs() < 0.005);
        let even = share(&|job| job.nodes > 1 && job.nodes.is_power_of_two());
        assert!((0.576..0.68).contains(&even), "{even}");
        // Runtimes on one node: 77.46 % from the short gamma, whose median is near e^3.64.
        let serial: Vec<&Shape> = jobs.iter().filter(|job| job.nodes == 1).collect();
        let long = serial.iter().filter(|job| job.runtime > 3000).count() as f64;
        let long = long / serial.len() as f64;
        assert!((0.2..0.32).contains(&long), "{long}");
        assert!(jobs.iter().all(|job| job.runtime >= 1
            && job.walltime >= job.runtime
            && (1..=128).contains(&job.nodes)));
    }

    #[test]
    fn a_scale_of_one_half_doubles_the_arrivals() {
        let count = |scale| {
            Arrivals::new(3, scale)
                .unwrap()
                .take_while(|&at| at < 300 * 86_400)
                .count() as f64
        };
        let (slow, fast) = (count(1.0), count(0.5));
        // E[exp(gamma)] cut at 13 gives about 80 jobs a day.
        assert!((70.0 * 300.0..110.0 * 300.0).contains(&slow), "{slow}");
        assert!((fast / slow - 2.0).abs() < 0.1, "{slow} {fast}");
    }

    #[test]
    fn the_mean_gap_is_that_of_very_many_draws() {
        let arrivals = 2_000_000;
        let last = Arrivals::new(5, 1.0).unwrap().nth(arrivals - 1).unwrap();
        let drawn = last as f64 / arrivals as f64;
        println!("seed 5: drawn {drawn}, computed {}", mean_gap());
        assert!((drawn / mean_gap() - 1.0).abs() < 0.02);
    }
}
