//! Bidders for intervals of free nodes, and the best interval of a bidder at given prices.
//!
//! The free nodes lie in equivalence classes. An interval is at least one node of each of some
//! adjacent classes. Its first departure depends on its first and last class alone. One table
//! serves all flexible trainers; each pinned trainer has its own, since its present nodes count
//! too. Further nodes add value linearly. So for given ends and size the best interval takes them
//! from the classes where value less price is largest.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; classes and sizes stay within the tables made in this file"
)]

use crate::placement::{FirstHits, Member, Scenarios, Settings};
use crate::problem::Shape;

use super::classes::Classes;
use super::uplinks::Uplinks;

/// An interval of free nodes: at least one of each class from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) first: usize,
    pub(crate) last: usize,
    /// Nodes in all.
    pub(crate) nodes: usize,
}

/// The parts of the value of intervals that follow from their ends: by first class and classes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hits {
    rows: Vec<Vec<Hit>>,
}

/// The first hit of intervals with the same ends.
#[derive(Debug, Clone, Copy)]
struct Hit {
    /// Seconds until it.
    until: f64,
    /// Its probability.
    ends: f64,
    /// How far apart the nodes are.
    tier: usize,
}

impl Hits {
    /// The table for intervals of up to `most` nodes beside a set of nodes.
    pub(crate) fn new(
        classes: &Classes,
        held: &FirstHits,
        scenarios: &Scenarios,
        horizon_s: f64,
        most: usize,
    ) -> Self {
        let count = classes.scenarios as f64;
        let switches = scenarios.switches();
        let rows = (0..classes.count()).map(|first| {
            let mut until = held.until().to_vec();
            let mut tier = held.tier();
            let mut before = held.last();
            let mut row = Vec::new();
            for last in first..classes.count().min(first + most) {
                let (mut sum, mut hits) = (0.0, 0.0);
                for (until, &leave) in until.iter_mut().zip(classes.leave(last)) {
                    *until = until.min(leave);
                    sum += *until;
                    hits += if *until < horizon_s { 1.0 } else { 0.0 };
                }
                let node = classes.node(last);
                let apart = switches.between(before.replace(node).unwrap_or(node), node);
                tier = tier.max(apart);
                row.push(Hit {
                    until: sum / count,
                    ends: hits / count,
                    tier,
                });
            }
            row
        });
        Self {
            rows: rows.collect(),
        }
    }
}

/// A trainer that bids for intervals, with the parts of their value by size.
#[derive(Debug, Clone)]
pub(crate) struct Bidder {
    /// Fewest and most nodes of an interval; no interval is possible if the first is larger.
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// By tier.
    parts: Vec<Parts>,
    /// Sizes, ascending, at which any of these parts bends. Between two of them all are linear, and
    /// so is the value along a line of intervals. The best interval has one of these sizes, or the
    /// least or largest of its line.
    bends: Vec<usize>,
    /// Shadow price of a node-second.
    shadow_price: f64,
    tolls: Tolls,
}

/// The uplinks that a bidder takes as soon as its nodes are apart.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tolls {
    /// Uplink of each class of free nodes; empty without a limit.
    of_class: Vec<u32>,
    /// Of the leaf of its present nodes, if they are on one.
    own: Option<u32>,
    /// Those that it crosses at present.
    paid: Vec<u32>,
}

impl Tolls {
    /// Of a bidder beside these nodes.
    pub(crate) fn new(
        uplinks: &Uplinks,
        classes: &Classes,
        scenarios: &Scenarios,
        held: &[usize],
    ) -> Self {
        let switches = scenarios.switches();
        let rows = (0..classes.count()).map_while(|k| uplinks.row(switches, classes.node(k)));
        let paid = uplinks.crossed(switches, held);
        let near = held.first().filter(|_| paid.is_empty());
        Self {
            of_class: rows.collect(),
            own: near.and_then(|&node| uplinks.row(switches, node)),
            paid,
        }
    }

    /// The uplink that an interval takes newly when it comes to a class.
    fn at(&self, class: usize, first: usize) -> Option<u32> {
        let row = *self.of_class.get(class)?;
        let known = class > first && self.of_class.get(class - 1) == Some(&row);
        (!known && self.own != Some(row) && !self.paid.contains(&row)).then_some(row)
    }
}

