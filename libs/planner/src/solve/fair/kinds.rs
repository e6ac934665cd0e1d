//! Fair shares where nodes are of several kinds: shares by dominant share.
//!
//! **The dominant share** of an owner is the largest of its shares of the kinds, over its weight (DRF:
//! Ghodsi et al., NSDI 2011). Nodes are dealt out, the kind that fewest owners can use first, each to
//! the owner with the least dominant share that can use it; of equals, with the least sum of shares.
//!
//! Then the owners choose, those first that can use the fewest kinds at once: each takes what is best
//! among the nodes that it was dealt, or one kind first, for the same sum of shares, since a trainer
//! may use one kind alone. What they leave is offered once more, to the least served first.

use lacuna_model::MOST_KINDS;

use crate::problem::{Item, Mix, MixProblem, NO_NODES, count, less, sum, with_count};

/// One of several owners.
#[derive(Debug, Clone, PartialEq)]
struct Owner {
    part: f64,
    /// The most nodes of each kind that its trainers can use.
    most: Mix,
    /// Number of kinds that its trainers can use at the same time, the sum over them.
    at_once: usize,
    held: Mix,
    /// Nodes of its trainers that are not shared out, but count.
    apart: Mix,
}

impl Owner {
    fn new(problem: &MixProblem, (part, candidates): &(f64, Vec<u32>), apart: Mix) -> Self {
        let of = |&j: &u32| problem.trainers.get(j as usize);
        let items = || candidates.iter().filter_map(of);
        Self {
            part: weight(*part),
            apart,
            most: sum(items().map(|item| usable(item, problem.nodes))),
            at_once: items().map(|item| at_once(item, problem.nodes)).sum(),
            held: sum(items().map(Item::present)),
        }
    }

    /// The dominant share of some of all nodes, and the sum of the shares.
    fn shares(&self, own: &Mix, all: &Mix) -> (f64, f64) {
        let own = sum([*own, self.apart]);
        let each = shares(&own, all).map(|share| share / self.part);
        each.fold((0.0, 0.0), |(most, sum), share| {
            (share.max(most), sum + share)
        })
    }
}

/// The weight of an owner: 1 if it is not positive and finite.
fn weight(part: f64) -> f64 {
    if part.is_finite() && part > 0.0 {
        part
    } else {
        1.0
    }
}

fn shares(own: &Mix, all: &Mix) -> impl Iterator<Item = f64> {
    let each = own.iter().zip(all).filter(|(_, all)| **all > 0);
    each.map(|(own, all)| f64::from(*own) / f64::from(*all))
}

/// The most nodes of each kind in the mixes of a trainer that are worth anything.
fn usable(item: &Item, nodes: Mix) -> Mix {
    let most =
        |most: Mix, mix: Mix| std::array::from_fn(|kind| count(&most, kind).max(count(&mix, kind)));
    worthy(item, nodes).fold(NO_NODES, most)
}

/// The most kinds in one mix of a trainer that is worth anything.
fn at_once(item: &Item, nodes: Mix) -> usize {
    let kinds = |mix: Mix| mix.iter().filter(|nodes| **nodes > 0).count();
    worthy(item, nodes).map(kinds).max().unwrap_or(0)
}

/// The mixes of a trainer that are worth anything.
fn worthy(item: &Item, nodes: Mix) -> impl Iterator<Item = Mix> {
    let cells = item.kinds.iter();
    let cells = cells.flat_map(move |kinds| kinds.value.cells(nodes));
    let mixes = cells.map(|cell| cell.mix());
    mixes.filter(|mix| item.value_of(*mix) > 0.0)
}

/// All nodes, of which `nodes` are shared out.
fn all_of(nodes: Mix, apart: impl Iterator<Item = Mix>) -> Mix {
    sum(std::iter::once(nodes).chain(apart))
}

/// The nodes that are dealt to each owner: see the docs of this file.
fn deal(nodes: Mix, owners: &[Owner]) -> Vec<Mix> {
    let all = all_of(nodes, owners.iter().map(|owner| owner.apart));
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
                (owner.shares(own, &all), lacks)
            };
            let first = open.min_by(|a, b| {
                let (((a, c), x), ((b, d), y)) = (rank(a), rank(b));
                a.total_cmp(&b).then(c.total_cmp(&d)).then(x.cmp(&y))
            });
            let Some((_, own)) = first else { break };
            *own = with_count(*own, kind, count(own, kind) + 1);
        }
    }
    dealt
}

/// The nodes among which an owner chooses: those that it was dealt, or one kind first, for the same
/// sum of shares.
fn choices(all: Mix, left: Mix, dealt: &Mix) -> impl Iterator<Item = Mix> {
    let first = std::array::from_fn(|kind| count(&left, kind).min(count(dealt, kind)));
    let budget: f64 = shares(dealt, &all).sum();
    let of_kind = move |first: usize| {
        let (mut nodes, mut budget) = (NO_NODES, budget);
        let others = (0..MOST_KINDS).filter(move |kind| *kind != first);
        for kind in std::iter::once(first).chain(others) {
            let of_all = f64::from(count(&all, kind));
            // The tolerance covers rounding errors of sums.
            let more = (budget * of_all + 1e-6) as u32;
            let more = more.min(count(&left, kind));
            if more > 0 {
                budget -= f64::from(more) / of_all;
                nodes = with_count(nodes, kind, more);
            }
        }
        nodes
    };
    let kinds = (0..MOST_KINDS).filter(move |kind| count(&left, *kind) > 0);
    std::iter::once(first).chain(kinds.map(of_kind))
}

