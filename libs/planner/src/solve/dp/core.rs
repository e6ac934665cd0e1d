//! The dynamic program over the options that the bound leaves open.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; node counts stay within windows computed in this file"
)]

use super::exchange::{Exchange, Move};
use super::greedy::Greedy;
use super::options::Options;
use super::table::Choice;

/// An option that may be in a better answer.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Its position in the trainer's list.
    at: u32,
    /// Node count.
    n: u32,
    /// Loss of the option against the trainer's best at the price.
    loss: f64,
}

/// The states after one trainer: for each total node count from `low` the least loss, and
/// the option that led there.
#[derive(Debug, Clone, Copy)]
struct Layer {
    trainer: u32,
    low: u32,
    /// Where its options begin in `taken`.
    from: usize,
}

/// Memory of the program.
#[derive(Debug, Clone, Default)]
pub(super) struct Core {
    open: Vec<Open>,
    ends: Vec<usize>,
    /// States that may lead to a better answer: total node count from the window's low end, and
    /// the least loss.
    live: Vec<(u32, f64)>,
    next: Vec<f64>,
    taken: Vec<u32>,
    layers: Vec<Layer>,
    chosen: Vec<u32>,
    moves: Vec<Move>,
    exchange: Exchange,
}

const NONE: u32 = u32::MAX;

/// With no more open options than this the program is as quick as a round of exchange.
const FEW_OPEN: usize = 200;

/// Rounds of exchange at most. Few are needed; the program ends the search in any case.
const ROUNDS: u32 = 8;

impl Core {
    /// Lists the options whose loss does not exceed the gap. Away from the best option the loss
    /// along the hull only grows, and no option loses less than the hull: so only the options
    /// between the first corners beyond the gap are looked at.
    fn peg(&mut self, options: &Options, greedy: &Greedy) {
        self.open.clear();
        self.ends.clear();
        let most = greedy.gap() + options.tolerance();
        for (j, table) in options.tables().enumerate() {
            let best = greedy.best_reduced(j);
            let loss = |choice: &Choice| best - greedy.reduced_gain(choice);
            let list = table.list.as_slice();
            let corner = |steps: u32| table.after(steps) as usize;
            let near = |steps: u32| loss(&list[corner(steps)]) <= most;
            let (mut low, mut high) = (greedy.taken(j), greedy.taken(j));
            while low > 0 && near(low) {
                low -= 1;
            }
            while (high as usize) < table.hull.len() && near(high) {
                high += 1;
            }
            let (first, last) = (corner(low), corner(high));
            for (at, option) in (first..).zip(list.iter().take(last + 1).skip(first)) {
                let loss = loss(option);
                if loss <= most {
                    self.open.push(Open {
                        at: at as u32,
                        n: option.n,
                        loss,
                    });
                }
            }
            self.ends.push(self.open.len());
        }
    }

    /// Leaves out the options that the bound of a better answer rules out.
    fn tighten(&mut self, bar: f64) {
        let (mut kept, mut from) = (0, 0);
        for end in &mut self.ends {
            for at in from..*end {
                let open = self.open[at];
                if open.loss <= bar {
                    self.open[kept] = open;
                    kept += 1;
                }
            }
            from = *end;
            *end = kept;
        }
        self.open.truncate(kept);
    }

    fn range(&self, j: usize) -> std::ops::Range<usize> {
        let from = if j == 0 { 0 } else { self.ends[j - 1] };
        from..self.ends[j]
    }

    /// For each trainer the node counts that may be in an optimum.
    pub(super) fn open(&mut self, options: &Options, greedy: &Greedy) -> Vec<Vec<u32>> {
        self.peg(options, greedy);
        (0..options.trainers())
            .map(|j| self.open[self.range(j)].iter().map(|o| o.n).collect())
            .collect()
    }

    /// Betters the greedy answer by exchanges while that helps; says whether it did.
    fn exchange(&mut self, options: &Options, greedy: &mut Greedy, nodes: u32) -> bool {
        let mut improved = false;
        for _ in 0..ROUNDS {
            self.moves.clear();
            let mut used = 0;
            for (j, table) in options.tables().enumerate() {
                let now = greedy.chosen(j);
                let Some(size) = table.list.get(now as usize) else {
                    continue;
                };
                used += u64::from(size.n);
                for open in &self.open[self.range(j)] {
                    let to = table.list[open.at as usize];
                    self.moves.push(Move {
                        more: i64::from(to.n) - i64::from(size.n),
                        gain: to.gain - size.gain,
                        trainer: j as u32,
                        to: open.at,
                    });
                }
            }
            let left = u64::from(nodes).saturating_sub(used) as u32;
            let Some(moves) = self.exchange.best(&self.moves, left, options.tolerance()) else {
                break;
            };
            for it in moves {
                greedy.choose(it.trainer, it.to);
            }
            greedy.revalue(options);
            improved = true;
            if greedy.gap() <= options.tolerance() {
                break;
            }
        }
        improved
    }

