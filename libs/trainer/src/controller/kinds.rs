//! Kinds of nodes: the rate of a trainer by the kinds of its nodes, and what is refused.
//!
//! An incarnation on nodes that its trainer cannot use together has no nodes. So a mix that breaks,
//! by a loss or because a kind is gone, gives its nodes back, and the next plan starts the trainer.

use std::collections::BTreeSet;

use lacuna_model::{KindName, MOST_KINDS, NodeId, NodeKinds, TrainerId, TrainerSpec};
use lacuna_rates::Rates;

use crate::Now;
use crate::account::Change;
use crate::controller::out::Out;
use crate::controller::{Controller, Refusal, RefusalKind};

/// Why nodes of a broken mix are given back.
pub(super) const BROKEN: &str = "its trainer cannot use these kinds of nodes together";

/// Whether a trainer can train on these nodes, or they are none.
pub(in crate::controller) fn can_use<'a>(
    spec: &TrainerSpec,
    nodes: impl IntoIterator<Item = &'a NodeId>,
    kinds: &NodeKinds,
) -> bool {
    let mut nodes = nodes.into_iter().peekable();
    nodes.peek().is_none() || {
        let rate = Rates::from(spec).by_kind(nodes, kinds);
        rate.is_none_or(|rate| rate > 0.0)
    }
}

impl Controller {
    /// Takes the kinds of nodes. A trainer that cannot use its nodes any more gives them back.
    pub(super) fn take_kinds(&mut self, kinds: NodeKinds, now: Now, out: &mut Out) {
        self.nodes.tell_kinds(&kinds);
        self.kinds = kinds;
        let broken = self.trainers.admitted_where(|trainer| {
            let spec = &trainer.record().spec;
            !can_use(spec, trainer.nodes(), &self.kinds)
        });
        for id in broken {
            if let Some(trainer) = self.trainers.get_mut(&id) {
                let _ = trainer.take_target();
            }
            self.begin_incarnation(&id, Vec::new(), Change::Shrunk, now, out);
            self.release_unneeded(&id, BROKEN, out);
        }
    }

    /// Whether a trainer with `have` nodes can grow onto these.
    pub(super) fn can_grow(&self, id: &TrainerId, have: usize, nodes: &BTreeSet<NodeId>) -> bool {
        self.trainers.get(id).is_some_and(|trainer| {
            let is_more = nodes.len() > have && nodes.len() >= trainer.min_nodes();
            is_more && can_use(&trainer.record().spec, nodes, &self.kinds)
        })
    }

    /// Refuses trainers with rates by kind for which no plan can be made. Trainers of others are no
    /// reason: plans share nodes of all kinds out between owners.
    pub(super) fn check_kinds(&self, specs: &[TrainerSpec]) -> Result<(), Refusal> {
        for spec in specs.iter().filter(|spec| !spec.kinds.is_any()) {
            if let Some(reason) = self.unplannable(spec) {
                return Err(Refusal {
                    kind: RefusalKind::Spec,
                    reason: format!("trainer {} has kinds, and {reason}", spec.id),
                });
            }
        }
        Ok(())
    }

    /// Why no plan can be made for a trainer with rates by kind.
    fn unplannable(&self, spec: &TrainerSpec) -> Option<String> {
        let names = self.kinds.names();
        let list = |names: &BTreeSet<&KindName>| {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            names.join(", ")
        };
        if names.is_empty() {
            let text = "the kinds of nodes are not known: set ingest.kinds or ingest.kinds_file, or \
                        leave kinds out";
            return Some(text.to_owned());
        }
        if let Some(kind) = spec.kinds.names().find(|kind| !names.contains(kind)) {
            return Some(format!(
                "no node is of kind {kind}: the nodes are of kind {}; correct the name here, or in \
                 ingest.kinds",
                list(&names)
            ));
        }
        if names.len() > MOST_KINDS {
            return Some(format!(
                "the nodes are of {} kinds ({}): plans tell {MOST_KINDS} apart at most; name two of \
                 them alike in ingest.kinds, or leave kinds out",
                names.len(),
                list(&names)
            ));
        }
        None
    }
}
