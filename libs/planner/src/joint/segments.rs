//! Consecutive segments of the free nodes for loose trainers, by dynamic programming.
//!
//! With the free nodes in cells 0..m in the order in which they are expected to leave, and the
//! loose trainers in the order of what a stall costs them, the cheapest first,
//!
//! ```text
//! B_j(a) = max of  B_j(a + 1)                          cell a is left out
//!                  B_{j+1}(a)                          trainer j gets nothing
//!                  V_j(a .. a + n) + B_{j+1}(a + n)    trainer j gets n cells from a on
//! ```
//!
//! is the best for trainers j and later on cells a and later, exact among consecutive segments
//! with holes left out between them. A cell is one node, or several neighbours where one node
//! each would be too many for the time at hand.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; cells and sizes stay within the tables made in this file"
)]

use super::worth::{Means, Member};
use super::{Scenarios, Settings};

/// Steps of the programme that are always affordable: some ten milliseconds. Beyond, neighbours
/// are put together.
const STEPS: u64 = 1 << 23;

/// Memory of the programme.
#[derive(Debug, Clone, Default)]
pub(super) struct Segments {
    /// Leave times within the horizon, by cell and then scenario.
    leave: Vec<f32>,
    /// Seconds that the nodes of all cells before one stay, mean over the scenarios.
    stay: Vec<f64>,
    first_hit: Vec<f32>,
    /// By first cell and cells: seconds until the first hit, and its probability.
    until: Vec<(f32, f32)>,
    best: Vec<f64>,
    choice: Vec<u32>,
}

/// A segment: which member gets which of the free nodes, as places in their list.
pub(super) type Segment = (usize, std::ops::Range<usize>);