/// The parts of the value of intervals by nodes taken.
#[derive(Debug, Clone)]
struct Parts {
    /// Value of a second until the first hit.
    second: Vec<f64>,
    /// Cost of a hit.
    hit: Vec<f64>,
    fixed: Vec<f64>,
}

/// Largest distance of a value from the line through its neighbours, relative to the largest value,
/// that counts as linear.
const STRAIGHT: f64 = 1e-12;

/// Places at which a list of values bends.
fn bends(values: &[f64]) -> impl Iterator<Item = usize> + '_ {
    let largest = values.iter().map(|value| value.abs()).fold(0.0, f64::max);
    let triples = values.windows(3).zip(1..);
    triples
        .filter(move |(near, _)| (near[0] - 2.0 * near[1] + near[2]).abs() > STRAIGHT * largest)
        .map(|(_, at)| at)
}

impl Bidder {
    /// A bidder that holds `held` nodes already, which stay `stay_s` node-seconds together. Nodes
    /// are up to `tiers` tiers apart.
    pub(crate) fn new(
        member: &Member<'_>,
        (held, stay_s): (u32, f64),
        tiers: usize,
        tolls: Tolls,
        settings: &Settings,
        shadow_price: f64,
    ) -> Self {
        let item = member.item;
        let curve = (item.value.len() as u32).saturating_sub(1);
        let most = item.max.min(curve).saturating_sub(held) as usize;
        let sizes = || (0..=most as u32).map(|taken| held + taken);
        let at_tier = |tier| {
            let rate = |n: u32| member.rate(n, tier);
            let second = |n| rate(n) - shadow_price * f64::from(n);
            let cost = |n| member.switching_cost(&Shape::of(n, tier), settings.hysteresis);
            Parts {
                second: sizes().map(second).collect(),
                hit: sizes().map(|n| rate(n) * item.down_s).collect(),
                fixed: sizes().map(|n| shadow_price * stay_s - cost(n)).collect(),
            }
        };
        let parts: Vec<Parts> = (0..=tiers).map(at_tier).collect();
        let lists = parts.iter().flat_map(|p| [&p.second, &p.hit, &p.fixed]);
        let mut all: Vec<usize> = lists.flat_map(|list| bends(list)).collect();
        all.sort_unstable();
        all.dedup();
        Self {
            least: item.min.max(1).saturating_sub(held).max(1) as usize,
            most,
            parts,
            bends: all,
            shadow_price,
            tolls,
        }
    }

    /// The value of `taken` nodes with these hits and node-seconds.
    fn value(&self, taken: usize, hit: Hit, stay_s: f64) -> f64 {
        let parts = &self.parts[hit.tier];
        parts.second[taken] * hit.until - parts.hit[taken] * hit.ends
            + self.shadow_price * stay_s
            + parts.fixed[taken]
    }

    /// The nodes of each class that an interval takes at these prices, and its value.
    pub(crate) fn apply(
        &self,
        interval: Interval,
        available: &[i64],
        price: &[f64],
        classes: &Classes,
        hits: &Hits,
    ) -> (Vec<(u32, i32)>, f64) {
        let span = interval.first..=interval.last;
        let mut take: Vec<(u32, i32)> = span.map(|k| (k as u32, 1)).collect();
        let mut left = interval.nodes - take.len();
        for k in self.order(interval.first, interval.last, price, classes) {
            let more = (available[k].max(1) as usize - 1).min(left);
            take[k - interval.first].1 += more as i32;
            left -= more;
        }
        let stay = |&(k, n): &(u32, i32)| f64::from(n) * classes.stay[k as usize];
        let stay_s: f64 = take.iter().map(stay).sum();
        let hits = hits.rows[interval.first][interval.last - interval.first];
        if hits.tier > 0 {
            let span = interval.first..=interval.last;
            let new = span.filter_map(|k| self.tolls.at(k, interval.first));
            let mut rows: Vec<u32> = new.chain(self.tolls.own).collect();
            rows.sort_unstable();
            take.extend(rows.into_iter().map(|row| (row, 1)));
        }
        (take, self.value(interval.nodes, hits, stay_s))
    }

