//! Incarnations (`run`): every change of a trainer's nodes closes one and begins the next.
//!
//! - Rank is the place in the sorted order of the nodes. The number of a `Run` command within its
//!   epoch is the incarnation's id.
//! - A command says how many nodes the incarnation has, not which, so a change of N nodes is N
//!   short commands. The names are kept once (`Members`), before the commands go out. Commands wait
//!   while they cannot be kept, and both are then published again. Simulated trainers need no
//!   names.

use lacuna_model::{Action, Assignment, NodeId, Phase, Progress, Timestamp, TrainerId};

use crate::Now;
use crate::account::{Change, Counted};
use crate::agent::Exit;
use crate::controller::kinds::BROKEN;
use crate::controller::out::Out;
use crate::controller::trainers::Due;
use crate::controller::{Controller, Note};

/// The reason in a record for a program that ended by itself, or that its agent has killed.
pub(super) fn exit_reason(node: &NodeId, exit: &Exit) -> String {
    let Exit {
        code,
        reason,
        killed,
        ..
    } = exit;
    if *killed {
        return format!("{reason}, killed (node {node})");
    }
    let words = if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    };
    format!("exit code {code}{} on node {node}{words}", of_signal(*code))
}

/// What an exit code says of the signal that ended a program, as shells count them.
const fn of_signal(code: i32) -> &'static str {
    match code {
        134 => " (SIGABRT)",
        135 => " (SIGBUS)",
        137 => " (SIGKILL, as where memory ran out)",
        139 => " (SIGSEGV)",
        143 => " (SIGTERM)",
        _ => "",
    }
}

impl Controller {
    /// Gives a trainer another set of nodes (sorted), whose leases it holds, from now on.
    pub(super) fn begin_incarnation(
        &mut self,
        id: &TrainerId,
        nodes: Vec<NodeId>,
        change: Change,
        now: Now,
        out: &mut Out,
    ) {
        self.begin_incarnation_at(id, nodes, change, now.cluster, now, out);
    }

    /// The same for a change that came about at `at` (cluster time, not after now).
    pub(super) fn begin_incarnation_at(
        &mut self,
        id: &TrainerId,
        nodes: Vec<NodeId>,
        change: Change,
        at: Timestamp,
        now: Now,
        out: &mut Out,
    ) {
        let rate = self.trainers.get(id);
        let rate = rate.and_then(|trainer| self.rate_on(trainer, &nodes));
        let is_broken = !nodes.is_empty() && rate == Some(0.0);
        let nodes = if is_broken { Vec::new() } else { nodes };
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        let begun = trainer.begin(nodes, change, at, self.config.report_grace, rate, now);
        if matches!(change, Change::Lost { .. }) {
            out.note(Note::Preempted {
                trainer: id.clone(),
                nodes: begun.before.saturating_sub(begun.after),
            });
        }
        if begun.before + begun.after > 0 {
            if trainer.is_program() {
                out.members(id);
            }
            out.note(Note::Run {
                trainer: id.clone(),
                run: trainer.record().run,
                before: begun.before,
                after: begun.after,
                cause: begun.cause,
            });
        }
        out.record(id);
        self.publication.change();
        self.command_incarnation(id, now, out);
        if is_broken {
            self.release_unneeded(id, BROKEN, out);
        }
        self.note_probe_cost(id, change == Change::Ended, out);
    }

    /// Commands every node of a trainer to run its present incarnation, unless its work is done.
    pub(super) fn command_incarnation(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let trainer = self.trainers.get(id);
        let Some(trainer) = trainer.filter(|trainer| !trainer.ends()) else {
            return;
        };
        let nodes = trainer.nodes().to_vec();
        let seq = trainer.record().run.0;
        let part = Assignment {
            nodes: nodes.len() as u32,
            ..trainer.assignment(&self.config.control)
        };
        for (rank, node) in (0..).zip(nodes) {
            let part = part.clone();
            let action = Action::Run(Box::new(Assignment { rank, ..part }));
            self.send(&node, seq, action, now, out);
        }
    }

