//! Time limit of a pilot, from the forecast of its hole.

use lacuna_model::{Forecast, Span};

use crate::settings::TimeLimit;

impl TimeLimit {
    /// Time limit for a hole with this forecast.
    #[must_use]
    pub fn of(&self, forecast: Option<&Forecast>) -> Span {
        let Some(forecast) = forecast.filter(|f| !f.points.is_empty()) else {
            return self.default;
        };
        let open = 1.0 - self.quantile;
        let length = forecast.quantile(open).filter(|s| s.is_finite());
        let length = length.map_or(self.max, Span::from_secs_f64);
        length.max(self.min).min(self.max.max(self.min))
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::ForecastPoint;

    use super::*;

    #[test]
    fn the_limit_is_a_quantile_within_bounds() {
        let limit = TimeLimit {
            quantile: 0.9,
            min: Span::from_secs(300),
            max: Span::from_secs(7200),
            ..TimeLimit::default()
        };
        let until = |seconds: f64, open: f64| Forecast {
            points: vec![ForecastPoint {
                after_s: seconds,
                open,
            }],
        };
        assert_eq!(limit.of(None), Span::from_secs(3600));
        assert_eq!(limit.of(Some(&Forecast::default())), Span::from_secs(3600));
        // 90 % of the way down to zero after 1000 s.
        assert_eq!(limit.of(Some(&until(1000.0, 0.0))), Span::from_secs(900));
        assert_eq!(limit.of(Some(&until(60.0, 0.0))), Span::from_secs(300));
        assert_eq!(limit.of(Some(&until(1e6, 0.0))), Span::from_secs(7200));
        // The forecast ends while half of the holes are open: the hole may last.
        assert_eq!(limit.of(Some(&until(100.0, 0.5))), Span::from_secs(7200));
    }
}
