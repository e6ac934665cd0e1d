//! The predictors of the service, their roles and their scores.
//!
//! The *first* is the configured predictor. A *rival* learns from the same events and is scored on
//! the same questions. The first is called adrift if it is significantly worse than a constant, or
//! off on average ([`Alarm`]). That alone only raises an alarm, since new behaviour of a machine
//! surprises every predictor. The rival takes over only if it was significantly better on the same
//! questions: the planner acts on these probabilities, and a wrong one costs restarts. The first
//! goes on learning and being scored, and comes back once it is as good again. The first always
//! forecasts which holes end together, since the rival has no such forecast.

use lacuna_forecast::{
    Adrift, Alarm, AnnouncedEnd, Calibration, FitTask, Fits, Fitted, Forecasts, LearningStage,
    ModelError, Predictor, Report, WithPlannedStarts,
};
use lacuna_model::{Hole, NodeEvent, Timestamp};
use lacuna_pool::{Change, HoleEnd};

use crate::PredictorSettings;
use crate::learner::{Learner, Upto};

/// The role of a predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The configured predictor.
    First,
    /// The predictor that is scored beside the first, and takes over while the first is adrift.
    Rival,
}

/// An event of the predictors, for operators.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// The first is adrift.
    Adrift(Adrift),
    /// The first is no longer adrift.
    Recovered,
    /// The rival has taken over.
    FellBack,
    /// The first is back.
    CameBack,
    /// Time restarted, so the learnt state was of its future and was dropped.
    Forgot,
}

/// All predictors of the service.
#[derive(Debug)]
pub struct Models {
    first: Learner,
    rival: Option<Learner>,
    calibration: Calibration,
    alarm: Alarm,
    active: Role,
    settings: PredictorSettings,
    /// Whether the rival may take over now.
    may_fall_back: bool,
    events: Vec<ModelEvent>,
}

impl Models {
    /// Predictors that have learnt nothing yet.
    #[must_use]
    pub fn new(settings: PredictorSettings) -> Self {
        Self {
            first: Learner::new(settings.first.clone()),
            rival: settings.rival.clone().map(Learner::new),
            calibration: Calibration::new(),
            alarm: Alarm::new(settings.limits),
            active: Role::First,
            may_fall_back: settings.fallback,
            events: Vec::new(),
            settings,
        }
    }

    /// Restores the predictor of a role from saved bytes.
    ///
    /// # Errors
    /// [`ModelError`] if the bytes cannot be restored; the predictor is then unchanged.
    pub fn restore(&mut self, role: Role, bytes: &[u8], upto: Upto) -> Result<(), ModelError> {
        match (role, &mut self.rival) {
            (Role::First, _) => self.first.restore(bytes, upto),
            (Role::Rival, Some(rival)) => rival.restore(bytes, upto),
            (Role::Rival, None) => Ok(()),
        }
    }

    /// The newest event that the first predictor had learnt when it was restored. None if it was
    /// not, or once a newer one has come.
    pub(crate) fn upto(&self) -> Option<Upto> {
        self.first.upto()
    }

