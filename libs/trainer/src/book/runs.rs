//! Incarnations (runs): every change of a trainer's nodes closes one and begins the next.
//!
//! - Rank is the place in the sorted order of the nodes. The number of a `Run` command within its
//!   epoch is the incarnation's id.
//! - A command says how many nodes the incarnation has, not which, so a change of N nodes is N
//!   short commands. Which nodes they are is kept once (`Members`), before the
//!   commands go out. Commands wait while it cannot be kept, and both are then published again.
//!   Simulated trainers need no names.

use std::sync::Arc;

use lacuna_model::{
    Action, Assignment, Launch, NodeId, Phase, Progress, Span, Timestamp, TrainerId, TrainerRecord,
};

use crate::Now;
use crate::account::{Change, Counted, is_done};
use crate::book::quota::user_of;
use crate::book::state::{Out, Restart};
use crate::book::{Book, Note};

/// What agents must know of the present run: the part of whoever is no member of it.
pub(crate) fn assignment(record: &TrainerRecord, store: Option<String>) -> Assignment {
    Assignment {
        trainer: record.spec.id.clone(),
        run: record.run,
        rank: 0,
        nodes: 0,
        launch: Arc::new(record.spec.launch.clone()),
        throughput: record.spec.throughput.clone(),
        rescale: record.spec.rescale,
        work: record.spec.work,
        samples_before: record.samples_before,
        owed: record.run_owed,
        since: record.run_since,
        checkpoint: record.checkpoint.clone(),
        store,
    }
}

/// Whether agents ask for the names of a trainer's nodes: those of programs do.
pub(crate) const fn is_named(record: &TrainerRecord) -> bool {
    matches!(record.spec.launch, Launch::Command { .. })
}

impl Book {
    /// Gives a trainer another set of nodes (sorted), whose leases it holds, for a new run.
    pub(crate) fn change_run(
        &mut self,
        id: &TrainerId,
        nodes: Vec<NodeId>,
        change: Change,
        now: Now,
        out: &mut Out,
    ) {
        self.change_run_at(id, nodes, change, now.cluster, now, out);
    }

