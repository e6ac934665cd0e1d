//! The model that the configuration names (`lacuna forecast learn` made it): forecasts start with it,
//! unless a saved model is newer.

use std::path::{Path, PathBuf};

use lacuna_forecast::{Learnt, Unfit};
use lacuna_model::{EventKind, NodeEvent};
use lacuna_runtime::HealthCheck;

use crate::models::Role;
use crate::quality::Quality;
use crate::store::{AHEAD, Refused, Situation};
use crate::{Models, Upto};

/// A model that waits until the nodes of the machine are known.
#[derive(Debug)]
pub(crate) struct Given {
    path: PathBuf,
    /// The model; none once it was taken or refused.
    learnt: Option<Learnt>,
    quality: Quality,
    health: HealthCheck,
}

impl Given {
    /// Reads the file, unless a model that has learnt longer is `saved`. A file that cannot be read
    /// is refused.
    pub(crate) fn read(
        path: &Path,
        saved: Option<Upto>,
        quality: Quality,
        health: HealthCheck,
    ) -> Self {
        let mut given = Self {
            path: path.to_owned(),
            learnt: None,
            quality,
            health,
        };
        match given.open() {
            Ok(learnt) => {
                given.health.ok();
                if saved.is_some_and(|saved| saved.at >= learnt.from().until) {
                    tracing::info!(path = %path.display(), "a saved model has learnt longer than the given one");
                } else {
                    given.learnt = Some(learnt);
                }
            }
            Err(refused) => given.refuse(&refused),
        }
        given
    }

    fn open(&self) -> Result<Learnt, Refused> {
        let path = || self.path.clone();
        let bytes = std::fs::read(&self.path).map_err(|source| Refused::Read {
            path: path(),
            source,
        })?;
        Learnt::read(&bytes).map_err(|source| Refused::Model {
            path: path(),
            source,
        })
    }

    /// Starts the first predictor with the model. Waits while the snapshot has no idle node, which
    /// tells the machine.
    pub(crate) fn offer(&mut self, models: &mut Models, snapshot: &NodeEvent, at: &Situation) {
        let EventKind::Snapshot { idle } = &snapshot.kind else {
            return;
        };
        let Some(learnt) = self.learnt.take_if(|_| !idle.is_empty()) else {
            return;
        };
        let from = learnt.from();
        let upto = Upto {
            at: from.until,
            seq: 0,
        };
        let nodes = idle.iter().map(|hole| hole.node.as_str());
        let fits = learnt.check(nodes, snapshot.at + AHEAD).and_then(|_| {
            // A recording may have the simulated nodes that the model knows.
            if from.simulated && at.recording.is_empty() {
                return Err(Unfit::Simulated);
            }
            Ok(models.restore(Role::First, learnt.model(), upto)?)
        });
        match fits {
            Ok(()) => {
                self.count("restored");
                tracing::info!(
                    path = %self.path.display(),
                    upto = %from.until,
                    ended = from.ended,
                    "forecasts start with the given model"
                );
            }
            Err(source) => {
                let path = self.path.clone();
                self.refuse(&Refused::Unfit { path, source });
            }
        }
    }

    fn refuse(&self, refused: &Refused) {
        self.count(refused.word());
        self.quality.model_refused.set(1);
        tracing::error!(reason = %refused, "the given model is refused: forecasts start without it");
        self.health
            .ok_but(format!("forecasts start without forecast.model: {refused}"));
    }

    fn count(&self, outcome: &str) {
        self.quality.models.with_label_values(&[outcome]).inc();
    }
}
