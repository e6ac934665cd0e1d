//! The independent checker of decisions and plans: numbered invariants. It shares no code with the
//! makers of plans.
//!
//! [`check_decision`] judges ordinals, every decision of a replay: I5, I6, I9, I12 and I14 to I18.
//! [`check`] judges names: it translates a plan into ordinals for the same code, and adds the
//! invariants of names.
//!
//! A plan that fails is never published: the planner service counts it and saves it with its inputs
//! (`save`). A replay ends with an error at the first decision that is not sound.

mod decision;
mod uplinks;

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{
    Generation, HoleVerdict, KindName, NodeId, NodeKinds, Phase, Plan, Pool, Timestamp, TrainerId,
    TrainerRecord,
};

pub use decision::check_decision;
pub use uplinks::value;

use decision::{Reported, Slot, sound};

/// The context of a check.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The pool of the plan.
    pub pool: &'a Pool,
    /// The trainers of the plan.
    pub trainers: &'a [TrainerRecord],
    /// Nodes that no trainer may get.
    pub unusable: &'a [NodeId],
    /// The newest generation before it, if any.
    pub newest: Option<Generation>,
    /// Of which kind nodes are, if that is known.
    pub kinds: Option<&'a NodeKinds>,
}

/// A broken invariant, with its number. Trainers and nodes are names in a plan, and ordinals in a
/// decision: places in the lists of candidates and slots.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Violation<T = TrainerId, N = NodeId> {
    /// I1: no node has two owners.
    #[error("I1: node {node} goes to {first} and to {second}")]
    TwoOwners {
        /// The node.
        node: N,
        /// Its first owner.
        first: T,
        /// Its second owner (the same, if a list has the node twice).
        second: T,
    },
    /// I2: only nodes of the pool are given out.
    #[error("I2: node {node} goes to {trainer} and is not in the pool")]
    NotInPool {
        /// The node.
        node: N,
        /// Its owner.
        trainer: T,
    },
    /// I3: no unusable node is given out.
    #[error("I3: node {node} goes to {trainer} and is unusable")]
    UnusableNode {
        /// The node.
        node: N,
        /// Its owner.
        trainer: T,
    },
    /// I4: only active trainers get nodes, each in one allocation.
    #[error("I4: trainer {trainer} gets nodes and is not active, not known, or listed twice")]
    NotActive {
        /// The trainer.
        trainer: T,
    },
    /// I5: a trainer has no nodes or a number between its bounds.
    #[error("I5: trainer {trainer} gets {nodes} nodes, outside {min}..={max}")]
    Size {
        /// The trainer.
        trainer: T,
        /// Its new size.
        nodes: u32,
        /// Its minimum.
        min: u32,
        /// Its maximum.
        max: u32,
    },
    /// I6: no migration: the new nodes of a trainer contain its old ones or are among them,
    /// unless the plan says that it restarts anyway.
    #[error("I6: trainer {trainer} loses {lost} and gains {gained} in one plan")]
    Migration {
        /// The trainer.
        trainer: T,
        /// A node that it had and could have kept.
        lost: N,
        /// A node that it had not.
        gained: N,
    },
    /// I7: generations only grow.
    #[error("I7: generation {generation} does not follow {newest}")]
    Generation {
        /// Of the plan.
        generation: u64,
        /// The newest before it.
        newest: u64,
    },
    /// I8: the plan names its pool.
    #[error(
        "I8: the plan is for event {plan} and the pool is at event {pool}, or their times differ"
    )]
    OtherPool {
        /// The last event of the plan.
        plan: u64,
        /// The last event of the pool.
        pool: u64,
    },
    /// I9: the reported sizes of each active trainer, in order, are those of its nodes. A plan
    /// reports them in its verdicts, a decision in its sizes.
    #[error("I9: the report on trainer {trainer} is wrong: {what}")]
    Report {
        /// The trainer.
        trainer: T,
        /// In words.
        what: String,
    },
    /// I10: the report has one verdict for each hole, sorted, that agrees with the allocation.
    #[error("I10: the report is wrong about node {node}: {what}")]
    HoleReport {
        /// The node.
        node: N,
        /// In words.
        what: String,
    },
    /// I11: allocations are in normal form: none is empty, nodes are sorted.
    #[error("I11: the allocation of {trainer} is empty or not sorted")]
    Form {
        /// The trainer.
        trainer: T,
    },
    /// I12: only a trainer that restarts anyway may take other nodes: one that a departure has hit,
    /// and that has followed no plan since.
    #[error("I12: trainer {trainer} is to restart on other nodes, and nothing has hit it")]
    NotHit {
        /// The trainer.
        trainer: T,
    },
    /// I14: every owner of a slot is one of the candidates.
    #[error("I14: node {node} goes to candidate {ordinal}, and there is none")]
    UnknownCandidate {
        /// The node.
        node: N,
        /// The candidate.
        ordinal: u32,
    },
    /// I15: a decision has one owner or none for each slot, and one size for each candidate.
    #[error("I15: {owners} owners for {slots} slots, {sizes} sizes for {candidates} candidates")]
    Shape {
        /// Owners in the decision.
        owners: usize,
        /// Slots of the situation.
        slots: usize,
        /// Sizes in the decision.
        sizes: usize,
        /// Candidates of the situation.
        candidates: usize,
    },
    /// I16: no trainer newly crosses the uplink of a leaf that then more trainers cross than it
    /// carries, or than did before. Only decisions are judged: a plan has no topology.
    #[error(
        "I16: {trainer} newly crosses the leaf of node {node}, which {crossing} cross: at most {most} may"
    )]
    Crossing {
        /// The trainer.
        trainer: T,
        /// A node of the leaf.
        node: N,
        /// Trainers that cross it.
        crossing: u32,
        /// The most that may.
        most: u32,
    },
    /// I17: a trainer gets a mix of kinds of nodes that it can use.
    #[error("I17: trainer {trainer} gets {mix:?} nodes by kind, which it cannot use together")]
    Mix {
        /// The trainer.
        trainer: T,
        /// Its nodes of each kind.
        mix: Vec<u32>,
    },
    /// I18: where trainers share uplinks, the stated value of a decision by forecasts is that of its
    /// nodes, with each crossing trainer as slow as the most crowded of its uplinks makes it. Only
    /// decisions are judged: a plan has no futures.
    #[error(
        "I18: the stated value is {stated}, and the nodes with their shared uplinks are worth {value}"
    )]
    Value {
        /// The stated value, objective units.
        stated: f64,
        /// The value of the nodes, objective units.
        value: f64,
    },
}

