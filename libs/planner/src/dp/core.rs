//! The dynamic programme over the options that the bound leaves open.

#![expect(
    clippy::indexing_slicing,
    reason = "hot path; node counts stay within windows computed in this file"
)]

use super::greedy::Greedy;
use super::options::Options;

/// An option that may be in a better answer.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Its position in the trainer's list.
    at: u32,
    /// Node count.
    n: u32,
    /// What choosing it loses against the trainer's best at the price.
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

/// Memory of the programme.
#[derive(Debug, Clone, Default)]
pub(super) struct Core {
    open: Vec<Open>,
    ends: Vec<usize>,
    now: Vec<f64>,
    next: Vec<f64>,
    taken: Vec<u32>,
    layers: Vec<Layer>,
    chosen: Vec<u32>,
}

const NONE: u32 = u32::MAX;

impl Core {
    /// Lists the options whose loss does not exceed the gap.
    fn peg(&mut self, options: &Options, greedy: &Greedy) {
        self.open.clear();
        self.ends.clear();
        let most = greedy.gap() + options.tolerance();
        for list in options.lists() {
            let best = greedy.best_reduced(list);
            for (at, option) in list.iter().enumerate() {
                let loss = best - (option.gain - greedy.price() * f64::from(option.n));
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

    /// Replaces the greedy answer by the optimum, if there is a better one.
    pub(super) fn improve(&mut self, options: &Options, greedy: &mut Greedy, nodes: u32) {
        self.peg(options, greedy);
        let trainers = options.trainers();
        let gap = greedy.gap();
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
            ((gap + options.tolerance()) / price).min(f64::from(nodes)) as u32
        } else {
            nodes
        };
        let floor = u64::from(nodes - slack.min(nodes));
        self.taken.clear();
        self.layers.clear();
        self.now.clear();
        self.now.push(0.0);
        let mut low = 0_u64;
        for j in 0..trainers {
            let range = self.range(j);
            let (first, last) = match self.open[range.clone()] {
                [first, ..] if range.len() == 1 => {
                    // Nothing to decide: only the count moves on.
                    low += u64::from(first.n);
                    least -= u64::from(first.n);
                    most -= u64::from(first.n);
                    self.now.iter_mut().for_each(|loss| *loss += first.loss);
                    continue;
                }
                [first, .., last] => (u64::from(first.n), u64::from(last.n)),
                _ => continue,
            };
            least -= first;
            most -= last;
            let new_low = (low + first).max(floor.saturating_sub(most));
            let end = low + self.now.len() as u64 - 1;
            let new_high = (end + last).min(u64::from(nodes) - least);
            if new_high < new_low {
                return;
            }
            let width = (new_high - new_low + 1) as usize;
            self.next.clear();
            self.next.resize(width, f64::INFINITY);
            let from = self.taken.len();
            self.taken.resize(from + width, NONE);
            for (index, option) in self.open[range.clone()].iter().enumerate() {
                // State `low + s` goes to `low + s + n`, which is `new_low + t`.
                let shift = (low + u64::from(option.n)) as i64 - new_low as i64;
                let skip = (-shift).max(0) as usize;
                let start = shift.max(0) as usize;
                let losses = self.now.iter().skip(skip);
                let targets = self.next.iter_mut().zip(&mut self.taken[from..]);
                for (&loss, (best, taken)) in losses.zip(targets.skip(start)) {
                    let loss = loss + option.loss;
                    if loss < *best {
                        *best = loss;
                        *taken = (range.start + index) as u32;
                    }
                }
            }
            self.layers.push(Layer {
                trainer: j as u32,
                low: new_low as u32,
                from,
            });
            std::mem::swap(&mut self.now, &mut self.next);
            low = new_low;
        }
        self.finish(options, greedy, nodes, low);
    }

    /// Picks the best final state and walks back through the layers.
    fn finish(&mut self, options: &Options, greedy: &mut Greedy, nodes: u32, low: u64) {
        let mut best = (greedy.gap() - options.tolerance(), None);
        for (at, &loss) in self.now.iter().enumerate() {
            let used = low + at as u64;
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
