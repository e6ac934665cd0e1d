//! Kinds of nodes in plans: which kinds a plan tells apart.
//!
//! Kinds matter while an active trainer has rates by kind. Where all nodes are of one kind, its curve
//! is that of this kind, and the plan is that of a cluster without kinds. A replay does the same
//! (`sim::world::kinds`).

use std::borrow::Cow;
use std::collections::BTreeSet;

use lacuna_model::{KindName, MOST_KINDS, NodeId, NodeKinds, Phase, Pool, TrainerRecord, Verdict};
use lacuna_rates::on_kind;

use crate::problem::Mix;

/// The kinds of a plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PlannedKinds<'a> {
    kinds: &'a NodeKinds,
    /// At least two, in the order of their names but for one that stands for others.
    names: Vec<KindName>,
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
    trainers
        .iter()
        .map(|record| on_kind(record, kind))
        .collect()
}

impl<'a> PlannedKinds<'a> {
    /// The kinds that a plan for these trainers tells apart, if any of them does. Of more kinds than
    /// [`MOST_KINDS`] those are taken first that trainers name; no trainer gets nodes of the others.
    pub(crate) fn of(trainers: &[TrainerRecord], kinds: &'a NodeKinds) -> Option<Self> {
        let users = by_kind(trainers);
        users.clone().next()?;
        let named: BTreeSet<&KindName> =
            users.flat_map(|record| record.spec.kinds.names()).collect();
        let mut known: Vec<&KindName> = kinds.names().into_iter().collect();
        known.sort_by_key(|kind| (!named.contains(kind), *kind));
        known.truncate(MOST_KINDS);
        known.sort_unstable();
        let mut names: Vec<KindName> = known.into_iter().cloned().collect();
        let has_others = names.len() < 2;
        let others = ["-", "--", "---"]
            .into_iter()
            .filter_map(|name| KindName::new(name).ok());
        let others: Vec<KindName> = others.filter(|name| !names.contains(name)).collect();
        let missing = 2_usize.saturating_sub(names.len());
        names.extend(others.into_iter().take(missing));
        Some(Self {
            kinds,
            names,
            has_others,
        })
    }

    /// Their names.
    pub(crate) fn names(&self) -> &[KindName] {
        &self.names
    }

    /// The place of a node's kind among them; nothing if it is of none of them.
    pub(crate) fn place(&self, node: &NodeId) -> Option<u8> {
        let Some(kind) = self.kinds.of(node) else {
            return self.has_others.then_some(1);
        };
        let at = self.names.iter().position(|name| name == kind)?;
        u8::try_from(at).ok()
    }

    /// That a trainer cannot run on all of some nodes, and the fewest of one kind that it needs.
    pub(crate) fn too_few(&self, record: &TrainerRecord, nodes: Mix) -> Option<Verdict> {
        let rates = &record.spec.kinds;
        let can_use = |name: &KindName| rates.is_any() || rates.curve(name).is_some();
        let counts = || self.names.iter().zip(nodes);
        let usable = counts().filter(|(name, _)| can_use(name));
        let pool = usable.clone().map(|(_, nodes)| nodes).sum();
        let least = |name: &KindName| record.spec.min_nodes.max(rates.least(name));
        let alone = usable.clone().any(|(name, nodes)| nodes >= least(name));
        let most = || counts().map(|(name, nodes)| (name, nodes.min(rates.most(name))));
        let runs = |first, second| rates.rate(first, second).is_some_and(|rate| rate > 0.0);
        let mut later = most();
        let together = most().any(|first| {
            later.next();
            later.clone().any(|second| runs(first, second))
        });
        let min = usable.map(|(name, _)| least(name)).min();
        let min = min.unwrap_or(record.spec.min_nodes);
        (!alone && !together).then_some(Verdict::TooFewNodes { pool, min })
    }

    /// Nodes of the pool that are of none of the kinds.
    pub(crate) fn strangers(&self, pool: &Pool) -> Vec<NodeId> {
        let nodes = pool.holes.iter().map(|pooled| &pooled.hole.node);
        let strange = nodes.filter(|node| self.place(node).is_none());
        strange.cloned().collect()
    }
}
