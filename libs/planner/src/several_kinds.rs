//! Decisions where nodes are of several kinds: counts of each by [`mixed`], then nodes.
//!
//! Holes are not forecast here. A trainer that gains nodes of one kind and loses nodes of another
//! regroups once, so that is no migration.
//!
//! **Several owners.** The nodes are dealt out, the kind that fewest owners can use first, each node to
//! the owner with the fewest by its weight that can use it. That gives each owner's share, a number of
//! nodes. Then the owners choose, those first that can use the fewest kinds at once: each takes the best
//! of as many nodes as its share, as they were dealt or one kind first, since a trainer may use one kind alone.
//! What they leave is offered to them once more, the least served first. So no owner takes a node
//! within the share of another that can use it, whatever its trainers say.

use rand_chacha::ChaCha8Rng;

use lacuna_model::{MOST_KINDS, NodeChoice, Solve};

use crate::decision::{Decision, Share, together};
use crate::milp::MilpOptions;
use crate::problem::{
    Mix, MixItem, MixProblem, MixSizes, Mixes, NO_NODES, Situation, Sizes, Slot, count, with_count,
};
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
    let owners = situation.owners();
    let (answer, solve, shares) = if owners.is_empty() {
        let (answer, solve) = mixed::solve(problem, options);
        (answer, solve, Vec::new())
    } else {
        solve_by_owner(problem, owners, options)
    };
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
        shares,
        followed: None,
    }
}

/// One of several owners.
struct Owner {
    part: f64,
    candidates: Vec<u32>,
    items: Vec<MixItem>,
    /// The most nodes of each kind that its trainers can use.
    most: Mix,
    /// Number of kinds that its trainers can use at the same time, the sum over them.
    at_once: usize,
    held: Mix,
}

impl Owner {
    fn new(problem: &MixProblem, (part, candidates): (f64, Vec<u32>)) -> Self {
        let of = |&j: &u32| problem.trainers.get(j as usize).cloned();
        let items: Vec<MixItem> = candidates.iter().filter_map(of).collect();
        Self {
            part: if part.is_finite() && part > 0.0 {
                part
            } else {
                1.0
            },
            most: sum(items.iter().map(|item| usable(item, problem.nodes))),
            at_once: items.iter().map(|item| at_once(item, problem.nodes)).sum(),
            held: sum(items.iter().map(|item| item.current)),
            candidates,
            items,
        }
    }

    /// Its trainers on these nodes.
    fn on(&self, nodes: Mix, horizon_s: f64) -> MixProblem {
        MixProblem {
            nodes,
            horizon_s,
            trainers: self.items.clone(),
        }
    }
}

/// The most nodes of each kind in the mixes of a trainer that are worth anything.
fn usable(item: &MixItem, nodes: Mix) -> Mix {
    let mut most = NO_NODES;
    for mix in worthy(item, nodes) {
        most = std::array::from_fn(|kind| count(&most, kind).max(count(&mix, kind)));
    }
    most
}

/// The most kinds in one mix of a trainer that is worth anything.
fn at_once(item: &MixItem, nodes: Mix) -> usize {
    let kinds = |mix: Mix| mix.iter().filter(|nodes| **nodes > 0).count();
    worthy(item, nodes).map(kinds).max().unwrap_or(0)
}

/// The mixes of a trainer that are worth anything.
fn worthy(item: &MixItem, nodes: Mix) -> impl Iterator<Item = Mix> {
    let mixes = item.value.cells(nodes).map(|cell| cell.mix());
    mixes.filter(|mix| item.value.at(*mix) > 0.0)
}

fn sum(mixes: impl Iterator<Item = Mix>) -> Mix {
    mixes.fold(NO_NODES, |sum, mix| {
        std::array::from_fn(|kind| count(&sum, kind).saturating_add(count(&mix, kind)))
    })
}

fn less(nodes: Mix, used: Mix) -> Mix {
    std::array::from_fn(|kind| count(&nodes, kind).saturating_sub(count(&used, kind)))
}

fn total(mix: &Mix) -> u32 {
    mix.iter().sum()
}

/// The nodes of each owner: see the docs of this file.
fn deal(nodes: Mix, owners: &[Owner]) -> Vec<Mix> {
    let users = |kind: usize| owners.iter().filter(move |o| count(&o.most, kind) > 0);
    let mut kinds: Vec<usize> = (0..MOST_KINDS).collect();
    kinds.sort_by_key(|&kind| users(kind).count());
    let mut dealt = vec![NO_NODES; owners.len()];
    for kind in kinds {
        for _ in 0..count(&nodes, kind) {
            let open = owners.iter().zip(&mut dealt);
            let open = open.filter(|(owner, own)| count(own, kind) < count(&owner.most, kind));
            let rank = |(owner, own): &(&Owner, &mut Mix)| {
                let lacks = count(&owner.held, kind) <= count(own, kind);
                (f64::from(total(own)) / owner.part, lacks)
            };
            let first = open.min_by(|a, b| {
                let ((a, x), (b, y)) = (rank(a), rank(b));
                a.total_cmp(&b).then(x.cmp(&y))
            });
            let Some((_, own)) = first else { break };
            *own = with_count(*own, kind, count(own, kind) + 1);
        }
    }
    dealt
}

