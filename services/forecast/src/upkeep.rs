//! Work beside the forecasts, on other threads: models are fitted, saved and, at the start,
//! restored.

use lacuna_forecast::{Fitted, Predictor};
use lacuna_model::Span;
use lacuna_runtime::{HealthCheck, Stopwatch};
use tokio::task::JoinHandle;

use crate::models::Role;
use crate::quality::Quality;
use crate::store::{Found, Situation, Store};
use crate::{Forecaster, Models, Upto};

/// The running fit.
#[derive(Debug, Default)]
pub(crate) struct Fitting {
    running: Option<JoinHandle<(Fitted, f64)>>,
}

impl Fitting {
    /// Starts a fit if one is due and none is running.
    pub(crate) fn start(&mut self, forecaster: &mut Forecaster) {
        if self.running.is_none()
            && let Some(task) = forecaster.fit_task()
        {
            self.running = Some(lacuna_runtime::task::blocking(move || {
                let stopwatch = Stopwatch::start();
                let fitted = task.run();
                (fitted, stopwatch.seconds())
            }));
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Waits for the end of the fit. Returns the model and the seconds that it took, or `None` if
    /// it failed. Waits forever if no fit is running. The future is safe to drop.
    pub(crate) async fn ended(&mut self) -> Option<(Fitted, f64)> {
        let Some(running) = &mut self.running else {
            return std::future::pending().await;
        };
        let ended = running.await;
        self.running = None;
        ended
            .inspect_err(|error| tracing::error!(%error, "the fit failed: the old model stays"))
            .ok()
    }
}

/// Saves and restores the models.
#[derive(Debug)]
pub(crate) struct Keeper {
    store: Store,
    every: Span,
    last: Stopwatch,
    saving: Option<JoinHandle<()>>,
    quality: Quality,
    health: HealthCheck,
}

const ROLES: [Role; 2] = [Role::First, Role::Rival];

impl Keeper {
    pub(crate) fn new(store: Store, every: Span, quality: Quality, health: HealthCheck) -> Self {
        health.ok();
        Self {
            store,
            every,
            last: Stopwatch::start(),
            saving: None,
            quality,
            health,
        }
    }

    /// Restores the saved models. A model that is refused is logged and renamed, and its predictor
    /// starts without a model.
    pub(crate) fn restore(&self, models: &mut Models, situation: &Situation) {
        for role in ROLES {
            let Some(name) = models.predictor(role).map(Predictor::name) else {
                continue;
            };
            let found = match self.store.load(name, situation) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    self.count("absent");
                    continue;
                }
                Err(refused) => {
                    self.refuse(name, refused.word(), &refused.to_string());
                    continue;
                }
            };
            match models.restore(role, &found.model, found.upto) {
                Ok(()) => {
                    self.count("restored");
                    tracing::info!(
                        predictor = name,
                        upto_seq = found.upto.seq,
                        upto = %found.upto.at,
                        bytes = found.model.len(),
                        "model restored"
                    );
                }
                Err(source) => {
                    let path = self.store.path(name);
                    let refused = crate::Refused::Model { path, source };
                    self.refuse(name, refused.word(), &refused.to_string());
                }
            }
        }
    }

    fn refuse(&self, name: &str, word: &str, why: &str) {
        self.count(word);
        self.quality.model_refused.set(1);
        let kept_as = match self.store.rename_refused(name) {
            Ok(path) => path.display().to_string(),
            Err(error) => format!("not renamed: {error}"),
        };
        tracing::error!(
            predictor = name,
            reason = why,
            kept_as,
            "the saved model is refused: learning restarts"
        );
        let text = format!("learning restarted: {why}; the file is kept as: {kept_as}");
        self.health.ok_but(text);
    }

    fn count(&self, outcome: &str) {
        self.quality.models.with_label_values(&[outcome]).inc();
    }

    /// Saves the models if that is due.
    pub(crate) fn save_if_due(&mut self, forecaster: &Forecaster, situation: &Situation) {
        let is_busy = self.saving.as_ref().is_some_and(|it| !it.is_finished());
        if self.last.span() >= self.every && !is_busy {
            self.save(forecaster, situation);
        }
    }

    /// Waits until the running save is on disk.
    pub(crate) async fn wait(&mut self) {
        if let Some(saving) = self.saving.take()
            && let Err(error) = saving.await
        {
            tracing::error!(%error, "saving a model failed");
        }
    }

    /// Starts to save the models. Only the copy is made on this thread.
    pub(crate) fn save(&mut self, forecaster: &Forecaster, situation: &Situation) {
        self.last = Stopwatch::start();
        let Some(upto) = forecaster.upto() else {
            // The past is not read to its end, so the saved model has learnt more.
            return;
        };
        let models = forecaster.models();
        let mut writers = Vec::new();
        for role in ROLES {
            if let Some(predictor) = models.predictor(role)
                && let Some(saver) = predictor.saver()
            {
                writers.push((predictor.name(), saver));
            }
        }
        let (store, situation) = (self.store.clone(), situation.clone());
        let (quality, health) = (self.quality.clone(), self.health.clone());
        self.saving = Some(lacuna_runtime::task::blocking(move || {
            let all = writers.into_iter();
            let outcomes = all.map(|(name, saver)| write(&store, &situation, name, upto, saver()));
            let failed: Vec<String> = outcomes.filter_map(Result::err).collect();
            let outcome = quality.models.with_label_values(&[if failed.is_empty() {
                "saved"
            } else {
                "not_saved"
            }]);
            outcome.inc();
            if failed.is_empty() {
                quality.model_refused.set(0);
                health.ok();
            } else {
                let reason = failed.join("; ");
                tracing::error!(reason, "models are not saved");
                health.ok_but(format!("models are not saved: {reason}"));
            }
        }));
    }
}

fn write(
    store: &Store,
    situation: &Situation,
    name: &'static str,
    upto: Upto,
    model: Option<Vec<u8>>,
) -> Result<(), String> {
    let Some(model) = model else {
        return Err(format!("{name} cannot be written"));
    };
    let bytes = model.len();
    store
        .save(name, situation, &Found { model, upto })
        .map_err(|error| format!("{}: {error}", store.path(name).display()))?;
    tracing::debug!(predictor = name, bytes, "model saved");
    Ok(())
}
