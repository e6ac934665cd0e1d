//! Agents: what they say, and what their silence means.
//!
//! - A pilot that is asked by SIGTERM says so (`AgentStatus.leaving`). Its node is out of use from
//!   then on, before any event of the scheduler, until an agent speaks there again.
//! - With `control.require_agents` a node is usable only once an agent has spoken on it. That alone
//!   couples the controller state with whatever starts agents.

use lacuna_model::{Activity, AgentStatus, NodeId, Span};

use crate::Now;
use crate::book::regroup::is_told;
use crate::book::runs::is_named;
use crate::book::state::{Out, Restart};
use crate::book::{Book, Effect, Note};

/// Without a change the planner is told again after this time: the last word may have been lost.
const REPEAT: Span = Span::from_secs(5);

impl Book {
    pub(crate) fn heard(&mut self, status: AgentStatus, now: Now, out: &mut Out) {
        let id = status.node.clone();
        if status.leaving {
            self.left(&status, now, out);
            return;
        }
        let node = self.node(&id);
        node.heard = Some(now.wall);
        node.gone = None;
        if std::mem::take(&mut node.silent) {
            if let Some(sent) = &mut node.sent {
                sent.again = 0;
            }
            out.note(Note::Usable { node: id.clone() });
            self.changed = true;
        }
        let node = self.nodes.entry(id.clone()).or_default();
        let before = node.status.replace(status.clone());
        if let Some(terms) = status.terms
            && before.and_then(|before| before.terms) != Some(terms)
        {
            let safe_after = node.safe_after(&self.config);
            if safe_after > self.config.dead_man + self.config.safety {
                let node = id.clone();
                out.note(Note::OtherTerms { node, terms });
            }
            // One of before it was heard.
            if let Some(release) = &mut node.release {
                release.safe_at = release.safe_at.max(release.since + safe_after);
            }
        }
        let node = self.node(&id);
        if node.acknowledged() {
            self.unacked.remove(&id);
        } else {
            // Not there yet, overtaken by newer words, or an agent that has lost its memory:
            // telling it again does no harm.
            self.unacked.insert(id);
            return;
        }
        let node = self.node(&id);
        let free = status.activity == Activity::Free;
        if node.owner.is_none() {
            if free && node.release.is_some() && status.epoch >= node.epoch {
                self.confirmed(&id, now, out);
            }
            return;
        }
        let Some(owner) = node.owner.clone() else {
            return;
        };
        let epoch = node.epoch;
        let told = is_told(node);
        let Some(trainer) = self.trainers.get_mut(&owner) else {
            return;
        };
        let record = &trainer.record;
        let regroups = record.spec.launch.regroups();
        let member = record.nodes.binary_search(&id).is_ok();
        if regroups && status.epoch == epoch {
            match &status.activity {
                Activity::Prepared { ready: true, .. } => self.pursue(&owner, now, out),
                Activity::Exited {
                    trainer,
                    code,
                    reason,
                    ..
                } if *trainer == owner => {
                    self.member_ended(&owner, &id, (*code, reason), now, out);
                }
                // It gave up its part by itself, and is there; or the program that it was told
                // to start is gone, with an agent that began anew.
                Activity::Free if member || told => {
                    self.go_on_without(&owner, &id, now, out);
                }
                _ => {}
            }
            let broken = self
                .trainers
                .get(&owner)
                .is_some_and(|t| t.broken.is_some());
            if broken || status.broken.is_some() {
                self.look_at_group(&owner, now, out);
            }
        }
        let Some(trainer) = self.trainers.get_mut(&owner).filter(|_| !regroups) else {
            return;
        };
        let record = &trainer.record;
        if !member || status.epoch != epoch || status.seq != record.run.0 {
            return;
        }
        match status.activity {
            Activity::Running { .. } | Activity::Prepared { .. } => {}
            Activity::Exited {
                run, code, reason, ..
            } => {
                if run == record.run {
                    self.exited(&owner, &id, code, &reason, now, out);
                }
            }
            // It gave up its part by itself, and is there: the run starts again.
            Activity::Free => {
                if trainer.restart.is_none() {
                    trainer.record.reason = format!(
                        "node {id} stopped by itself: {}",
                        status.released.as_deref().unwrap_or("no reason given")
                    );
                    trainer.restart = Some(Restart {
                        at: now.wall,
                        healthy: Span::ZERO,
                        failed: false,
                        clean: false,
                    });
                }
            }
        }
    }

