//! Which member of a group that ends is to blame, where programs are started for each incarnation.
//!
//! 1. A fault on one node ends the programs on all others, which lose their peer. They exit in any
//!    order: torchruns wait for each other, and a program may take long to end.
//! 2. So a failure is counted `control.broken_wait` after the first exit, against the member that
//!    failed first by its node's clock. One that says that it lost a peer comes after all others.
//! 3. While all that have exited say so, the others are waited for, up to `control.retry_after`. If
//!    none exits, the failure is counted against no node.
//! 4. If a node is lost meanwhile, that explains the exits.

use lacuna_model::{NodeId, TrainerId};

use crate::Now;
use crate::agent::Exit;
use crate::controller::Controller;
use crate::controller::agents::exit_of;
use crate::controller::ending::status_of;
use crate::controller::incarnations::exit_reason;
use crate::controller::out::Out;
use crate::controller::trainers::Trainer;

/// The exits of an incarnation's members.
struct Exits {
    /// That of the member which failed first.
    first: Option<(NodeId, Exit)>,
    /// Whether all members have exited.
    is_all: bool,
}

impl Exits {
    /// Whether the first is to blame for the others.
    fn is_known(&self) -> bool {
        let lost_peer = |(_, exit): &(NodeId, Exit)| exit.lost_peer;
        self.is_all || !self.first.as_ref().is_some_and(lost_peer)
    }
}

impl Controller {
    fn exits(&self, trainer: &Trainer) -> Exits {
        let exits = trainer.nodes().iter().filter_map(|node| {
            let status = status_of(self.nodes.get(node), trainer)?;
            exit_of(&status.activity).map(|exit| (node.clone(), exit))
        });
        let exits: Vec<(NodeId, Exit)> = exits.collect();
        let is_all = exits.len() == trainer.nodes().len();
        let order = |exit: &Exit| (exit.code == 0, exit.lost_peer, exit.at.is_none(), exit.at);
        let first = exits.into_iter().min_by_key(|(_, exit)| order(exit));
        Exits { first, is_all }
    }

    /// A member's program has exited: its failure is counted when it is known which one was first.
    pub(super) fn await_exits(&mut self, id: &TrainerId, now: Now) {
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        let control = &self.config.control;
        let wait = match self.exits(trainer).is_known() {
            true => control.broken_wait,
            false => control.retry_after,
        };
        if let Some(trainer) = self.trainers.get_mut(id) {
            trainer.await_exits(wait, now);
        }
    }

    /// Counts the failure of an incarnation that ends.
    pub(super) fn count_exits(&mut self, id: &TrainerId, now: Now, out: &mut Out) {
        let enough = self.config.healthy_after;
        let Some(trainer) = self.trainers.get_mut(id) else {
            return;
        };
        trainer.forgive_loader(enough, now);
        let Some(trainer) = self.trainers.get(id) else {
            return;
        };
        let exits = self.exits(trainer);
        let is_known = exits.is_known();
        match exits.first {
            Some((node, exit)) if is_known => {
                let reason = exit_reason(&node, &exit);
                self.count_failure(id, Some((&node, exit.code)), reason, now, out);
            }
            Some((node, exit)) => {
                let reason = exit_reason(&node, &exit);
                let reason = format!("{reason}; no other member has said why");
                self.count_failure(id, None, reason, now, out);
            }
            None => {
                let reason = "its program exited, and its agent has started again since";
                self.count_failure(id, None, reason.to_owned(), now, out);
            }
        }
        if let Some(trainer) = self.trainers.get_mut(id) {
            trainer.forget_progress();
        }
    }
}
