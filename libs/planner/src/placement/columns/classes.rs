//! Equivalence classes of free nodes: neighbours on one leaf that leave together, or nearly.

use crate::placement::Scenarios;
use crate::problem::Switches;

/// The free nodes of an order, cut into equivalence classes.
#[derive(Debug, Clone)]
pub(crate) struct Classes {
    /// Places of the free nodes, ascending.
    pub(crate) free: Vec<usize>,
    /// Begin of each class in `free`, and the end of the last; a class holds at least one node.
    pub(crate) begin: Vec<usize>,
    /// By place of the order: the class of a node. Classes of free nodes come first. Then come the
    /// gaps before each class and behind the last, for nodes of pinned trainers. Those lie in no
    /// interval, but one trainer of a plan may give them back and another take them.
    pub(crate) of: Vec<u32>,
    /// By class and then scenario: seconds until the first of its nodes leaves, within the horizon.
    pub(crate) leave: Vec<f64>,
    /// By class: stay of a node, seconds, mean over nodes and scenarios.
    pub(crate) stay: Vec<f64>,
    /// Scenarios; at least 1.
    pub(crate) scenarios: usize,
    /// Seconds by which nodes outlive the first of their class, mean over nodes and scenarios. 0 if
    /// every class holds equal nodes only, so that values are exact.
    pub(crate) lost_s: f64,
}

/// Neighbours of one class.
#[derive(Debug, Clone)]
struct Group {
    nodes: usize,
    /// By scenario: seconds until the first leaves.
    leave: Vec<f64>,
    /// Sum of stays over nodes and scenarios, seconds.
    stay: f64,
    /// Place of its first node.
    first: usize,
}

impl Group {
    /// Node-seconds, summed over the scenarios, by which merging two groups brings first hits
    /// forward.
    fn loss(&self, other: &Self) -> f64 {
        let (mine, others) = (self.nodes as f64, other.nodes as f64);
        let pairs = self.leave.iter().zip(&other.leave);
        pairs
            .map(|(a, b)| mine * (a - b).max(0.0) + others * (b - a).max(0.0))
            .sum()
    }

    fn take_in(&mut self, other: &Self) {
        self.nodes += other.nodes;
        self.stay += other.stay;
        for (mine, &others) in self.leave.iter_mut().zip(&other.leave) {
            *mine = mine.min(others);
        }
    }
}

impl Classes {
    /// Cuts the nodes at the places `free` (ascending) of an order of `nodes` into no more than
    /// `most` classes, but at least one for each leaf. Neighbours on one leaf with equal departures
    /// in every scenario share a class. Then the neighbours on one leaf with the least loss are
    /// merged, until there are few enough.
    pub(crate) fn cut(
        nodes: usize,
        free: Vec<usize>,
        scenarios: &Scenarios,
        horizon_s: f64,
        most: usize,
    ) -> Self {
        let count = scenarios.count().max(1);
        let mut groups = alike(&free, scenarios, horizon_s);
        merge(&mut groups, most.max(1), scenarios.switches());
        let mut classes = Self {
            begin: vec![0],
            of: vec![0; nodes],
            leave: Vec::with_capacity(groups.len() * count),
            stay: Vec::with_capacity(groups.len()),
            scenarios: count,
            lost_s: 0.0,
            free,
        };
        let (mut end, mut lost) = (0, 0.0);
        for group in &groups {
            end += group.nodes;
            classes.begin.push(end);
            let size = group.nodes.max(1) as f64 * count as f64;
            classes.stay.push(group.stay / size);
            let first: f64 = group.leave.iter().sum();
            lost += group.stay - group.nodes as f64 * first;
            classes.leave.extend(&group.leave);
        }
        let all = classes.free.len().max(1) as f64 * count as f64;
        // A rounding error of a sum of differences is no loss.
        classes.lost_s = if lost > 1e-9 * horizon_s * all {
            lost / all
        } else {
            0.0
        };
        classes.place(scenarios, horizon_s);
        classes
    }

