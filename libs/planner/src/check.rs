//! An independent judge of plans: numbered invariants, checked in tests, in the simulator and
//! before a plan is published. It shares no code with what makes plans.

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{
    Generation, HoleVerdict, NodeId, Phase, Plan, Pool, Timestamp, TrainerId, TrainerRecord,
};

/// What a plan is judged against.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The pool that it was made for.
    pub pool: &'a Pool,
    /// The trainers that it was made for.
    pub trainers: &'a [TrainerRecord],
    /// Nodes that nobody may have.
    pub unusable: &'a [NodeId],
    /// The newest generation before it, if any.
    pub newest: Option<Generation>,
}

/// A broken invariant, with its number.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Violation {
    /// I1: no node has two owners.
    #[error("I1: node {node} goes to {first} and to {second}")]
    TwoOwners {
        /// The node.
        node: NodeId,
        /// Its first owner.
        first: TrainerId,
        /// Its second owner (the same, if a list has the node twice).
        second: TrainerId,
    },
    /// I2: only nodes of the pool are given out.
    #[error("I2: node {node} goes to {trainer} and is not in the pool")]
    NotInPool {
        /// The node.
        node: NodeId,
        /// Its owner.
        trainer: TrainerId,
    },
    /// I3: no unusable node is given out.
    #[error("I3: node {node} goes to {trainer} and is unusable")]
    UnusableNode {
        /// The node.
        node: NodeId,
        /// Its owner.
        trainer: TrainerId,
    },
    /// I4: only active trainers get nodes, each in one allocation.
    #[error("I4: trainer {trainer} gets nodes and is not active, not known, or listed twice")]
    NotActive {
        /// The trainer.
        trainer: TrainerId,
    },
    /// I5: a trainer has no nodes or a number between its bounds.
    #[error("I5: trainer {trainer} gets {nodes} nodes, outside {min}..={max}")]
    Size {
        /// The trainer.
        trainer: TrainerId,
        /// What it gets.
        nodes: usize,
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
        trainer: TrainerId,
        /// A node that it had and could have kept.
        lost: NodeId,
        /// A node that it had not.
        gained: NodeId,
    },
    /// I7: generations only grow.
    #[error("I7: generation {generation} does not follow {newest}")]
    Generation {
        /// Of the plan.
        generation: u64,
        /// The newest before it.
        newest: u64,
    },
    /// I8: the plan says for which pool it was made.
    #[error(
        "I8: the plan is for event {plan} and the pool is at event {pool}, or their times differ"
    )]
    OtherPool {
        /// The last event of the plan.
        plan: u64,
        /// The last event of the pool.
        pool: u64,
    },
    /// I9: the report has one verdict for each active trainer, in order, with its true sizes.
    #[error("I9: the report is wrong about trainer {trainer}: {what}")]
    TrainerReport {
        /// The trainer.
        trainer: TrainerId,
        /// In words.
        what: String,
    },
    /// I10: the report has one verdict for each hole, sorted, that agrees with the allocation.
    #[error("I10: the report is wrong about node {node}: {what}")]
    HoleReport {
        /// The node.
        node: NodeId,
        /// In words.
        what: String,
    },
    /// I11: allocations are in normal form: none is empty, nodes are sorted.
    #[error("I11: the allocation of {trainer} is empty or not sorted")]
    Form {
        /// The trainer.
        trainer: TrainerId,
    },
    /// I12: only a trainer that restarts anyway may take other nodes with that: one that a
    /// departure has hit, and for which no plan has been followed since.
    #[error("I12: trainer {trainer} is to restart on other nodes, and nothing has hit it")]
    NotHit {
        /// The trainer.
        trainer: TrainerId,
    },
}

impl Violation {
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
            Self::TrainerReport { .. } => 9,
            Self::HoleReport { .. } => 10,
            Self::Form { .. } => 11,
            Self::NotHit { .. } => 12,
        }
    }
}

/// All invariants that a plan breaks; none if it is sound.
#[must_use]
pub fn check(plan: &Plan, context: &Context<'_>) -> Vec<Violation> {
    let facts = Facts::new(plan, context);
    let mut found = Vec::new();
    header(plan, context, &mut found);
    owners(plan, &facts, &mut found);
    for allocation in &plan.allocations {
        let record = facts.active.get(&allocation.trainer);
        let repooled = plan.repooled.contains(&allocation.trainer);
        size_and_moves(allocation, record.copied(), repooled, &facts, &mut found);
    }
    repooled(plan, &facts, &mut found);
    trainer_report(plan, context, &facts, &mut found);
    hole_report(plan, &facts, &mut found);
    found
}

/// Sets that several invariants look at.
struct Facts<'a> {
    pool: BTreeSet<&'a NodeId>,
    unusable: BTreeSet<&'a NodeId>,
    active: BTreeMap<&'a TrainerId, &'a TrainerRecord>,
    owner: BTreeMap<&'a NodeId, &'a TrainerId>,
}

impl<'a> Facts<'a> {
    fn new(plan: &'a Plan, context: &Context<'a>) -> Self {
        let owned = plan
            .allocations
            .iter()
            .flat_map(|a| a.nodes.iter().map(|node| (node, &a.trainer)));
        Self {
            pool: context.pool.holes.iter().map(|p| &p.hole.node).collect(),
            unusable: context.unusable.iter().collect(),
            active: context
                .trainers
                .iter()
                .filter(|r| r.phase == Phase::Active)
                .map(|r| (&r.spec.id, r))
                .collect(),
            owner: owned.collect(),
        }
    }

