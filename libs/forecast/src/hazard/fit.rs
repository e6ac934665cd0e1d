//! A fit as a task, apart from the hazard that it is for.
//!
//! A fit takes a second or two, and forecasts must not wait for it. So a [`FitTask`] can run on
//! another thread, and its [`Fitted`] model is installed between two events (`refit`).

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use super::boost::{Example, fit, trees};
use super::model::Model;

/// The number of trees is chosen again after this time, seconds. It is chosen earlier if the
/// samples have grown by a quarter or shrunk by a fifth. The choice takes about as long as a fit.
const CHOSEN_AGAIN_S: f64 = 86_400.0;

/// The number of trees of a model, with the samples and the time of its choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Trees {
    count: usize,
    samples: usize,
    chosen_s: f64,
}

impl Trees {
    /// Whether the number still holds for this many samples.
    pub(super) fn still_holds(&self, samples: usize, now_s: f64) -> bool {
        (self.chosen_s..self.chosen_s + CHOSEN_AGAIN_S).contains(&now_s)
            && (self.samples * 4 / 5..self.samples * 5 / 4).contains(&samples)
    }
}

/// Where the model is fitted.
#[derive(Debug, Clone, Default)]
pub enum Fits {
    /// Within the step at which the fit is due, so that the same log gives the same forecasts.
    #[default]
    Inside,
    /// By the caller, who takes the task from
    /// [`HazardCore::fit_task`](crate::HazardCore::fit_task). The old model forecasts until the new
    /// one is installed.
    Outside,
    /// As `Inside`; each model is also sent to the follower.
    Scout(SyncSender<Fitted>),
    /// As `Inside`, with the models of a scout.
    Following(Arc<Mutex<Receiver<Fitted>>>),
}

impl Fits {
    /// The settings of a scout and of its follower.
    ///
    /// Both take the same steps, the scout on its own thread and up to `ahead` models earlier. So
    /// models are fitted while the follower uses earlier ones. The forecasts do not depend on the
    /// scout's speed: the follower waits for it, and fits the model itself if the scout has ended
    /// or has fitted another one.
    #[must_use]
    pub fn scouted(ahead: usize) -> (Self, Self) {
        let (send, receive) = sync_channel(ahead);
        (
            Self::Scout(send),
            Self::Following(Arc::new(Mutex::new(receive))),
        )
    }
}

/// A fit that is due.
#[derive(Debug, Clone)]
pub struct FitTask {
    pub(super) examples: Vec<Example>,
    /// The number of trees; `None` if the fit chooses it.
    pub(super) trees: Option<Trees>,
    pub(super) seed: u64,
    pub(super) now_s: f64,
    pub(super) ended: u64,
}

/// A fitted model.
#[derive(Debug, Clone)]
pub struct Fitted {
    pub(super) model: Option<Model>,
    pub(super) trees: Trees,
    pub(super) now_s: f64,
    pub(super) ended: u64,
    samples: usize,
}

impl FitTask {
    /// Fits the model, which takes up to a few seconds.
    #[must_use]
    pub fn run(self) -> Fitted {
        let samples = self.examples.len();
        let trees = self.trees.unwrap_or_else(|| Trees {
            count: trees(&self.examples, self.seed),
            samples,
            chosen_s: self.now_s,
        });
        Fitted {
            model: fit(&self.examples, trees.count, self.seed),
            trees,
            now_s: self.now_s,
            ended: self.ended,
            samples,
        }
    }
}

impl Fitted {
    /// The number of samples of the fit.
    #[must_use]
    pub const fn samples(&self) -> usize {
        self.samples
    }

    /// The number of trees of the model.
    #[must_use]
    pub fn trees(&self) -> usize {
        self.model.as_ref().map_or(0, |model| model.trees.len())
    }
}
