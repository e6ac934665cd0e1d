//! The partition of free nodes into consecutive blocks for flexible trainers, by dynamic
//! programming.
//!
//! The free nodes lie in cells 0..m in departure order. The flexible trainers come in the order of
//! the cost of a stall, the cheapest first. Then
//!
//! ```text
//! B_j(a) = max of  B_j(a + 1)                          cell a is left out
//!                  B_{j+1}(a)                          trainer j gets nothing
//!                  V_j(a .. a + n) + B_{j+1}(a + n)    trainer j gets n cells from a on
//! ```
//!
//! is the best value of trainers j and later on cells a and later. It is exact among consecutive
//! blocks with holes left out between them. A cell is one node, or several neighbours where single
//! nodes would take too many steps.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; cells and sizes stay within the tables made in this file"
)]

use crate::placement::{Means, Member, Scenarios, Settings, afterwards};
use crate::problem::{Shape, Switches};

/// Steps of the program that are always affordable: some ten milliseconds. Larger problems merge
/// neighbours into cells.
const STEPS: u64 = 1 << 23;

/// Number of first cells in one pass, so that their sums stay in registers. Each sum is taken in
/// the order of the scenarios.
const CHUNK: usize = 16;

/// Memory of the program between solves.
#[derive(Debug, Clone, Default)]
pub(super) struct Partition {
    /// Leave times within the horizon, by scenario and then cell; rows end with spare cells.
    leave: Vec<f32>,
    /// Stay of the nodes of all cells before a cell, seconds, mean over the scenarios.
    stay: Vec<f64>,
    /// By scenario, for a chunk of first cells.
    first_hit: Vec<[f32; CHUNK]>,
    /// By first cell and cells: seconds until the first hit, and its probability.
    until: Vec<f32>,
    hit: Vec<f32>,
    /// By tier and first cell: the cells from there on that are no farther apart.
    reach: Vec<Vec<usize>>,
    /// By first cell and cells: value of the block to the present trainer, less its switching cost.
    values: Vec<f64>,
    best: Vec<f64>,
    choice: Vec<u32>,
}

/// The free nodes in cells.
#[derive(Debug, Clone, Copy)]
struct Grid {
    nodes: usize,
    /// Nodes of a cell; the last may have fewer.
    unit: usize,
    cells: usize,
    /// Cells of the longest block.
    widest: usize,
}

/// A block: a member and its free nodes.
pub(super) type Block = (usize, Vec<usize>);

