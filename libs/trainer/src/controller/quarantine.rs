//! What speaks against nodes, by their evidence (`nodes/failures.rs`).
//!
//! 1. The end of a program with another exit code than 0 is a failure of the program, and says
//!    nothing against the node yet (`elsewhere.rs`).
//! 2. It speaks against the node once the same program is sound on another: a minute of progress, or
//!    the end of its work. It must have failed at once; a program that was sound there first has not.
//!    A node of which one program says so is named, and used as before.
//! 3. Where two programs of one owner say so, trainers of that owner get the node last, for
//!    `control.quarantine`, twice as long each time. With one owner no node is ever closed by exit
//!    codes.
//! 4. Where programs of two owners say so, the node is in quarantine for that time: no trainer gets
//!    it, and the published view calls it unusable.
//! 5. A program of any owner that is sound on the node ends all that, and so does an operator
//!    (`lacuna undrain`). An hour later a failure counts no longer.
//! 6. A node that keeps two trainers waiting is slow, and closed to their owners for that time. If
//!    these are all owners who have trainers, it is in quarantine.

use lacuna_model::{Blame, NodeId, Progress, Span, TrainerId};

use crate::Now;
use crate::controller::nodes::SlowNode;
use crate::controller::out::Out;
use crate::controller::trainers::Trainer;
use crate::controller::{Controller, Note};

impl Controller {
    /// A trainer's programs are sound where they are, but for members that have failed: what failed
    /// elsewhere is held against the nodes there.
    pub(super) fn sound(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let trainer = self.trainers.get(id);
        let failed = trainer.map_or_else(Vec::new, |trainer| {
            self.members_exited(trainer, |code| code != 0)
        });
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        let owner = trainer.owner().to_owned();
        let mut nodes = trainer.nodes().to_vec();
        nodes.retain(|node| !failed.contains(node));
        let Some(sound_on) = nodes.first() else {
            return;
        };
        let cleared = self.nodes.count_sound(&nodes);
        self.publication.change_if(cleared);
        if trainer.tries().failed().next().is_none() {
            return;
        }
        for (node, reason) in trainer.tries_mut().sound_on(&nodes) {
            let blame = Blame {
                trainer: id.clone(),
                reason: reason.clone(),
                sound_on: sound_on.clone(),
            };
            let first = self.config.control.quarantine;
            let closed = self.nodes.blame(&node, &owner, blame, first, now);
            self.publication.change_if(!closed.is_empty());
            out.note(Note::Suspect {
                node: node.clone(),
                trainer: id.clone(),
                reason,
                sound_on: sound_on.clone(),
            });
            note_closed(&node, closed, out);
        }
        self.review_closed(now, out);
    }

    /// Whether anything speaks against one of these nodes that [`crate::controller::Input::Reopen`]
    /// lifts.
    #[must_use]
    pub fn speaks_against_any(&self, nodes: &[NodeId], now: Now) -> bool {
        nodes.iter().any(|id| {
            let found = self
                .nodes
                .get(id)
                .and_then(|node| node.failures().trouble());
            let mut trainers = self.trainers.admitted();
            found.is_some() || trainers.any(|trainer| trainer.tries().avoids(id, now.wall))
        })
    }

    /// An operator opens nodes: nothing speaks against them any more.
    pub(super) fn reopen(&mut self, nodes: &[NodeId], now: Now, out: &mut Out) {
        let mut opened = self.nodes.reopen(nodes);
        for id in self.trainers.admitted_where(|_| true) {
            let Some(trainer) = self.trainers.get_mut(&id) else {
                continue;
            };
            for node in nodes {
                if trainer.tries().avoids(node, now.wall) && trainer.tries_mut().forget(node) {
                    opened.insert(node.clone());
                }
            }
        }
        self.publication.change_if(!opened.is_empty());
        for node in opened {
            out.note(Note::Reopened { node });
        }
        self.review_closed(now, out);
    }

    /// Judges nodes by a report on the steps of its trainer, if it names the member that the others
    /// wait for. Where members rank themselves, no node is known by its rank. What rank 0 does beside
    /// its steps, as saving, is slow on any node.
    pub(super) fn judge_slow(&mut self, report: &Progress, now: Now, out: &mut Out) {
        let (Some(costs), Some(trainer)) = (&report.step_costs, self.trainers.get(&report.trainer))
        else {
            return;
        };
        let record = trainer.record();
        if report.run != record.run || record.spec.launch.ranks_itself() || !costs.trusted {
            return;
        }
        let workers = record.spec.launch.workers_per_node().max(1);
        let place = costs.slow.map(|slow| (slow.rank / workers) as usize);
        let slow = place.and_then(|place| record.nodes.get(place));
        let is_rank_0 = costs.slow.is_some_and(|slow| slow.rank == 0);
        let slow = slow.map(|node| (node, is_rank_0));
        let (owner, first) = (trainer.owner(), self.config.control.quarantine);
        let found = self
            .nodes
            .count_waits(trainer.id(), owner, &record.nodes, slow, first, now);
        let Some(SlowNode {
            node,
            trainers,
            closed,
        }) = found
        else {
            return;
        };
        note_closed(&node, closed, out);
        out.note(Note::Slow {
            node: node.clone(),
            trainers,
        });
        self.publication.change();
        self.review_closed(now, out);
        self.take(
            vec![node],
            "it keeps trainers waiting",
            now.cluster,
            now,
            out,
        );
    }

    /// Opens nodes whose closure is over, and brings quarantine up to date.
    pub(super) fn review_closed(&mut self, now: Now, out: &mut Out) {
        if self.nodes.closed().next().is_none() {
            return;
        }
        let owners = self.trainers.waiting_or_admitted(now).map(Trainer::owner);
        let (any_opened, moved) = self.nodes.review_closed(&owners.collect(), now);
        self.publication.change_if(any_opened || !moved.is_empty());
        for (node, is_in_quarantine) in moved {
            out.note(if is_in_quarantine {
                let cause = "quarantine";
                Note::Unusable { node, cause }
            } else {
                Note::Usable { node }
            });
        }
    }
}

fn note_closed(node: &NodeId, closed: Vec<(String, Span)>, out: &mut Out) {
    for (owner, length) in closed {
        let node = node.clone();
        out.note(Note::Closed {
            node,
            owner,
            length,
        });
    }
}
