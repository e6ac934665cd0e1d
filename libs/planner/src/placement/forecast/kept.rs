//! The decision that no trainer grows.

use lacuna_model::{Doubt, Outcome, Solve};

use crate::decision::Decision;
use crate::problem::{Item, Situation, Sizes};

/// Owners of the slots if no trainer gets any. A trainer with too few nodes keeps none; one with
/// too many keeps the first in the order of the slots.
pub(super) fn kept_owners(situation: &Situation<'_>) -> Vec<Option<u32>> {
    let keeps = |item: &Item| if item.runs() { item.max } else { 0 };
    let mut left: Vec<u32> = situation
        .candidates
        .iter()
        .map(|c| keeps(&c.item))
        .collect();
    situation
        .slots
        .iter()
        .map(|slot| {
            let left = slot.owner.and_then(|j| left.get_mut(j as usize))?;
            *left = left.checked_sub(1)?;
            slot.owner
        })
        .collect()
}

/// Number of slots of each candidate.
pub(super) fn counts(situation: &Situation<'_>, owners: &[Option<u32>]) -> Vec<u32> {
    let mut counts = vec![0; situation.candidates.len()];
    for &j in owners.iter().flatten() {
        if let Some(count) = counts.get_mut(j as usize) {
            *count += 1;
        }
    }
    counts
}

/// The decision that every candidate keeps its nodes, as far as the pool still has them.
pub(crate) fn keep(situation: &Situation<'_>, doubt: Doubt) -> Decision {
    let owners = kept_owners(situation);
    Decision {
        sizes: Sizes {
            counts: counts(situation, &owners),
            objective: 0.0,
        },
        owners,
        solve: Solve {
            outcome: Outcome::NoIncumbent,
            objective: 0.0,
            solver: "none".to_owned(),
            shortcut: None,
            stopped_by_clock: false,
        },
        evaluation: None,
        doubt: Some(doubt),
        shares: Vec::new(),
        followed: None,
    }
}