    /// The predictor of a role; `None` without a rival.
    #[must_use]
    pub fn predictor(&self, role: Role) -> Option<&WithPlannedStarts> {
        match role {
            Role::First => Some(&self.first.predictor),
            Role::Rival => self.rival.as_ref().map(|rival| &rival.predictor),
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Learner> {
        std::iter::once(&mut self.first).chain(&mut self.rival)
    }

    /// Whether a restored predictor has learnt from events well after `at`.
    pub(crate) fn is_ahead_of(&self, at: Timestamp) -> bool {
        let rival = self.rival.as_ref();
        self.first.is_ahead_of(at) || rival.is_some_and(|rival| rival.is_ahead_of(at))
    }

    /// Resets all predictors and scores.
    pub(crate) fn reset(&mut self) {
        self.all().for_each(Learner::reset);
        self.calibration = Calibration::new();
        self.alarm = Alarm::new(self.settings.limits);
        self.active = Role::First;
        self.events.push(ModelEvent::Forgot);
    }

    /// Prepares for an event that is about to change the pool; `holes` gives the present holes.
    pub(crate) fn prepare(&mut self, event: &NodeEvent, holes: impl Fn() -> Vec<Hole>) {
        self.all()
            .for_each(|learner| learner.prepare(event, &holes));
    }

    /// Applies a change of the pool.
    pub(crate) fn apply(&mut self, change: &Change) {
        if let Change::Closed { hole, at, end } = change {
            match end {
                HoleEnd::Seen => self.calibration.closed(&hole.node, *at),
                HoleEnd::Unseen { last_seen } => self.calibration.lost(&hole.node, *last_seen),
            }
        }
        self.all().for_each(|learner| learner.apply(change));
    }

    /// Sets all planned starts and reservations as of `now`.
    pub(crate) fn announce(&mut self, now: Timestamp, ends: &[AnnouncedEnd]) {
        let listening = self.all().filter(|learner| learner.is_listening());
        listening.for_each(|learner| learner.predictor.announce(now, ends));
    }

    /// Forecasts the present holes, and scores earlier forecasts. All ends up to `known` are known.
    pub(crate) fn forecast(
        &mut self,
        now: Timestamp,
        known: Timestamp,
        holes: &[Hole],
    ) -> Forecasts {
        let mut given = self.first.predictor.forecast(now, holes);
        let mut other = None;
        if self.calibration.is_due(now) {
            other = self.of_rival(now, holes);
        }
        self.calibration
            .observe(now, known, holes, &given, other.as_ref());
        self.judge();
        if self.active == Role::Rival
            && let Some(mut other) = other.or_else(|| self.of_rival(now, holes))
        {
            other.joint = given.joint.take();
            given = other;
        }
        given
    }

    fn of_rival(&mut self, now: Timestamp, holes: &[Hole]) -> Option<Forecasts> {
        let rival = self.rival.as_mut()?;
        Some(rival.predictor.forecast(now, holes))
    }

    /// Updates the alarm and the role that forecasts.
    fn judge(&mut self) {
        let before = self.alarm.raised();
        self.alarm.update(&self.calibration);
        match (before, self.alarm.raised()) {
            (None, Some(why)) => self.events.push(ModelEvent::Adrift(why)),
            (Some(_), None) => self.events.push(ModelEvent::Recovered),
            _ => {}
        }
        let is_adrift = self.alarm.raised().is_some();
        let is_better = self.calibration.is_rival_better();
        match self.active {
            Role::First if self.may_fall_back && is_adrift && is_better => {
                self.active = Role::Rival;
                self.events.push(ModelEvent::FellBack);
            }
            Role::Rival
                if !self.may_fall_back
                    || self.calibration.is_rival_worse()
                    || !(is_adrift || is_better) =>
            {
                self.active = Role::First;
                self.events.push(ModelEvent::CameBack);
            }
            _ => {}
        }
    }

    /// Sets lock step, in which forecasts equal those of a replay: the rival does not take over.
    pub(crate) fn set_lock_step(&mut self, is_lock_step: bool) {
        self.may_fall_back = self.settings.fallback && !is_lock_step;
    }

    /// Sets where models are fitted.
    pub(crate) fn set_fits(&mut self, fits: Fits) {
        self.first.predictor.set_fits(fits);
    }

    /// The fit that is due and that the caller makes.
    pub(crate) fn fit_task(&mut self) -> Option<FitTask> {
        self.first.predictor.fit_task()
    }

    /// Installs a fitted model; `None` if the fit failed.
    pub(crate) fn install(&mut self, fitted: Option<Fitted>) {
        self.first.predictor.install(fitted);
    }

    /// Removes and returns the events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<ModelEvent> {
        std::mem::take(&mut self.events)
    }

    /// The role that forecasts now.
    #[must_use]
    pub fn active(&self) -> Role {
        self.active
    }

    /// The present basis of the forecasts, in words.
    #[must_use]
    pub fn label(&self) -> String {
        match (self.active, &self.rival) {
            (Role::Rival, Some(rival)) => format!(
                "{} ({} is adrift)",
                rival.predictor.label(),
                self.first.predictor.name()
            ),
            _ => self.first.predictor.label(),
        }
    }

    /// How far the first has learnt.
    #[must_use]
    pub fn learning(&self) -> LearningStage {
        self.first.predictor.learning()
    }

    /// The state of the first, for operators.
    #[must_use]
    pub fn report(&self) -> Report {
        self.first.predictor.report()
    }

    /// The scores of the first.
    #[must_use]
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// The reason why the first is adrift; `None` if it is not.
    #[must_use]
    pub fn adrift(&self) -> Option<Adrift> {
        self.alarm.raised()
    }

    /// Whether forecasts include planned starts and reservations.
    pub(crate) fn uses_announced_ends(&self) -> bool {
        self.settings.announced_ends
    }
}
