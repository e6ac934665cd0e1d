//! What a program says of its batch: the noise scale of its gradient, as the package reports it.

use lacuna_model::{Learning, Sizing};
use serde::Deserialize;
use serde_json::Value;

/// Two parts of a report. What is wrong in them is no error of the report.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct BatchReport {
    #[serde(default)]
    noise: Option<Value>,
    #[serde(default)]
    batch: Option<Value>,
}

#[derive(Deserialize)]
struct Noise {
    error: f64,
    critical_batch: f64,
}

#[derive(Deserialize)]
struct Batch {
    m0: u64,
    total: u64,
    efficiency: f64,
    #[serde(default)]
    counts_progress: bool,
    #[serde(default)]
    sizing: Option<Value>,
}

impl BatchReport {
    /// What the batch is worth; nothing if the report does not say it, or says nonsense.
    #[must_use]
    pub fn learning(&self) -> Option<Learning> {
        let noise = Noise::deserialize(self.noise.as_ref()?).ok()?;
        let batch = Batch::deserialize(self.batch.as_ref()?).ok()?;
        let learning = Learning {
            noise_scale: noise.critical_batch,
            error: noise.error,
            user_batch: batch.m0,
            batch: batch.total,
            efficiency: batch.efficiency,
            counts_progress: batch.counts_progress,
            // Programs say it in the words of the vocabulary. What is wrong there is left out.
            sizing: (batch.sizing.as_ref())
                .and_then(|said| Sizing::deserialize(said).ok())
                .filter(Sizing::is_valid)
                .map(Box::new),
        };
        learning.is_valid().then_some(learning)
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::Follows;
    use serde_json::json;

    use super::*;

    fn said(noise: Value, batch: Value) -> Option<Learning> {
        let report = json!({"noise": noise, "batch": batch, "samples": 3});
        BatchReport::deserialize(&report).unwrap().learning()
    }

    #[test]
    fn the_batch_and_the_noise_scale_are_taken_together_or_not_at_all() {
        let noise = json!({"phi": 20.0, "error": 0.1, "critical_batch": 640.0, "steps": 90});
        let batch = json!({"m0": 32, "total": 64, "bounds": [32, 128], "efficiency": 0.955});
        let found = said(noise.clone(), batch.clone()).unwrap();
        assert_eq!((found.noise_scale, found.error), (640.0, 0.1));
        assert_eq!((found.user_batch, found.batch), (32, 64));
        assert_eq!(found.efficiency, 0.955);
        // A program that counts plain samples has learnt less than it has counted.
        assert_eq!(found.worth_of_counted(), 0.955);
        assert_eq!(said(noise.clone(), Value::Null), None);
        assert_eq!(said(Value::Null, batch.clone()), None);
        assert_eq!(said(json!("x"), batch.clone()), None);
        let sizing = json!({"follows": "adaptive", "most": 128, "most_of_worker": null,
            "fixed_s": 0.01, "sample_s": 0.002, "rest_s": [[1, 0.001], [2, 0.03]]});
        let mut batch = batch;
        batch["counts_progress"] = json!(true);
        let counted = said(noise.clone(), batch.clone()).unwrap();
        assert_eq!(counted.worth_of_counted(), 1.0);
        batch["sizing"] = sizing.clone();
        let sized = said(noise.clone(), batch.clone()).unwrap().sizing.unwrap();
        assert_eq!((sized.follows, sized.most), (Follows::Adaptive, 128));
        assert_eq!(sized.rest_s, [(1, 0.001), (2, 0.03)]);
        for (field, wrong) in [
            ("most", json!(0)),
            ("rest_s", json!([])),
            ("fixed_s", json!(-1)),
        ] {
            batch["sizing"] = sizing.clone();
            batch["sizing"][field] = wrong;
            assert_eq!(said(noise.clone(), batch.clone()).unwrap().sizing, None);
        }
        let nonsense = json!({"m0": 32, "total": 64, "efficiency": 3.0});
        assert_eq!(said(noise.clone(), nonsense), None);
        // On fewer nodes than the user's batch was meant for, a sample teaches more.
        let fewer = json!({"m0": 32, "total": 8, "efficiency": 1.036});
        assert_eq!(said(noise, fewer).unwrap().efficiency, 1.036);
    }
}
