//! The saved state of the hazard.

use lacuna_model::NodeId;
use serde::{Deserialize, Serialize};

use super::core::HazardCore;
use super::drift::{Drift, Followers};
use super::feature_bins::BINS;
use super::features::{FEATURES, FeatureRow};
use super::model::{Model, PerInterval};
use super::named::Hazard;
use super::samples::Fate;
use super::settings::{HazardSettings, OrderState};
use super::trust::Trust;
use crate::co_departure::CoDeparture;
use crate::lengths;
use crate::saved::{ModelError, open, seal};
use crate::{Evidence, Nodes, OrderBy, Saver, Typical};

/// The version of the saved format. It grows with every change of features, intervals or fields.
const VERSION: u16 = 3;

#[derive(Serialize, Deserialize)]
struct Memory {
    order: OrderBy,
    state: OrderState,
    given: Evidence,
    by_taken: Evidence,
    links: CoDeparture,
    typical: Typical,
    /// Absent in older files.
    #[serde(default)]
    lengths: lengths::Evidence,
    model: Option<Model>,
    /// The trust in the model; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trust: Option<PerInterval>,
    /// The correction of the model between fits; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level: Option<Followers>,
    ended: u64,
    fitted_s: f64,
    /// For each node: name, times taken, times expected.
    taken: Vec<(String, f32, f32)>,
    /// The number of steps to one that is sampled; absent in older files.
    #[serde(default)]
    every: u64,
    /// For each sample: features, time, remaining length, whether the hole ended.
    samples: Vec<(FeatureRow, f64, f32, bool)>,
}

impl Hazard {
    pub(super) fn seal(&self) -> Option<Vec<u8>> {
        seal("hazard", VERSION, &self.memory())
    }

    /// A task that writes a copy of the state.
    pub(super) fn sealer(&self) -> Saver {
        let memory = self.memory();
        Box::new(move || seal("hazard", VERSION, &memory))
    }

    fn memory(&self) -> Memory {
        let core = &self.core;
        Memory {
            order: core.settings.order.clone(),
            state: core.state,
            given: core.given,
            by_taken: core.by_taken,
            links: core.links,
            typical: core.typical.clone(),
            lengths: core.lengths.evidence(),
            model: core.model.clone(),
            trust: Some(core.trust.own()),
            level: Some(core.drift.followers()),
            ended: core.ended,
            fitted_s: core.fitted_s,
            taken: (0..)
                .zip(&self.names)
                .map(|(node, name)| {
                    let (taken, expected) = core.taken.of(node);
                    (name.as_str().to_owned(), taken, expected)
                })
                .collect(),
            every: core.samples.every(),
            samples: core
                .samples
                .list
                .iter()
                .filter(|sample| sample.fate != Fate::Open)
                .map(|sample| {
                    let ended = sample.fate == Fate::Ended;
                    (sample.row, sample.at_s, sample.length_s, ended)
                })
                .collect(),
        }
    }

    /// Restores a hazard from saved bytes. If the settings have another order, the evidence for the
    /// old one is dropped and the rest is kept.
    ///
    /// # Errors
    /// [`ModelError`] if the bytes are damaged, or of another predictor or version.
    pub fn restore(settings: HazardSettings, bytes: &[u8]) -> Result<Self, ModelError> {
        let memory: Memory = open("hazard", VERSION, bytes)?;
        let damaged = |what: &str| ModelError::Damaged {
            what: what.to_owned(),
        };
        if let Some(model) = &memory.model {
            model.check().map_err(damaged)?;
        }
        let drift = match memory.level {
            Some(level) => Drift::restore(level).map_err(damaged)?,
            None => Drift::default(),
        };
        let trust = match memory.trust {
            Some(own) => Trust::restore(own).map_err(damaged)?,
            None if memory.model.is_some() => Trust::full(),
            None => Trust::default(),
        };
        let mut samples = memory.samples.iter();
        if samples.any(|(row, at_s, length_s, _)| {
            row.iter().any(|&bin| usize::from(bin) >= BINS)
                || !at_s.is_finite()
                || length_s.is_nan()
                || *length_s < 0.0
        }) {
            return Err(damaged("a sample is out of range"));
        }
        let mut hazard = Self::new(settings);
        for (name, _, _) in &memory.taken {
            let node = NodeId::new(name).map_err(|error| damaged(&error.to_string()))?;
            hazard.number(&node);
        }
        let names = hazard.names.iter().map(NodeId::as_str);
        let nodes = Nodes::from_names(names, &hazard.core.settings.order);
        hazard.ranked = hazard.names.len();
        let evidence = memory.lengths.clone();
        hazard.core.lengths.restore(evidence).map_err(damaged)?;
        hazard.core.restore(nodes, memory);
        hazard.core.trust = trust;
        hazard.core.drift = drift;
        Ok(hazard)
    }
}

impl HazardCore {
    fn restore(&mut self, nodes: Nodes, memory: Memory) {
        self.renumber(nodes);
        for (node, &(_, taken, expected)) in memory.taken.iter().enumerate() {
            self.taken.set(node, (taken.max(0.0), expected.max(0.0)));
        }
        self.links = memory.links;
        self.typical = memory.typical;
        self.ended = memory.ended;
        self.samples.restore(memory.samples, memory.every);
        if memory.model.is_some() {
            self.rank_taken();
            self.mark_fitted(memory.fitted_s, memory.ended);
        }
        self.model = memory.model;
        if memory.order == self.settings.order {
            self.given = memory.given;
            self.by_taken = memory.by_taken;
            self.turn(memory.state);
        }
    }
}

const _: () = assert!(
    FEATURES <= 32,
    "rows of more than 32 cannot be saved as they are"
);

#[cfg(test)]
mod tests {
    use super::*;

    /// A hazard whose followers all have the same shift in each interval.
    fn shifted(shift: f32) -> Hazard {
        let mut hazard = Hazard::new(HazardSettings::default());
        let mut followers = Drift::default().followers();
        for of in &mut followers {
            *of = Drift::equal(shift);
        }
        hazard.core.drift = Drift::restore(followers).unwrap();
        hazard
    }

    #[test]
    fn the_correction_between_fits_is_saved() {
        let hazard = shifted(0.7);
        assert!(
            hazard
                .core
                .drift
                .shift
                .iter()
                .all(|shift| (shift - 0.7).abs() < 1e-6)
        );
        let bytes = hazard.seal().unwrap();
        let restored = Hazard::restore(HazardSettings::default(), &bytes).unwrap();
        assert_eq!(restored.core.drift, hazard.core.drift);
        // An older file without the correction.
        let old = Memory {
            level: None,
            ..hazard.memory()
        };
        let bytes = seal("hazard", VERSION, &old).unwrap();
        assert!(!bytes.windows(5).any(|at| at == b"level"));
        let restored = Hazard::restore(HazardSettings::default(), &bytes).unwrap();
        assert_eq!(restored.core.drift, Drift::default());
        // An invalid shift is damage.
        for bad in [f32::NAN, 99.0] {
            let mut memory = shifted(0.0).memory();
            memory.level = memory.level.map(|level| level.map(|_| Drift::equal(bad)));
            let bytes = seal("hazard", VERSION, &memory).unwrap();
            let refused = Hazard::restore(HazardSettings::default(), &bytes);
            assert!(matches!(refused, Err(ModelError::Damaged { .. })), "{bad}");
        }
    }
}
