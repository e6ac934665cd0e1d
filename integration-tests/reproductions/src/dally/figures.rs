//! The figures of runs: mean and deviation over orders of machines.

use lacuna_gangs::Outcome;

/// Seconds of an hour.
const HOUR_S: f64 = 3600.0;

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    Makespan,
    Mean,
    Median,
    P95,
    P99,
    /// Wall-clock time lost to communication, summed over jobs.
    Communication,
    /// The same, weighted by GPUs.
    CommunicationGpu,
    Utilisation,
    Restarts,
}

impl Measure {
    /// All, with their names in JSON. Times are in hours.
    pub(super) const NAMED: [(Self, &'static str); 9] = [
        (Self::Makespan, "makespan_h"),
        (Self::Mean, "mean_completion_h"),
        (Self::Median, "median_completion_h"),
        (Self::P95, "p95_completion_h"),
        (Self::P99, "p99_completion_h"),
        (Self::Communication, "communication_h"),
        (Self::CommunicationGpu, "communication_gpu_h"),
        (Self::Utilisation, "utilisation"),
        (Self::Restarts, "restarts"),
    ];

    /// The figure of a run.
    pub(super) fn of(self, outcome: &Outcome) -> f64 {
        match self {
            Self::Makespan => outcome.makespan_s() / HOUR_S,
            Self::Mean => outcome.mean_completion_s() / HOUR_S,
            Self::Median => outcome.completion_quantile_s(0.5) / HOUR_S,
            Self::P95 => outcome.completion_quantile_s(0.95) / HOUR_S,
            Self::P99 => outcome.completion_quantile_s(0.99) / HOUR_S,
            Self::Communication => outcome.communication_s() / HOUR_S,
            Self::CommunicationGpu => outcome.communication_gpu_s() / HOUR_S,
            Self::Utilisation => outcome.utilisation(),
            Self::Restarts => outcome.restarts() as f64,
        }
    }
}

/// Mean and deviation of some runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) mean: f64,
    /// Of one run; 0 for a single one.
    pub(super) deviation: f64,
}

impl Spread {
    /// Of some values; not a number without any.
    pub(super) fn of(values: &[f64]) -> Self {
        let runs = values.len();
        let mean = values.iter().sum::<f64>() / runs as f64;
        let squares = values
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>();
        Self {
            mean,
            deviation: (squares / runs.saturating_sub(1).max(1) as f64).sqrt(),
        }
    }

    /// As `433.6 ± 0.3`; without the deviation where it rounds to nothing.
    pub(super) fn words(self, digits: usize) -> String {
        if !self.mean.is_finite() {
            return "-".to_owned();
        }
        let deviation = format!("{:.digits$}", self.deviation);
        if deviation.chars().any(|c| matches!(c, '1'..='9')) {
            format!("{:.digits$} ± {deviation}", self.mean)
        } else {
            format!("{:.digits$}", self.mean)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_have_deviations() {
        let some = Spread::of(&[1.0, 2.0, 3.0]);
        assert_eq!((some.mean, some.deviation), (2.0, 1.0));
        assert_eq!(some.words(1), "2.0 ± 1.0");
        assert_eq!(Spread::of(&[4.0]).words(1), "4.0");
        assert_eq!(Spread::of(&[]).words(1), "-");
    }
}