impl Segments {
    /// The best segments of `free` (places in the scenarios, in order) for the members `loose`.
    pub(super) fn cut(
        &mut self,
        members: &[Member<'_>],
        loose: &[usize],
        free: &[usize],
        scenarios: &Scenarios,
        settings: &Settings,
        salvage: f64,
    ) -> Vec<Segment> {
        let most = |j: &usize| members[*j].item.max as usize;
        let wanted: usize = loose.iter().map(most).sum();
        // The nodes that stay longest are enough, with some to leave out between them.
        let skipped = free.len().saturating_sub(wanted + wanted / 4 + 8);
        let free = &free[skipped..];
        let largest = loose.iter().map(most).max().unwrap_or(0).min(free.len());
        if largest == 0 {
            return Vec::new();
        }
        let steps = free.len() as u64 * largest as u64 * (loose.len() + 8) as u64;
        let unit = ((steps as f64 / STEPS as f64).sqrt().ceil() as usize).max(1);
        let cells = free.len().div_ceil(unit);
        let widest = largest.div_ceil(unit).min(cells);
        self.fill(free, unit, cells, widest, scenarios, settings);
        let mut order = loose.to_vec();
        let typical = (free.len() / loose.len()).clamp(1, largest) as u32;
        let stall = |j: usize| {
            let item = members[j].item;
            item.down_s * members[j].rate(typical.clamp(item.min, item.max.max(item.min)))
        };
        order.sort_by(|&a, &b| stall(a).total_cmp(&stall(b)).then(a.cmp(&b)));
        let width = cells + 1;
        self.best.clear();
        self.best.resize((order.len() + 1) * width, 0.0);
        self.choice.clear();
        self.choice.resize(order.len() * width, 0);
        for (layer, &j) in order.iter().enumerate().rev() {
            self.layer(
                layer,
                &members[j],
                free.len(),
                unit,
                widest,
                settings,
                salvage,
            );
        }
        let mut segments = Vec::with_capacity(order.len());
        let (mut layer, mut cell) = (0, 0);
        while layer < order.len() && cell < cells {
            match self.choice[layer * width + cell] {
                LEFT_OUT => cell += 1,
                NOTHING => layer += 1,
                wide => {
                    let end = cell + wide as usize;
                    let nodes = cell * unit..(end * unit).min(free.len());
                    segments.push((order[layer], nodes.start + skipped..nodes.end + skipped));
                    (layer, cell) = (layer + 1, end);
                }
            }
        }
        segments
    }

    /// The tables by segment that no trainer enters.
    fn fill(
        &mut self,
        free: &[usize],
        unit: usize,
        cells: usize,
        widest: usize,
        scenarios: &Scenarios,
        settings: &Settings,
    ) {
        let horizon = settings.horizon_s;
        let count = scenarios.count().max(1);
        self.leave.clear();
        self.leave.resize(cells * count, horizon as f32);
        self.stay.clear();
        self.stay.resize(cells + 1, 0.0);
        for (s, leave) in (0..scenarios.count()).map(|s| (s, scenarios.leave(s))) {
            for (cell, nodes) in free.chunks(unit).enumerate() {
                let slot = &mut self.leave[cell * count + s];
                for &node in nodes {
                    let within = leave[node].min(horizon);
                    *slot = slot.min(within as f32);
                    self.stay[cell + 1] += within;
                }
            }
        }
        for cell in 0..cells {
            self.stay[cell + 1] = self.stay[cell + 1] / count as f64 + self.stay[cell];
        }
        self.until.clear();
        self.until.resize(cells * widest, (0.0, 0.0));
        let horizon = horizon as f32;
        for first in 0..cells {
            self.first_hit.clear();
            self.first_hit.resize(count, horizon);
            let wide = widest.min(cells - first);
            for (n, row) in self.until[first * widest..][..wide].iter_mut().enumerate() {
                let leave = &self.leave[(first + n) * count..][..count];
                let (mut sum, mut hits) = (0.0_f32, 0.0_f32);
                for (until, &leave) in self.first_hit.iter_mut().zip(leave) {
                    *until = until.min(leave);
                    sum += *until;
                    hits += if *until < horizon { 1.0 } else { 0.0 };
                }
                *row = (sum / count as f32, hits / count as f32);
            }
        }
    }

    /// One trainer's layer of the programme.
    #[expect(clippy::too_many_arguments, reason = "one call in one place")]
    fn layer(
        &mut self,
        layer: usize,
        member: &Member<'_>,
        nodes: usize,
        unit: usize,
        widest: usize,
        settings: &Settings,
        salvage: f64,
    ) {
        let width = self.stay.len();
        let cells = width - 1;
        let (this, next) = self.best[layer * width..][..2 * width].split_at_mut(width);
        let choice = &mut self.choice[layer * width..][..width];
        let item = member.item;
        let least = (item.min.max(1) as usize).div_ceil(unit);
        let most = (item.max as usize / unit).min(widest);
        // Rate and charge by cells, so that the inner loop is arithmetic alone.
        let sizes: Vec<(f64, f64, f64)> = (0..=most)
            .map(|n| {
                let n = (n * unit) as u32;
                let rate = member.rate(n);
                (
                    rate,
                    rate * item.down_s,
                    member.charge(n, settings.hysteresis),
                )
            })
            .collect();
        for cell in (0..cells).rev() {
            let (mut best, mut taken) = (this[cell + 1], LEFT_OUT);
            if next[cell] > best {
                (best, taken) = (next[cell], NOTHING);
            }
            let row = &self.until[cell * widest..];
            let wide = most.min(cells - cell);
            for n in least..=wide {
                let end = cell + n;
                let whole = end * unit <= nodes;
                let worth = if whole {
                    let ((rate, stall, charge), (until, hit)) = (sizes[n], row[n - 1]);
                    let (until, hit) = (f64::from(until), f64::from(hit));
                    let stay = self.stay[end] - self.stay[cell];
                    rate * until - stall * hit + salvage * (stay - (n * unit) as f64 * until)
                        - charge
                } else {
                    let n = (nodes - cell * unit) as u32;
                    if n < item.min {
                        continue;
                    }
                    let means = Means {
                        until: f64::from(row[n_cells(n, unit) - 1].0),
                        hit: f64::from(row[n_cells(n, unit) - 1].1),
                        stay: self.stay[end] - self.stay[cell],
                    };
                    means.worth(member, n, salvage) - member.charge(n, settings.hysteresis)
                };
                let worth = worth + next[end];
                if worth > best {
                    (best, taken) = (worth, n as u32);
                }
            }
            (this[cell], choice[cell]) = (best, taken);
        }
    }
}

/// Cells for so many nodes.
fn n_cells(nodes: u32, unit: usize) -> usize {
    (nodes as usize).div_ceil(unit)
}

const LEFT_OUT: u32 = 0;
const NOTHING: u32 = u32::MAX;
