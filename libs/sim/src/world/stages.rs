//! Trainers whose curves change as they learn. The begin of a stage is an event.

use super::member::place;
use super::run::{END_TOLERANCE_S, World};

impl World<'_> {
    /// The next begin of a stage, seconds.
    pub(super) fn next_stage_s(&self) -> f64 {
        let left = self.active.iter().filter_map(|member| {
            let trainer = place(self.trainers, member.life);
            let (from, _) = self.kinds.stage(trainer, member.stage)?;
            Some(member.ledger.time_to(from, member.rate))
        });
        self.tally.now_s + left.fold(f64::INFINITY, f64::min)
    }

    /// Gives trainers the curves of the stages that they have reached.
    pub(super) fn pass_stages(&mut self) {
        for member in &mut self.active {
            let trainer = place(self.trainers, member.life);
            while let Some((from, kind)) = self.kinds.stage(trainer, member.stage) {
                // A begin that is an event must count here, however its time was rounded.
                if member.ledger.time_to(from, member.rate) > END_TOLERANCE_S {
                    break;
                }
                member.kind = kind.clone();
                member.stage += 1;
                member.values = None;
                member.remix(member.mix);
            }
        }
    }
}
