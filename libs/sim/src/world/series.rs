//! The state over time, downsampled to a bounded number of points.

use lacuna_model::{Cause, StepsAt};

use crate::Point;
use crate::history::POINTS;

/// What the steps of trainers teach and wait for at a moment or, times seconds, over some time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StepSums {
    trainers: f64,
    nodes: f64,
    /// The sum over trainers.
    batch: f64,
    /// The sums over nodes.
    efficiency: f64,
    waits: [f64; Cause::ALL.len()],
}

impl StepSums {
    /// Adds a trainer on some nodes.
    pub(super) fn trainer(&mut self, nodes: u32, steps: &StepsAt) {
        let nodes = f64::from(nodes);
        self.add(
            1.0,
            &Self {
                trainers: 1.0,
                nodes,
                batch: steps.batch,
                efficiency: nodes * steps.efficiency,
                waits: steps.waits.map(|share| nodes * share),
            },
        );
    }

    fn add(&mut self, times: f64, other: &Self) {
        self.trainers += times * other.trainers;
        self.nodes += times * other.nodes;
        self.batch += times * other.batch;
        self.efficiency += times * other.efficiency;
        for (sum, share) in self.waits.iter_mut().zip(other.waits) {
            *sum += times * share;
        }
    }

    fn mean(&self) -> Option<StepsAt> {
        (self.nodes > 0.0 && self.trainers > 0.0).then(|| StepsAt {
            batch: self.batch / self.trainers,
            efficiency: self.efficiency / self.nodes,
            waits: self.waits.map(|sum| sum / self.nodes),
        })
    }
}

/// An interval of the series.
#[derive(Debug, Clone, Copy)]
struct Interval {
    at_s: f64,
    until_s: f64,
    /// Node-seconds of the pool, and of trainers.
    pool_s: f64,
    used_s: f64,
    pool: (u32, u32),
    used: (u32, u32),
    samples: f64,
    steps: StepSums,
}

impl Interval {
    fn new(at_s: f64, pool: u32, used: u32, samples: f64) -> Self {
        Self {
            at_s,
            until_s: at_s,
            pool_s: 0.0,
            used_s: 0.0,
            pool: (pool, pool),
            used: (used, used),
            samples,
            steps: StepSums::default(),
        }
    }

    fn take(&mut self, next: &Self) {
        self.until_s = next.until_s;
        self.pool_s += next.pool_s;
        self.used_s += next.used_s;
        self.steps.add(1.0, &next.steps);
        self.pool = (self.pool.0.min(next.pool.0), self.pool.1.max(next.pool.1));
        self.used = (self.used.0.min(next.used.0), self.used.1.max(next.used.1));
    }

    fn point(&self) -> Point {
        let length = self.until_s - self.at_s;
        let mean = |node_s: f64, (least, most): (u32, u32)| {
            if length > 0.0 {
                (node_s / length).clamp(f64::from(least), f64::from(most))
            } else {
                f64::from(most)
            }
        };
        let pool_mean = mean(self.pool_s, self.pool);
        let used_mean = mean(self.used_s, self.used).min(pool_mean);
        Point {
            at_s: self.at_s,
            pool: pool_mean.round() as u32,
            used: used_mean.round() as u32,
            samples: self.samples,
            pool_mean,
            pool_range: self.pool,
            used_mean,
            used_range: self.used,
            steps: self.steps.mean(),
        }
    }
}

/// A series of the state after each event, in at most [`POINTS`] intervals. Beyond that number,
/// intervals are merged to twice the length.
#[derive(Debug, Clone, Default)]
pub(super) struct Series {
    intervals: Vec<Interval>,
    /// Intervals begin at multiples of this, seconds; 0 as long as each event has its own.
    width_s: f64,
    now: Option<(f64, u32, u32, StepSums)>,
}

impl Series {
    /// Sets the state from a moment on. Moments never decrease.
    pub(super) fn add(
        &mut self,
        at_s: f64,
        (pool, used): (u32, u32),
        samples: f64,
        steps: StepSums,
    ) {
        self.until(at_s);
        self.now = Some((at_s, pool, used, steps));
        let next = Interval::new(at_s, pool, used, samples);
        self.push(next);
        if self.intervals.len() > POINTS {
            self.widen(at_s);
        }
    }

