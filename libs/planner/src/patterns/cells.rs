//! The free nodes in cells: neighbours that leave together, or nearly.

use crate::joint::Scenarios;

/// The free nodes of an order, cut into cells.
#[derive(Debug, Clone)]
pub(crate) struct Cells {
    /// Places of the free nodes, ascending.
    pub(crate) free: Vec<usize>,
    /// Where each cell begins in `free`, and the end of the last; cells hold at least one node.
    pub(crate) begin: Vec<usize>,
    /// By place of the order: the class of a node. Cells come first; then come the gaps before
    /// each cell and behind the last, for nodes of bound trainers: those are in no run, but a plan
    /// may have one give them back and another take them.
    pub(crate) of: Vec<u32>,
    /// By cell and then scenario: seconds until the first of its nodes leaves, within the horizon.
    pub(crate) leave: Vec<f64>,
    /// By cell: seconds that one of its nodes stays, mean over nodes and scenarios.
    pub(crate) stay: Vec<f64>,
    /// Scenarios; at least 1.
    pub(crate) scenarios: usize,
    /// Seconds by which nodes outlive the first of their cell: mean over nodes and scenarios. 0
    /// if only like nodes were put together, so that every value is exact.
    pub(crate) lost_s: f64,
}

/// Neighbours that are or become one cell.
#[derive(Debug, Clone)]
struct Group {
    nodes: usize,
    /// By scenario, the first to leave.
    leave: Vec<f64>,
    /// Sum over nodes and scenarios of the seconds that they stay.
    stay: f64,
}

impl Group {
    /// Node-seconds, summed over the scenarios, by which putting two together brings first hits
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

impl Cells {
    /// Cuts the nodes at the places `free` (ascending) of an order of `nodes` into no more than
    /// `most` cells. Neighbours that are alike in every scenario share a cell; then those are put
    /// together of which that loses least, until there are few enough.
    pub(crate) fn cut(
        nodes: usize,
        free: Vec<usize>,
        scenarios: &Scenarios,
        horizon_s: f64,
        most: usize,
    ) -> Self {
        let count = scenarios.count().max(1);
        let mut groups = alike(&free, scenarios, horizon_s);
        merge(&mut groups, most.max(1));
        let mut cells = Self {
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
            cells.begin.push(end);
            let size = group.nodes.max(1) as f64 * count as f64;
            cells.stay.push(group.stay / size);
            let first: f64 = group.leave.iter().sum();
            lost += group.stay - group.nodes as f64 * first;
            cells.leave.extend(&group.leave);
        }
        let all = cells.free.len().max(1) as f64 * count as f64;
        // What rounding leaves of a sum of differences is no loss.
        cells.lost_s = if lost > 1e-9 * horizon_s * all {
            lost / all
        } else {
            0.0
        };
        cells.place(scenarios, horizon_s);
        cells
    }

    /// Finds the class of every place: its cell if it is free, else the gap before the next cell.
    /// A node in the middle of a cell of nodes just like it is as good as one of them.
    fn place(&mut self, scenarios: &Scenarios, horizon_s: f64) {
        let cells = self.count() as u32;
        let mut of = std::mem::take(&mut self.of);
        let (mut next, mut cell) = (0, 0_u32);
        for (place, of) in of.iter_mut().enumerate() {
            while self.free.get(next).is_some_and(|&free| free < place) {
                next += 1;
            }
            let end = |cell: u32| self.begin.get(cell as usize + 1).copied();
            while end(cell).is_some_and(|end| end <= next) {
                cell += 1;
            }
            let is_like = |cell: u32| {
                let (leave, of) = (self.leave(cell as usize), scenarios.of(place));
                cell < cells
                    && leave.len() == of.len()
                    && leave.iter().zip(of).all(|(&a, &b)| a == b.min(horizon_s))
            };
            *of = match cell.checked_sub(1) {
                _ if self.free.get(next) == Some(&place) => cell,
                _ if self.lost_s == 0.0 && is_like(cell) => cell,
                Some(before) if self.lost_s == 0.0 && is_like(before) => before,
                _ => cells.saturating_add(cell),
            };
        }
        self.of = of;
    }

    /// How many cells there are.
    pub(crate) fn count(&self) -> usize {
        self.stay.len()
    }

    /// How many classes there are: cells and gaps.
    pub(crate) fn classes(&self) -> usize {
        2 * self.count() + 1
    }

    /// Free nodes by class.
    pub(crate) fn capacity(&self) -> Vec<u32> {
        let ends = self.begin.iter().zip(self.begin.iter().skip(1));
        let mut free: Vec<u32> = ends.map(|(begin, end)| (end - begin) as u32).collect();
        free.resize(self.classes(), 0);
        free
    }

    /// How many nodes of each class these places are, classes ascending.
    pub(crate) fn counts(&self, places: impl IntoIterator<Item = usize>) -> Vec<(u32, i32)> {
        let mut counts = vec![0_i32; self.classes()];
        for place in places {
            let class = self.of.get(place).map(|&class| class as usize);
            if let Some(count) = class.and_then(|class| counts.get_mut(class)) {
                *count += 1;
            }
        }
        let counts = (0..).zip(counts).filter(|&(_, count)| count != 0);
        counts.collect()
    }

    /// When the first of a cell leaves, by scenario, seconds within the horizon.
    pub(crate) fn leave(&self, cell: usize) -> &[f64] {
        let from = cell * self.scenarios;
        self.leave.get(from..from + self.scenarios).unwrap_or(&[])
    }
}

/// Runs of neighbours that are alike in every scenario.
fn alike(free: &[usize], scenarios: &Scenarios, horizon_s: f64) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for &place in free {
        let within = || scenarios.of(place).iter().map(|leave| leave.min(horizon_s));
        if let Some(group) = groups.last_mut()
            && within().zip(&group.leave).all(|(a, &b)| a == b)
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
        });
    }
    groups
}

/// Puts neighbours together until no more than `most` are left.
fn merge(groups: &mut Vec<Group>, most: usize) {
    let mut losses: Vec<f64> = groups
        .iter()
        .zip(groups.iter().skip(1))
        .map(|(a, b)| a.loss(b))
        .collect();
    while groups.len() > most {
        let least = losses.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let Some((at, _)) = least else { return };
        losses.remove(at);
        let gone = groups.remove(at + 1);
        if let Some(group) = groups.get_mut(at) {
            group.take_in(&gone);
        }
        for edge in [at.checked_sub(1), Some(at)].into_iter().flatten() {
            let pair = groups.get(edge).zip(groups.get(edge + 1));
            if let (Some((a, b)), Some(loss)) = (pair, losses.get_mut(edge)) {
                *loss = a.loss(b);
            }
        }
    }
}