    /// Replaces the greedy answer by the optimum, if there is a better one. Exchanges only say
    /// how good the optimum is at least: of several optima the program finds the same one,
    /// however it was led there.
    pub(super) fn improve(&mut self, options: &Options, greedy: &mut Greedy, nodes: u32) {
        self.peg(options, greedy);
        let improved = self.open.len() > FEW_OPEN && self.exchange(options, greedy, nodes);
        let trainers = options.trainers();
        let gap = greedy.gap();
        let bar = gap + options.tolerance();
        // Upper limit on the loss of an accepted answer.
        let under = if improved {
            bar
        } else {
            gap - options.tolerance()
        };
        self.tighten(bar);
        let price = greedy.price();
        // Node counts: what must be taken, what can be taken, and how much may stay free
        // before the price of it alone exceeds the gap.
        let (mut least, mut most) = (0_u64, 0_u64);
        for j in 0..trainers {
            let open = &self.open[self.range(j)];
            least += u64::from(open.first().map_or(0, |o| o.n));
            most += u64::from(open.last().map_or(0, |o| o.n));
        }
        if least > u64::from(nodes) {
            return;
        }
        let slack = if price > 0.0 {
            (bar / price).min(f64::from(nodes)) as u32
        } else {
            nodes
        };
        let floor = u64::from(nodes - slack.min(nodes));
        self.taken.clear();
        self.layers.clear();
        self.live.clear();
        self.live.push((0, 0.0));
        let mut low = 0_u64;
        for j in 0..trainers {
            let range = self.range(j);
            let (first, last) = match self.open[range.clone()] {
                [first, ..] if range.len() == 1 => {
                    // Nothing to decide: only the count moves on.
                    low += u64::from(first.n);
                    least -= u64::from(first.n);
                    most -= u64::from(first.n);
                    self.live.iter_mut().for_each(|state| state.1 += first.loss);
                    continue;
                }
                [first, .., last] => (u64::from(first.n), u64::from(last.n)),
                _ => continue,
            };
            least -= first;
            most -= last;
            let Some(&(end, _)) = self.live.last() else {
                return;
            };
            let new_low = (low + first).max(floor.saturating_sub(most));
            let new_high = (low + u64::from(end) + last).min(u64::from(nodes) - least);
            if new_high < new_low {
                return;
            }
            let width = (new_high - new_low + 1) as usize;
            self.next.clear();
            self.next.resize(width, f64::INFINITY);
            let from = self.taken.len();
            self.taken.resize(from + width, NONE);
            // By loss: once an option is too much for a state, so are those after it.
            self.open[range.clone()].sort_by(|a, b| a.loss.total_cmp(&b.loss));
            let open = &self.open[range.clone()];
            let taken = &mut self.taken[from..];
            for &(state, before) in &self.live {
                let total = low + u64::from(state);
                for (index, option) in open.iter().enumerate() {
                    let loss = before + option.loss;
                    if loss > bar {
                        break;
                    }
                    // Below the window the place wraps to a number that is beyond it, too.
                    let place = (total + u64::from(option.n)).wrapping_sub(new_low) as usize;
                    if place >= width {
                        continue;
                    }
                    // Of equal ones the smaller option, as if they came in that order.
                    let known = self.next[place];
                    let smaller = || open[taken[place] as usize - range.start].n > option.n;
                    if loss < known || (loss == known && smaller()) {
                        self.next[place] = loss;
                        taken[place] = (range.start + index) as u32;
                    }
                }
            }
            self.live.clear();
            let states = (0..).zip(&self.next);
            self.live.extend(
                states
                    .filter(|s| s.1.is_finite())
                    .map(|(at, &loss)| (at, loss)),
            );
            self.layers.push(Layer {
                trainer: j as u32,
                low: new_low as u32,
                from,
            });
            low = new_low;
        }
        self.finish(options, greedy, nodes, low, under);
    }

    /// Picks the best final state and walks back through the layers.
    fn finish(&mut self, options: &Options, greedy: &mut Greedy, nodes: u32, low: u64, under: f64) {
        let mut best = (under, None);
        for &(at, loss) in &self.live {
            let used = low + u64::from(at);
            if used > u64::from(nodes) {
                break;
            }
            let total = loss + greedy.price() * (u64::from(nodes) - used) as f64;
            if total < best.0 {
                best = (total, Some(used));
            }
        }
        let Some(mut used) = best.1 else { return };
        self.chosen.clear();
        let mut fixed: u64 = 0;
        for j in 0..options.trainers() {
            let open = &self.open[self.range(j)];
            self.chosen.push(open.first().map_or(0, |o| o.at));
            if let [only] = open {
                fixed += u64::from(only.n);
            }
        }
        // The layers' counts include the decided trainers that come before them only.
        let mut after = options.trainers();
        for layer in self.layers.iter().rev() {
            let j = layer.trainer as usize;
            for later in j + 1..after {
                let open = &self.open[self.range(later)];
                if let [only] = open {
                    used -= u64::from(only.n);
                    fixed -= u64::from(only.n);
                }
            }
            after = j;
            let index = layer.from + (used - u64::from(layer.low)) as usize;
            let option = self.open[self.taken[index] as usize];
            self.chosen[j] = option.at;
            used -= u64::from(option.n);
        }
        debug_assert_eq!(used, fixed, "the walk back ends where it began");
        greedy.replace(&self.chosen);
    }
}