    /// Extends the present state to a moment.
    pub(super) fn until(&mut self, at_s: f64) {
        let (Some((since, pool, used, steps)), Some(last)) = (self.now, self.intervals.last_mut())
        else {
            return;
        };
        let dt = (at_s - since).max(0.0);
        last.pool_s += dt * f64::from(pool);
        last.used_s += dt * f64::from(used);
        last.steps.add(dt, &steps);
        last.until_s = last.until_s.max(at_s);
        self.now = Some((at_s.max(since), pool, used, steps));
    }

    fn push(&mut self, next: Interval) {
        match self.intervals.last_mut() {
            Some(last) if self.width_s > 0.0 && same(last.at_s, next.at_s, self.width_s) => {
                last.take(&next);
            }
            _ => self.intervals.push(next),
        }
    }

    fn widen(&mut self, now_s: f64) {
        self.width_s = if self.width_s > 0.0 {
            2.0 * self.width_s
        } else {
            (2.0 * now_s / POINTS as f64).max(f64::MIN_POSITIVE)
        };
        for interval in std::mem::take(&mut self.intervals) {
            self.push(interval);
        }
    }

    pub(super) fn points(&self) -> Vec<Point> {
        self.intervals.iter().map(Interval::point).collect()
    }
}

fn same(a: f64, b: f64, width: f64) -> bool {
    (a / width).floor() == (b / width).floor()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_events_are_kept_as_they_are() {
        let mut series = Series::default();
        let mut steps = StepSums::default();
        let of = |batch, efficiency| StepsAt {
            batch,
            efficiency,
            waits: [0.0, 0.0, 0.5, 0.0],
        };
        steps.trainer(3, &of(96.0, 0.5));
        steps.trainer(1, &of(32.0, 0.9));
        series.add(0.0, (4, 3), 0.0, steps);
        series.add(5.0, (2, 2), 30.0, StepSums::default());
        series.until(9.0);
        let points = series.points();
        let found = points[0].steps.unwrap();
        assert!((found.batch - 64.0).abs() + (found.efficiency - 0.6).abs() < 1e-12);
        assert_eq!((found.waits[2], points[1].steps), (0.5, None));
        assert_eq!((points[0].pool, points[0].used), (4, 3));
        assert_eq!((points[1].at_s, points[1].samples), (5.0, 30.0));
    }

    #[test]
    fn many_events_are_merged_and_no_node_second_is_lost() {
        let mut series = Series::default();
        let (mut pool_s, mut used_s) = (0.0, 0.0);
        for event in 0..50_000_u32 {
            let (pool, used) = (event % 97, (event % 97) / 2);
            let (at_s, samples) = (f64::from(event) * 3.0, f64::from(event));
            series.add(at_s, (pool, used), samples, StepSums::default());
            (pool_s, used_s) = (
                pool_s + 3.0 * f64::from(pool),
                used_s + 3.0 * f64::from(used),
            );
        }
        series.until(150_000.0);
        let points = series.points();
        assert!(
            (POINTS / 4..=POINTS).contains(&points.len()),
            "{}",
            points.len()
        );
        let ends = points.iter().skip(1).map(|p| p.at_s).chain([150_000.0]);
        let (mut pool, mut used) = (0.0, 0.0);
        for (point, end) in points.iter().zip(ends) {
            pool += point.pool_mean * (end - point.at_s);
            used += point.used_mean * (end - point.at_s);
            assert!(point.pool_range.0 <= point.pool && point.pool <= point.pool_range.1);
        }
        assert!(
            (pool - pool_s).abs() < 1e-3 * pool_s.sqrt(),
            "{pool} {pool_s}"
        );
        assert!(
            (used - used_s).abs() < 1e-3 * used_s.sqrt(),
            "{used} {used_s}"
        );
        let most = points.iter().map(|p| p.pool_range.1).max();
        assert_eq!(most, Some(96));
    }
}
