//! What a predictor must do.

use lacuna_model::{Announced, Forecast, Hole, Joint, Pool, PooledHole, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{FitTask, Fits, Fitted, Hint, Oddities, OrderReport};

/// Forecasts for a list of holes: those that are forecast alike share one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Forecasts {
    /// The distinct forecasts.
    pub forecasts: Vec<Forecast>,
    /// For each hole of the list, its forecast's place in `forecasts`.
    pub index: Vec<u32>,
    /// Which of them end together, if the predictor knows.
    pub joint: Option<Joint>,
    /// Holes whose end the scheduler announces, by their place in the list, each at most once.
    /// Their forecasts have that in them.
    pub announced: Vec<Announced>,
}

impl Forecasts {
    /// Joins the forecasts with the holes that they were made for.
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
pub enum Learning {
    /// There is nothing to learn.
    Fixed,
    /// It has not seen enough yet and falls back to something simpler.
    Young {
        /// Ended holes seen.
        ended: u64,
        /// Ended holes needed.
        needed: u64,
    },
    /// It forecasts by what it has learnt.
    Learnt {
        /// Ended holes seen.
        ended: u64,
    },
}

/// Writes what was learnt, as it was when this was made; can be carried to another thread.
pub type Saver = Box<dyn FnOnce() -> Option<Vec<u8>> + Send>;

/// What a predictor knows of itself beyond what it forecasts.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Report {
    /// The order in which nodes are taken, if it looks for one.
    pub order: Option<OrderReport>,
    /// What came in that should not have.
    pub oddities: Oddities,
    /// How often a model was fitted.
    pub fits: u64,
}

/// Watches holes and forecasts how long the present ones will stay open.
pub trait Predictor: Send {
    /// Which predictor this is: `constant`, `survival`, ...
    fn name(&self) -> &'static str;

    /// What its forecasts now rest on, in words.
    fn label(&self) -> String;

    /// How much it has learnt.
    fn learning(&self) -> Learning;

    /// A hole is present. `seen` is the moment from which on it is known: its start, or later
    /// (a hole that is only known from some age on says nothing of shorter holes).
    fn opened(&mut self, hole: &Hole, seen: Timestamp);

    /// A hole ended at `at`.
    fn closed(&mut self, hole: &Hole, at: Timestamp);

    /// A hole ended unseen, some time after `last_seen`.
    fn lost(&mut self, hole: &Hole, last_seen: Timestamp);

    /// From now on it watches what happens and learns nothing more from it, so that what it knew
    /// can be scored on what came later. Nothing happens where there is nothing to learn.
    fn freeze(&mut self) {}

    /// All ends that the scheduler announces as of `now`. What was announced before and is not
    /// named any more is withdrawn. Nothing happens unless the predictor heeds hints
    /// ([`Hinted`](crate::Hinted)).
    fn hint(&mut self, now: Timestamp, hints: &[Hint]) {
        let _ = (now, hints);
    }

    /// Takes in all that has been told, as a forecast does first.
    fn take_in(&mut self) {}

    /// What it knows of itself. Nothing where there is nothing to know.
    fn report(&self) -> Report {
        Report::default()
    }

    /// Says where models are fitted from now on, for predictors whose fits take long.
    fn set_fits(&mut self, fits: Fits) {
        let _ = fits;
    }

    /// A fit that is due and is to be made elsewhere ([`Fits::Outside`]). Until
    /// [`install`](Self::install) has been told of its end, no other is due.
    fn fit_task(&mut self) -> Option<FitTask> {
        None
    }

    /// Puts in what was fitted elsewhere; nothing if the fit came to grief. The next forecast is
    /// made with it.
    fn install(&mut self, fitted: Option<Fitted>) {
        let _ = fitted;
    }

    /// What was learnt, to be taken up again by [`Choice::restore`](crate::Choice::restore).
    /// Nothing where there is nothing to learn.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    /// The same, to be written elsewhere: forecasts need not wait for it.
    fn saver(&self) -> Option<Saver> {
        let bytes = self.save()?;
        Some(Box::new(move || Some(bytes)))
    }

    /// Forecasts the present holes as of `now`. The list is all holes that are present.
    fn forecast(&mut self, now: Timestamp, holes: &[Hole]) -> Forecasts;
}
