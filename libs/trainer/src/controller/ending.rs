//! The end of a trainer: it is trained once, and its programs end by themselves.
//!
//! Where the work is its program's (`until = "exit"`):
//!
//! 1. A program says `done` when its work is done, and `exiting` when its own code has ended too
//!    and only its interpreter's end is left ([`Ending`]). A trainer *ends* from the first `done`
//!    of a member of its newest incarnation on, until no member says so: the word was taken back, or
//!    lost with its node. Then the others are commanded into the newest incarnation.
//! 2. A trainer that ends keeps its nodes: plans and probes give it none and take none. If it
//!    regroups and nodes of it are lost, the others go on to their exits, however few they are, and
//!    get no further incarnation.
//! 3. Exit code 0 of any member of a trainer that ends finishes its work: it is never begun again
//!    for another member's exit or loss. A member that is `exiting` finishes it too, since its node
//!    may be lost, or its agent start again, before its exit.
//! 4. The exit of the member with rank 0 is waited for, since it may still save or export. Its exit
//!    code 0 ends the trainer at once, with or without a word. Where it is lost, or its group
//!    is broken, the trainer is over once no other member is waited for.
//! 5. Exit code 0 of another member, before any word, says nothing by itself: clients of older
//!    versions have no words. A trainer that regroups waits [`WORD_WAIT`] for the word of another
//!    member or the exit of rank 0. After that, or if the others' group breaks meanwhile, the
//!    member has gone too early: a failure, and the others go on without it. So has one that exits
//!    before the first incarnation.
//! 6. A program that fails after its work was done has failed, although its training is whole. If
//!    it was rank 0's, it is begun again from its checkpoint, as after any failure, which trains
//!    nothing again. Without a checkpoint the trainer fails at once: it is not trained again. The
//!    failure of another member is reported, and counts as its exit.
//! 7. If all nodes are lost before any exit, the program's own code has not ended: the trainer
//!    begins again with the next plan, from its checkpoint if it has one.
//! 8. The words and rule 3 are in the trainer's record, so a new control goes by them.
//! 9. A restart without a failure is shown as the trainer's reason. After `control.max_failures`
//!    such restarts in a row without new samples, each further one counts as a failure.
//!
//! Where the work is a number of samples:
//!
//! 10. With its last sample a trainer ends and is finished, as if a member had exited with code 0.
//!     Its programs may still save or export: rules 2 and 4 hold for [`EXIT_WAIT`].
//! 11. Then it is over, whatever its programs do. It is over at once if it is simulated, and if
//!     rank 0 fails or nothing of it is left: all of its samples are trained.

use lacuna_model::{Activity, AgentStatus, Ending, NodeId, Phase, Span, TrainerId, Work};

use crate::Now;
use crate::controller::Controller;
use crate::controller::nodes::Node;
use crate::controller::out::Out;
use crate::controller::trainers::{AfterLoss, Trainer};

/// How long an exit with code 0 waits for a word: longer than an interpreter takes to end.
const WORD_WAIT: Span = Span::from_secs(30);

/// How long programs may go on after the last sample.
const EXIT_WAIT: Span = Span::from_secs(30);

/// The reason in the record of a trainer whose samples are all trained.
const ALL_SAMPLES: &str = "all samples done";

/// The same where its work is its program's.
const DONE: &str = "its program ended with exit code 0";

/// The same of one that regroups and has said nothing of its end, as clients of older versions.
const DONE_WITHOUT_WORD: &str = "its program ended with exit code 0, without the word that its work \
    is done: if more was to be trained, see whether its loop is left by sys.exit()";

/// The reason of a trainer that is done, in order.
fn done(trainer: &Trainer) -> &'static str {
    if trainer.is_done() { ALL_SAMPLES } else { DONE }
}

/// The status of a member under its present lease.
pub(super) fn status_of<'a>(node: Option<&'a Node>, trainer: &Trainer) -> Option<&'a AgentStatus> {
    let node = node?;
    let status = node.agent().status()?;
    let run = trainer.record().run;
    let is_present = trainer.regroups() || status.seq == run.0;
    (status.epoch == node.lease().epoch() && is_present).then_some(status)
}

