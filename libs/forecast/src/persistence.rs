//! Persistence: the median remaining length of a hole is its age.

use std::collections::BTreeMap;

use lacuna_model::{Forecast, ForecastPoint, Hole, Timestamp};

use crate::{Bins, Forecasts, LearningStage, Predictor};

/// The least age, seconds; lower ones count as this, so that a new hole is not certain to end at
/// once.
const YOUNGEST_S: f64 = 10.0;

/// The curve's points, as multiples of the age.
const MULTIPLES: [f64; 14] = [
    0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.5, 4.0, 8.0, 20.0, 60.0, 200.0,
];

/// Forecasts that a hole of age `a` is still open after `t` more with probability `a / (a + t)`. So
/// its median remaining length is its age.
///
/// This holds if the present falls into every part of a hole's life with equal probability, and
/// nothing else is known (Gott, "Implications of the Copernican principle for our future
/// prospects", Nature 363, 1993). It is the persistence forecast for lengths. It learns nothing
/// and is the baseline for learnt predictors.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Persistence {
    bins: Bins,
}

impl Persistence {
    /// The predictor; it has no settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The survival curve of the remaining length of a hole of an age in seconds.
    #[must_use]
    pub fn curve(age_s: f64) -> Forecast {
        let age = age_s.max(YOUNGEST_S);
        let points = MULTIPLES
            .iter()
            .map(|multiple| ForecastPoint {
                after_s: age * multiple,
                open: 1.0 / (1.0 + multiple),
            })
            .collect();
        Forecast { points }
    }
}

impl Predictor for Persistence {
    fn name(&self) -> &'static str {
        "persistence"
    }

    fn label(&self) -> String {
        self.name().to_owned()
    }

    fn learning(&self) -> LearningStage {
        LearningStage::Fixed
    }

    fn opened(&mut self, _: &Hole, _: Timestamp) {}

    fn closed(&mut self, _: &Hole, _: Timestamp) {}

    fn lost(&mut self, _: &Hole, _: Timestamp) {}

    fn forecast(&mut self, now: Timestamp, holes: &[Hole]) -> Forecasts {
        let age = |hole: &Hole| now.since(hole.since).as_secs_f64().max(0.0);
        // Holes in one bin of ages share the curve of their mean age.
        let mut by_bin: BTreeMap<usize, (u32, f64, f64)> = BTreeMap::new();
        for hole in holes {
            let age = age(hole);
            let next = by_bin.len() as u32;
            let bin = by_bin.entry(self.bins.of(age)).or_insert((next, 0.0, 0.0));
            (bin.1, bin.2) = (bin.1 + age, bin.2 + 1.0);
        }
        let mut forecasts = vec![Forecast::default(); by_bin.len()];
        for &(number, sum, count) in by_bin.values() {
            if let Some(forecast) = forecasts.get_mut(number as usize) {
                *forecast = Self::curve(sum / count);
            }
        }
        let index = holes
            .iter()
            .map(|hole| by_bin.get(&self.bins.of(age(hole))).map_or(0, |bin| bin.0))
            .collect();
        Forecasts {
            forecasts,
            index,
            joint: None,
            announced: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::NodeId;

    use super::*;

    #[test]
    fn the_median_remaining_length_is_the_age() {
        let curve = Persistence::curve(600.0);
        assert_eq!(curve.quantile(0.5), Some(600.0));
        assert!((curve.open_after(1800.0) - 0.25).abs() < 0.03);
        let hole = |node: &str, since| Hole {
            node: NodeId::new(node).unwrap(),
            since: Timestamp::from_unix(since),
        };
        // The third hole begins in the future, because a clock was set back.
        let holes = [hole("a", 0), hole("b", 900), hole("c", 5000), hole("d", 0)];
        let forecasts = Persistence::new().forecast(Timestamp::from_unix(1000), &holes);
        let open = |place| forecasts.of(place).unwrap().open_after(100.0);
        assert!(open(0) > 0.9 && open(0) == open(3), "{}", open(0));
        assert!((open(1) - 0.5).abs() < 1e-9 && open(2) < 0.12);
    }
}
