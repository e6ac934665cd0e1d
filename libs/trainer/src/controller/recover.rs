//! A new start from the content of the buckets. Running trainers are not touched.

use lacuna_model::{Epoch, NodeId, Past, Span, TrainerId, TrainerRecord};

use crate::Now;
use crate::account::Change;
use crate::controller::out::Out;
use crate::controller::publication::Publication;
use crate::controller::trainers::AfterLoss;
use crate::controller::usage::Usage;
use crate::controller::{Controller, ControllerConfig, Effect, Tally};

impl Controller {
    /// The state as the buckets have it. `past` is what the archive has, and `version` the last one
    /// that was published. `before` has the sums of an earlier instance, and how much longer agents held
    /// their nodes at most, in the cluster's time.
    ///
    /// Agents are taken to be where the records say until they say otherwise. The pool is unknown
    /// until the first snapshot, and until then nothing is taken or given.
    #[must_use = "effects must be carried out"]
    pub fn recover(
        config: ControllerConfig,
        records: Vec<TrainerRecord>,
        past: Past,
        leases: Vec<(NodeId, Option<TrainerId>, Epoch)>,
        before: Option<(&Tally, Span)>,
        version: u64,
        now: Now,
    ) -> (Self, Vec<Effect>) {
        let mut control = Self::new(config);
        let mut out = Out::default();
        control.publication = Publication::after(version);
        control.trainers.resume_past(past);
        let mut beyond = Span::ZERO;
        if let Some((tally, held_for)) = before {
            (control.usage, beyond) = Usage::resumed(tally, held_for, now);
        }
        for (id, owner, epoch) in leases {
            let config = &control.config;
            control.nodes.restore(&id, owner, epoch, config, now);
        }
        for mut record in records {
            record.tries.resume(now.wall);
            control.enter(record, now);
        }
        control.trainers.skip(beyond);
        for id in control.trainers.readmit() {
            control.readopt(&id, now, &mut out);
        }
        control.release_strays(&mut out);
        // Releases that may have been lost are scheduled for the timer to send again.
        for (node, action) in control.nodes.open_releases(now) {
            let _ = control.nodes.command(&node, 1, action, now);
        }
        let effects = control.gather(out, now);
        (control, effects)
    }

    /// Resumes a trainer's incarnation, or the part of it that is left.
    fn readopt(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        trainer.resume_account();
        let mut held = trainer.nodes().to_vec();
        held.retain(|node| self.nodes.owner(node) == Some(id));
        if held.len() != trainer.nodes().len() {
            if !trainer.can_go_on_with(held.len()) {
                held.clear();
            }
            let after = AfterLoss {
                nodes: held,
                change: Change::Lost { at: now.cluster },
                at: now.cluster,
            };
            self.after_loss(id, after, now, out);
            return;
        }
        // The commands may never have gone out. An agent that has obeyed ignores the repetition.
        if trainer.is_program() && !held.is_empty() {
            out.members(id);
        }
        self.command_incarnation(id, now, out);
    }

    /// Leases without a use: control died between writing them and beginning the incarnation.
    fn release_strays(&mut self, out: &mut Out) {
        let is_stray = |node: &NodeId, owner: &TrainerId| {
            let owner = self.trainers.get(owner);
            !owner.is_some_and(|trainer| trainer.is_member(node))
        };
        let owned = self.nodes.iter();
        let owned = owned.filter_map(|(id, node)| Some((id, node.lease().owner()?)));
        let strays = owned.filter(|(id, owner)| is_stray(id, owner));
        let strays: Vec<NodeId> = strays.map(|(id, _)| id.clone()).collect();
        for id in strays {
            self.release(&id, "its run never began", out);
        }
    }
}
