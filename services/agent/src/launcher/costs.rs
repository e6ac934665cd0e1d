//! Where the time of a program's steps goes. The agent replays the times that a program reports, so
//! that they travel no further: what comes of them is small.

use std::time::Duration;

use lacuna_model::{Progress, StepCosts};
use lacuna_stalls::{Steps, Trace, answer};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

/// Least time between two replays for a program. The package reports every 30 s.
const EVERY: Duration = Duration::from_secs(10);

/// Characters of an error that a report has at most: it may name many members.
const MOST_WORDS: usize = 400;

/// The replays of one program's steps.
#[derive(Debug, Default)]
pub(super) struct Costs {
    last: Option<Instant>,
}

impl Costs {
    /// Tells in a report what the times that a program has sent say, or why they say nothing. Neither
    /// if it has sent none, or sends them more often than it is listened to.
    pub(super) fn tell(&mut self, said: Option<&Value>, report: &mut Progress) {
        let Some(said) = said else { return };
        let now = Instant::now();
        if self.last.is_some_and(|last| now < last + EVERY) {
            return;
        }
        self.last = Some(now);
        match replayed(said) {
            Ok(found) => report.step_costs = Some(Box::new(found)),
            Err(error) => {
                tracing::info!(error, "the times of a program's steps cannot be replayed");
                report.no_replay = Some(error.chars().take(MOST_WORDS).collect());
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
    use lacuna_model::{NodeId, RunId, Timestamp, TrainerId};
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

    fn told(costs: &mut Costs, said: Option<&Value>) -> Progress {
        let (node, trainer) = (NodeId::new("n1").unwrap(), TrainerId::new("t").unwrap());
        let mut report = Progress::new(node, trainer, RunId(1), Timestamp::default(), 1.0);
        costs.tell(said, &mut report);
        report
    }

    #[tokio::test(start_paused = true)]
    async fn times_are_replayed_at_a_limited_rate() {
        let mut costs = Costs::default();
        assert_eq!(told(&mut costs, None).step_costs, None);
        let found = told(&mut costs, Some(&report())).step_costs.unwrap();
        assert!(found.trusted);
        assert!((found.measured - 0.120).abs() < 1e-9);
        assert_eq!(told(&mut costs, Some(&report())).step_costs, None);
        tokio::time::advance(EVERY).await;
        let again = told(&mut costs, Some(&report()));
        assert!(again.step_costs.is_some() && again.no_replay.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn nonsense_is_told() {
        for said in [json!(null), json!([1]), json!({"version": 9}), json!("x")] {
            let told = told(&mut Costs::default(), Some(&said));
            assert!(told.step_costs.is_none() && told.no_replay.is_some());
        }
        let mut silent = report();
        silent["silent"] = json!([1]);
        let why = told(&mut Costs::default(), Some(&silent)).no_replay;
        assert!(why.unwrap().starts_with("members [1] sent no times"));
    }
}