    /// The same for a change that came about at `at` (cluster time, not after now).
    pub(crate) fn change_run_at(
        &mut self,
        id: &TrainerId,
        nodes: Vec<NodeId>,
        change: Change,
        at: Timestamp,
        now: Now,
        out: &mut Out,
    ) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        let before = trainer.record.nodes.len() as u32;
        let after = nodes.len() as u32;
        let joins = trainer.replaced_from.is_some();
        if change == Change::Repooled {
            trainer.replaced_from.get_or_insert(before);
        } else {
            trainer.replaced();
        }
        let record = &mut trainer.record;
        let allowance = match record.spec.launch {
            Launch::Simulated => Span::ZERO,
            Launch::Command { .. } => self.config.last_words,
        };
        let lost = trainer.account.turn(record, change, after, at, allowance);
        let cause = match change {
            Change::Grown | Change::Shrunk if before > 0 => {
                record.rescales += 1;
                if change == Change::Grown {
                    "grown"
                } else {
                    "shrunk"
                }
            }
            Change::Grown | Change::Shrunk => "start",
            // Counted when it is complete.
            Change::Repooled if before > 0 || joins => "repooled",
            Change::Repooled => "start",
            Change::Lost { .. } => {
                if lost {
                    record.preemptions += 1;
                }
                out.note(Note::Preempted {
                    trainer: id.clone(),
                    nodes: before.saturating_sub(after),
                });
                "preempted"
            }
            Change::Restarted => "restarted",
            Change::Ended => "ended",
        };
        trainer.trials.turned(record, &nodes, change, now);
        record.nodes = nodes;
        record.hit_at = match change {
            Change::Lost { at } => Some(at),
            // Until it has joined the others.
            Change::Repooled => record.hit_at,
            _ => None,
        };
        if after > 0 && record.started.is_none() {
            record.started = Some(now.cluster);
        }
        let begun = (record.run, record.run_since);
        trainer.pauses.turn(begun, change, before, after);
        trainer.restart = None;
        trainer.broken = None;
        trainer.up = now.wall;
        trainer.progressed = now.wall;
        if before + after > 0 {
            if is_named(record) {
                out.members.insert(id.clone());
            }
            out.note(Note::Run {
                trainer: id.clone(),
                run: record.run,
                before,
                after,
                cause,
            });
        }
        out.records.insert(id.clone());
        self.changed = true;
        self.command_run(id, now, out);
        self.tell_cost(id, change == Change::Ended, out);
    }

    /// Commands every node of a trainer to run its present run.
    pub(crate) fn command_run(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        let record = &trainer.record;
        let seq = record.run.0;
        let part = Assignment {
            nodes: record.nodes.len() as u32,
            ..assignment(record, self.config.control.store.clone())
        };
        for (rank, node) in (0..).zip(record.nodes.clone()) {
            let action = Action::Run(Box::new(Assignment {
                rank,
                ..part.clone()
            }));
            self.send(&node, seq, action, now, out);
        }
    }

    /// Ends a trainer for good and takes its nodes back.
    pub(crate) fn end(
        &mut self,
        id: &TrainerId,
        phase: Phase,
        reason: &str,
        now: Now,
        out: &mut Out,
    ) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        trainer.target = None;
        match trainer.record.phase {
            Phase::Queued => self.queue.remove(id),
            Phase::Active => {
                let spec = &trainer.record.spec;
                let bounds = (spec.min_nodes, spec.max_nodes);
                self.comings.leave(user_of(&trainer.record), bounds);
            }
            _ => {}
        }
        trainer.record.phase = phase;
        reason.clone_into(&mut trainer.record.reason);
        trainer.record.ended = Some(now.cluster);
        self.active.retain(|active| active != id);
        self.change_run(id, Vec::new(), Change::Ended, now, out);
        self.release_unwanted(id, &format!("trainer {id} is over"), out);
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

    /// Releases every node that a trainer holds without needing it.
    pub(crate) fn release_unwanted(&mut self, id: &TrainerId, reason: &str, out: &mut Out) {
        let needed = self.trainers.get(id);
        let unwanted: Vec<NodeId> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.owner.as_ref() == Some(id))
            .filter(|(node, _)| needed.is_none_or(|t| !t.needs(node)))
            .map(|(node, _)| node.clone())
            .collect();
        for node in unwanted {
            self.release(&node, reason, out);
        }
    }

    pub(crate) fn reported(&mut self, report: &Progress, now: Now, out: &mut Out) {
        let Some(trainer) = self.trainers.get_mut(&report.trainer) else {
            out.note(Note::LateReport {
                trainer: report.trainer.clone(),
                run: report.run,
            });
            return;
        };
        match trainer.account.report(&mut trainer.record, report) {
            Counted::Samples(more) => {
                trainer.dirty = true;
                self.figures = true;
                if report.run != trainer.record.run {
                    // Whoever takes these books up does not know that run, and counts nothing of it.
                    out.records.insert(report.trainer.clone());
                }
                let done = trainer.record.phase == Phase::Active && is_done(&trainer.record);
                if more > 0.0 && report.run == trainer.record.run {
                    self.progressed(&report.trainer, now);
                }
                if done {
                    let id = report.trainer.clone();
                    self.end(&id, Phase::Done, "all samples done", now, out);
                } else {
                    self.measure(report, now, out);
                }
            }
            Counted::Late => out.note(Note::LateReport {
                trainer: report.trainer.clone(),
                run: report.run,
            }),
            Counted::Foreign => out.note(Note::ForeignReport {
                trainer: report.trainer.clone(),
                run: report.run,
                node: report.node.clone(),
            }),
            Counted::Nonsense => out.note(Note::BadReport {
                trainer: report.trainer.clone(),
            }),
        }
    }

    /// A trainer has made progress since it last did: enough of that, and failures are forgotten.
    fn progressed(&mut self, id: &TrainerId, now: Now) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        let more = now.since(trainer.progressed);
        let enough = self.config.healthy_after;
        trainer.progressed = now.wall;
        trainer.healthy += more;
        if trainer.healthy >= enough {
            trainer.record.failures = 0;
        }
        for node in &trainer.record.nodes {
            if let Some(node) = self.nodes.get_mut(node) {
                node.healthy += more;
                node.sound(user_of(&trainer.record), enough);
            }
        }
    }

    /// The program of a run's member ended by itself.
    pub(crate) fn exited(
        &mut self,
        id: &TrainerId,
        node: &NodeId,
        code: i32,
        words: &str,
        now: Now,
        out: &mut Out,
    ) {
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        let record = &mut trainer.record;
        if trainer.restart.is_some() {
            return;
        }
        let first = record.nodes.first() == Some(node);
        let said = if words.is_empty() {
            String::new()
        } else {
            format!(": {words}")
        };
        if code == 0 && !first {
            return;
        }
        if code == 0 && record.spec.work == lacuna_model::Work::UntilExit {
            self.end(
                id,
                Phase::Done,
                "its program ended with exit code 0",
                now,
                out,
            );
            return;
        }
        record.failures += 1;
        record.reason = format!("exit code {code} on node {node}{said}");
        out.records.insert(id.clone());
        let failures = record.failures;
        let wait = self.config.wait_after(failures);
        trainer.restart = Some(Restart {
            at: now.wall + wait,
            healthy: std::mem::take(&mut trainer.healthy),
            failed: true,
            clean: code == 0,
        });
        out.note(Note::Failure {
            trainer: id.clone(),
            node: Some(node.clone()),
            failures,
            reason: trainer.record.reason.clone(),
            again_in: wait,
        });
        if code != 0 {
            self.failed_on(node, id);
        }
    }

    /// Starts again what has waited long enough, gives up what failed too often, and closes nodes
    /// on which an owner's programs keep failing. All of it only now, because a program that dies
    /// just before its node is taken has not failed.
    pub(crate) fn restart_due(&mut self, now: Now, out: &mut Out) {
        let due: Vec<TrainerId> = self
            .active
            .iter()
            .filter(|id| {
                self.trainers
                    .get(*id)
                    .and_then(|t| t.restart.as_ref())
                    .is_some_and(|restart| restart.at <= now.wall)
            })
            .cloned()
            .collect();
        for id in due {
            let Some(trainer) = self.trainers.get_mut(&id) else {
                continue;
            };
            let failed = trainer.restart.take().is_some_and(|r| r.failed && !r.clean);
            let record = &trainer.record;
            if record.failures >= self.config.control.max_failures {
                let reason = format!(
                    "given up after {} failures in a row; the last: {}",
                    record.failures, record.reason
                );
                self.end(&id, Phase::Failed, &reason, now, out);
                continue;
            }
            let nodes = record.nodes.clone();
            if failed && self.quarantine(&id, &nodes, now, out) {
                continue;
            }
            if !nodes.is_empty() {
                self.change_run(&id, nodes, Change::Restarted, now, out);
            }
        }
    }
}