    /// Finds the class of every place: its own if it is free, else the gap before the next class. A
    /// node within a class of equal nodes belongs to it.
    fn place(&mut self, scenarios: &Scenarios, horizon_s: f64) {
        let classes = self.count() as u32;
        let mut of = std::mem::take(&mut self.of);
        let (mut next, mut class) = (0, 0_u32);
        for (place, of) in of.iter_mut().enumerate() {
            while self.free.get(next).is_some_and(|&free| free < place) {
                next += 1;
            }
            let end = |class: u32| self.begin.get(class as usize + 1).copied();
            while end(class).is_some_and(|end| end <= next) {
                class += 1;
            }
            let is_like = |class: u32| {
                let (leave, of) = (self.leave(class as usize), scenarios.of(place));
                class < classes
                    && leave.len() == of.len()
                    && scenarios
                        .switches()
                        .between(self.node(class as usize), place)
                        == 0
                    && leave.iter().zip(of).all(|(&a, &b)| a == b.min(horizon_s))
            };
            *of = match class.checked_sub(1) {
                _ if self.free.get(next) == Some(&place) => class,
                _ if self.lost_s == 0.0 && is_like(class) => class,
                Some(before) if self.lost_s == 0.0 && is_like(before) => before,
                _ => classes.saturating_add(class),
            };
        }
        self.of = of;
    }

    /// A node of a class.
    pub(crate) fn node(&self, class: usize) -> usize {
        let first = self.begin.get(class).and_then(|&at| self.free.get(at));
        first.copied().unwrap_or(0)
    }

    /// Number of classes of free nodes.
    pub(crate) fn count(&self) -> usize {
        self.stay.len()
    }

    /// Number of classes and gaps.
    pub(crate) fn count_with_gaps(&self) -> usize {
        2 * self.count() + 1
    }

    /// Free nodes by class.
    pub(crate) fn capacity(&self) -> Vec<u32> {
        let ends = self.begin.iter().zip(self.begin.iter().skip(1));
        let mut free: Vec<u32> = ends.map(|(begin, end)| (end - begin) as u32).collect();
        free.resize(self.count_with_gaps(), 0);
        free
    }

    /// Number of these places in each class, classes ascending.
    pub(crate) fn counts(&self, places: impl IntoIterator<Item = usize>) -> Vec<(u32, i32)> {
        let mut counts = vec![0_i32; self.count_with_gaps()];
        for place in places {
            let class = self.of.get(place).map(|&class| class as usize);
            if let Some(count) = class.and_then(|class| counts.get_mut(class)) {
                *count += 1;
            }
        }
        let counts = (0..).zip(counts).filter(|&(_, count)| count != 0);
        counts.collect()
    }

    /// Seconds until the first node of a class leaves, by scenario, within the horizon.
    pub(crate) fn leave(&self, class: usize) -> &[f64] {
        let from = class * self.scenarios;
        self.leave.get(from..from + self.scenarios).unwrap_or(&[])
    }
}

/// Groups of neighbours with equal departures in every scenario.
fn alike(free: &[usize], scenarios: &Scenarios, horizon_s: f64) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for &place in free {
        let within = || scenarios.of(place).iter().map(|leave| leave.min(horizon_s));
        if let Some(group) = groups.last_mut()
            && within().zip(&group.leave).all(|(a, &b)| a == b)
            && scenarios.switches().between(group.first, place) == 0
        {
            group.nodes += 1;
            group.stay += group.leave.iter().sum::<f64>();
            continue;
        }
        let mut leave: Vec<f64> = within().collect();
        if leave.is_empty() {
            leave.push(horizon_s);
        }
        groups.push(Group {
            nodes: 1,
            stay: leave.iter().sum(),
            leave,
            first: place,
        });
    }
    groups
}

/// Merges neighbours on one leaf until no more than `most` groups are left.
fn merge(groups: &mut Vec<Group>, most: usize, switches: &Switches) {
    let loss = |a: &Group, b: &Group| match switches.between(a.first, b.first) {
        0 => a.loss(b),
        _ => f64::INFINITY,
    };
    let mut losses: Vec<f64> = groups
        .iter()
        .zip(groups.iter().skip(1))
        .map(|(a, b)| loss(a, b))
        .collect();
    while groups.len() > most {
        let least = losses.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let Some((at, _)) = least.filter(|(_, loss)| loss.is_finite()) else {
            return;
        };
        losses.remove(at);
        let gone = groups.remove(at + 1);
        if let Some(group) = groups.get_mut(at) {
            group.take_in(&gone);
        }
        for edge in [at.checked_sub(1), Some(at)].into_iter().flatten() {
            let pair = groups.get(edge).zip(groups.get(edge + 1));
            if let (Some((a, b)), Some(old)) = (pair, losses.get_mut(edge)) {
                *old = loss(a, b);
            }
        }
    }
}
