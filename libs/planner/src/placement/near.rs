//! Node sets that are near: the line of nodes leaf by leaf, and the nearest of some nodes.
//!
//! Placement by blocks cuts the departure order and this line, and the better answer by V counts.
//! Placement by columns takes intervals of this line, and its bound is that of this line. Nodes are
//! as far apart as the farthest two neighbours of any order, so the tier of an interval follows from
//! its ends, as its first hit does.
//!
//! Left out: a forecast of nodes that *join* a leaf. So a trainer spreads where that pays within the
//! look ahead, and not by what waiting would bring. A pinned trainer never moves: it comes together
//! by shrinking and growing, or at a hit. Both were tried at commit `76466a8d` on nine hours of Summit
//! with a loss of 20 % (by names, shuffled) and 60 % (the same). Waiting, by the nodes that a leaf got
//! within the median length of a hole, changed the share of the bound by -.8, .1, .1 and .0 points;
//! moves by -.4, .1, 1.7 and -.1.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use crate::problem::Switches;

use super::{Assignment, Request, Scenarios, Sets};

/// A request with its nodes leaf by leaf, where distance matters. Consecutive nodes of this line are
/// near, as those of the departure order leave together.
#[derive(Debug, Clone)]
pub(crate) struct LeafByLeaf {
    /// The place of each node in the request.
    places: Vec<u32>,
    owners: Vec<Option<u32>>,
    scenarios: Scenarios,
}

impl LeafByLeaf {
    /// The line of a request; nothing if all nodes are at tier 0.
    pub(crate) fn new(request: &Request<'_>, horizon_s: f64) -> Option<Self> {
        if request.scenarios.switches().is_flat() {
            return None;
        }
        let places = leaf_by_leaf(request.scenarios, horizon_s);
        let mut line = Self {
            owners: Vec::new(),
            scenarios: request.scenarios.only(&places),
            places,
        };
        line.owners = line.of(request.owners);
        Some(line)
    }

    /// The request in the order of the line.
    pub(crate) fn request<'a>(&'a self, request: &Request<'a>) -> Request<'a> {
        Request {
            owners: &self.owners,
            scenarios: &self.scenarios,
            ..*request
        }
    }

    /// Owners by place of the request, in the order of the line.
    pub(crate) fn of(&self, owners: &[Option<u32>]) -> Vec<Option<u32>> {
        let owner = |&place: &u32| owners.get(place as usize).copied().flatten();
        self.places.iter().map(owner).collect()
    }

    /// The answer to the request in its own order.
    pub(crate) fn back(&self, answer: Assignment) -> Assignment {
        let mut owners = vec![None; answer.owners.len()];
        for (&place, owner) in self.places.iter().zip(&answer.owners) {
            if let Some(slot) = owners.get_mut(place as usize) {
                *slot = *owner;
            }
        }
        Assignment { owners, ..answer }
    }
}

/// All nodes switch by switch from the top, the switch whose nodes stay shortest first; on a leaf in
/// their order.
fn leaf_by_leaf(scenarios: &Scenarios, horizon_s: f64) -> Vec<u32> {
    let switches = scenarios.switches();
    // By switch: nodes and their stays, seconds.
    let mut stays: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for node in 0..scenarios.nodes() {
        let stay = scenarios.stay_s(node, horizon_s);
        for &switch in switches.path(node) {
            let (nodes, all) = stays.entry(switch).or_default();
            *nodes += 1.0;
            *all += stay;
        }
    }
    let mean = |switch: &u32| stays.get(switch).map_or(0.0, |(nodes, all)| all / nodes);
    let mut line: Vec<(Vec<(f64, u32)>, u32)> = (0..scenarios.nodes())
        .map(|node| {
            let path = switches.path(node).iter().rev();
            (
                path.map(|switch| (mean(switch), *switch)).collect(),
                node as u32,
            )
        })
        .collect();
    line.sort_by(|(a, _), (b, _)| {
        let steps = a.iter().zip(b);
        let orders = steps.map(|(a, b)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        orders.fold(Ordering::Equal, Ordering::then)
    });
    line.into_iter().map(|(_, node)| node).collect()
}

/// Places of the nodes of one owner, or of the idle nodes, in order.
pub(crate) fn places(
    owners: &[Option<u32>],
    owner: Option<u32>,
) -> impl Iterator<Item = usize> + '_ {
    owners
        .iter()
        .enumerate()
        .filter(move |(_, of)| **of == owner)
        .map(|(place, _)| place)
}

