//! Where the time of a program's steps goes. The agent replays the times that a program reports, so
//! that they travel no further: what comes of them is small.

use std::time::Duration;

use lacuna_model::StepCosts;
use lacuna_stalls::{Steps, Trace, answer};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

/// Least time between two replays for a program. The package reports every 30 s.
const EVERY: Duration = Duration::from_secs(10);

/// The replays of one program's steps.
#[derive(Debug, Default)]
pub(super) struct Costs {
    last: Option<Instant>,
}

impl Costs {
    /// What the times that a program reports say. Nothing if it reports none, or more often than it
    /// is listened to, or times that cannot be replayed.
    pub(super) fn of(&mut self, said: Option<&Value>) -> Option<Box<StepCosts>> {
        let said = said?;
        let now = Instant::now();
        if self.last.is_some_and(|last| now < last + EVERY) {
            return None;
        }
        self.last = Some(now);
        match replayed(said) {
            Ok(found) => Some(Box::new(found)),
            Err(error) => {
                tracing::info!(error, "the times of a program's steps cannot be replayed");
                None
            }
        }
    }
}

fn replayed(said: &Value) -> Result<StepCosts, String> {
    let trace = Trace::deserialize(said).map_err(|error| error.to_string())?;
    let steps = Steps::read(&trace).map_err(|error| error.to_string())?;
    answer(&steps).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Value {
        let flat = |time: u32| vec![time; 16];
        json!({
            "version": 1, "members": 1, "workers": 1, "depth": 2, "bytes": [0],
            "ranks": [{
                "rank": 0, "wait": flat(50_000), "hand": flat(1000), "prep": flat(120_000),
                "fetch": flat(0), "update": flat(4000), "rest": flat(5000),
                "ready": [flat(60_000)], "done": [flat(60_000)],
            }],
        })
    }

    #[tokio::test(start_paused = true)]
    async fn times_are_replayed_at_a_limited_rate() {
        let mut costs = Costs::default();
        assert_eq!(costs.of(None), None);
        let found = costs.of(Some(&report())).unwrap();
        assert!(found.trusted);
        assert!((found.measured - 0.120).abs() < 1e-9);
        assert_eq!(costs.of(Some(&report())), None);
        tokio::time::advance(EVERY).await;
        assert!(costs.of(Some(&report())).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn nonsense_is_no_report() {
        for said in [json!(null), json!([1]), json!({"version": 9}), json!("x")] {
            assert_eq!(Costs::default().of(Some(&said)), None);
        }
    }
}