/// The nodes among which an owner chooses, as many as it was dealt: these, or one kind first.
fn choices(left: Mix, dealt: &Mix) -> impl Iterator<Item = Mix> {
    let share = total(dealt);
    let first = std::array::from_fn(|kind| count(&left, kind).min(count(dealt, kind)));
    let of_kind = move |kind: usize| {
        let mut nodes = NO_NODES;
        for kind in std::iter::once(kind).chain(0..MOST_KINDS) {
            let more = count(&left, kind) - count(&nodes, kind);
            let more = more.min(share - total(&nodes));
            nodes = with_count(nodes, kind, count(&nodes, kind) + more);
        }
        nodes
    };
    std::iter::once(first).chain(
        (0..MOST_KINDS)
            .filter(move |k| count(&left, *k) > 0)
            .map(of_kind),
    )
}

/// The answer within the shares of several owners.
fn solve_by_owner(
    problem: &MixProblem,
    owners: Vec<(f64, Vec<u32>)>,
    options: &MilpOptions,
) -> (MixSizes, Solve, Vec<Share>) {
    let owners: Vec<Owner> = owners
        .into_iter()
        .map(|owner| Owner::new(problem, owner))
        .collect();
    let dealt = deal(problem.nodes, &owners);
    // All programs together have the limits of one.
    let kinds = problem.nodes.iter().filter(|nodes| **nodes > 0).count();
    let programs = u32::try_from(owners.len() * (kinds + 2)).unwrap_or(u32::MAX);
    let limits = MilpOptions {
        time_limit: options.time_limit / programs.max(1),
        ..*options
    };
    let steps = mixed::MOST_STEPS / u64::from(programs.max(1));
    let solved = |owner: &Owner, nodes| {
        mixed::solve_within(&owner.on(nodes, problem.horizon_s), &limits, steps)
    };
    let used = |answer: &(MixSizes, Solve)| sum(answer.0.mixes.iter().copied());
    let mut answers = vec![(MixSizes::default(), together([].into_iter(), 0.0)); owners.len()];
    let mut order: Vec<(usize, (&Owner, &Mix))> = owners.iter().zip(&dealt).enumerate().collect();
    order.sort_by_key(|(_, (owner, _))| {
        let kinds = owner.most.iter().filter(|most| **most > 0).count();
        (owner.at_once.min(kinds), kinds)
    });
    for (at, (owner, dealt)) in order {
        let left = less(problem.nodes, sum(answers.iter().map(used)));
        let best = choices(left, dealt).map(|nodes| solved(owner, nodes));
        let best = best.reduce(|best, next| {
            if next.0.objective > best.0.objective {
                next
            } else {
                best
            }
        });
        if let (Some(answer), Some(best)) = (answers.get_mut(at), best) {
            *answer = best;
        }
    }
    let served = |at: &usize| {
        let part = owners.get(*at).map_or(1.0, |owner| owner.part);
        let nodes = answers.get(*at).map(|answer| total(&used(answer)));
        f64::from(nodes.unwrap_or_default()) / part
    };
    let mut order: Vec<usize> = (0..owners.len()).collect();
    order.sort_by(|a, b| served(a).total_cmp(&served(b)));
    for at in order {
        let left = less(problem.nodes, sum(answers.iter().map(used)));
        let (Some(owner), Some(answer)) = (owners.get(at), answers.get_mut(at)) else {
            continue;
        };
        if total(&left) > 0 {
            *answer = solved(owner, sum([left, used(answer)].into_iter()));
        }
    }
    let mut mixes = vec![NO_NODES; problem.trainers.len()];
    for (owner, (answer, _)) in owners.iter().zip(&answers) {
        for (&j, mix) in owner.candidates.iter().zip(&answer.mixes) {
            if let Some(place) = mixes.get_mut(j as usize) {
                *place = *mix;
            }
        }
    }
    let shares = owners.into_iter().zip(dealt).zip(&answers);
    let shares = shares.map(|((owner, dealt), answer)| Share {
        candidates: owner.candidates,
        fair: total(&dealt),
        nodes: total(&used(answer)),
    });
    let shares = shares.collect();
    let answer = problem.sizes(mixes);
    let solve = together(
        answers.into_iter().map(|(_, solve)| solve),
        answer.objective,
    );
    (answer, solve, shares)
}
