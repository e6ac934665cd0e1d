//! The evidence that the scheduler takes nodes in an order.

use serde::{Deserialize, Serialize};

/// The weight of an event fades over about this many later ones, so that a change of the order
/// shows.
const REMEMBERED: f64 = 2000.0;

/// The number of standard errors from .5 that is significant. For independent events this is one
/// chance in 30,000. Neighbouring events are not quite independent, so the bound is high.
pub(crate) const SIGNIFICANT: f64 = 4.0;

/// The effective number of events before a standard error is given.
const ENOUGH: f64 = 12.0;

/// The places of taken nodes in the ordered list of idle nodes, by event: 0 if they were its front,
/// 1 if they were its end, and .5 on average without an order. The first `k` of `n` nodes have the
/// mean place `k / 2n`, the last `k` have `1 - k / 2n`. A mean place `m` counts as
/// `(m - k / 2n) / (1 - k / n)`, so that large and small jobs show the order alike.
///
/// The unit is the event, not the node: the nodes of one event go to one batch job and are not
/// independent. So each leave event is one observation, the mean place of its nodes, and the
/// standard error is that of the mean of these. The weight of an event is the square root of its
/// nodes. A single node often leaves for another reason than a batch job (it fails, is drained, or
/// flaps), and one large job is less evidence than many small ones.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// The sums of weights and of squared weights.
    weight: f64,
    weight_squared: f64,
    /// The weighted sums of the places and of their squares.
    sum: f64,
    squares: f64,
    events: u64,
    /// The sums of nodes, and of nodes times places.
    nodes: f64,
    node_sum: f64,
}

impl Evidence {
    /// Adds an event that took `nodes` nodes with the mean place `place`, in `[0, 1]`.
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

    /// The number of events so far, faded ones included.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The mean place by node, for comparison. Large jobs weigh most, and it has no standard error.
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
        // The effective number of events: as many of equal weight would have this variance.
        let effective = self.weight * self.weight / self.weight_squared;
        if effective < ENOUGH {
            return None;
        }
        let spread = (self.squares / self.weight - mean * mean).max(0.0);
        let variance = spread * effective / (effective - 1.0);
        // Equal places would give an error of zero. A place is exact to half a place in a list of a
        // hundred at best.
        Some((variance / effective).sqrt().max(0.005))
    }

    /// The number of standard errors by which the mean is below .5. Far above zero, the front is
    /// taken first; far below, the end. `None` before a dozen events.
    #[must_use]
    pub fn z(&self) -> Option<f64> {
        Some((0.5 - self.mean()?) / self.standard_error()?)
    }

    /// Whether the front is taken first, significantly.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.z().is_some_and(|z| z >= SIGNIFICANT)
    }

    /// Whether the end is taken first, significantly.
    #[must_use]
    pub fn is_reversed(&self) -> bool {
        self.z().is_some_and(|z| z <= -SIGNIFICANT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_the_end_and_no_order_are_told_apart() {
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
    fn too_few_events_give_no_evidence() {
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