    /// Ends a trainer for good and takes its nodes back.
    pub(super) fn end(
        &mut self,
        id: &TrainerId,
        phase: Phase,
        reason: &str,
        now: Now,
        out: &mut Out,
    ) {
        let Some(before) = self.trainers.end(id, phase, reason, now) else {
            return;
        };
        if phase == Phase::Done {
            self.sound(id, now, out);
        }
        if let Some(trainer) = self.trainers.get(id) {
            self.admission.ended(trainer, before);
        }
        self.begin_incarnation(id, Vec::new(), Change::Ended, now, out);
        self.release_unneeded(id, &format!("trainer {id} is over"), out);
        let phase = match phase {
            Phase::Done => "done",
            Phase::Cancelled => "cancelled",
            Phase::Failed => "failed",
            Phase::Queued | Phase::Active => "",
        };
        out.note(Note::Ended {
            trainer: id.clone(),
            phase,
            reason: reason.to_owned(),
        });
    }

    pub(super) fn reported(&mut self, report: &Progress, now: Now, out: &mut Out) {
        let id = &report.trainer;
        let late = || Note::LateReport {
            trainer: id.clone(),
            run: report.run,
        };
        let Some(trainer) = self.trainers.get_mut(id) else {
            out.note(late());
            return;
        };
        match trainer.report(report) {
            Counted::Samples(more) => {
                let is_present = report.run == trainer.record().run;
                let is_done = trainer.is_done();
                self.publication.change_figures();
                if !is_present {
                    // The next control does not know that incarnation, and counts nothing of it.
                    out.record(id);
                }
                if more > 0.0 && is_present {
                    self.progressed(id, now, out);
                }
                if is_done {
                    self.all_samples_done(id, now, out);
                } else {
                    self.measure(report, now, out);
                    self.judge_slow(report, now, out);
                }
            }
            Counted::Late => out.note(late()),
            Counted::Foreign => out.note(Note::ForeignReport {
                trainer: id.clone(),
                run: report.run,
                node: report.node.clone(),
            }),
            Counted::Nonsense => out.note(Note::BadReport {
                trainer: id.clone(),
            }),
        }
    }

    /// A trainer has made progress.
    fn progressed(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        let enough = self.config.healthy_after;
        let more = trainer.progress(enough, now);
        let is_sound = trainer.is_sound(enough);
        let cleared = self.nodes.count_progress(trainer.nodes(), more, enough);
        self.publication.change_if(cleared);
        if is_sound {
            self.sound(id, now, out);
        }
    }

    /// The program of an incarnation's member ended by itself.
    pub(super) fn exited(
        &mut self,
        id: &TrainerId,
        node: &NodeId,
        exit: &Exit,
        now: Now,
        out: &mut Out,
    ) {
        let code = exit.code;
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        let is_first = trainer.nodes().first() == Some(node);
        if trainer.health().is_decided() {
            return;
        }
        if !trainer.health().is_restarting() {
            if code == 0 && self.exited_well(id, node, now, out) {
                return;
            }
            let reason = exit_reason(node, exit);
            if (code == 0 && !is_first)
                || self.failed_after_done(id, (node, code), &reason, now, out)
            {
                return;
            }
        }
        self.await_exits(id, now);
    }

    /// Restarts incarnations whose restart is due. One whose program has failed gives its nodes
    /// back (`elsewhere.rs`).
    pub(super) fn restart_due(&mut self, now: Now, out: &mut Out) {
        let waiting = self.trainers.admitted_where(|t| t.health().is_restarting());
        for id in waiting {
            let Some(trainer) = self.trainers.get_mut(&id) else {
                continue;
            };
            let Some(due) = trainer.take_due_restart(now) else {
                continue;
            };
            let keeps_nodes = due == Due::OnNodes;
            if due == Due::CountsAndGivesBack {
                self.count_exits(&id, now, out);
            }
            let Some(trainer) = self.trainers.get(&id) else {
                continue;
            };
            if let Some(reason) = trainer.given_up(self.config.control.max_failures)
                && keeps_nodes
            {
                self.end(&id, Phase::Failed, &reason, now, out);
                continue;
            }
            let nodes = trainer.nodes().to_vec();
            if nodes.is_empty() {
                continue;
            }
            let next = if keeps_nodes { nodes } else { Vec::new() };
            self.begin_incarnation(&id, next, Change::Restarted, now, out);
            if !keeps_nodes {
                self.release_unneeded(&id, "its program has failed", out);
            }
        }
    }
}