    /// Whether a node may be given to somebody.
    fn may_be_used(&self, node: &NodeId) -> bool {
        self.pool.contains(node) && !self.unusable.contains(node)
    }

    /// The nodes that a trainer holds and may keep.
    fn kept(&self, record: &'a TrainerRecord) -> BTreeSet<&'a NodeId> {
        let nodes = record.nodes.iter();
        nodes.filter(|node| self.may_be_used(node)).collect()
    }
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
fn owners(plan: &Plan, facts: &Facts<'_>, found: &mut Vec<Violation>) {
    let mut owner: BTreeMap<&NodeId, &TrainerId> = BTreeMap::new();
    let mut listed = BTreeSet::new();
    for allocation in &plan.allocations {
        let trainer = &allocation.trainer;
        if !facts.active.contains_key(trainer) || !listed.insert(trainer) {
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
            if !facts.pool.contains(node) {
                found.push(Violation::NotInPool {
                    node: node.clone(),
                    trainer: trainer.clone(),
                });
            }
            if facts.unusable.contains(node) {
                found.push(Violation::UnusableNode {
                    node: node.clone(),
                    trainer: trainer.clone(),
                });
            }
        }
    }
}

/// I5 and I6.
fn size_and_moves(
    allocation: &lacuna_model::Allocation,
    record: Option<&TrainerRecord>,
    repooled: bool,
    facts: &Facts<'_>,
    found: &mut Vec<Violation>,
) {
    let Some(record) = record else { return };
    let (min, max) = (record.spec.min_nodes, record.spec.max_nodes);
    let nodes = allocation.nodes.len();
    if nodes < min as usize || nodes > max as usize {
        found.push(Violation::Size {
            trainer: allocation.trainer.clone(),
            nodes,
            min,
            max,
        });
    }
    let before = facts.kept(record);
    let after: BTreeSet<&NodeId> = allocation.nodes.iter().collect();
    let lost = before.difference(&after).next();
    let gained = after.difference(&before).next();
    if let (Some(lost), Some(gained), false) = (lost, gained, repooled) {
        found.push(Violation::Migration {
            trainer: allocation.trainer.clone(),
            lost: (*lost).clone(),
            gained: (*gained).clone(),
        });
    }
}

/// I12.
fn repooled(plan: &Plan, facts: &Facts<'_>, found: &mut Vec<Violation>) {
    for (at, trainer) in plan.repooled.iter().enumerate() {
        let again = plan.repooled.iter().skip(at + 1).any(|t| t == trainer);
        let restarts = facts.active.get(trainer).is_some_and(|record| {
            let left = facts.kept(record).len();
            let pause_ms = (record.spec.rescale.down_s * 1000.0) as i64;
            let fresh = |hit: Timestamp| plan.as_of.since(hit).as_ms() <= pause_ms;
            left < record.nodes.len()
                || left < record.spec.min_nodes as usize
                || record.hit_at.is_some_and(fresh)
        });
        if again || !restarts {
            found.push(Violation::NotHit {
                trainer: trainer.clone(),
            });
        }
    }
}

/// I9.
fn trainer_report(
    plan: &Plan,
    context: &Context<'_>,
    facts: &Facts<'_>,
    found: &mut Vec<Violation>,
) {
    let mut verdicts = plan.report.trainers.iter();
    let mut wrong = |trainer: &TrainerId, what: String| {
        found.push(Violation::TrainerReport {
            trainer: trainer.clone(),
            what,
        });
    };
    let active = context.trainers.iter().filter(|r| r.phase == Phase::Active);
    for record in active {
        let id = &record.spec.id;
        let Some(verdict) = verdicts.next().filter(|v| v.trainer == *id) else {
            return wrong(id, "its verdict is missing or out of order".to_owned());
        };
        let before = facts.kept(record).len();
        if verdict.before as usize != before {
            let said = verdict.before;
            wrong(id, format!("it has {before} nodes, not {said}"));
        }
        let after = facts.owner.values().filter(|owner| **owner == id).count();
        if verdict.after as usize != after {
            let said = verdict.after;
            wrong(id, format!("it gets {after} nodes, not {said}"));
        }
    }
    if let Some(extra) = verdicts.next() {
        wrong(&extra.trainer, "it has a verdict too many".to_owned());
    }
}

/// I10.
fn hole_report(plan: &Plan, facts: &Facts<'_>, found: &mut Vec<Violation>) {
    let mut wrong = |node: &NodeId, what: &str| {
        found.push(Violation::HoleReport {
            node: node.clone(),
            what: what.to_owned(),
        });
    };
    let holes = &plan.report.holes;
    for (node, verdict) in holes {
        let owner = facts.owner.get(node).copied();
        let said = match verdict {
            HoleVerdict::Kept { trainer } | HoleVerdict::Assigned { trainer } => Some(trainer),
            HoleVerdict::NoTaker | HoleVerdict::NotWorthIt | HoleVerdict::Unusable => None,
        };
        if said != owner {
            wrong(node, "the verdict disagrees with the allocation");
        }
        if let Some(record) = owner.and_then(|owner| facts.active.get(owner)) {
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
    let told: BTreeSet<&NodeId> = holes.iter().map(|(node, _)| node).collect();
    for node in facts.pool.symmetric_difference(&told) {
        wrong(node, "its verdict is missing, or it is not in the pool");
    }
}
