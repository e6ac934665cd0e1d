//! Who may take a run of free nodes, and which run is best at given prices.
//!
//! With the free nodes in cells of like nodes, a run is at least one node of each of some
//! adjacent cells. When its first node leaves depends on first and last cell alone: one table for
//! all loose trainers, and one for each bound trainer, whose own nodes count too. What further
//! nodes add is then linear, so for given ends and size the best run takes them of the cells
//! where one is worth most less its price.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; cells and sizes stay within the tables made in this file"
)]

use crate::joint::{Member, Settings};
use crate::patterns::cells::Cells;

/// A run of free nodes: at least one of each cell from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: usize,
    pub(crate) last: usize,
    /// Nodes in all.
    pub(crate) nodes: usize,
}

/// Seconds until the first hit and its probability, by first cell and cells.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hits {
    rows: Vec<Vec<(f64, f64)>>,
}

impl Hits {
    /// For runs of up to `most` nodes beside nodes that leave at `held` (by scenario).
    pub(crate) fn new(cells: &Cells, held: &[f64], horizon_s: f64, most: usize) -> Self {
        let count = cells.scenarios as f64;
        let rows = (0..cells.count()).map(|first| {
            let mut until = held.to_vec();
            let mut row = Vec::new();
            for last in first..cells.count().min(first + most) {
                let (mut sum, mut hits) = (0.0, 0.0);
                for (until, &leave) in until.iter_mut().zip(cells.leave(last)) {
                    *until = until.min(leave);
                    sum += *until;
                    hits += if *until < horizon_s { 1.0 } else { 0.0 };
                }
                row.push((sum / count, hits / count));
            }
            row
        });
        Self {
            rows: rows.collect(),
        }
    }
}

/// What makes the value of a run to a trainer, by the nodes taken.
#[derive(Debug, Clone)]
pub(crate) struct Taker {
    /// Fewest and most nodes of a run; nothing can be taken if the first is larger.
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// By nodes taken: what a second until the first hit is worth, what a hit costs, and what is
    /// added.
    second: Vec<f64>,
    hit: Vec<f64>,
    fixed: Vec<f64>,
    /// Sizes, ascending, at which any of these three bends. Between two of them all are straight,
    /// and so is what runs of the same line are worth: the best has one of these sizes, or the
    /// least or largest of its line.
    bends: Vec<usize>,
    /// What a node-second is worth.
    salvage: f64,
}

/// How far a value may lie from the straight line through its neighbours, over the largest value,
/// and count as on it.
const STRAIGHT: f64 = 1e-12;

/// Where a list of values bends.
fn bends(values: &[f64]) -> impl Iterator<Item = usize> + '_ {
    let largest = values.iter().map(|value| value.abs()).fold(0.0, f64::max);
    let triples = values.windows(3).zip(1..);
    triples
        .filter(move |(near, _)| (near[0] - 2.0 * near[1] + near[2]).abs() > STRAIGHT * largest)
        .map(|(_, at)| at)
}

impl Taker {
    /// A member that holds `held` nodes already, which stay `stay_s` node-seconds in all.
    pub(crate) fn new(
        member: &Member<'_>,
        held: u32,
        stay_s: f64,
        settings: &Settings,
        salvage: f64,
    ) -> Self {
        let item = member.item;
        let curve = (item.value.len() as u32).saturating_sub(1);
        let most = item.max.min(curve).saturating_sub(held) as usize;
        let sizes = || (0..=most as u32).map(|taken| held + taken);
        let rate = |n: u32| member.rate(n);
        let second: Vec<f64> = sizes().map(|n| rate(n) - salvage * f64::from(n)).collect();
        let hit: Vec<f64> = sizes().map(|n| rate(n) * item.down_s).collect();
        let charged = |n| salvage * stay_s - member.charge(n, settings.hysteresis);
        let fixed: Vec<f64> = sizes().map(charged).collect();
        let mut all: Vec<usize> = bends(&second)
            .chain(bends(&hit))
            .chain(bends(&fixed))
            .collect();
        all.sort_unstable();
        all.dedup();
        Self {
            least: item.min.max(1).saturating_sub(held).max(1) as usize,
            most,
            second,
            hit,
            fixed,
            bends: all,
            salvage,
        }
    }

    /// The value of so many nodes with these hits and node-seconds.
    fn value(&self, taken: usize, hits: (f64, f64), stay_s: f64) -> f64 {
        self.second[taken] * hits.0 - self.hit[taken] * hits.1
            + self.salvage * stay_s
            + self.fixed[taken]
    }

    /// What a run takes of each cell, best at these prices, and what it is worth.
    pub(crate) fn carry_out(
        &self,
        run: Run,
        available: &[i64],
        price: &[f64],
        cells: &Cells,
        hits: &Hits,
    ) -> (Vec<(u32, i32)>, f64) {
        let mut take: Vec<(u32, i32)> = (run.first..=run.last).map(|k| (k as u32, 1)).collect();
        let mut left = run.nodes - take.len();
        for k in self.order(run.first, run.last, price, cells) {
            let more = (available[k].max(1) as usize - 1).min(left);
            take[k - run.first].1 += more as i32;
            left -= more;
        }
        let stay = |&(k, n): &(u32, i32)| f64::from(n) * cells.stay[k as usize];
        let stay_s: f64 = take.iter().map(stay).sum();
        let hits = hits.rows[run.first][run.last - run.first];
        (take, self.value(run.nodes, hits, stay_s))
    }

