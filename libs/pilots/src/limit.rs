//! Time limit of a pilot, from the forecast of its hole.

use lacuna_model::pilots::TimeLimit;
use lacuna_model::{Forecast, Span};

/// Time limit for a hole with this forecast.
#[must_use]
pub fn time_limit(time: &TimeLimit, forecast: Option<&Forecast>) -> Span {
    let Some(forecast) = forecast.filter(|f| !f.points.is_empty()) else {
        return time.default;
    };
    let open = 1.0 - time.quantile;
    let length = forecast.quantile(open).filter(|s| s.is_finite());
    let length = length.map_or(time.max, Span::from_secs_f64);
    length.max(time.min).min(time.max.max(time.min))
}

#[cfg(test)]
mod tests {
    use lacuna_model::ForecastPoint;

    use super::*;

    #[test]
    fn the_limit_is_a_quantile_within_bounds() {
        let time = TimeLimit {
            quantile: 0.9,
            min: Span::from_secs(300),
            max: Span::from_secs(7200),
            ..TimeLimit::default()
        };
        let of = |forecast: Option<&Forecast>| time_limit(&time, forecast);
        let until = |seconds: f64, open: f64| Forecast {
            points: vec![ForecastPoint {
                after_s: seconds,
                open,
            }],
        };
        assert_eq!(of(None), Span::from_secs(3600));
        assert_eq!(of(Some(&Forecast::default())), Span::from_secs(3600));
        // 90 % of the way down to zero after 1000 s.
        assert_eq!(of(Some(&until(1000.0, 0.0))), Span::from_secs(900));
        assert_eq!(of(Some(&until(60.0, 0.0))), Span::from_secs(300));
        assert_eq!(of(Some(&until(1e6, 0.0))), Span::from_secs(7200));
        // The forecast ends while half of the holes are open: the hole may last.
        assert_eq!(of(Some(&until(100.0, 0.5))), Span::from_secs(7200));
    }
}
