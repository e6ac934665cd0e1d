//! Decisions where nodes are of several kinds: counts of each by [`mixed`], then nodes.
//!
//! Holes are not forecast here. A trainer that gains nodes of one kind and loses nodes of another
//! regroups once, so that is no migration.

use rand_chacha::ChaCha8Rng;

use lacuna_model::{MOST_KINDS, NodeChoice};

use crate::decision::Decision;
use crate::milp::MilpOptions;
use crate::problem::{MixProblem, Mixes, NO_NODES, Situation, Sizes, Slot, count};
use crate::{choose, mixed};

/// The problem over mixes of a situation.
pub(crate) fn pose(mixes: &Mixes, horizon_s: f64) -> MixProblem {
    let mut nodes = NO_NODES;
    for kind in &mixes.of {
        if let Some(count) = nodes.get_mut(usize::from(*kind)) {
            *count += 1;
        }
    }
    MixProblem {
        nodes,
        horizon_s,
        trainers: mixes.items.clone(),
    }
}

/// The decision: the answer to a posed problem, and nodes for it.
pub(crate) fn decide(
    situation: &Situation<'_>,
    mixes: &Mixes,
    problem: &MixProblem,
    (choice, options): (NodeChoice, &MilpOptions),
    rng: impl Fn() -> ChaCha8Rng,
) -> Decision {
    let (answer, solve) = mixed::solve(problem, options);
    let mut owners = vec![None; situation.slots.len()];
    for kind in 0..MOST_KINDS {
        let of_kind = situation.slots.iter().zip(&mixes.of).enumerate();
        let of_kind = of_kind.filter(|(_, (_, of))| usize::from(**of) == kind);
        let (places, slots): (Vec<usize>, Vec<Slot>) =
            of_kind.map(|(at, (slot, _))| (at, *slot)).unzip();
        if slots.is_empty() {
            continue;
        }
        let counts = answer.mixes.iter().map(|mix| count(mix, kind));
        let counts: Vec<u32> = counts.collect();
        let given = choose::assign(choice, &slots, None, &counts, &rng);
        for (at, owner) in places.into_iter().zip(given) {
            if let Some(place) = owners.get_mut(at) {
                *place = owner;
            }
        }
    }
    Decision {
        owners,
        sizes: Sizes {
            counts: answer.mixes.iter().map(|mix| mix.iter().sum()).collect(),
            objective: answer.objective,
        },
        solve,
        evaluation: None,
        doubt: None,
        shares: Vec::new(),
    }
}
