//! The fits of the hazard: when one is due, its samples, and the installation of its model.

use super::boost::Example;
use super::core::HazardCore;
use super::fit::{FitTask, Fits, Fitted};
use super::samples::Fate;

impl HazardCore {
    /// Sets where models are fitted from now on.
    pub fn set_fits(&mut self, fits: Fits) {
        self.fitting = fits;
    }

    /// The fit that is due, if fits are made outside. No other is due until it is installed.
    pub fn fit_task(&mut self) -> Option<FitTask> {
        let is_outside = matches!(self.fitting, Fits::Outside);
        let is_due = is_outside && self.learns && self.is_fit_due(self.now_s);
        if !is_due || self.is_fitting {
            return None;
        }
        self.is_fitting = true;
        Some(self.task(self.now_s))
    }

    /// Installs a fitted model, or `None` if the fit failed. After a failed fit, the next one is
    /// due as if this one had succeeded.
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
            // Time was set back meanwhile, so the model has learnt from the future; or a newer
            // model was installed.
            Some(_) => {}
            None => self.mark_fitted(self.now_s, self.ended),
        }
    }

    /// Fits the model to the samples so far.
    pub(super) fn refit(&mut self, now_s: f64) {
        let received = match &self.fitting {
            Fits::Following(fits) => fits.lock().ok().and_then(|fits| fits.recv().ok()),
            _ => None,
        };
        let is_due = |fitted: &Fitted| fitted.now_s == now_s && fitted.ended == self.ended;
        let fitted = received.filter(is_due);
        let fitted = fitted.unwrap_or_else(|| self.task(now_s).run());
        if let Fits::Scout(send) = &self.fitting {
            // The send fails if the follower has ended.
            self.learns = send.send(fitted.clone()).is_ok();
        }
        self.install(Some(fitted));
    }

    fn task(&self, now_s: f64) -> FitTask {
        let half_life = self.settings.half_life.map(|half| half.as_secs_f64());
        let weight = |at_s: f64| match half_life {
            Some(half) if half > 0.0 => (-(now_s - at_s).max(0.0) / half).exp2() as f32,
            _ => 1.0,
        };
        let examples: Vec<Example> = self
            .samples
            .list
            .iter()
            .filter_map(|sample| {
                let (length_s, ended) = match sample.fate {
                    Fate::Open => ((now_s - sample.at_s) as f32, false),
                    Fate::Ended => (sample.length_s, true),
                    Fate::Censored => (sample.length_s, false),
                };
                let example = Example::new(sample.row, length_s, ended, weight(sample.at_s));
                (example.survived > 0 || example.ended).then_some(example)
            })
            .collect();
        let known = self.trees;
        FitTask {
            trees: known.filter(|trees| trees.still_holds(examples.len(), now_s)),
            examples,
            seed: self.settings.seed.wrapping_add(self.fits),
            now_s,
            ended: self.ended,
        }
    }
}
