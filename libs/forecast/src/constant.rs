//! The same remaining length for every hole: BFTrainer's forward-looking time T.

use lacuna_model::{Forecast, ForecastPoint, Hole, Span, Timestamp};

use crate::{Forecasts, LearningStage, Predictor};

/// The step from open to closed takes this many seconds, because a forecast's times strictly
/// increase.
const STEP_S: f64 = 0.001;

/// Forecasts that every hole stays open for one length from now, at any age, and is closed after it
/// (arXiv 2106.12091, the parameter T).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Constant {
    length: Span,
}

impl Constant {
    /// A predictor by which every hole stays open for `length` more.
    #[must_use]
    pub const fn new(length: Span) -> Self {
        Self { length }
    }

    /// The forecast of every hole.
    #[must_use]
    pub fn curve(&self) -> Forecast {
        let length = self.length.as_secs_f64();
        let point = |after_s, open| ForecastPoint { after_s, open };
        Forecast {
            points: vec![point(length, 1.0), point(length + STEP_S, 0.0)],
        }
    }
}

impl Predictor for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn label(&self) -> String {
        format!("constant {}", self.length)
    }

    fn learning(&self) -> LearningStage {
        LearningStage::Fixed
    }

    fn opened(&mut self, _: &Hole, _: Timestamp) {}

    fn closed(&mut self, _: &Hole, _: Timestamp) {}

    fn lost(&mut self, _: &Hole, _: Timestamp) {}

    fn forecast(&mut self, _: Timestamp, holes: &[Hole]) -> Forecasts {
        if holes.is_empty() {
            return Forecasts::default();
        }
        Forecasts {
            forecasts: vec![self.curve()],
            index: vec![0; holes.len()],
            joint: None,
            announced: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_is_open_until_its_time_and_closed_after() {
        let curve = Constant::new(Span::from_secs(120)).curve();
        assert_eq!(curve.open_after(119.0), 1.0);
        assert_eq!(curve.open_after(121.0), 0.0);
        assert!((curve.mean_within(600.0) - 120.0).abs() < 0.001);
    }
}