    /// Value less price that a node of a class adds, size and hits aside.
    fn node(&self, class: usize, price: &[f64], classes: &Classes) -> f64 {
        self.shadow_price * classes.stay[class] - price[class]
    }

    /// Classes by the value of a further node less its price, the largest first.
    fn order(&self, first: usize, last: usize, price: &[f64], classes: &Classes) -> Vec<usize> {
        let node = |k: usize| self.node(k, price, classes);
        let mut order: Vec<usize> = (first..=last).collect();
        order.sort_by(|&a, &b| node(b).total_cmp(&node(a)).then(a.cmp(&b)));
        order
    }

    /// Shows the best intervals over `available` nodes of each class at these prices, at most one
    /// for each first class, with their reduced values.
    pub(crate) fn best(
        &self,
        available: &[i64],
        price: &[f64],
        classes: &Classes,
        hits: &Hits,
        mut show: impl FnMut(f64, Interval),
    ) {
        let mut best: Option<(f64, Interval)> = None;
        self.lines(available, price, classes, hits, |line| {
            if let Some((value, _)) = best
                && let Some((_, interval)) = best
                && interval.first != line.first
            {
                show(value, interval);
                best = None;
            }
            let bar = best.map_or(f64::NEG_INFINITY, |(value, _)| value);
            let (value, further) = self.scan(&line);
            if value > bar {
                best = Some((value, line.interval(further)));
            }
        });
        if let Some((value, interval)) = best {
            show(value, interval);
        }
    }

    /// Shows all intervals with a reduced value of at least `floor`, the best for given ends and
    /// size.
    pub(crate) fn near(
        &self,
        available: &[i64],
        price: &[f64],
        classes: &Classes,
        hits: &Hits,
        floor: f64,
        mut show: impl FnMut(f64, Interval),
    ) {
        self.lines(available, price, classes, hits, |line| {
            if self.scan(&line).0 < floor {
                return;
            }
            for further in line.sizes(self) {
                let own = line.base + further as f64 * line.each;
                let value = self.value(line.before + further, line.hits, 0.0) + own;
                if value >= floor {
                    show(value, line.interval(further));
                }
            }
        });
    }

    /// Shows all intervals line by line, by first class.
    fn lines(
        &self,
        available: &[i64],
        price: &[f64],
        classes: &Classes,
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
            let toll = |row: u32| (price[row as usize], available[row as usize] > 0);
            let (mut tolls, mut passes) = self.tolls.own.map_or((0.0, true), toll);
            for (step, &hits) in row.iter().enumerate().take(self.most) {
                let last = first + step;
                if available[last] <= 0 {
                    break;
                }
                let each = self.node(last, price, classes);
                base += each;
                if let Some(row) = self.tolls.at(last, first) {
                    let (more, free) = toll(row);
                    (tolls, passes) = (tolls + more, passes && free);
                }
                if hits.tier > 0 && !passes {
                    break;
                }
                // As in `order`: the larger value first, of equals the first class.
                let at = order.partition_point(|other| other.0 >= each);
                order.insert(at, (each, last));
                let mut line = Line {
                    hits,
                    before: step + 1,
                    from: 0,
                    further: 0,
                    base: if hits.tier > 0 { base - tolls } else { base },
                    each: 0.0,
                    first,
                    last,
                };
                show(line);
                line.from = 1;
                for &(each, class) in &order {
                    line.further = available[class] as usize - 1;
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

/// Intervals with the same ends that differ in the number of nodes of one class.
#[derive(Debug, Clone, Copy)]
struct Line {
    hits: Hit,
    /// Number of nodes of the other classes.
    before: usize,
    /// Fewest and most further nodes of the one class.
    from: usize,
    further: usize,
    /// Value less price of the other nodes, and of each further node.
    base: f64,
    each: f64,
    first: usize,
    last: usize,
}

impl Line {
    /// Numbers of further nodes that make a possible size of the bidder.
    fn sizes(&self, bidder: &Bidder) -> std::ops::Range<usize> {
        let from = bidder.least.saturating_sub(self.before).max(self.from);
        let until = (bidder.most + 1).saturating_sub(self.before);
        from..until.min(self.further + 1)
    }

    fn interval(&self, further: usize) -> Interval {
        Interval {
            first: self.first,
            last: self.last,
            nodes: self.before + further,
        }
    }
}
