//! Effects of time alone: silence, repetition, restarts, probes.

use crate::Now;
use crate::controller::out::Out;
use crate::controller::trainers::Trainer;
use crate::controller::{Controller, Effect, Note};

impl Controller {
    pub(super) fn timer(&mut self, now: Now, out: &mut Out) {
        if self.connected {
            self.look_for_overdue(now, out);
            self.resend(now, out);
            self.restart_due(now, out);
            self.end_overdue(now, out);
            self.review_rests(now, out);
            self.look_for_pilots_again(now);
            self.look_at_groups(now, out);
            self.pursue_all(now, out);
            self.probe_all(now, out);
        }
        for trainer in self.trainers.iter().filter(|trainer| trainer.is_dirty()) {
            out.record(trainer.id());
        }
        if self.publication.by_timer(now) {
            let view = self.trainers_view(now);
            out.push(Effect::PublishTrainers(view));
        }
        if let Some(settled) = self.lock_step.answer_again() {
            out.push(settled);
        }
    }

    /// Releases that are overdue or no longer waited for, and agents that have become silent.
    fn look_for_overdue(&mut self, now: Now, out: &mut Out) {
        let found = self.nodes.find_overdue(&self.config, now);
        self.publication.change_if(!found.unusable.is_empty());
        self.publication.change_if(!found.usable.is_empty());
        for node in found.usable {
            out.note(Note::Usable { node });
        }
        for (node, cause) in found.unusable {
            out.note(Note::Unusable { node, cause });
        }
        if !found.missing.is_empty() {
            let others = self.nodes.counterparts(now);
            for node in found.missing {
                let perhaps = others.agents_like(&node);
                out.note(Note::NoAgent { node, perhaps });
            }
        }
        for node in found.unheard {
            let is_wanted = self.nodes.stop_waiting(&node);
            self.count_harm(&node, false, now, out);
            if self.config.on_demand.is_some() {
                // No agent will speak there before a trainer has the node.
                let _ = self.nodes.confirm(&node, now);
                self.publication.change();
            }
            if is_wanted {
                out.push(Effect::AnswerReleased { node: node.clone() });
            }
            self.usage.miss();
            out.note(Note::ReleasedUnheard { node });
        }
        if !found.lost.is_empty() {
            self.take(found.lost, "its agent is silent", now.cluster, now, out);
        }
    }

    /// The bus is there again. Silence during its absence says nothing. The server may have lost
    /// the members of incarnations.
    pub(super) fn reconnected(&mut self, now: Now, out: &mut Out) {
        self.connected = true;
        self.nodes.reconnected(now);
        let trains = |t: &&Trainer| t.is_program() && !t.nodes().is_empty();
        for trainer in self.trainers.admitted().filter(trains) {
            out.members(trainer.id());
        }
    }
}