/// The nodes of a list below each switch of a level, in the order of the list.
pub(crate) fn below(
    switches: &Switches,
    nodes: impl IntoIterator<Item = usize>,
    level: usize,
) -> BTreeMap<u32, Vec<usize>> {
    let mut of: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for node in nodes {
        of.entry(switches.switch(node, level))
            .or_default()
            .push(node);
    }
    of
}

/// The `wanted` of these nodes that are nearest to each other and to the nodes of `beside`, the last
/// ones of the list where several are as near: those below the lowest switch that has enough, of
/// several the one with the fewest, and there on the fewest leaves. All nodes if there are not
/// enough.
pub(crate) fn nearest(
    switches: &Switches,
    nodes: &[usize],
    beside: &[usize],
    wanted: usize,
) -> Vec<usize> {
    if nodes.len() <= wanted || switches.is_flat() {
        let last = nodes.len().saturating_sub(wanted);
        return nodes.iter().skip(last).copied().collect();
    }
    let (first, from) = (beside.first(), switches.tier(beside.iter().copied()));
    let mut found: Option<Vec<usize>> = None;
    for level in from..=switches.levels() {
        let fits = below(switches, nodes.iter().copied(), level);
        let fits = fits.into_iter().filter(|(switch, nodes)| {
            nodes.len() >= wanted
                && first.is_none_or(|&first| switches.switch(first, level) == *switch)
        });
        found = fits.map(|(_, nodes)| nodes).min_by_key(Vec::len);
        if found.is_some() {
            break;
        }
    }
    let found = found.unwrap_or_else(|| nodes.to_vec());
    let mut leaves: Vec<Vec<usize>> = below(switches, found, 0).into_values().collect();
    let is_own = |leaf: &[usize]| {
        let own = |&node: &usize| beside.iter().any(|&own| switches.between(own, node) == 0);
        leaf.first().is_some_and(own)
    };
    leaves.sort_by_cached_key(|leaf| (Reverse(is_own(leaf)), Reverse(leaf.len())));
    let mut taken = Vec::with_capacity(wanted);
    while taken.len() < wanted && !leaves.is_empty() {
        let left = wanted - taken.len();
        // Leaves of its own and the largest come whole; the last is the tightest.
        let at = match leaves.first() {
            Some(leaf) if leaf.len() > left && !is_own(leaf) => {
                let tight = leaves.iter().rposition(|leaf| leaf.len() >= left);
                tight.unwrap_or(0)
            }
            _ => 0,
        };
        let leaf = leaves.remove(at);
        taken.extend(leaf.into_iter().rev().take(left));
    }
    taken.sort_unstable();
    taken
}

/// The leaves that each trainer crosses.
fn crossed(switches: &Switches, sets: &Sets) -> Vec<Vec<u32>> {
    let leaves = |set: &[usize]| match switches.tier(set.iter().copied()) {
        0 => Vec::new(),
        _ => below(switches, set.iter().copied(), 0)
            .into_keys()
            .collect(),
    };
    sets.iter().map(leaves).collect()
}

/// Whether a trainer can run on some nodes.
type Runs<'a> = Box<dyn Fn(usize, &[usize]) -> bool + 'a>;

/// What trainers may have.
pub(crate) struct Bounds<'a> {
    /// Whether each may take any nodes.
    pub(crate) flexible: Vec<bool>,
    pub(crate) runs: Runs<'a>,
}

/// Takes nodes back from trainers that newly cross a leaf which too many cross, the smallest first.
/// A pinned trainer keeps the nodes that it had `before`, a flexible one the most of one leaf; none
/// if it cannot run on them. `most` is the most that may cross a leaf, if there is a limit.
pub(crate) fn uncross(
    switches: &Switches,
    most: Option<u32>,
    before: &[Option<u32>],
    owners: &mut [Option<u32>],
    Bounds { flexible, runs }: &Bounds<'_>,
) {
    let Some(most) = most else {
        return;
    };
    let had = crossed(switches, &Sets::new(before, flexible.len()));
    let trainers = || flexible.iter().copied().enumerate();
    loop {
        let sets = Sets::new(owners, flexible.len());
        let has = crossed(switches, &sets);
        let mut on: BTreeMap<u32, usize> = BTreeMap::new();
        for leaf in has.iter().flatten() {
            *on.entry(*leaf).or_default() += 1;
        }
        let is_over = |leaf: &&u32| on.get(leaf).is_some_and(|&count| count > most as usize);
        let newly = |j: usize, flexible: bool| {
            let (had, has) = (had.get(j), has.get(j));
            let mut over = has.into_iter().flatten().filter(is_over);
            over.any(|leaf| flexible || !had.is_some_and(|had| had.contains(leaf)))
        };
        let over = trainers().filter(|(j, flexible)| newly(*j, *flexible));
        let Some((j, flexible)) = over.min_by_key(|(j, _)| sets.of(*j).len()) else {
            return;
        };
        let set = sets.of(j);
        let kept: Option<Vec<usize>> = if flexible {
            let leaves = below(switches, set.iter().copied(), 0).into_values();
            leaves.max_by_key(Vec::len)
        } else {
            let had = |node: &&usize| before.get(**node) == Some(&Some(j as u32));
            Some(set.iter().filter(had).copied().collect())
        };
        let kept = kept.filter(|kept| runs(j, kept)).unwrap_or_default();
        for node in set.iter().filter(|node| kept.binary_search(node).is_err()) {
            if let Some(owner) = owners.get_mut(*node) {
                *owner = None;
            }
        }
    }
}