impl Controller {
    /// Takes the word of a member on its end.
    pub(super) fn hear_ending(
        &mut self,
        id: &TrainerId,
        status: &AgentStatus,
        now: Now,
        out: &mut Out,
    ) {
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        let record = trainer.record();
        let before = record.ending;
        let is_member = trainer.is_member(&status.node);
        if record.spec.work != Work::UntilExit || before == Some(Ending::Exited) || !is_member {
            return;
        }
        let says = |node| status_of(self.nodes.get(node), trainer).and_then(|s| s.ending);
        let ending = trainer.nodes().iter().any(|node| says(node).is_some());
        // Exits may have come before the word, or with it: a newer status replaces one that waits.
        let any_exited = ending
            && (status.ending >= Some(Ending::Exiting)
                || !self.members_exited(trainer, |code| code == 0).is_empty());
        let ending = ending.then_some(if any_exited {
            Ending::Exited
        } else {
            Ending::Done
        });
        if ending == before {
            return;
        }
        self.set_ending(id, ending, now, out);
        if ending.is_some() {
            self.release_unneeded(id, "its trainer's work is done", out);
        } else {
            // Incarnations that began meanwhile were commanded to no member.
            self.command_incarnation(id, now, out);
        }
        if any_exited {
            self.look_at_end(id, now, out);
        }
    }

    /// Members whose programs have exited with such a code.
    pub(super) fn members_exited(&self, trainer: &Trainer, is: fn(i32) -> bool) -> Vec<NodeId> {
        let exited = |node: &&NodeId| {
            let status = status_of(self.nodes.get(node), trainer);
            status.is_some_and(|s| matches!(s.activity, Activity::Exited { code, .. } if is(code)))
        };
        trainer.nodes().iter().filter(exited).cloned().collect()
    }

    fn set_ending(&mut self, id: &TrainerId, ending: Option<Ending>, now: Now, out: &mut Out) {
        if let Some(trainer) = self.trainers.get_mut(id) {
            trainer.set_ending(ending, now);
            self.publication.change();
            out.record(id);
        }
    }

    /// All samples of a trainer are trained: it ends.
    pub(super) fn all_samples_done(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get(id).filter(|trainer| !trainer.ends()) else {
            return;
        };
        let exited = self.members_exited(trainer, |code| code == 0);
        let has_exited = exited.iter().any(|node| trainer.may_have_rank_0(node));
        if has_exited || !trainer.is_program() {
            self.end(id, Phase::Done, ALL_SAMPLES, now, out);
            return;
        }
        self.set_ending(id, Some(Ending::Done), now, out);
        self.release_unneeded(id, "its trainer's work is done", out);
        self.look_at_end(id, now, out);
    }

    /// Ends trainers whose programs go on long after the last sample.
    pub(super) fn end_overdue(&mut self, now: Now, out: &mut Out) {
        let is_overdue = |t: &Trainer| t.is_done() && t.has_ended_for(EXIT_WAIT, now);
        for id in self.trainers.admitted_where(is_overdue) {
            self.end(&id, Phase::Done, ALL_SAMPLES, now, out);
        }
    }