impl<T, N> Violation<T, N> {
    /// The number of the invariant.
    #[must_use]
    pub const fn number(&self) -> u32 {
        match self {
            Self::TwoOwners { .. } => 1,
            Self::NotInPool { .. } => 2,
            Self::UnusableNode { .. } => 3,
            Self::NotActive { .. } => 4,
            Self::Size { .. } => 5,
            Self::Migration { .. } => 6,
            Self::Generation { .. } => 7,
            Self::OtherPool { .. } => 8,
            Self::Report { .. } => 9,
            Self::HoleReport { .. } => 10,
            Self::Form { .. } => 11,
            Self::NotHit { .. } => 12,
            Self::UnknownCandidate { .. } => 14,
            Self::Shape { .. } => 15,
            Self::Crossing { .. } => 16,
            Self::Mix { .. } => 17,
            Self::Value { .. } => 18,
        }
    }
}

/// All invariants that a plan breaks; none if it is sound.
#[must_use]
pub fn check(plan: &Plan, context: &Context<'_>) -> Vec<Violation> {
    let ownership = Ownership::new(plan, context);
    let mut found = Vec::new();
    header(plan, context, &mut found);
    owners(plan, &ownership, &mut found);
    decision(plan, &ownership, &mut found);
    mixes(plan, &ownership, &mut found);
    hole_report(plan, &ownership, &mut found);
    found
}

/// The ownership of nodes in a plan and in its context.
struct Ownership<'a> {
    /// The active trainers, and the place of each among them.
    active: Vec<&'a TrainerRecord>,
    ordinals: BTreeMap<&'a TrainerId, u32>,
    pool: BTreeSet<&'a NodeId>,
    unusable: BTreeSet<&'a NodeId>,
    /// The trainer to which each node goes.
    owner: BTreeMap<&'a NodeId, &'a TrainerId>,
    kinds: Option<&'a NodeKinds>,
    /// The kinds, where trainers tell them apart.
    names: Vec<&'a KindName>,
}

impl<'a> Ownership<'a> {
    fn new(plan: &'a Plan, context: &Context<'a>) -> Self {
        let records = context.trainers.iter();
        let active: Vec<_> = records.filter(|r| r.phase == Phase::Active).collect();
        let owned = plan
            .allocations
            .iter()
            .flat_map(|a| a.nodes.iter().map(|node| (node, &a.trainer)));
        let by_kind = active.iter().any(|record| !record.spec.kinds.is_any());
        let kinds = context.kinds.filter(|_| by_kind);
        let names = kinds.map(NodeKinds::names).unwrap_or_default();
        Self {
            ordinals: active.iter().map(|r| &r.spec.id).zip(0..).collect(),
            active,
            pool: context.pool.holes.iter().map(|p| &p.hole.node).collect(),
            unusable: context.unusable.iter().collect(),
            owner: owned.collect(),
            kinds: context.kinds,
            names: names.into_iter().collect(),
        }
    }

