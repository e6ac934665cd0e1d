//! The predictors of the service: who forecasts, who might, and how good they are.
//!
//! The *first* is the one that is wanted. A *rival* learns from the same events and is scored on
//! the same questions. The first is called adrift when it is beyond doubt worse than a constant or
//! off on average ([`Alarm`]). That alone changes nothing but an alarm, since a machine that does
//! what it never did surprises every predictor alike. Only if the rival was beyond doubt better on
//! the same questions does it take over: the planner acts on these probabilities, and a wrong one
//! costs restarts. The first goes on learning and being scored, and comes back as soon as it is
//! as good again. Which holes end together stays the first's word: that is another question, and
//! the rival has no answer to it.

use lacuna_forecast::{
    Adrift, Alarm, Calibration, FitTask, Fits, Fitted, Forecasts, AnnouncedEnd, WithPlannedStarts, Learning,
    ModelError, Predictor, Report,
};
use lacuna_model::{Hole, NodeEvent, Timestamp};
use lacuna_pool::{Change, HoleEnd};

use crate::Wanted;
use crate::learner::{Learner, Upto};

/// The role of a predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The configured predictor.
    First,
    /// The predictor that is scored beside the first, and takes over while the first is adrift.
    Rival,
}

/// What an operator should hear of.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// The first is adrift.
    Adrift(Adrift),
    /// It is not any more.
    Recovered,
    /// The rival has taken over.
    FellBack,
    /// The first is back.
    CameBack,
    /// Time began anew, and what was learnt before was of its future: it was forgotten.
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
    wanted: Wanted,
    /// Whether the rival may take over now.
    may_fall_back: bool,
    events: Vec<ModelEvent>,
}

impl Models {
    /// Nothing learnt yet.
    #[must_use]
    pub fn new(wanted: Wanted) -> Self {
        Self {
            first: Learner::new(wanted.first.clone()),
            rival: wanted.rival.clone().map(Learner::new),
            calibration: Calibration::new(),
            alarm: Alarm::new(wanted.limits),
            active: Role::First,
            may_fall_back: wanted.fallback,
            events: Vec::new(),
            wanted,
        }
    }

    /// Takes up what was saved of one of them.
    ///
    /// # Errors
    /// [`ModelError`]; nothing has changed then.
    pub fn restore(&mut self, role: Role, bytes: &[u8], upto: Upto) -> Result<(), ModelError> {
        match (role, &mut self.rival) {
            (Role::First, _) => self.first.restore(bytes, upto),
            (Role::Rival, Some(rival)) => rival.restore(bytes, upto),
            (Role::Rival, None) => Ok(()),
        }
    }

    /// The predictor at a place, if there is one.
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

    /// Whether any of them was restored and has learnt from what lies well after `at`.
    pub(crate) fn is_ahead_of(&self, at: Timestamp) -> bool {
        let rival = self.rival.as_ref();
        self.first.is_ahead_of(at) || rival.is_some_and(|rival| rival.is_ahead_of(at))
    }

    /// Forgets all that was learnt.
    pub(crate) fn begin_anew(&mut self) {
        self.all().for_each(Learner::begin_anew);
        self.calibration = Calibration::new();
        self.alarm = Alarm::new(self.wanted.limits);
        self.active = Role::First;
        self.events.push(ModelEvent::Forgot);
    }

    /// An event is about to change the pool; `holes` gives the present ones.
    pub(crate) fn turn_to(&mut self, event: &NodeEvent, holes: impl Fn() -> Vec<Hole>) {
        self.all()
            .for_each(|learner| learner.turn_to(event, &holes));
    }

    /// Takes in a change of the pool.
    pub(crate) fn take(&mut self, change: &Change) {
        if let Change::Closed { hole, at, end } = change {
            match end {
                HoleEnd::Seen => self.calibration.closed(&hole.node, *at),
                HoleEnd::Unseen { last_seen } => self.calibration.lost(&hole.node, *last_seen),
            }
        }
        self.all().for_each(|learner| learner.take(change));
    }

    /// Takes in all ends that are announced as of `now`.
    pub(crate) fn announce(&mut self, now: Timestamp, ends: &[AnnouncedEnd]) {
        let listening = self.all().filter(|learner| learner.is_listening());
        listening.for_each(|learner| learner.predictor.announce(now, ends));
    }

    /// Forecasts the present holes, and scores forecasts that were given before. Every end up to
    /// `told` has been told.
    pub(crate) fn forecast(
        &mut self,
        now: Timestamp,
        told: Timestamp,
        holes: &[Hole],
    ) -> Forecasts {
        let mut given = self.first.predictor.forecast(now, holes);
        let mut other = None;
        if self.calibration.is_due(now) {
            other = self.of_rival(now, holes);
        }
        self.calibration
            .observe(now, told, holes, &given, other.as_ref());
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

    /// Who forecasts from now on.
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

    /// In lock step nothing may depend on how long anything takes, and the forecasts must be
    /// those of a replay: fits are made within the step, and nobody takes over.
    pub(crate) fn set_lock_step(&mut self, is_lock_step: bool) {
        self.may_fall_back = self.wanted.fallback && !is_lock_step;
    }

    /// Says where models are fitted.
    pub(crate) fn set_fits(&mut self, fits: Fits) {
        self.first.predictor.set_fits(fits);
    }

    /// The fit that is due, if one is to be made elsewhere.
    pub(crate) fn fit_task(&mut self) -> Option<FitTask> {
        self.first.predictor.fit_task()
    }

    /// Puts in what was fitted.
    pub(crate) fn install(&mut self, fitted: Option<Fitted>) {
        self.first.predictor.install(fitted);
    }

    /// What has happened since this was last asked.
    pub(crate) fn take_events(&mut self) -> Vec<ModelEvent> {
        std::mem::take(&mut self.events)
    }

    /// Who forecasts now.
    #[must_use]
    pub fn active(&self) -> Role {
        self.active
    }

    /// What forecasts now rest on, in words.
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

    /// How much the first has learnt.
    #[must_use]
    pub fn learning(&self) -> Learning {
        self.first.predictor.learning()
    }

    /// What the first knows of itself.
    #[must_use]
    pub fn report(&self) -> Report {
        self.first.predictor.report()
    }

    /// How good the first's forecasts were.
    #[must_use]
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// Why the first is adrift, if it is.
    #[must_use]
    pub fn adrift(&self) -> Option<Adrift> {
        self.alarm.raised()
    }

    /// Whether announced ends are heeded.
    pub(crate) fn uses_announced_ends(&self) -> bool {
        self.wanted.announced_ends
    }
}