    /// A member has exited with code 0. Returns whether nothing further follows from that.
    pub(super) fn exited_well(
        &mut self,
        id: &TrainerId,
        node: &NodeId,
        now: Now,
        out: &mut Out,
    ) -> bool {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return true;
        };
        if trainer.record().spec.work != Work::UntilExit && !trainer.ends() {
            return false;
        }
        if trainer.may_have_rank_0(node) {
            let has_word = trainer.ends() || !trainer.regroups();
            let reason = if has_word {
                done(trainer)
            } else {
                DONE_WITHOUT_WORD
            };
            self.end(id, Phase::Done, reason, now, out);
        } else if trainer.ends() {
            if trainer.record().ending != Some(Ending::Exited) {
                self.set_ending(id, Some(Ending::Exited), now, out);
            }
            self.look_at_end(id, now, out);
        } else if trainer.nodes().is_empty() {
            // Before the first incarnation no member has trained, so none has a word.
            return false;
        } else if trainer.regroups() {
            let waits = trainer.waits_for_word(WORD_WAIT, now);
            return waits && !self.says_broken(id);
        }
        // Members of other launchers need no further incarnation, and are waited for.
        true
    }

    /// A member has failed. Returns whether nothing further follows from that, since the work was
    /// done.
    pub(super) fn failed_after_done(
        &mut self,
        id: &TrainerId,
        (node, code): (&NodeId, i32),
        reason: &str,
        now: Now,
        out: &mut Out,
    ) -> bool {
        let Some(trainer) = self.trainers.get(id).filter(|trainer| trainer.ends()) else {
            return false;
        };
        if trainer.regroups() && !trainer.may_have_rank_0(node) {
            // Its agent says so again and again.
            if !trainer.tries().has_failed(node, reason) {
                self.count_failure(id, Some((node, code)), reason.to_owned(), now, out);
            }
            self.look_at_end(id, now, out);
            return true;
        }
        if trainer.is_done() {
            let reason = format!("{ALL_SAMPLES}, then its program failed: {reason}");
            self.end(id, Phase::Done, &reason, now, out);
            return true;
        }
        if trainer.record().checkpoint.is_some() {
            self.set_ending(id, None, now, out);
            return false;
        }
        let reason = format!(
            "its work was done, then its program failed: {reason}; it has no checkpoint, so it is \
             not trained again"
        );
        self.end(id, Phase::Failed, &reason, now, out);
        true
    }

    /// Ends a trainer that ends, once no member is waited for.
    pub(super) fn look_at_end(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get(id).filter(|trainer| trainer.ends()) else {
            return;
        };
        let is_finished = trainer.is_finished();
        let is_awaited = |node: &NodeId| {
            let Some(status) = status_of(self.nodes.get(node), trainer) else {
                return true;
            };
            let has_exited = matches!(status.activity, Activity::Exited { .. });
            !(has_exited || (is_finished && status.broken.is_some()))
        };
        if trainer.nodes().iter().any(is_awaited) {
            return;
        }
        if is_finished {
            self.end(id, Phase::Done, done(trainer), now, out);
        } else {
            let reason = trainer.record().reason.clone();
            self.end(id, Phase::Failed, &reason, now, out);
        }
    }

    /// Ends a trainer whose work is finished, where nothing of it is left to wait for. Returns whether
    /// it is over.
    pub(super) fn over(
        &mut self,
        id: &TrainerId,
        nothing_left: bool,
        now: Now,
        out: &mut Out,
    ) -> bool {
        let trainer = self.trainers.get(id);
        let Some(trainer) = trainer.filter(|t| nothing_left && t.is_finished()) else {
            return false;
        };
        self.end(id, Phase::Done, done(trainer), now, out);
        true
    }

    /// Begins the incarnation that follows a loss, at `at` (cluster time), unless the trainer is
    /// over with it.
    pub(super) fn after_loss(
        &mut self,
        id: &TrainerId,
        AfterLoss { nodes, change, at }: AfterLoss,
        now: Now,
        out: &mut Out,
    ) {
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        let nothing_left = nodes.is_empty() || !trainer.regroups();
        if self.over(id, nothing_left, now, out) {
            return;
        }
        self.begin_incarnation_at(id, nodes, change, at, now, out);
        self.look_at_end(id, now, out);
    }

    /// A trainer goes on without a member, or restarts, for a reason that is no failure. Returns
    /// whether that counts as one all the same.
    pub(super) fn restarted(
        &mut self,
        id: &TrainerId,
        reason: String,
        now: Now,
        out: &mut Out,
    ) -> bool {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return false;
        };
        let counts = trainer.count_restart(&reason) > self.config.control.max_failures;
        if counts {
            self.count_failure(id, None, reason, now, out);
        }
        counts
    }

    /// Members of a trainer that regroups whose programs have exited with code 0 before any word.
    pub(super) fn gone_too_early(&self, id: &TrainerId) -> Vec<NodeId> {
        let trainer = self.trainers.get(id).filter(|trainer| !trainer.ends());
        trainer.map_or_else(Vec::new, |trainer| {
            self.members_exited(trainer, |code| code == 0)
        })
    }

    /// Whether a member calls the group of the present incarnation broken.
    fn says_broken(&self, id: &TrainerId) -> bool {
        let Some(trainer) = self.trainers.get(id) else {
            return false;
        };
        let run = Some(trainer.record().run);
        let says = |node| status_of(self.nodes.get(node), trainer).and_then(|s| s.broken) == run;
        trainer.nodes().iter().any(says)
    }
}
