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

/// Where in the ordered list of idle nodes the taken ones stood, event by event: 0 is its front,
/// 1 its end, and .5 is the mean if there is no order.
///
/// The unit is the event, not the node: nodes of one event go to one batch job and are no
/// independent witnesses. So for each leave event the mean place of the nodes it took is one
/// observation, and the standard error is that of the mean of these.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Evidence {
    /// Sums of weights and of squared weights.
    weight: f64,
    weight_squared: f64,
    /// Weighted sums of the places and of their squares.
    sum: f64,
    squares: f64,
    events: u64,
}

impl Evidence {
    /// An event took nodes whose mean place was `place`, in `[0, 1]`.
    pub fn event(&mut self, place: f64) {
        if !(0.0..=1.0).contains(&place) {
            return;
        }
        let fade = 1.0 - 1.0 / REMEMBERED;
        self.weight = self.weight * fade + 1.0;
        self.weight_squared = self.weight_squared * fade * fade + 1.0;
        self.sum = self.sum * fade + place;
        self.squares = self.squares * fade + place * place;
        self.events = self.events.saturating_add(1);
    }

    /// Events seen, faded ones included.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The mean place.
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
                evidence.event(of(event));
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
            evidence.event(0.0);
        }
        evidence.event(f64::NAN);
        assert_eq!((evidence.z(), evidence.events()), (None, 11));
        evidence.event(0.0);
        evidence.event(0.0);
        assert!(evidence.holds());
    }
}
