//! Fitting beside the forecasting: a fit takes a second or two, and forecasts must not wait for
//! it. What is to be fitted is taken out, fitted elsewhere, and put in between two events.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use super::boost::{Trial, fit, trees};
use super::core::HazardCore;
use super::model::Model;
use super::samples::Fate;

/// After this time, seconds, a fit asks again how many trees pay; earlier if the samples have grown
/// by a quarter or shrunk by a fifth. To ask takes about as long as a fit.
const ASKED_AGAIN_S: f64 = 86_400.0;

/// How many trees the model has, and from what that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trees {
    count: usize,
    samples: usize,
    asked_s: f64,
}

impl Trees {
    /// Whether the count still holds for this number of samples.
    fn will_do(&self, samples: usize, now_s: f64) -> bool {
        (self.asked_s..self.asked_s + ASKED_AGAIN_S).contains(&now_s)
            && (self.samples * 4 / 5..self.samples * 5 / 4).contains(&samples)
    }
}

/// Where the model is fitted.
#[derive(Debug, Clone, Default)]
pub enum Fits {
    /// Within the step at which it is due: the same log gives the same forecasts.
    #[default]
    Inside,
    /// By whoever asks for [`HazardCore::fit_task`]; until the answer is put in, the old model
    /// forecasts.
    Outside,
    /// As inside; each model is also sent to the follower.
    Scout(SyncSender<Fitted>),
    /// As inside, with the models of a scout.
    Following(Arc<Mutex<Receiver<Fitted>>>),
}

impl Fits {
    /// For a scout and for who follows it. Both take in the same steps, the scout on a thread of
    /// its own and up to `ahead` models earlier: so models are fitted while something else is
    /// done with the ones before. Nothing depends on how far the scout has come: who follows waits
    /// for it, and fits the model itself if the scout has ended or has fitted another one.
    #[must_use]
    pub fn scouted(ahead: usize) -> (Self, Self) {
        let (tell, hear) = sync_channel(ahead);
        (
            Self::Scout(tell),
            Self::Following(Arc::new(Mutex::new(hear))),
        )
    }
}

/// A fit that is due.
#[derive(Debug, Clone)]
pub struct FitTask {
    trials: Vec<Trial>,
    /// Nothing if it is to be asked.
    trees: Option<Trees>,
    seed: u64,
    now_s: f64,
    ended: u64,
}

/// A fitted model.
#[derive(Debug, Clone)]
pub struct Fitted {
    model: Option<Model>,
    trees: Trees,
    now_s: f64,
    ended: u64,
    samples: usize,
}

impl FitTask {
    /// Fits; takes up to a few seconds.
    #[must_use]
    pub fn run(self) -> Fitted {
        let samples = self.trials.len();
        let trees = self.trees.unwrap_or_else(|| Trees {
            count: trees(&self.trials, self.seed),
            samples,
            asked_s: self.now_s,
        });
        Fitted {
            model: fit(&self.trials, trees.count, self.seed),
            trees,
            now_s: self.now_s,
            ended: self.ended,
            samples,
        }
    }
}

impl Fitted {
    /// How many questions it was fitted to.
    #[must_use]
    pub const fn samples(&self) -> usize {
        self.samples
    }

    /// How many trees the model has.
    #[must_use]
    pub fn trees(&self) -> usize {
        self.model.as_ref().map_or(0, |model| model.trees.len())
    }
}

impl HazardCore {
    /// Says where models are to be fitted from now on.
    pub fn set_fits(&mut self, fits: Fits) {
        self.fitting = fits;
    }

    /// The fit that is due, if one is and fits are made outside. Until it is put in, none is due.
    pub fn fit_task(&mut self) -> Option<FitTask> {
        let is_outside = matches!(self.fitting, Fits::Outside);
        let is_due = is_outside && self.learns && self.is_fit_due(self.now_s);
        if !is_due || self.is_fitting {
            return None;
        }
        self.is_fitting = true;
        Some(self.task(self.now_s))
    }

    /// Puts in what was fitted; nothing if the fit came to grief, and the next one is then due
    /// when as much more has been seen as if this one had been made.
    pub fn install(&mut self, fitted: Option<Fitted>) {
        self.is_fitting = false;
        match fitted {
            Some(fitted) if fitted.now_s <= self.now_s && fitted.now_s >= self.fitted_s => {
                self.trees = Some(fitted.trees);
                if let Some(model) = fitted.model {
                    self.model = Some(model);
                    self.drift.refitted();
                }
                self.mark_fitted(fitted.now_s, fitted.ended);
                self.rank_taken();
            }
            // Time was set back meanwhile, so that it would be a model of the future; or a newer
            // one was fitted.
            Some(_) => {}
            None => self.mark_fitted(self.now_s, self.ended),
        }
    }

    /// Fits the model to what has been seen up to now.
    pub(super) fn refit(&mut self, now_s: f64) {
        let heard = match &self.fitting {
            Fits::Following(fits) => fits.lock().ok().and_then(|fits| fits.recv().ok()),
            _ => None,
        };
        let is_due = |fitted: &Fitted| fitted.now_s == now_s && fitted.ended == self.ended;
        let fitted = heard.filter(is_due);
        let fitted = fitted.unwrap_or_else(|| self.task(now_s).run());
        if let Fits::Scout(tell) = &self.fitting {
            // The follower has ended.
            self.learns = tell.send(fitted.clone()).is_ok();
        }
        self.install(Some(fitted));
    }

    fn task(&self, now_s: f64) -> FitTask {
        let half_life = self.settings.half_life.map(|half| half.as_secs_f64());
        let weight = |at_s: f64| match half_life {
            Some(half) if half > 0.0 => (-(now_s - at_s).max(0.0) / half).exp2() as f32,
            _ => 1.0,
        };
        let trials: Vec<Trial> = self
            .samples
            .list
            .iter()
            .filter_map(|sample| {
                let (length_s, ended) = match sample.fate {
                    Fate::Open => ((now_s - sample.at_s) as f32, false),
                    Fate::Ended => (sample.length_s, true),
                    Fate::Censored => (sample.length_s, false),
                };
                let trial = Trial::new(sample.row, length_s, ended, weight(sample.at_s));
                (trial.survived > 0 || trial.ended).then_some(trial)
            })
            .collect();
        let known = self.trees;
        FitTask {
            trees: known.filter(|trees| trees.will_do(trials.len(), now_s)),
            trials,
            seed: self.settings.seed.wrapping_add(self.fits),
            now_s,
            ended: self.ended,
        }
    }
}
