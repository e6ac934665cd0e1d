//! The trait of predictors, and their forecasts.

use lacuna_model::{Announced, Forecast, Hole, Joint, Pool, PooledHole, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{AnnouncedEnd, Anomalies, FitTask, Fits, Fitted, OrderReport};

/// Forecasts for a list of holes. Holes with the same forecast share it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Forecasts {
    /// The distinct forecasts.
    pub forecasts: Vec<Forecast>,
    /// For each hole of the list, the index of its forecast in `forecasts`.
    pub index: Vec<u32>,
    /// The order of ends and the holes that end together, if the predictor knows them.
    pub joint: Option<Joint>,
    /// Holes with a planned start or reservation, by their place in the list, each at most once.
    /// Their forecasts include it.
    pub announced: Vec<Announced>,
}

impl Forecasts {
    /// Joins the forecasts with the holes that they are for.
    #[must_use]
    pub fn into_pool(self, as_of: Timestamp, seq: u64, holes: Vec<Hole>) -> Pool {
        let holes = holes
            .into_iter()
            .zip(self.index)
            .map(|(hole, forecast)| PooledHole { hole, forecast })
            .collect();
        Pool {
            as_of,
            seq,
            holes,
            forecasts: self.forecasts,
            joint: self.joint.map(|joint| Joint {
                announced: self.announced,
                ..joint
            }),
        }
    }

    /// The forecast of the hole at a place in the list.
    #[must_use]
    pub fn of(&self, place: usize) -> Option<&Forecast> {
        self.forecasts.get(*self.index.get(place)? as usize)
    }
}

/// How much a predictor has learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LearningStage {
    /// The predictor has nothing to learn.
    Fixed,
    /// Too few holes have ended; the predictor falls back to a simpler one.
    Young {
        /// Ended holes seen.
        ended: u64,
        /// Ended holes needed.
        needed: u64,
    },
    /// The predictor forecasts by what it has learnt.
    Learnt {
        /// Ended holes seen.
        ended: u64,
    },
}

/// Writes a copy of the learnt state, taken when the saver was made. It may run on another thread.
pub type Saver = Box<dyn FnOnce() -> Option<Vec<u8>> + Send>;

/// The state of a predictor, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Report {
    /// The order in which nodes are taken, if the predictor looks for one.
    pub order: Option<OrderReport>,
    /// Inputs that contradict each other, counted.
    pub anomalies: Anomalies,
    /// The number of fits.
    pub fits: u64,
}

/// Observes holes, and forecasts how long the present ones stay open.
pub trait Predictor: Send {
    /// The name of the predictor: `constant`, `survival`, ...
    fn name(&self) -> &'static str;

    /// The present basis of its forecasts, in words.
    fn label(&self) -> String;

    /// How far the predictor has learnt.
    fn learning(&self) -> LearningStage;

    /// Records that a hole is present. `seen` is the time from which it is known: its start, or
    /// later. A hole that is known only from some age on is no evidence about shorter holes.
    fn opened(&mut self, hole: &Hole, seen: Timestamp);

    /// Records that a hole ended at `at`.
    fn closed(&mut self, hole: &Hole, at: Timestamp);

    /// Records that a hole ended unseen, some time after `last_seen`.
    fn lost(&mut self, hole: &Hole, last_seen: Timestamp);

    /// Stops learning. The predictor still observes holes, so that the state learnt so far can be
    /// scored on later ones. No effect on predictors that learn nothing.
    fn freeze(&mut self) {}

    /// Sets all planned starts and reservations as of `now`. Earlier ones that are not listed are
    /// withdrawn. No effect but on [`WithPlannedStarts`](crate::WithPlannedStarts).
    fn announce(&mut self, now: Timestamp, ends: &[AnnouncedEnd]) {
        let _ = (now, ends);
    }

    /// Applies all pending inputs, as a forecast does first.
    fn take_in(&mut self) {}

    /// The state of the predictor, for operators. Empty for predictors that learn nothing.
    fn report(&self) -> Report {
        Report::default()
    }

    /// Sets where models are fitted from now on, for predictors whose fits take long.
    fn set_fits(&mut self, fits: Fits) {
        let _ = fits;
    }

    /// The fit that is due and that the caller makes ([`Fits::Outside`]). No other fit is due until
    /// [`install`](Self::install) is called.
    fn fit_task(&mut self) -> Option<FitTask> {
        None
    }

    /// Installs a model that the caller fitted, or `None` if the fit failed. The next forecast uses
    /// it.
    fn install(&mut self, fitted: Option<Fitted>) {
        let _ = fitted;
    }

    /// The learnt state as bytes, for [`Choice::restore`](crate::Choice::restore). `None` for
    /// predictors that learn nothing.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    /// [`save`](Self::save) as a task for another thread, so that forecasts do not wait for it.
    fn saver(&self) -> Option<Saver> {
        let bytes = self.save()?;
        Some(Box::new(move || Some(bytes)))
    }

    /// Forecasts the present holes as of `now`. `holes` lists all of them.
    fn forecast(&mut self, now: Timestamp, holes: &[Hole]) -> Forecasts;
}
