//! Soundness in ordinals: candidates and slots.

use std::collections::BTreeMap;

use crate::decision::Decision;
use crate::problem::{Situation, mixes_of};

use super::Violation;
use super::uplinks::uplinks;

/// All invariants that a decision breaks; none if it is sound. It looks once at each slot.
#[must_use]
pub fn check_decision(situation: &Situation<'_>, decision: &Decision) -> Vec<Violation<u32, u32>> {
    let counts = &decision.sizes.counts;
    let (slots, owners) = (situation.slots.len(), decision.owners.len());
    let (candidates, sizes) = (situation.candidates.len(), counts.len());
    if (slots, candidates) != (owners, sizes) {
        return vec![Violation::Shape {
            owners,
            slots,
            sizes,
            candidates,
        }];
    }
    let replaced = decision
        .evaluation
        .as_ref()
        .map_or(&[][..], |f| &f.replaced);
    let reported = (0_u32..).zip(situation.candidates).zip(counts);
    let reported: Vec<Reported<u32>> = reported
        .map(|((j, candidate), &after)| Reported {
            trainer: j,
            min: candidate.item.min,
            max: candidate.item.max,
            sizes: Some((candidate.item.current, after)),
            hit: candidate.hit || !candidate.item.runs(),
            replaced: replaced.iter().filter(|&&other| other == j).count(),
        })
        .collect();
    let mut found = Vec::new();
    let unknown = replaced.iter().filter(|&&j| j as usize >= candidates);
    found.extend(unknown.map(|&trainer| Violation::NotHit { trainer }));
    let owners = situation.slots.iter().zip(&decision.owners);
    let kind = |at: u32| {
        let kind = situation.kinds.get(at as usize);
        kind.copied().map_or(0, usize::from)
    };
    let slots = (0..).zip(owners).map(|(at, (slot, owner))| Slot {
        node: at,
        before: slot.owner,
        after: *owner,
        kind: kind(at),
    });
    sound(&reported, slots, &mut found);
    uplinks(situation, decision, &mut found);
    mixes(situation, decision, &mut found);
    found
}

/// I17.
fn mixes(situation: &Situation<'_>, decision: &Decision, found: &mut Vec<Violation<u32, u32>>) {
    let slots = decision
        .owners
        .iter()
        .copied()
        .zip(situation.kinds.iter().copied());
    let given = mixes_of(situation.candidates.len(), slots);
    for ((trainer, candidate), mix) in (0..).zip(situation.candidates).zip(given) {
        let kinds = candidate.item.kinds.as_ref();
        if kinds.is_some_and(|kinds| !kinds.value.at(mix).is_finite()) {
            let mix = mix.to_vec();
            found.push(Violation::Mix { trainer, mix });
        }
    }
}

/// A candidate with its reported sizes.
#[derive(Debug, Clone)]
pub(super) struct Reported<T> {
    pub(super) trainer: T,
    /// Fewest nodes that it can run on.
    pub(super) min: u32,
    /// Most nodes that it may have.
    pub(super) max: u32,
    /// The reported sizes before and after, if they are reported.
    pub(super) sizes: Option<(u32, u32)>,
    /// Whether a departure hit it, so that it restarts anyway.
    pub(super) hit: bool,
    /// Number of entries that report its re-placement.
    pub(super) replaced: usize,
}

/// A usable node, and the ordinal of the candidate that has it.
#[derive(Debug, Clone)]
pub(super) struct Slot<N> {
    pub(super) node: N,
    pub(super) before: Option<u32>,
    pub(super) after: Option<u32>,
    /// The place of its kind; 0 in a plan over one kind.
    pub(super) kind: usize,
}

impl<N: Clone> Slot<N> {
    /// A node that a candidate gets and that none has.
    pub(super) fn given(node: &N, j: u32) -> Self {
        Self {
            node: node.clone(),
            before: None,
            after: Some(j),
            kind: 0,
        }
    }
}

/// Changes of the slots of a candidate: its sizes, and one slot each that it loses and gains.
#[derive(Debug, Clone)]
struct Moves<N> {
    before: u32,
    after: u32,
    /// By kind.
    lost: BTreeMap<usize, N>,
    gained: BTreeMap<usize, N>,
}

/// I5, I6, I9, I12 and I14, in ordinals, reported with the names of candidates and slots.
pub(super) fn sound<T: Clone, N: Clone>(
    reported: &[Reported<T>],
    slots: impl Iterator<Item = Slot<N>>,
    found: &mut Vec<Violation<T, N>>,
) {
    let none = Moves {
        before: 0,
        after: 0,
        lost: BTreeMap::new(),
        gained: BTreeMap::new(),
    };
    let mut moves = vec![none; reported.len()];
    for slot in slots {
        let stays = slot.before == slot.after;
        if let Some(of) = slot.before.and_then(|j| moves.get_mut(j as usize)) {
            of.before += 1;
            if stays {
                of.after += 1;
                continue;
            }
            of.lost.insert(slot.kind, slot.node.clone());
        }
        let Some(j) = slot.after else { continue };
        match moves.get_mut(j as usize) {
            Some(of) => {
                of.after += 1;
                of.gained.insert(slot.kind, slot.node);
            }
            None => found.push(Violation::UnknownCandidate {
                node: slot.node,
                ordinal: j,
            }),
        }
    }
    for (reported, moves) in reported.iter().zip(moves) {
        reported.judge(moves, found);
    }
}

impl<T: Clone> Reported<T> {
    fn is_size(&self, nodes: u32) -> bool {
        nodes == 0 || (self.min..=self.max).contains(&nodes)
    }

    /// The invariants of one candidate.
    fn judge<N>(&self, moves: Moves<N>, found: &mut Vec<Violation<T, N>>) {
        let trainer = || self.trainer.clone();
        let (before, after) = (moves.before, moves.after);
        if !self.is_size(after) {
            found.push(Violation::Size {
                trainer: trainer(),
                nodes: after,
                min: self.min,
                max: self.max,
            });
        }
        let mut gained = moves.gained;
        for (kind, lost) in moves.lost {
            if let (Some(gained), 0) = (gained.remove(&kind), self.replaced) {
                found.push(Violation::Migration {
                    trainer: trainer(),
                    lost,
                    gained,
                });
            }
        }
        let restarts = self.hit || before < self.min;
        if self.replaced > usize::from(restarts) {
            found.push(Violation::NotHit { trainer: trainer() });
        }
        let (had, gets) = self.sizes.unwrap_or((before, after));
        for (is, reported, verb) in [(before, had, "has"), (after, gets, "gets")] {
            if is != reported {
                found.push(Violation::Report {
                    trainer: trainer(),
                    what: format!("it {verb} {is} nodes, not {reported}"),
                });
            }
        }
    }
}
