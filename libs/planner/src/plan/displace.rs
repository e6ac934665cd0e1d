//! Exchanges: nodes for a trainer without any, taken from other trainers, with gain and cost.
//!
//! Two kinds of exchange are tried. One other trainer gives all missing nodes, or several give
//! nodes, each at the size at which a node costs it least. Other exchanges exist, but each reported
//! one is possible, and its figures are exact.

use crate::{Item, Problem, Sizes};

/// An exchange of nodes to a trainer that has none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Exchange {
    /// Number of nodes that others give up.
    pub(crate) nodes: u32,
    /// The trainers that give them up, as ordinals of the problem, in order.
    pub(crate) from: Vec<u32>,
    /// Gain of the trainer over the horizon, objective units.
    pub(crate) gain: f64,
    /// Loss of the others, objective units.
    pub(crate) loss: f64,
    /// Cost of their change beyond that of their planned change, objective units.
    pub(crate) cost: f64,
}

/// An offer of trainers to give up nodes.
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

/// The offers of the trainers with nodes in a plan.
#[derive(Debug, Clone)]
pub(crate) struct Offers {
    free: u32,
    /// By the number of missing nodes, less one: the offer of one trainer with the least price, and
    /// the one with the least loss.
    single: Vec<(Offer, Offer)>,
    /// The offer of each trainer with its least price per node, the best first.
    several: Vec<Offer>,
    /// Sums of the first 1, 2, ... of these.
    sums: Vec<Offer>,
}

impl Offers {
    /// The offers under these sizes, which leave `free` nodes free. Time grows with the number of
    /// nodes in use.
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

    /// The exchange for a trainer without nodes that comes closest to paying for itself, among
    /// those that gain more than others lose. Nothing if there is none.
    pub(crate) fn best(&self, problem: &Problem, item: &Item) -> Option<Exchange> {
        let mut best: Option<(f64, u32, Offer, usize)> = None;
        let sizes = (item.min..=item.max).filter(|&n| item.is_size(n));
        for n in sizes {
            let Some(lacking) = n.checked_sub(self.free).filter(|&lacking| lacking > 0) else {
                continue;
            };
            let gain = problem.value(item, n);
            let single = self.single.get(lacking as usize - 1);
            let first = self.sums.partition_point(|sum| sum.nodes < lacking);
            let candidates = single
                .into_iter()
                .flat_map(|(price, loss)| [(*price, 0), (*loss, 0)])
                .chain(self.sums.get(first).map(|sum| (*sum, first + 1)));
            for (offer, many) in candidates {
                // The tolerance covers rounding errors of sums.
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
            gain: problem.value(item, n),
            loss: offer.loss,
            cost: offer.cost,
        })
    }
}

fn per_node(offer: &Offer) -> f64 {
    offer.price() / f64::from(offer.nodes)
}

/// The offer of a trainer of this planned size to free `lacking` nodes. It gives up all nodes if it
/// cannot run on the remaining ones.
fn offer(problem: &Problem, item: &Item, from: u32, size: u32, lacking: u32) -> Offer {
    let left = size.saturating_sub(lacking);
    let left = if item.is_size(left) { left } else { 0 };
    Offer {
        from,
        nodes: size - left,
        loss: problem.value(item, size) - problem.value(item, left),
        cost: item.change_cost(left) - item.change_cost(size),
    }
}
