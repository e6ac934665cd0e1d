//! Metrics of single trainers: where the time of their steps goes, and what their batch is worth. A
//! trainer is shown while it has nodes and reports such figures, so there are few at a time.

use lacuna_model::{Cause, TrainerRecord};
use lacuna_runtime::metrics;
use prometheus::GaugeVec;

/// The part of a step without any cause, and the whole step as measured.
const COMPUTES: &str = "computes";
const STEP: &str = "step";

metrics! {
    /// The gauges.
    pub(crate) struct Training {
        step: GaugeVec = "lacuna_control_step_seconds",
            "seconds of a step of a trainer: the step, what it computes, and what each cause alone costs",
            by ["trainer", "part"];
        samples: GaugeVec = "lacuna_control_trainer_samples",
            "samples done by a trainer, as its program counts them", by ["trainer"];
        counted_worth: GaugeVec = "lacuna_control_counted_worth",
            "samples of the user's batch that a sample done is worth, as the program counts them",
            by ["trainer"];
        noise_scale: GaugeVec = "lacuna_control_noise_scale_samples",
            "noise scale of a trainer's gradient, in samples", by ["trainer"];
        batch: GaugeVec = "lacuna_control_batch_samples",
            "batch of a trainer's newest step, in samples", by ["trainer"];
        efficiency: GaugeVec = "lacuna_control_learning_efficiency",
            "samples of the user's batch that a sample of a trainer's batch is worth", by ["trainer"];
    }
}

impl Training {
    /// Shows these trainers, and no others any more.
    pub(crate) fn show<'a>(&self, records: impl IntoIterator<Item = &'a TrainerRecord>) {
        for gauge in [
            &self.step,
            &self.samples,
            &self.counted_worth,
            &self.noise_scale,
            &self.batch,
            &self.efficiency,
        ] {
            gauge.reset();
        }
        let measured = |record: &&TrainerRecord| {
            !record.nodes.is_empty() && (record.step_costs.is_some() || record.learning.is_some())
        };
        for record in records.into_iter().filter(measured) {
            let name = record.spec.id.as_str();
            let set = |gauge: &GaugeVec, value| gauge.with_label_values(&[name]).set(value);
            set(&self.samples, record.samples());
            // Of a step that the replay does not know, no cause is known.
            if let Some(costs) = record.step_costs.as_ref().filter(|costs| costs.trusted) {
                let part = |part, value| self.step.with_label_values(&[name, part]).set(value);
                part(STEP, costs.measured);
                part(COMPUTES, costs.computes);
                for cause in Cause::ALL {
                    part(cause.name(), costs.cost(cause).max(0.0));
                }
            }
            if let Some(learning) = &record.learning {
                set(&self.noise_scale, learning.noise_scale);
                set(&self.batch, learning.batch as f64);
                set(&self.efficiency, learning.efficiency);
                set(&self.counted_worth, learning.worth_of_counted());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lacuna_runtime::metrics::Registry;

    use super::*;

    #[test]
    fn trainers_with_nodes_are_shown_with_what_they_report() {
        let registry = Registry::new();
        let training = Training::new(&registry).unwrap();
        let shown = |record: &TrainerRecord| {
            training.show([record]);
            metrics::expose(&registry).unwrap()
        };
        let mut record = lacuna_testkit::reporting("t");
        let text = shown(&record);
        for line in [
            "lacuna_control_step_seconds{part=\"step\",trainer=\"t\"} 0.2",
            "lacuna_control_step_seconds{part=\"computes\",trainer=\"t\"} 0.15",
            "lacuna_control_step_seconds{part=\"link\",trainer=\"t\"} 0.05",
            "lacuna_control_step_seconds{part=\"fetch\",trainer=\"t\"} 0",
            "lacuna_control_noise_scale_samples{trainer=\"t\"} 640",
            "lacuna_control_batch_samples{trainer=\"t\"} 64",
            "lacuna_control_learning_efficiency{trainer=\"t\"} 0.9",
            "lacuna_control_counted_worth{trainer=\"t\"} 0.9",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        // A program that counts samples of the user's batch has each of them whole.
        if let Some(learning) = &mut record.learning {
            learning.counts_progress = true;
        }
        let text = shown(&record);
        assert!(
            text.contains("lacuna_control_counted_worth{trainer=\"t\"} 1\n"),
            "{text}"
        );
        // Of a step that the replay does not know no cause is known.
        if let Some(costs) = &mut record.step_costs {
            costs.trusted = false;
        }
        let text = shown(&record);
        assert!(!text.contains("step_seconds{"), "{text}");
        assert!(text.contains("lacuna_control_batch_samples{"), "{text}");
        record.nodes.clear();
        assert!(!shown(&record).contains("trainer=\"t\""));
    }
}