    /// The agent has given the node back.
    pub(crate) fn confirmed(&mut self, id: &NodeId, now: Now, out: &mut Out) {
        self.releasing.remove(id);
        let Some(release) = self.node(id).release.take() else {
            return;
        };
        self.answered(id, now, out);
        let node = self.node(id);
        let wanted = std::mem::take(&mut node.wanted);
        if std::mem::take(&mut node.overdue) {
            self.changed = true;
            out.note(Note::Usable { node: id.clone() });
        }
        out.note(Note::Released {
            node: id.clone(),
            after: now.since(release.since),
        });
        if wanted {
            out.rest.push(Effect::AnswerReleased { node: id.clone() });
        } else if self.seq.is_none() {
            self.returned.insert(id.clone());
        }
        self.pursue_all(now, out);
    }

    pub(crate) fn timer(&mut self, now: Now, out: &mut Out) {
        if self.connected {
            self.watch(now, out);
            self.resend(now, out);
            self.restart_due(now, out);
            self.look_at_groups(now, out);
            self.pursue_all(now, out);
            self.try_all_sizes(now, out);
        }
        for (id, trainer) in &self.trainers {
            if trainer.dirty {
                out.records.insert(id.clone());
            }
        }
        let again = now.since(self.told) >= REPEAT;
        if (self.figures || again) && !self.changed {
            // The same version: nothing that a plan depends on has changed.
            self.figures = false;
            self.told = now.wall;
            let view = self.trainers_view(now);
            out.rest.push(Effect::PublishTrainers(view));
        }
        if let Some((step, complete)) = self.settled
            && self
                .tick
                .is_some_and(|t| t.lock_step && (t.step, t.complete) == (step, complete))
        {
            // The first word may have been lost.
            out.rest.push(Effect::Settled { step, complete });
        }
    }

    /// Who is silent, whose release needs no confirmation any more.
    fn watch(&mut self, now: Now, out: &mut Out) {
        let mut unheard = Vec::new();
        let mut lost = Vec::new();
        for (id, node) in &mut self.nodes {
            let late = node
                .release
                .as_ref()
                .is_some_and(|r| now.since(r.since) >= self.config.transfer_wait);
            if late && !node.overdue {
                node.overdue = true;
                self.changed = true;
                out.note(Note::Unusable {
                    node: id.clone(),
                    cause: "release overdue",
                });
            }
            let safe = node.release.as_ref().is_some_and(|r| r.safe_at <= now.wall);
            if safe && self.releasing.contains(id) {
                unheard.push(id.clone());
            }
            let silence = node.heard.map_or(Span::ZERO, |heard| now.since(heard));
            let matters = node.idle_since.is_some() || node.owner.is_some();
            if matters && !node.silent && silence >= self.config.control.silent_after {
                node.silent = true;
                out.note(Note::Unusable {
                    node: id.clone(),
                    cause: "silent",
                });
                self.changed = true;
                if node.owner.is_some() {
                    lost.push(id.clone());
                }
            }
        }
        for id in unheard {
            // Nobody waits for it any more, but the node is given to nobody before an agent
            // has spoken there.
            self.releasing.remove(&id);
            self.unacked.remove(&id);
            self.answered_unheard(&id, now, out);
            if std::mem::take(&mut self.node(&id).wanted) {
                out.rest.push(Effect::AnswerReleased { node: id.clone() });
            }
            out.note(Note::ReleasedUnheard { node: id });
        }
        if !lost.is_empty() {
            self.take(lost, "its agent is silent", now.cluster, now, out);
        }
    }

    /// Silence while nobody could be heard says nothing. The server may have lost who trains with
    /// whom.
    pub(crate) fn connected_again(&mut self, now: Now, out: &mut Out) {
        self.connected = true;
        for node in self.nodes.values_mut() {
            if node.heard.is_some() {
                node.heard = Some(now.wall);
            }
            if let Some(sent) = &mut node.sent {
                sent.again = 0;
            }
        }
        for id in &self.active {
            let record = self.trainers.get(id).map(|trainer| &trainer.record);
            if record.is_some_and(|record| is_named(record) && !record.nodes.is_empty()) {
                out.members.insert(id.clone());
            }
        }
    }
}
