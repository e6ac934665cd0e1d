//! Whether the scheduler takes nodes in an order at all.

use serde::{Deserialize, Serialize};

/// The newest events count most: what an event weighs fades over about so many later ones, so
/// that an order that was changed is found out.
const REMEMBERED: f64 = 2000.0;

/// So many standard errors from .5 make an order. One chance in 30,000 for independent events;
/// neighbouring events are not quite independent, hence so many.
pub(crate) const SIGNIFICANT: f64 = 4.0;

/// So many events must have been seen before anything is said.
const ENOUGH: f64 = 12.0;

/// Where in the ordered list of idle nodes the taken ones stood, event by event: 0 if they were
/// its front, 1 if they were its end, and .5 is the mean if there is no order. (The front `k` of
/// `n` stand at `k / 2n` on average, the last `k` at `1 - k / 2n`; a mean place `m` counts as
/// `(m - k / 2n) / (1 - k / n)`, so that large jobs show the order as plainly as small ones.)
///
/// The unit is the event, not the node: nodes of one event go to one batch job and are no
/// independent witnesses. So for each leave event the mean place of the nodes it took is one
/// observation, and the standard error is that of the mean of these. An event weighs as the square
/// root of its nodes: a single node often leaves for other reasons than a batch job (it fails, it
/// is drained, it flaps), and one large job is no hundred small ones.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Sums of weights and of squared weights.
    weight: f64,
    weight_squared: f64,
    /// Weighted sums of the places and of their squares.
    sum: f64,
    squares: f64,
    events: u64,
    /// The same by node: sums of nodes, and of nodes times places.
    nodes: f64,
    node_sum: f64,
}

impl Evidence {
    /// An event took so many nodes, whose mean place was `place`, in `[0, 1]`.
    pub fn event(&mut self, place: f64, nodes: usize) {
        if !(0.0..=1.0).contains(&place) {
            return;
        }
        let fade = 1.0 - 1.0 / REMEMBERED;
        let weight = (nodes as f64).sqrt();
        self.weight = self.weight * fade + weight;
        self.weight_squared = self.weight_squared * fade * fade + weight * weight;
        self.sum = self.sum * fade + weight * place;
        self.squares = self.squares * fade + weight * place * place;
        self.events = self.events.saturating_add(1);
        self.nodes = self.nodes * fade + nodes as f64;
        self.node_sum = self.node_sum * fade + nodes as f64 * place;
    }

    /// Events seen, faded ones included.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The mean place by node, for comparison: large jobs weigh most. It has no standard error.
    #[must_use]
    pub fn mean_by_node(&self) -> Option<f64> {
        (self.nodes > 0.0).then(|| self.node_sum / self.nodes)
    }

    /// The mean place by event.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }

    /// The standard error of the mean, by event.
    #[must_use]
    pub fn standard_error(&self) -> Option<f64> {
        let mean = self.mean()?;
        // The number of equally weighted events that would be worth as much.
        let worth = self.weight * self.weight / self.weight_squared;
        if worth < ENOUGH {
            return None;
        }
        let variance = (self.squares / self.weight - mean * mean).max(0.0) * worth / (worth - 1.0);
        // Places of all alike would claim certainty: they are known to half a place in a list
        // of a hundred at best.
        Some((variance / worth).sqrt().max(0.005))
    }

    /// How many standard errors the mean lies before .5: far above zero, the front is taken;
    /// far below, the end. Nothing until a dozen events have been seen.
    #[must_use]
    pub fn z(&self) -> Option<f64> {
        Some((0.5 - self.mean()?) / self.standard_error()?)
    }

    /// Whether the front is taken first, beyond doubt.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.z().is_some_and(|z| z >= SIGNIFICANT)
    }

    /// Whether the end is taken first, beyond doubt.
    #[must_use]
    pub fn is_reversed(&self) -> bool {
        self.z().is_some_and(|z| z <= -SIGNIFICANT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_the_end_and_neither() {
        let places = |of: fn(u32) -> f64| {
            let mut evidence = Evidence::default();
            for event in 0..400u32 {
                evidence.event(of(event), 3);
            }
            evidence
        };
        let spread = |event: u32| f64::from(event * 7919 % 400) / 399.0;
        let none = places(|event| f64::from(event * 7919 % 400) / 399.0);
        assert!(!none.holds() && !none.is_reversed(), "{:?}", none.z());
        assert!((none.mean().unwrap() - 0.5).abs() < 0.02 && spread(0) == 0.0);
        assert!(places(|event| 0.2 + f64::from(event % 5) / 20.0).holds());
        assert!(places(|event| 0.7 + f64::from(event % 5) / 20.0).is_reversed());
    }

    #[test]
    fn too_few_events_say_nothing() {
        let mut evidence = Evidence::default();
        for _ in 0..11 {
            evidence.event(0.0, 1);
        }
        evidence.event(f64::NAN, 1);
        assert_eq!((evidence.z(), evidence.events()), (None, 11));
        evidence.event(0.0, 1);
        evidence.event(0.0, 1);
        assert!(evidence.holds());
    }
}
