//! Decisions where nodes are of two kinds: counts of each by [`mixed`], then nodes.
//!
//! Holes are not forecast here. A trainer that gains nodes of one kind and loses nodes of the other
//! regroups once, so that is no migration.

use rand_chacha::ChaCha8Rng;

use lacuna_model::NodeChoice;

use crate::decision::Decision;
use crate::problem::{Mix, MixProblem, Mixes, Situation, Sizes, Slot};
use crate::{choose, mixed};

/// The problem over mixes of a situation.
pub(crate) fn pose(mixes: &Mixes, horizon_s: f64) -> MixProblem {
    let second = mixes.of.iter().filter(|kind| **kind > 0).count();
    MixProblem {
        nodes: [(mixes.of.len() - second) as u32, second as u32],
        horizon_s,
        trainers: mixes.items.clone(),
    }
}

/// The decision: the answer to a posed problem, and nodes for it.
pub(crate) fn decide(
    situation: &Situation<'_>,
    mixes: &Mixes,
    problem: &MixProblem,
    choice: NodeChoice,
    rng: impl Fn() -> ChaCha8Rng,
) -> Decision {
    let (answer, solve) = mixed::solve(problem);
    let mut owners = vec![None; situation.slots.len()];
    let counts: [fn(&Mix) -> u32; 2] = [|[a, _]| *a, |[_, b]| *b];
    for (kind, count) in (0_u8..).zip(counts) {
        let of_kind = situation.slots.iter().zip(&mixes.of).enumerate();
        let of_kind = of_kind.filter(|(_, (_, of))| (**of > 0) == (kind > 0));
        let (places, slots): (Vec<usize>, Vec<Slot>) =
            of_kind.map(|(at, (slot, _))| (at, *slot)).unzip();
        let counts: Vec<u32> = answer.mixes.iter().map(count).collect();
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
            counts: answer.mixes.iter().map(|[a, b]| a + b).collect(),
            objective: answer.objective,
        },
        solve,
        evaluation: None,
        doubt: None,
        shares: Vec::new(),
    }
}