impl Partition {
    /// The best blocks of `free` (places in the scenarios, in order) for the flexible members.
    pub(super) fn cut(
        &mut self,
        members: &[Member<'_>],
        free: &[usize],
        scenarios: &Scenarios,
        settings: &Settings,
        shadow_price: f64,
    ) -> Vec<Block> {
        let flexible = (0..members.len()).filter(|&j| members[j].is_flexible());
        let mut order: Vec<usize> = flexible.collect();
        let most = |j: &usize| members[*j].item.max as usize;
        let wanted: usize = order.iter().map(most).sum();
        // The longest-staying nodes are enough, with some to leave out between them.
        let skipped = free.len().saturating_sub(wanted + wanted / 4 + 8);
        let free = &free[skipped..];
        let largest = order.iter().map(most).max().unwrap_or(0).min(free.len());
        if largest == 0 {
            return Vec::new();
        }
        let steps = free.len() as u64 * largest as u64 * (order.len() + 8) as u64;
        let unit = ((steps as f64 / STEPS as f64).sqrt().ceil() as usize).max(1);
        let whole = whole_cells(free, unit, scenarios.switches());
        let free = whole.as_deref().unwrap_or(free);
        let cells = free.len().div_ceil(unit);
        let grid = Grid {
            nodes: free.len(),
            unit,
            cells,
            widest: largest.div_ceil(unit).min(cells),
        };
        self.fill(free, grid, scenarios, settings.horizon_s);
        let typical = (free.len() / order.len()).clamp(1, largest) as u32;
        let stall = |j: usize| {
            let item = members[j].item;
            item.down_s * members[j].rate(typical.clamp(item.min, item.max.max(item.min)), 0)
        };
        order.sort_by(|&a, &b| stall(a).total_cmp(&stall(b)).then(a.cmp(&b)));
        let width = cells + 1;
        self.best.clear();
        self.best.resize((order.len() + 1) * width, 0.0);
        self.choice.clear();
        self.choice.resize(order.len() * width, 0);
        let mut valued: Option<&Member<'_>> = None;
        for (layer, &j) in order.iter().enumerate().rev() {
            let member = &members[j];
            if valued.is_none_or(|other| !other.is_like(member)) {
                self.value(member, grid, settings, shadow_price);
                valued = Some(member);
            }
            self.layer(layer, member, grid);
        }
        let mut blocks = Vec::with_capacity(order.len());
        let (mut layer, mut cell) = (0, 0);
        while layer < order.len() && cell < cells {
            match self.choice[layer * width + cell] {
                LEFT_OUT => cell += 1,
                NOTHING => layer += 1,
                wide => {
                    let end = cell + wide as usize;
                    let nodes = cell * unit..(end * unit).min(free.len());
                    blocks.push((order[layer], free[nodes].to_vec()));
                    (layer, cell) = (layer + 1, end);
                }
            }
        }
        blocks
    }

    /// The tables by block that are the same for all trainers.
    fn fill(&mut self, free: &[usize], grid: Grid, scenarios: &Scenarios, horizon_s: f64) {
        let Grid {
            unit,
            cells,
            widest,
            ..
        } = grid;
        let horizon = horizon_s as f32;
        let count = scenarios.count().max(1);
        let row = cells + widest + CHUNK;
        self.leave.clear();
        self.leave.resize(row * count, horizon);
        self.stay.clear();
        self.stay.push(0.0);
        for (cell, nodes) in free.chunks(unit).enumerate() {
            let mut stay = 0.0;
            for s in 0..scenarios.count() {
                let slot = &mut self.leave[s * row + cell];
                for &node in nodes {
                    let within = scenarios.of(node)[s].min(horizon_s);
                    *slot = slot.min(within as f32);
                    stay += within;
                }
            }
            self.stay.push(stay / count as f64 + self.stay[cell]);
        }
        self.reach = reach(free, grid, scenarios);
        self.until.clear();
        self.until.resize(cells * widest, 0.0);
        self.hit.clear();
        self.hit.resize(cells * widest, 0.0);
        for from in (0..cells).step_by(CHUNK) {
            self.first_hit.clear();
            self.first_hit.resize(count, [horizon; CHUNK]);
            for n in 0..widest.min(cells - from) {
                let (mut sums, mut hits) = ([0.0_f32; CHUNK], [0.0_f32; CHUNK]);
                for (until, leave) in self.first_hit.iter_mut().zip(self.leave.chunks(row)) {
                    let leave = &leave[from + n..][..CHUNK];
                    for at in 0..CHUNK {
                        until[at] = until[at].min(leave[at]);
                        sums[at] += until[at];
                        hits[at] += if until[at] < horizon { 1.0 } else { 0.0 };
                    }
                }
                for at in 0..CHUNK.min(cells - from - n) {
                    let place = (from + at) * widest + n;
                    self.until[place] = sums[at] / count as f32;
                    self.hit[place] = hits[at] / count as f32;
                }
            }
        }
    }

    /// Value of each block to a trainer; minus infinity where the trainer cannot have it.
    fn value(&mut self, member: &Member<'_>, grid: Grid, settings: &Settings, shadow_price: f64) {
        let &Settings {
            hysteresis,
            limited,
            ..
        } = settings;
        let Grid {
            nodes,
            unit,
            cells,
            widest,
        } = grid;
        let (least, most) = grid.sizes(member);
        self.values.clear();
        self.values.resize(cells * widest, f64::NEG_INFINITY);
        // Tables by cells, so that the inner loop is arithmetic alone.
        let by_size = |of: &dyn Fn(u32) -> f64| -> Vec<f64> {
            (least..=most).map(|n| of((n * unit) as u32)).collect()
        };
        let count = by_size(&f64::from);
        for (tier, reach) in self.reach.iter().enumerate() {
            let rate = by_size(&|n| member.rate(n, tier));
            let stall = by_size(&|n| member.rate(n, tier) * member.item.down_s);
            let cost = by_size(&|n| member.switching_cost(&Shape::of(n, tier), hysteresis));
            let price =
                by_size(&|n| afterwards(limited, shadow_price, member.rate(n, tier), f64::from(n)));
            let nearer = tier.checked_sub(1).map(|nearer| &self.reach[nearer]);
            for cell in 0..cells {
                let before = self.stay[cell];
                // The last cell may have fewer nodes than the others.
                let whole = most.min(nodes / unit - cell).min(reach[cell]);
                let least_here = nearer.map_or(least, |nearer| least.max(nearer[cell] + 1));
                if least_here > whole {
                    continue;
                }
                let sizes = whole + 1 - least_here;
                let (from, skip) = (cell * widest + least_here - 1, least_here - least);
                let values = &mut self.values[from..][..sizes];
                let (until, hit) = (&self.until[from..][..sizes], &self.hit[from..][..sizes]);
                let stay = &self.stay[cell + least_here..][..sizes];
                let (rate, stall) = (&rate[skip..][..sizes], &stall[skip..][..sizes]);
                let (count, cost) = (&count[skip..][..sizes], &cost[skip..][..sizes]);
                let price = &price[skip..][..sizes];
                for at in 0..sizes {
                    let (until, hit) = (f64::from(until[at]), f64::from(hit[at]));
                    let left = stay[at] - before - count[at] * until;
                    values[at] = rate[at] * until - stall[at] * hit + price[at] * left - cost[at];
                }
            }
        }
        let farthest = |cell: usize, wide: usize| {
            let within = |reach: &Vec<usize>| reach[cell] >= wide;
            self.reach.iter().position(within).unwrap_or(0)
        };
        // Only blocks to the end have a last cell with fewer nodes than the others.
        for cell in 0..cells {
            let before = self.stay[cell];
            let (n, left) = (cells - cell, (nodes - cell * unit) as u32);
            if !nodes.is_multiple_of(unit) && (least..=most).contains(&n) && left >= member.item.min
            {
                let place = cell * widest + n - 1;
                let means = Means {
                    until: f64::from(self.until[place]),
                    hit: f64::from(self.hit[place]),
                    stay: self.stay[cells] - before,
                    worth: f64::from(left),
                    shape: Shape::of(left, farthest(cell, n)),
                    limited,
                };
                self.values[place] = means.value(member, shadow_price)
                    - member.switching_cost(&means.shape, hysteresis);
            }
        }
    }

    /// One trainer's layer of the program.
    fn layer(&mut self, layer: usize, member: &Member<'_>, grid: Grid) {
        let Grid { cells, widest, .. } = grid;
        let width = cells + 1;
        let (this, next) = self.best[layer * width..][..2 * width].split_at_mut(width);
        let choice = &mut self.choice[layer * width..][..width];
        let (least, most) = grid.sizes(member);
        for cell in (0..cells).rev() {
            let (mut best, mut taken) = (this[cell + 1], LEFT_OUT);
            if next[cell] > best {
                (best, taken) = (next[cell], NOTHING);
            }
            let wide = most.min(cells - cell);
            if least <= wide {
                let values = &self.values[cell * widest..][least - 1..wide];
                let then = &next[cell + least..=cell + wide];
                let highest = highest(values, then);
                // Of equal trainers the first one gets the block.
                if highest > best || (highest == best && taken == NOTHING) {
                    // Of equals the fewest nodes.
                    let mut sums = values.iter().zip(then).map(|(value, then)| value + then);
                    let at = sums.position(|sum| sum == highest).unwrap_or(0);
                    (best, taken) = (highest, (least + at) as u32);
                }
            }
            (this[cell], choice[cell]) = (best, taken);
        }
    }
}

impl Grid {
    /// Fewest and most cells of a trainer's block.
    fn sizes(self, member: &Member<'_>) -> (usize, usize) {
        let least = (member.item.min.max(1) as usize).div_ceil(self.unit);
        (
            least,
            (member.item.max as usize / self.unit).min(self.widest),
        )
    }
}

/// The nodes of cells of `unit` nodes that lie on one leaf each, the last of each leaf; nothing if
/// cells need not or cannot be so. Growth finds the others.
fn whole_cells(free: &[usize], unit: usize, switches: &Switches) -> Option<Vec<usize>> {
    if unit == 1 || switches.is_flat() {
        return None;
    }
    let leaves = free.chunk_by(|&a, &b| switches.between(a, b) == 0);
    let whole = leaves.flat_map(|leaf| &leaf[leaf.len() % unit..]);
    let whole: Vec<usize> = whole.copied().collect();
    (2 * whole.len() >= free.len()).then_some(whole)
}

/// By tier and first cell: the cells from there on that are no farther apart. Nodes in any order are
/// as far apart as the farthest two neighbours.
fn reach(free: &[usize], grid: Grid, scenarios: &Scenarios) -> Vec<Vec<usize>> {
    let switches = scenarios.switches();
    let levels = 0..=switches.levels();
    let cells: Vec<&[usize]> = free.chunks(grid.unit).collect();
    let inner = |nodes: &[usize]| switches.tier(nodes.iter().copied());
    let outer = |nodes: &[usize], next: &[usize]| match (nodes.last(), next.first()) {
        (Some(&a), Some(&b)) => switches.between(a, b),
        _ => 0,
    };
    let of = |tier: usize| {
        let mut reach = vec![0; cells.len() + 1];
        for (cell, nodes) in cells.iter().enumerate().rev() {
            let goes_on = cells
                .get(cell + 1)
                .is_some_and(|next| outer(nodes, next) <= tier);
            let further = if goes_on { reach[cell + 1] } else { 0 };
            reach[cell] = if inner(nodes) <= tier { 1 + further } else { 0 };
        }
        reach
    };
    levels.map(of).collect()
}

/// The largest sum of two entries at the same place.
fn highest(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut lanes = [f64::NEG_INFINITY; LANES];
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for at in 0..LANES {
            let sum = a[at] + b[at];
            lanes[at] = if sum > lanes[at] { sum } else { lanes[at] };
        }
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| a + b);
    let most = |most: f64, sum: f64| if sum > most { sum } else { most };
    rest.chain(lanes).fold(f64::NEG_INFINITY, most)
}

const LEFT_OUT: u32 = 0;
const NOTHING: u32 = u32::MAX;