    /// What a node of a cell adds less its price, beside size and hits.
    fn node(&self, cell: usize, price: &[f64], cells: &Cells) -> f64 {
        self.salvage * cells.stay[cell] - price[cell]
    }

    /// Cells, the one first of which a further node is worth most.
    fn order(&self, first: usize, last: usize, price: &[f64], cells: &Cells) -> Vec<usize> {
        let node = |k: usize| self.node(k, price, cells);
        let mut order: Vec<usize> = (first..=last).collect();
        order.sort_by(|&a, &b| node(b).total_cmp(&node(a)).then(a.cmp(&b)));
        order
    }

    /// Shows the best runs over `available` nodes of each cell at these prices, at most one for
    /// each first cell: what is left of the value when the nodes are paid for, and the run.
    pub(crate) fn best(
        &self,
        available: &[i64],
        price: &[f64],
        cells: &Cells,
        hits: &Hits,
        mut show: impl FnMut(f64, Run),
    ) {
        let mut best: Option<(f64, Run)> = None;
        self.lines(available, price, cells, hits, |line| {
            if let Some((value, _)) = best
                && let Some((_, run)) = best
                && run.first != line.first
            {
                show(value, run);
                best = None;
            }
            let bar = best.map_or(f64::NEG_INFINITY, |(value, _)| value);
            let (value, further) = self.scan(&line);
            if value > bar {
                best = Some((value, line.run(further)));
            }
        });
        if let Some((value, run)) = best {
            show(value, run);
        }
    }

    /// Shows all runs worth at least `floor` at these prices, the best for given ends and size.
    pub(crate) fn near(
        &self,
        available: &[i64],
        price: &[f64],
        cells: &Cells,
        hits: &Hits,
        floor: f64,
        mut show: impl FnMut(f64, Run),
    ) {
        self.lines(available, price, cells, hits, |line| {
            if self.scan(&line).0 < floor {
                return;
            }
            for further in line.sizes(self) {
                let own = line.base + further as f64 * line.each;
                let value = self.value(line.before + further, line.hits, 0.0) + own;
                if value >= floor {
                    show(value, line.run(further));
                }
            }
        });
    }

    /// Shows all runs line by line, by first cell.
    fn lines(
        &self,
        available: &[i64],
        price: &[f64],
        cells: &Cells,
        hits: &Hits,
        mut show: impl FnMut(Line),
    ) {
        if self.least > self.most {
            return;
        }
        let mut order: Vec<(f64, usize)> = Vec::new();
        for (first, row) in hits.rows.iter().enumerate() {
            order.clear();
            let mut base = 0.0;
            for (step, &hits) in row.iter().enumerate().take(self.most) {
                let last = first + step;
                if available[last] <= 0 {
                    break;
                }
                let each = self.node(last, price, cells);
                base += each;
                // As in `order`: the more valuable first, of equals the first.
                let at = order.partition_point(|other| other.0 >= each);
                order.insert(at, (each, last));
                let mut line = Line {
                    hits,
                    before: step + 1,
                    from: 0,
                    further: 0,
                    base,
                    each: 0.0,
                    first,
                    last,
                };
                show(line);
                line.from = 1;
                for &(each, cell) in &order {
                    line.further = available[cell] as usize - 1;
                    line.each = each;
                    if line.further > 0 {
                        show(line);
                    }
                    line.before += line.further;
                    line.base += line.further as f64 * each;
                    if line.before >= self.most {
                        break;
                    }
                }
            }
        }
    }

    /// The best count of further nodes of a line.
    fn scan(&self, line: &Line) -> (f64, usize) {
        let mut best = (f64::NEG_INFINITY, 0);
        let sizes = line.sizes(self);
        if sizes.is_empty() {
            return best;
        }
        let (least, most) = (line.before + sizes.start, line.before + sizes.end - 1);
        let bends = &self.bends[self.bends.partition_point(|&n| n <= least)..];
        let bends = bends.iter().copied().take_while(|&n| n < most);
        for taken in [least, most].into_iter().chain(bends) {
            let further = taken - line.before;
            let own = line.base + further as f64 * line.each;
            let value = self.value(taken, line.hits, 0.0) + own;
            if value > best.0 {
                best = (value, further);
            }
        }
        best
    }
}

/// Runs with the same ends that differ in how many nodes they have of one cell.
#[derive(Debug, Clone, Copy)]
struct Line {
    hits: (f64, f64),
    /// Nodes beside those.
    before: usize,
    /// Fewest and most of those.
    from: usize,
    further: usize,
    /// What the nodes beside are worth, and each further one, less their prices.
    base: f64,
    each: f64,
    first: usize,
    last: usize,
}

impl Line {
    /// Further nodes that make a size which the taker can have.
    fn sizes(&self, taker: &Taker) -> std::ops::Range<usize> {
        let from = taker.least.saturating_sub(self.before).max(self.from);
        let until = (taker.most + 1).saturating_sub(self.before);
        from..until.min(self.further + 1)
    }

    fn run(&self, further: usize) -> Run {
        Run {
            first: self.first,
            last: self.last,
            nodes: self.before + further,
        }
    }
}