    /// Whether a trainer cannot run on the kinds of its nodes.
    fn is_broken(&self, record: &TrainerRecord) -> bool {
        let rates = &record.spec.kinds;
        let kinds = self.kinds.filter(|_| !rates.is_any());
        kinds.is_some_and(|kinds| {
            let rate = rates.rate_on(&record.nodes, kinds);
            rate.is_none_or(|rate| rate <= 0.0)
        })
    }

    /// The place of a node's kind among the kinds; behind them if it has none.
    fn kind(&self, node: &NodeId) -> usize {
        let kind = self.kinds.and_then(|kinds| kinds.of(node));
        let at = self.names.iter().position(|name| Some(*name) == kind);
        at.unwrap_or(self.names.len())
    }

    /// The usable nodes of the pool and all allocated nodes, with their owners before and after. A
    /// node that is allocated twice (I1) comes twice, so that it hides no other violation.
    fn slots(&self, plan: &Plan) -> Vec<Slot<NodeId>> {
        let mut holders: BTreeMap<&NodeId, u32> = BTreeMap::new();
        for (record, j) in self.active.iter().zip(0..) {
            for node in &record.nodes {
                holders.entry(node).or_insert(j);
            }
        }
        let mut owners: BTreeMap<&NodeId, Vec<u32>> = BTreeMap::new();
        for allocation in &plan.allocations {
            if let Some(&j) = self.ordinals.get(&allocation.trainer) {
                let nodes = allocation.nodes.iter();
                nodes.for_each(|node| owners.entry(node).or_default().push(j));
            }
        }
        let mut slots = Vec::with_capacity(self.pool.len());
        for &node in self.pool.difference(&self.unusable) {
            let before = holders.get(node).copied();
            let mut after = owners.remove(node).unwrap_or_default();
            let kept = after.iter().position(|&j| Some(j) == before);
            let first = (!after.is_empty()).then(|| after.swap_remove(kept.unwrap_or(0)));
            slots.push(Slot {
                node: node.clone(),
                before,
                after: first,
                kind: self.kind(node),
            });
            slots.extend(after.into_iter().map(|j| Slot::given(node, j)));
        }
        for (node, owners) in owners {
            slots.extend(owners.into_iter().map(|j| Slot::given(node, j)));
        }
        slots
    }
}

/// The plan as a decision: I5, I6, I9 and I12.
fn decision(plan: &Plan, ownership: &Ownership<'_>, found: &mut Vec<Violation>) {
    let slots = ownership.slots(plan);
    let mut left = vec![0; ownership.active.len()];
    for j in slots.iter().filter_map(|slot| slot.before) {
        if let Some(left) = left.get_mut(j as usize) {
            *left += 1;
        }
    }
    let mut verdicts = plan.report.trainers.iter();
    let mut reported = Vec::new();
    for (record, left) in ownership.active.iter().zip(left) {
        let trainer = record.spec.id.clone();
        let verdict = verdicts.next().filter(|verdict| verdict.trainer == trainer);
        if verdict.is_none() {
            found.push(Violation::Report {
                trainer: trainer.clone(),
                what: "its verdict is missing or out of order".to_owned(),
            });
        }
        reported.push(Reported {
            min: record.spec.min_nodes,
            max: record.spec.max_nodes,
            sizes: verdict.map(|verdict| (verdict.before, verdict.after)),
            hit: left < record.nodes.len()
                || was_hit(record, plan.as_of)
                || ownership.is_broken(record),
            replaced: plan.replaced.iter().filter(|id| **id == trainer).count(),
            trainer,
        });
    }
    found.extend(verdicts.next().map(|extra| Violation::Report {
        trainer: extra.trainer.clone(),
        what: "it has a verdict too many".to_owned(),
    }));
    let unknown = plan
        .replaced
        .iter()
        .filter(|id| !ownership.ordinals.contains_key(id));
    found.extend(
        unknown
            .cloned()
            .map(|trainer| Violation::NotHit { trainer }),
    );
    sound(&reported, slots.into_iter(), found);
}

