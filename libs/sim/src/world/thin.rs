//! The state over time, thinned to a fixed number of points.

use crate::Point;
use crate::history::POINTS;

/// A stretch of time that is still being filled.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    at_s: f64,
    until_s: f64,
    /// Node-seconds of the pool, and of what trains.
    pool_s: f64,
    used_s: f64,
    pool: (u32, u32),
    used: (u32, u32),
    samples: f64,
}

impl Stretch {
    fn new(at_s: f64, pool: u32, used: u32, samples: f64) -> Self {
        Self {
            at_s,
            until_s: at_s,
            pool_s: 0.0,
            used_s: 0.0,
            pool: (pool, pool),
            used: (used, used),
            samples,
        }
    }

    fn take(&mut self, next: &Self) {
        self.until_s = next.until_s;
        self.pool_s += next.pool_s;
        self.used_s += next.used_s;
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
        }
    }
}

/// Takes the state after each event, and keeps at most [`POINTS`] stretches of it. When they
/// become more, stretches are merged to twice the length.
#[derive(Debug, Clone, Default)]
pub(super) struct Thin {
    stretches: Vec<Stretch>,
    /// Stretches begin at multiples of this, seconds; 0 as long as each event has its own.
    width_s: f64,
    now: Option<(f64, u32, u32)>,
}

impl Thin {
    /// The state from a moment on; moments never decrease.
    pub(super) fn add(&mut self, at_s: f64, pool: u32, used: u32, samples: f64) {
        self.until(at_s);
        self.now = Some((at_s, pool, used));
        let next = Stretch::new(at_s, pool, used, samples);
        self.push(next);
        if self.stretches.len() > POINTS {
            self.widen(at_s);
        }
    }

    /// The present state has lasted until here.
    pub(super) fn until(&mut self, at_s: f64) {
        let (Some((since, pool, used)), Some(last)) = (self.now, self.stretches.last_mut()) else {
            return;
        };
        let dt = (at_s - since).max(0.0);
        last.pool_s += dt * f64::from(pool);
        last.used_s += dt * f64::from(used);
        last.until_s = last.until_s.max(at_s);
        self.now = Some((at_s.max(since), pool, used));
    }

    fn push(&mut self, next: Stretch) {
        match self.stretches.last_mut() {
            Some(last) if self.width_s > 0.0 && same(last.at_s, next.at_s, self.width_s) => {
                last.take(&next);
            }
            _ => self.stretches.push(next),
        }
    }

    fn widen(&mut self, now_s: f64) {
        self.width_s = if self.width_s > 0.0 {
            2.0 * self.width_s
        } else {
            (2.0 * now_s / POINTS as f64).max(f64::MIN_POSITIVE)
        };
        for stretch in std::mem::take(&mut self.stretches) {
            self.push(stretch);
        }
    }

    pub(super) fn points(&self) -> Vec<Point> {
        self.stretches.iter().map(Stretch::point).collect()
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
        let mut thin = Thin::default();
        thin.add(0.0, 4, 3, 0.0);
        thin.add(5.0, 2, 2, 30.0);
        thin.until(9.0);
        let points = thin.points();
        assert_eq!((points[0].pool, points[0].used), (4, 3));
        assert_eq!((points[1].at_s, points[1].samples), (5.0, 30.0));
    }

    #[test]
    fn many_events_are_merged_and_no_node_second_is_lost() {
        let mut thin = Thin::default();
        let (mut pool_s, mut used_s) = (0.0, 0.0);
        for event in 0..50_000_u32 {
            let (pool, used) = (event % 97, (event % 97) / 2);
            thin.add(f64::from(event) * 3.0, pool, used, f64::from(event));
            (pool_s, used_s) = (
                pool_s + 3.0 * f64::from(pool),
                used_s + 3.0 * f64::from(used),
            );
        }
        thin.until(150_000.0);
        let points = thin.points();
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
