//! The figures of a replay.

use serde_json::Value;

use crate::runs::Done;

/// A figure of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// Share of the zero-cost bound.
    Share,
    /// Samples lost to nodes that left, over samples done.
    Preempt,
    /// Samples lost to changes by the planner, over samples done.
    Rescale,
    /// Size changes per hour of trainers that had nodes.
    Rescales,
    /// Those of them that stopped a trainer that would have run on.
    Stops,
    /// Losses of nodes per hour.
    Preemptions,
    /// Interruptions of trainers per hour: a trainer lost nodes, or was stopped to be resized. A
    /// trainer that is resized just after a loss is interrupted once.
    Interruptions,
    /// Share of the idle node-time that was used.
    IdleUsed,
    /// Samples of the zero-cost bound.
    Bound,
    /// Median time of a decision, seconds.
    DecisionP50,
    /// 99th percentile of the time of a decision, seconds.
    DecisionP99,
}

impl Measure {
    /// All measures with their names in JSON.
    pub(super) const NAMED: [(&'static str, Self); 10] = [
        ("share_of_zero_cost_bound", Self::Share),
        ("preempt_cost_fraction", Self::Preempt),
        ("rescale_cost_fraction", Self::Rescale),
        ("rescales_per_hour", Self::Rescales),
        ("stopping_rescales_per_hour", Self::Stops),
        ("preemptions_per_hour", Self::Preemptions),
        ("interruptions_per_hour", Self::Interruptions),
        ("idle_share_used", Self::IdleUsed),
        ("decision_p50_s", Self::DecisionP50),
        ("decision_p99_s", Self::DecisionP99),
    ];

    /// The figure in the JSON of one replay.
    pub(super) fn of(self, run: &Value) -> Option<f64> {
        let at = |pointer: &str| run.pointer(pointer).and_then(Value::as_f64);
        let hourly = |count: f64| {
            let hours = at("/hours")?;
            (hours > 0.0).then(|| count / hours)
        };
        match self {
            Self::Share => at("/zero_cost_fraction"),
            Self::Preempt => at("/preempt_cost_fraction"),
            Self::Rescale => at("/rescale_cost_fraction"),
            Self::Rescales => hourly(at("/rescales")?),
            Self::Stops => hourly(at("/rescales")? - at("/rescales_at_hits")?),
            Self::Preemptions => hourly(at("/preemptions")?),
            Self::Interruptions => {
                let stops = at("/rescales")? - at("/rescales_at_hits")?;
                hourly(at("/preemptions")? + stops)
            }
            Self::IdleUsed => at("/idle_share_used"),
            Self::Bound => {
                let share = at("/zero_cost_fraction").filter(|share| *share > 0.0)?;
                Some(at("/samples")? / share)
            }
            Self::DecisionP50 => at("/solve_seconds/p50"),
            Self::DecisionP99 => at("/solve_seconds/p99"),
        }
    }
}

/// The figure of each seed, sorted; empty if a seed lacks it.
pub(super) fn of_seeds(done: &Done, measure: Measure) -> Vec<f64> {
    let values: Option<Vec<f64>> = done.outputs().iter().map(|run| measure.of(run)).collect();
    let mut values = values.unwrap_or_default();
    values.sort_by(f64::total_cmp);
    values
}

/// The median over seeds.
pub(super) fn median(done: &Done, measure: Measure) -> Option<f64> {
    let values = of_seeds(done, measure);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get(values.len().saturating_sub(1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// The least and the largest of several seeds.
pub(super) fn spread(done: &Done, measure: Measure) -> Option<(f64, f64)> {
    match of_seeds(done, measure).as_slice() {
        [least, .., most] => Some((*least, *most)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn figures_are_per_hour() {
        let run = json!({
            "hours": 2.0, "rescales": 30, "rescales_at_hits": 10, "preemptions": 8,
            "samples": 90.0, "zero_cost_fraction": 0.9, "idle_share_used": 0.5,
        });
        assert_eq!(Measure::Rescales.of(&run), Some(15.0));
        assert_eq!(Measure::Stops.of(&run), Some(10.0));
        assert_eq!(Measure::Preemptions.of(&run), Some(4.0));
        assert_eq!(Measure::Interruptions.of(&run), Some(14.0));
        assert_eq!(Measure::Bound.of(&run), Some(100.0));
        assert_eq!(Measure::IdleUsed.of(&run), Some(0.5));
        assert_eq!(Measure::Share.of(&json!({})), None);
        // A replay of zero hours has no figures per hour.
        assert_eq!(
            Measure::Rescales.of(&json!({"hours": 0, "rescales": 1})),
            None
        );
    }
}