/// The same owners with fewer trainers that cross a leaf, by [`uncross`]: as many as an uplink carries
/// at full speed, twice, four times as many; none if uplinks carry all.
pub(crate) fn lighter<'a>(
    switches: &'a Switches,
    before: &'a [Option<u32>],
    owners: &'a [Option<u32>],
    bounds: &'a Bounds<'a>,
) -> impl Iterator<Item = Vec<Option<u32>>> + 'a {
    let most = switches.uplink().map(|carries| {
        let mut leaves: BTreeMap<u32, u32> = BTreeMap::new();
        for leaf in crossed(switches, &Sets::new(owners, bounds.flexible.len()))
            .into_iter()
            .flatten()
        {
            *leaves.entry(leaf).or_default() += 1;
        }
        let most = leaves.into_values().max().unwrap_or(0);
        let doubled = std::iter::successors(Some(carries.max(1)), |most| most.checked_mul(2));
        doubled.take_while(move |&few| few < most)
    });
    most.into_iter().flatten().map(move |most| {
        let mut fewer = owners.to_vec();
        uncross(switches, Some(most), before, &mut fewer, bounds);
        fewer
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacuna_model::{NodeId, Topology};

    /// Nodes on leaves, by the number of the leaf.
    fn on(leaves: &[u32]) -> Switches {
        let id = |at: usize| NodeId::new(format!("n{at}")).unwrap();
        let nodes: Vec<NodeId> = (0..leaves.len()).map(id).collect();
        let paths = nodes.iter().cloned().zip(leaves);
        let paths = paths.map(|(node, leaf)| (node, vec![format!("l{leaf}")]));
        Switches::new(&Topology::new(paths.collect()).unwrap(), &nodes)
    }

    #[test]
    fn the_nearest_nodes_lie_on_the_fewest_leaves_and_fit_tightly() {
        let switches = on(&[1, 1, 1, 2, 2, 3, 3, 3, 3, 4]);
        let all: Vec<usize> = (0..10).collect();
        let near = |beside: &[usize], wanted| nearest(&switches, &all, beside, wanted);
        assert_eq!(near(&[], 1), [9]);
        assert_eq!(near(&[], 2), [3, 4]);
        assert_eq!(near(&[], 3), [0, 1, 2]);
        // No leaf has five: the largest, and one that has exactly one more.
        assert_eq!(near(&[], 5), [5, 6, 7, 8, 9]);
        assert_eq!(near(&[], 6), [3, 4, 5, 6, 7, 8]);
        // Beside a node of its own leaf, although another fits.
        let beside = nearest(&switches, &[0, 1, 3, 4, 9], &[2], 1);
        assert_eq!(beside, [1]);
        let beside = nearest(&switches, &[0, 1, 3, 4, 9], &[2], 3);
        assert_eq!(beside, [0, 1, 9]);
    }

    #[test]
    fn the_line_is_leaf_by_leaf_and_goes_back() {
        let scenarios = Scenarios::known(vec![10.0, 20.0, 30.0, 90.0]).below(on(&[1, 2, 1, 2]));
        let owners = [Some(0), None, Some(1), None];
        let request = Request {
            trainers: &[],
            hit: &[],
            start_s: &[],
            owners: &owners,
            scenarios: &scenarios,
        };
        let line = LeafByLeaf::new(&request, 100.0).unwrap();
        assert_eq!(line.places, [0, 2, 1, 3]);
        let mine = line.request(&request);
        assert_eq!(mine.owners, [Some(0), Some(1), None, None]);
        let answer = Assignment {
            owners: mine.owners.to_vec(),
            ..Assignment::default()
        };
        assert_eq!(line.back(answer).owners, owners);
    }
}
