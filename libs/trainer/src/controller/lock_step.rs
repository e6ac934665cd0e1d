//! Lock step: when the loop has settled.
//!
//! - A tick that is not complete is settled when every present simulated incarnation has reported
//!   at its moment.
//! - A complete tick is settled when a plan for its events has been followed, agent statuses
//!   acknowledge every command, every lease is written and every release confirmed, and no trainer
//!   waits for nodes or a restart.

use lacuna_model::Launch;

use crate::controller::trainers::Trainer;
use crate::controller::{Controller, Effect, Tick};

/// The present tick, and the last one that was answered.
#[derive(Debug, Default)]
pub(crate) struct LockStep {
    tick: Option<Tick>,
    answered: Option<(u64, bool)>,
}

impl LockStep {
    pub(crate) fn ticked(&mut self, tick: Tick) {
        // Asked again: the answer was lost, or ingest has started again.
        if self.answered == Some((tick.step, tick.complete)) {
            self.answered = None;
        }
        self.tick = Some(tick);
    }

    /// The newest tick of the cluster's clock, in lock step or not.
    pub(crate) const fn tick(&self) -> Option<Tick> {
        self.tick
    }

    /// Whether the cluster's time is that of the wall clock, by the newest tick.
    pub(crate) fn is_wall(&self) -> bool {
        self.tick.is_some_and(|tick| tick.is_wall)
    }

    /// Whether time waits until the loop has settled.
    pub(crate) fn is_on(&self) -> bool {
        self.tick.is_some_and(|tick| tick.lock_step)
    }

    /// The present tick, if it waits for its answer.
    fn open_tick(&self) -> Option<Tick> {
        let tick = self.tick.filter(|tick| tick.lock_step)?;
        (self.answered != Some((tick.step, tick.complete))).then_some(tick)
    }

    fn answer(&mut self, tick: Tick) -> Effect {
        self.answered = Some((tick.step, tick.complete));
        Effect::Settled {
            step: tick.step,
            complete: tick.complete,
        }
    }

    /// The answer to the present tick once more, if there was one: it may have been lost.
    pub(crate) fn answer_again(&self) -> Option<Effect> {
        let tick = self.tick.filter(|tick| tick.lock_step)?;
        let (step, complete) = (tick.step, tick.complete);
        (self.answered == Some((step, complete))).then_some(Effect::Settled { step, complete })
    }
}

impl Controller {
    /// The answer to the present tick, once there is one.
    pub(super) fn settle(&mut self, nothing_to_write: bool) -> Option<Effect> {
        let tick = self.lock_step.open_tick()?;
        if !nothing_to_write || self.trainers.any_hit() {
            return None;
        }
        let settled = if tick.complete {
            self.plans.has_had(tick.step) && self.nodes.are_settled() && self.no_trainer_waits()
        } else {
            self.all_reported(tick)
        };
        settled.then(|| self.lock_step.answer(tick))
    }

    /// No trainer waits for nodes or for a restart.
    fn no_trainer_waits(&self) -> bool {
        let mut admitted = self.trainers.admitted();
        admitted.all(|t| t.target().is_none() && !t.health().is_restarting())
    }

    /// Every simulated incarnation has reported at the tick's moment.
    fn all_reported(&self, tick: Tick) -> bool {
        let simulated = |t: &&Trainer| {
            !t.nodes().is_empty() && matches!(t.record().spec.launch, Launch::Simulated)
        };
        let mut simulated = self.trainers.admitted().filter(simulated);
        simulated.all(|trainer| trainer.reported() >= tick.now)
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::Timestamp;

    use super::*;

    fn tick(step: u64, complete: bool) -> Tick {
        Tick {
            now: Timestamp::from_unix(1000),
            step,
            events_upto: 0,
            complete,
            lock_step: true,
            is_wall: false,
        }
    }

    #[test]
    fn each_tick_is_answered_once_and_again_when_it_is_repeated() {
        let mut lock_step = LockStep::default();
        assert!(lock_step.open_tick().is_none() && !lock_step.is_on());
        lock_step.ticked(tick(1, false));
        let open = lock_step.open_tick().unwrap();
        assert!(lock_step.answer_again().is_none());
        let _ = lock_step.answer(open);
        assert!(lock_step.open_tick().is_none() && lock_step.answer_again().is_some());
        lock_step.ticked(tick(1, true));
        assert!(lock_step.open_tick().is_some() && lock_step.answer_again().is_none());
        let _ = lock_step.answer(tick(1, true));
        lock_step.ticked(tick(1, true));
        assert!(lock_step.open_tick().is_some(), "the answer was lost");
    }
}