/// The nodes of an owner, and its answer on them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Served<A> {
    /// The nodes that it was dealt.
    pub(crate) fair: Mix,
    /// The nodes that its answer uses.
    pub(crate) used: Mix,
    pub(crate) answer: A,
}

/// The owners by the dominant shares of the nodes that they use of `nodes`, and of those `apart`, the
/// least served first.
pub(crate) fn least_served(
    nodes: Mix,
    owners: &[(f64, Vec<u32>)],
    apart: &[Mix],
    used: &[Mix],
) -> Vec<usize> {
    let all = all_of(nodes, apart.iter().copied());
    let dominant = |own: Mix| shares(&own, &all).fold(0.0, f64::max);
    let apart = apart.iter().copied().chain(std::iter::repeat(NO_NODES));
    let shares = owners.iter().zip(used).zip(apart);
    let shares =
        shares.map(|(((part, _), used), apart)| dominant(sum([*used, apart])) / weight(*part));
    let mut order: Vec<(f64, usize)> = shares.zip(0..).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    order.into_iter().map(|(_, at)| at).collect()
}

/// How many answers the owners ask for at most.
pub(crate) fn most_answers(nodes: Mix, owners: usize) -> u32 {
    let kinds = nodes.iter().filter(|nodes| **nodes > 0).count();
    u32::try_from(owners * (kinds + 2)).unwrap_or(u32::MAX)
}

/// Shares the nodes of a problem out. Nodes `apart` stay with their owners, and count. `decide` gives
/// the best answer of an owner on some nodes: its value, the nodes that it uses, and the answer.
pub(crate) fn settle<A: Default>(
    problem: &MixProblem,
    owners: &[(f64, Vec<u32>)],
    apart: &[Mix],
    mut decide: impl FnMut(&[u32], Mix) -> (f64, Mix, A),
) -> Vec<Served<A>> {
    let nodes = problem.nodes;
    let aparts = apart.iter().copied().chain(std::iter::repeat(NO_NODES));
    let list = owners.iter().zip(aparts);
    let list: Vec<Owner> = list
        .map(|(owner, apart)| Owner::new(problem, owner, apart))
        .collect();
    let all = all_of(nodes, apart.iter().copied());
    let mut served: Vec<Served<A>> = deal(nodes, &list)
        .into_iter()
        .map(|fair| Served {
            fair,
            used: NO_NODES,
            answer: A::default(),
        })
        .collect();
    let left = |served: &[Served<A>]| less(nodes, sum(served.iter().map(|owner| owner.used)));
    let mut order: Vec<usize> = (0..list.len()).collect();
    order.sort_by_key(|&at| {
        list.get(at).map(|owner| {
            let kinds = owner.most.iter().filter(|most| **most > 0).count();
            (owner.at_once.min(kinds), kinds)
        })
    });
    for at in order {
        let left = left(&served);
        let (Some((_, own)), Some(owner)) = (owners.get(at), served.get_mut(at)) else {
            continue;
        };
        let found = choices(all, left, &owner.fair).map(|nodes| decide(own, nodes));
        let best = found.reduce(|best, next| if next.0 > best.0 { next } else { best });
        if let Some((_, used, answer)) = best {
            (owner.used, owner.answer) = (used, answer);
        }
    }
    let used: Vec<Mix> = served.iter().map(|owner| owner.used).collect();
    for at in least_served(nodes, owners, apart, &used) {
        let left = left(&served);
        let (Some((_, own)), Some(owner)) = (owners.get(at), served.get_mut(at)) else {
            continue;
        };
        if left != NO_NODES {
            let (_, used, answer) = decide(own, sum([left, owner.used]));
            (owner.used, owner.answer) = (used, answer);
        }
    }
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(part: f64, most: Mix) -> Owner {
        Owner {
            part,
            most,
            at_once: 1,
            held: NO_NODES,
            apart: NO_NODES,
        }
    }

    #[test]
    fn dominant_shares_rise_together() {
        let both = || owner(1.0, [99, 99, 0, 0]);
        let nodes = [8, 4, 0, 0];
        assert_eq!(deal(nodes, &[both(), both()]), [[4, 2, 0, 0]; 2]);
        // The third can use the first kind alone, and gets most of it.
        let first = owner(1.0, [99, 0, 0, 0]);
        let dealt = deal(nodes, &[both(), both(), first.clone()]);
        assert_eq!(dealt, [[2, 2, 0, 0], [1, 2, 0, 0], [5, 0, 0, 0]]);
        // Twice the weight: two thirds of a kind.
        let heavy = Owner { part: 2.0, ..first };
        let dealt = deal([9, 0, 0, 0], &[both(), heavy]);
        assert_eq!(dealt, [[3, 0, 0, 0], [6, 0, 0, 0]]);
        // Nodes that are not shared out count: of eight the first has two already.
        let apart = Owner {
            apart: [2, 0, 0, 0],
            ..both()
        };
        let dealt = deal([6, 0, 0, 0], &[apart, both()]);
        assert_eq!(dealt, [[2, 0, 0, 0], [4, 0, 0, 0]]);
    }

    #[test]
    fn an_owner_may_take_one_kind_for_the_same_sum_of_shares() {
        let all = [8, 4, 0, 0];
        let tried: Vec<Mix> = choices(all, all, &[4, 2, 0, 0]).collect();
        assert_eq!(tried, [[4, 2, 0, 0], [8, 0, 0, 0], [0, 4, 0, 0]]);
        let tried: Vec<Mix> = choices(all, [3, 4, 0, 0], &[4, 2, 0, 0]).collect();
        assert_eq!(tried, [[3, 2, 0, 0], [3, 2, 0, 0], [0, 4, 0, 0]]);
    }
}
