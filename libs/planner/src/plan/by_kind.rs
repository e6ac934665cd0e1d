//! Kinds of nodes in plans: which two kinds a plan tells apart, and its verdicts.
//!
//! Kinds matter while an active trainer has rates by kind. Where all nodes are of one kind, its curve
//! is that of this kind, and the plan is that of a cluster without kinds. A replay does the same
//! (`sim::world::kinds`).

use std::borrow::Cow;
use std::collections::BTreeSet;

use lacuna_model::{
    HoleVerdict, KindName, NodeId, NodeKinds, Phase, Pool, TrainerRecord, TrainerVerdict, Verdict,
};

use super::translate::Translated;
use super::verdict;
use crate::decision::Decision;
use crate::problem::{Mix, MixItem, MixProblem, Mixes};

/// The two kinds of a plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TwoKinds<'a> {
    kinds: &'a NodeKinds,
    names: [KindName; 2],
    /// Whether the second stands for all nodes without a kind, since fewer than two kinds are
    /// known.
    has_others: bool,
}

/// The active trainers with rates by kind.
fn by_kind(trainers: &[TrainerRecord]) -> impl Iterator<Item = &TrainerRecord> + Clone {
    let is = |record: &&TrainerRecord| record.phase == Phase::Active && !record.spec.kinds.is_any();
    trainers.iter().filter(is)
}

/// The trainers where all nodes are of one kind that each can use: their curves are those of that
/// kind.
pub(crate) fn of_one_kind<'a>(
    trainers: &'a [TrainerRecord],
    kinds: &NodeKinds,
    pool: &Pool,
) -> Cow<'a, [TrainerRecord]> {
    let mut users = by_kind(trainers).peekable();
    if users.peek().is_none() {
        return Cow::Borrowed(trainers);
    }
    let names = kinds.names();
    let mut names = names.into_iter();
    let (Some(kind), None) = (names.next(), names.next()) else {
        return Cow::Borrowed(trainers);
    };
    let mut nodes = pool.holes.iter().map(|pooled| &pooled.hole.node);
    if nodes.any(|node| kinds.of(node).is_none())
        || users.any(|record| record.spec.kinds.curve(kind).is_none())
    {
        return Cow::Borrowed(trainers);
    }
    let plain = trainers.iter().map(|record| {
        let spec = record.spec.on_kind(kind);
        TrainerRecord {
            spec,
            ..record.clone()
        }
    });
    plain.collect()
}

impl<'a> TwoKinds<'a> {
    /// The kinds that a plan for these trainers tells apart, if any of them does. Of more than two
    /// kinds of nodes those are taken first that trainers name; no trainer gets nodes of the others.
    pub(crate) fn of(trainers: &[TrainerRecord], kinds: &'a NodeKinds) -> Option<Self> {
        let users = by_kind(trainers);
        users.clone().next()?;
        let named: BTreeSet<&KindName> =
            users.flat_map(|record| record.spec.kinds.names()).collect();
        let mut known: Vec<&KindName> = kinds.names().into_iter().collect();
        known.sort_by_key(|kind| (!named.contains(kind), *kind));
        known.truncate(2);
        known.sort_unstable();
        let mut names: Vec<KindName> = known.into_iter().cloned().collect();
        let has_others = names.len() < 2;
        let others = ["-", "--", "---"]
            .into_iter()
            .filter_map(|name| KindName::new(name).ok());
        let others: Vec<KindName> = others.filter(|name| !names.contains(name)).collect();
        names.extend(others);
        let mut names = names.into_iter();
        Some(Self {
            kinds,
            names: [names.next()?, names.next()?],
            has_others,
        })
    }

    /// Their names.
    pub(crate) const fn names(&self) -> &[KindName; 2] {
        &self.names
    }

