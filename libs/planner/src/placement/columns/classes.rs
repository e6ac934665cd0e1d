//! Equivalence classes of free nodes: neighbours on one leaf that leave together.

use crate::placement::Scenarios;

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
    /// By class and then scenario: seconds until its nodes leave, within the horizon.
    pub(crate) leave: Vec<f64>,
    /// By class: stay of a node, seconds, mean over the scenarios.
    pub(crate) stay: Vec<f64>,
    /// Scenarios; at least 1.
    pub(crate) scenarios: usize,
}

impl Classes {
    /// Cuts the nodes at the places `free` (ascending) of an order of `nodes`. Neighbours on one leaf
    /// with equal departures in every scenario share a class.
    pub(crate) fn cut(
        nodes: usize,
        free: Vec<usize>,
        scenarios: &Scenarios,
        horizon_s: f64,
    ) -> Self {
        let count = scenarios.count().max(1);
        let mut classes = Self {
            begin: Vec::new(),
            of: vec![0; nodes],
            leave: Vec::new(),
            stay: Vec::new(),
            scenarios: count,
            free: Vec::new(),
        };
        for (at, &place) in free.iter().enumerate() {
            let mut leave: Vec<f64> = scenarios.of(place).to_vec();
            leave
                .iter_mut()
                .for_each(|leave| *leave = leave.min(horizon_s));
            leave.resize(count, horizon_s);
            let last = classes.count().checked_sub(1);
            let first = classes.begin.last().and_then(|&begin| free.get(begin));
            let near = |&first: &usize| scenarios.switches().between(first, place) == 0;
            let like = |&last: &usize| classes.leave(last) == leave && first.is_some_and(near);
            if last.as_ref().is_none_or(|last| !like(last)) {
                classes.begin.push(at);
                classes.stay.push(leave.iter().sum::<f64>() / count as f64);
                classes.leave.extend(leave);
            }
        }
        classes.begin.push(free.len());
        classes.free = free;
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
                _ if is_like(class) => class,
                Some(before) if is_like(before) => before,
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

    /// Seconds until the nodes of a class leave, by scenario, within the horizon.
    pub(crate) fn leave(&self, class: usize) -> &[f64] {
        let from = class * self.scenarios;
        self.leave.get(from..from + self.scenarios).unwrap_or(&[])
    }
}
