//! Nodes for a trainer that has none, taken from those that have: what that would bring, and
//! what it would cost.
//!
//! Two kinds of exchange are looked at: one other trainer gives all the nodes that are lacking,
//! or several do, each at the size at which a node costs it least. That is not every exchange,
//! but each that is told of could be made, and its figures are exact.

use crate::verdict::worth;
use crate::{Item, Problem, Sizes};

/// Nodes that go to a trainer that has none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exchange {
    /// How many nodes others give up.
    pub(crate) nodes: u32,
    /// Who gives them up, as ordinals of the problem, in order.
    pub(crate) from: Vec<u32>,
    /// What the trainer would bring, objective units over the horizon.
    pub(crate) gain: f64,
    /// What the others would lose.
    pub(crate) loss: f64,
    /// What their change would cost, beyond that of the change that is planned.
    pub(crate) cost: f64,
}

/// What trainers give up to free nodes.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Offer {
    from: u32,
    nodes: u32,
    loss: f64,
    cost: f64,
}

impl Offer {
    fn price(&self) -> f64 {
        self.loss + self.cost
    }
}

/// What can be had from those that have nodes, in the plan that was made.
#[derive(Debug, Clone)]
pub(crate) struct Offers {
    free: u32,
    /// By the number of nodes that are lacking, less one: the offer of one trainer with the
    /// least price, and the one with the least loss.
    single: Vec<(Offer, Offer)>,
    /// The offer of each trainer with the least price for a node, the best first.
    several: Vec<Offer>,
    /// Sums of the first of them: 1, 2, ...
    sums: Vec<Offer>,
}

impl Offers {
    /// The offers under these sizes, which leave so many nodes free. Its time grows with the
    /// number of nodes in use.
    pub(crate) fn new(problem: &Problem, sizes: &Sizes, free: u32) -> Self {
        let mut single: Vec<(Offer, Offer)> = Vec::new();
        let mut several = Vec::new();
        let having = problem.trainers.iter().zip(&sizes.counts).zip(0..);
        for ((item, &size), from) in having {
            let mut best: Option<Offer> = None;
            for lacking in 1..=size {
                let offer = offer(problem, item, from, size, lacking);
                match single.get_mut(lacking as usize - 1) {
                    Some((price, loss)) => {
                        if offer.price() < price.price() {
                            *price = offer;
                        }
                        if offer.loss < loss.loss {
                            *loss = offer;
                        }
                    }
                    None => single.push((offer, offer)),
                }
                if best.is_none_or(|best| per_node(&offer) < per_node(&best)) {
                    best = Some(offer);
                }
            }
            several.extend(best);
        }
        several.sort_by(|a, b| per_node(a).total_cmp(&per_node(b)));
        let sums = several
            .iter()
            .scan((0, 0.0, 0.0), |sum, offer| {
                sum.0 += offer.nodes;
                sum.1 += offer.loss;
                sum.2 += offer.cost;
                Some(Offer {
                    from: offer.from,
                    nodes: sum.0,
                    loss: sum.1,
                    cost: sum.2,
                })
            })
            .collect();
        Self {
            free,
            single,
            several,
            sums,
        }
    }

    /// Of the exchanges by which a trainer without nodes would bring more than others lose, the
    /// one that comes closest to paying for itself. Nothing if there is none: the others bring
    /// more.
    pub(crate) fn best(&self, problem: &Problem, item: &Item) -> Option<Exchange> {
        let mut best: Option<(f64, u32, Offer, usize)> = None;
        let sizes = (item.min..=item.max).filter(|&n| item.may_become(n, problem.max_change));
        for n in sizes {
            let Some(lacking) = n.checked_sub(self.free).filter(|&lacking| lacking > 0) else {
                continue;
            };
            let gain = worth(problem, item, n);
            let single = self.single.get(lacking as usize - 1);
            let first = self.sums.partition_point(|sum| sum.nodes < lacking);
            let candidates = single
                .into_iter()
                .flat_map(|(price, loss)| [(*price, 0), (*loss, 0)])
                .chain(self.sums.get(first).map(|sum| (*sum, first + 1)));
            for (offer, many) in candidates {
                // Sums of fractions are not exact.
                if gain <= offer.loss + 1e-9 * offer.loss.abs() {
                    continue;
                }
                let net = gain - offer.price();
                if best.is_none_or(|(than, ..)| net > than) {
                    best = Some((net, n, offer, many));
                }
            }
        }
        let (_, n, offer, many) = best?;
        let mut from: Vec<u32> = match many {
            0 => vec![offer.from],
            many => self.several.iter().take(many).map(|o| o.from).collect(),
        };
        from.sort_unstable();
        Some(Exchange {
            nodes: offer.nodes,
            from,
            gain: worth(problem, item, n),
            loss: offer.loss,
            cost: offer.cost,
        })
    }
}

fn per_node(offer: &Offer) -> f64 {
    offer.price() / f64::from(offer.nodes)
}

/// What a trainer of this planned size gives up to free so many nodes, or more if it cannot do
/// with what is left to it.
fn offer(problem: &Problem, item: &Item, from: u32, size: u32, lacking: u32) -> Offer {
    let left = size.saturating_sub(lacking);
    let left = if item.may_become(left, problem.max_change) {
        left
    } else {
        0
    };
    Offer {
        from,
        nodes: size - left,
        loss: worth(problem, item, size) - worth(problem, item, left),
        cost: item.change_cost(left) - item.change_cost(size),
    }
}