    /// Whether a node is of the second kind; nothing if it is of neither.
    pub(crate) fn is_second(&self, node: &NodeId) -> Option<bool> {
        let [first, second] = &self.names;
        match self.kinds.of(node) {
            Some(kind) if kind == first => Some(false),
            Some(kind) if kind == second => Some(true),
            None => self.has_others.then_some(true),
            Some(_) => None,
        }
    }

    /// Nodes of the pool that are of neither kind.
    pub(crate) fn strangers(&self, pool: &Pool) -> Vec<NodeId> {
        let nodes = pool.holes.iter().map(|pooled| &pooled.hole.node);
        let strange = nodes.filter(|node| self.is_second(node).is_none());
        strange.cloned().collect()
    }
}

/// A verdict for each trainer of a problem over mixes, in its order.
pub(crate) fn of_trainers(
    case: &Translated,
    (problem, mixes): (&MixProblem, &Mixes),
    kinds: &TwoKinds<'_>,
    trainers: &[TrainerRecord],
    decision: &Decision,
) -> Vec<TrainerVerdict> {
    let mut given: Vec<Mix> = vec![[0, 0]; problem.trainers.len()];
    for (owner, kind) in decision.owners.iter().zip(&mixes.of) {
        if let Some([first, second]) = owner.and_then(|j| given.get_mut(j as usize)) {
            *(if *kind > 0 { second } else { first }) += 1;
        }
    }
    let records = case.trainers.iter().filter_map(|&at| trainers.get(at));
    let verdicts = records.zip(&problem.trainers).zip(given);
    verdicts
        .map(|((record, item), mix)| TrainerVerdict {
            trainer: record.spec.id.clone(),
            before: item.current.iter().sum(),
            after: mix.iter().sum(),
            verdict: of_trainer(problem, item, mix, record, kinds),
            basis: verdict::basis(record, mix.iter().sum()),
            share: None,
        })
        .collect()
}

fn of_trainer(
    problem: &MixProblem,
    item: &MixItem,
    mix: Mix,
    record: &TrainerRecord,
    kinds: &TwoKinds<'_>,
) -> Verdict {
    if mix == [0, 0] {
        let rates = &record.spec.kinds;
        let can_use = |name: &KindName| rates.is_any() || rates.curve(name).is_some();
        let counts = kinds.names().iter().zip(problem.nodes);
        let usable = counts.filter(|(name, _)| can_use(name));
        let pool = usable.clone().map(|(_, nodes)| nodes).sum();
        let least = |name: &KindName| record.spec.min_nodes.max(rates.least(name));
        let alone = usable.clone().any(|(name, nodes)| nodes >= least(name));
        let ([first, second], [a, b]) = (kinds.names(), problem.nodes);
        let both = rates.rate(
            (first, a.min(rates.most(first))),
            (second, b.min(rates.most(second))),
        );
        let together = both.is_some_and(|rate| rate > 0.0);
        let min = usable.map(|(name, _)| least(name)).min();
        let min = min.unwrap_or(record.spec.min_nodes);
        return if alone || together {
            Verdict::Outbid
        } else {
            Verdict::TooFewNodes { pool, min }
        };
    }
    if item.current == [0, 0] {
        return Verdict::Start;
    }
    if item.current == mix {
        return Verdict::Keep;
    }
    let present = if item.is_mix(item.current) {
        item.value.at(item.current)
    } else {
        0.0
    };
    let more = problem.horizon_s * (item.value.at(mix) - present);
    let cost = problem.horizon_s * item.value.at(mix) - item.gain(problem.horizon_s, mix);
    if more >= 0.0 {
        Verdict::Grow { gain: more, cost }
    } else {
        Verdict::Shrink { loss: -more, cost }
    }
}

/// A verdict for each hole of the pool, sorted by node.
pub(crate) fn of_holes(
    case: &Translated,
    pool: &Pool,
    trainers: &[TrainerRecord],
    decision: &Decision,
) -> Vec<(NodeId, HoleVerdict)> {
    verdict::holes(
        case,
        pool,
        trainers,
        &decision.owners,
        &HoleVerdict::NoTaker,
    )
}
