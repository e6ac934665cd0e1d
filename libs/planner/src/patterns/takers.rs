//! Who may take a run of free nodes, and which run is best at given prices.
//!
//! With the free nodes in cells of like nodes, a run is `p` nodes of its first cell, all of those
//! between and `q` of its last. When its first node leaves depends on first and last cell alone:
//! one table for all loose trainers, and one for each bound trainer, whose own nodes count too.
//! For a fixed size the value is linear in `p`, so the best run has all or one of its first cell
//! or all or one of its last.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; cells and sizes stay within the tables made in this file"
)]

use crate::joint::{Member, Settings};
use crate::patterns::cells::Cells;

/// A run of free nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// First cell.
    pub(crate) first: usize,
    /// Last cell; not before the first.
    pub(crate) last: usize,
    /// Nodes of the first cell.
    pub(crate) of_first: usize,
    /// Nodes of the last cell; 0 if that is the first.
    pub(crate) of_last: usize,
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
            let mut between = 0;
            for last in first..cells.count() {
                if last > first && between + 2 > most {
                    break;
                }
                let (mut sum, mut hits) = (0.0, 0.0);
                for (until, &leave) in until.iter_mut().zip(cells.leave(last)) {
                    *until = until.min(leave);
                    sum += *until;
                    hits += if *until < horizon_s { 1.0 } else { 0.0 };
                }
                row.push((sum / count, hits / count));
                if last > first {
                    between += cells.begin[last + 1] - cells.begin[last];
                }
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
    /// What a node-second is worth.
    salvage: f64,
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
        Self {
            least: item.min.max(1).saturating_sub(held).max(1) as usize,
            most,
            second: sizes().map(|n| rate(n) - salvage * f64::from(n)).collect(),
            hit: sizes().map(|n| rate(n) * item.down_s).collect(),
            fixed: sizes()
                .map(|n| salvage * stay_s - member.charge(n, settings.hysteresis))
                .collect(),
            salvage,
        }
    }

    /// The value of so many nodes with these hits and node-seconds.
    fn value(&self, taken: usize, hits: (f64, f64), stay_s: f64) -> f64 {
        self.second[taken] * hits.0 - self.hit[taken] * hits.1
            + self.salvage * stay_s
            + self.fixed[taken]
    }

    /// What a run is worth, if there is such a run.
    pub(crate) fn worth(&self, run: Run, available: &[i64], cells: &Cells, hits: &Hits) -> f64 {
        let between: Vec<usize> = (run.first + 1..run.last).collect();
        let all = |k: &usize| available[*k].max(0) as usize;
        let taken = run.of_first + run.of_last + between.iter().map(all).sum::<usize>();
        let stays = between.iter().map(|k| all(k) as f64 * cells.stay[*k]);
        let stay_s = run.of_first as f64 * cells.stay[run.first]
            + run.of_last as f64 * cells.stay[run.last]
            + stays.sum::<f64>();
        self.value(taken, hits.rows[run.first][run.last - run.first], stay_s)
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
        if self.least > self.most {
            return;
        }
        let node = |k: usize| self.salvage * cells.stay[k] - price[k];
        for (first, row) in hits.rows.iter().enumerate() {
            let of_first = available[first].max(0) as usize;
            if of_first == 0 {
                continue;
            }
            let mut best = (f64::NEG_INFINITY, None);
            let mut heed = |(value, taken): (f64, usize), run: &dyn Fn(usize) -> Run| {
                if value > best.0 {
                    best = (value, Some(run(taken)));
                }
            };
            let single = self.scan(row[0], 0, of_first, 0.0, node(first));
            heed(single, &|p| Run {
                first,
                last: first,
                of_first: p,
                of_last: 0,
            });
            let (mut between, mut paid) = (0, 0.0);
            for (step, &hits) in row.iter().enumerate().skip(1) {
                let last = first + step;
                let of_last = available[last].max(0) as usize;
                if of_last == 0 {
                    break;
                }
                let run = |p: usize, q: usize| Run {
                    first,
                    last,
                    of_first: p,
                    of_last: q,
                };
                for (at, p) in [of_first, 1].into_iter().enumerate() {
                    if at > 0 && of_first == 1 {
                        break;
                    }
                    let base = p as f64 * node(first) + paid;
                    let found = self.scan(hits, p + between, of_last, base, node(last));
                    heed(found, &|q| run(p, q));
                }
                for (at, q) in [of_last, 1].into_iter().enumerate() {
                    if of_first <= 2 || (at > 0 && of_last == 1) {
                        break;
                    }
                    let base = q as f64 * node(last) + paid;
                    let found = self.scan(hits, q + between, of_first, base, node(first));
                    heed(found, &|p| run(p, q));
                }
                between += of_last;
                paid += of_last as f64 * node(last);
                if between + 2 > self.most {
                    break;
                }
            }
            if let (value, Some(run)) = best {
                show(value, run);
            }
        }
    }

    /// The best count 1..=`further` of further nodes, each worth `each`, beside `before` nodes
    /// that are worth `base`.
    fn scan(
        &self,
        hits: (f64, f64),
        before: usize,
        further: usize,
        base: f64,
        each: f64,
    ) -> (f64, usize) {
        let from = (before + 1).max(self.least);
        let until = (before + further).min(self.most);
        let mut best = (f64::NEG_INFINITY, 0);
        if from > until {
            return best;
        }
        let factors = self.second[from..=until]
            .iter()
            .zip(&self.hit[from..=until])
            .zip(&self.fixed[from..=until]);
        let mut own = base + (from - before) as f64 * each;
        for (at, ((second, hit), fixed)) in factors.enumerate() {
            let value = second * hits.0 - hit * hits.1 + fixed + own;
            if value > best.0 {
                best = (value, from + at - before);
            }
            own += each;
        }
        best
    }
}
