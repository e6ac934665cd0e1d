//! Lock step: when the loop has settled.
//!
//! - A tick that is not complete is settled when every present simulated run has reported at its
//!   moment.
//! - A complete tick is settled when a plan for its events has been followed, agent statuses
//!   acknowledge every command, every lease is written and every release confirmed, and no trainer
//!   waits for nodes or a restart.

use lacuna_model::Launch;

use crate::book::{Book, Effect, Tick};

impl Book {
    pub(crate) fn ticked(&mut self, tick: Tick) {
        // Asked again: the answer was lost, or ingest has started anew.
        if self.settled == Some((tick.step, tick.complete)) {
            self.settled = None;
        }
        self.tick = Some(tick);
    }

    /// The answer to the present tick, once there is one.
    pub(crate) fn settle(&mut self, nothing_to_write: bool) -> Option<Effect> {
        let tick = self.tick.filter(|tick| tick.lock_step)?;
        let open = !nothing_to_write || !self.hit.is_empty();
        if self.settled == Some((tick.step, tick.complete)) || open {
            return None;
        }
        let settled = if tick.complete {
            self.planned_step == Some(tick.step)
                && self.unacked.is_empty()
                && self.releasing.is_empty()
                && self.unwritten.is_empty()
                && self.nothing_waits()
        } else {
            self.all_reported(tick)
        };
        settled.then(|| {
            self.settled = Some((tick.step, tick.complete));
            Effect::Settled {
                step: tick.step,
                complete: tick.complete,
            }
        })
    }

    /// No trainer waits for nodes or for a restart.
    fn nothing_waits(&self) -> bool {
        self.active
            .iter()
            .filter_map(|id| self.trainers.get(id))
            .all(|t| t.target.is_none() && t.restart.is_none())
    }

    /// Every simulated run has told where it stands at the tick's moment.
    fn all_reported(&self, tick: Tick) -> bool {
        self.active
            .iter()
            .filter_map(|id| self.trainers.get(id))
            .filter(|t| !t.record.nodes.is_empty())
            .filter(|t| matches!(t.record.spec.launch, Launch::Simulated))
            .all(|t| t.account.reported() >= tick.now)
    }
}