/// I17.
fn mixes(plan: &Plan, ownership: &Ownership<'_>, found: &mut Vec<Violation>) {
    let Some(kinds) = ownership.kinds else { return };
    for allocation in &plan.allocations {
        let ordinal = ownership.ordinals.get(&allocation.trainer);
        let record = ordinal.and_then(|&j| ownership.active.get(j as usize));
        let Some(record) = record.filter(|record| !record.spec.kinds.is_any()) else {
            continue;
        };
        if record
            .spec
            .kinds
            .rate_on(&allocation.nodes, kinds)
            .is_none()
        {
            let mut mix = vec![0; ownership.names.len() + 1];
            for node in &allocation.nodes {
                if let Some(count) = mix.get_mut(ownership.kind(node)) {
                    *count += 1;
                }
            }
            let trainer = allocation.trainer.clone();
            found.push(Violation::Mix { trainer, mix });
        }
    }
}

/// Whether a departure has hit a trainer that is still stalled.
fn was_hit(record: &TrainerRecord, now: Timestamp) -> bool {
    let pause_ms = (lacuna_rates::Rates::of(record).rescale().down_s * 1000.0) as i64;
    let fresh = |hit: Timestamp| now.since(hit).as_ms() <= pause_ms;
    record.hit_at.is_some_and(fresh)
}

/// I7 and I8.
fn header(plan: &Plan, context: &Context<'_>, found: &mut Vec<Violation>) {
    if let Some(newest) = context.newest.filter(|&newest| plan.generation <= newest) {
        found.push(Violation::Generation {
            generation: plan.generation.0,
            newest: newest.0,
        });
    }
    if plan.seq != context.pool.seq || plan.as_of != context.pool.as_of {
        found.push(Violation::OtherPool {
            plan: plan.seq,
            pool: context.pool.seq,
        });
    }
}

/// I1 to I4, and I11.
fn owners(plan: &Plan, ownership: &Ownership<'_>, found: &mut Vec<Violation>) {
    let mut owner: BTreeMap<&NodeId, &TrainerId> = BTreeMap::new();
    let mut listed = BTreeSet::new();
    for allocation in &plan.allocations {
        let trainer = &allocation.trainer;
        if !ownership.ordinals.contains_key(trainer) || !listed.insert(trainer) {
            found.push(Violation::NotActive {
                trainer: trainer.clone(),
            });
        }
        if allocation.nodes.is_empty() || !allocation.nodes.is_sorted() {
            found.push(Violation::Form {
                trainer: trainer.clone(),
            });
        }
        for node in &allocation.nodes {
            if let Some(first) = owner.insert(node, trainer) {
                found.push(Violation::TwoOwners {
                    node: node.clone(),
                    first: first.clone(),
                    second: trainer.clone(),
                });
            }
            if !ownership.pool.contains(node) {
                found.push(Violation::NotInPool {
                    node: node.clone(),
                    trainer: trainer.clone(),
                });
            }
            if ownership.unusable.contains(node) {
                found.push(Violation::UnusableNode {
                    node: node.clone(),
                    trainer: trainer.clone(),
                });
            }
        }
    }
}

/// I10.
fn hole_report(plan: &Plan, ownership: &Ownership<'_>, found: &mut Vec<Violation>) {
    let mut wrong = |node: &NodeId, what: &str| {
        found.push(Violation::HoleReport {
            node: node.clone(),
            what: what.to_owned(),
        });
    };
    let holes = &plan.report.holes;
    for (node, verdict) in holes {
        let owner = ownership.owner.get(node).copied();
        let owner_in_verdict = match verdict {
            HoleVerdict::Kept { trainer } | HoleVerdict::Assigned { trainer } => Some(trainer),
            HoleVerdict::NoBidder | HoleVerdict::NotWorthIt | HoleVerdict::Unusable => None,
        };
        if owner_in_verdict != owner {
            wrong(node, "the verdict disagrees with the allocation");
        }
        let ordinal = owner.and_then(|owner| ownership.ordinals.get(owner));
        if let Some(record) = ordinal.and_then(|&j| ownership.active.get(j as usize)) {
            let kept = record.nodes.contains(node);
            if kept != matches!(verdict, HoleVerdict::Kept { .. }) {
                wrong(node, "kept and assigned are confused");
            }
        }
    }
    for (node, next) in holes.iter().zip(holes.iter().skip(1)) {
        if node.0 >= next.0 {
            wrong(&next.0, "verdicts are not sorted or come twice");
        }
    }
    let reported: BTreeSet<&NodeId> = holes.iter().map(|(node, _)| node).collect();
    for node in ownership.pool.symmetric_difference(&reported) {
        wrong(node, "its verdict is missing, or it is not in the pool");
    }
}
