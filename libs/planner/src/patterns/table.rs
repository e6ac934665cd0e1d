//! All patterns of a trainer with their values, and the best of them at given prices.
//!
//! Patterns are kept as blocks: the nodes `1..=len` of the last class of a run, everything of
//! the run before it being taken. A walk is the sequence of blocks from one class in one
//! direction. Within a block the price of a pattern is linear, so finding the best is one pass
//! over the values.

use crate::patterns::enumerate::enumerate;
use crate::patterns::tag::{Kind, tag};
use crate::patterns::{Column, Runs, Trainer};

/// Parts of the first class of a run that it may begin with instead of all, so that two runs
/// can share the class: quarters.
const PARTS: [u32; 4] = [4, 1, 2, 3];

/// How many columns a pricing gives out: the best of as many blocks.
const OFFERS: usize = 4;

/// Which nodes a run comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    /// Those that the trainer holds.
    Held,
    /// None: what it holds is given back, or is part of the run.
    Nothing,
    /// None, and the run is of the nodes that it holds, from the back.
    Shrunk,
}

#[derive(Debug)]
/// The patterns of a run that take `1..=len` nodes of its last class.
pub(crate) struct Block {
    pub(crate) base: Base,
    /// Whether a walk begins here.
    pub(crate) first: bool,
    /// The class at which the walk began.
    pub(crate) from: u32,
    /// How many nodes of that class are taken when the walk goes on.
    pub(crate) start: u32,
    /// The class that is taken in part.
    pub(crate) class: u32,
    /// How many nodes of it are taken when the walk goes on.
    pub(crate) whole: u32,
    /// Where its values begin; as many as nodes can be taken of the class.
    pub(crate) at: usize,
    pub(crate) len: u32,
    /// The largest of its values.
    pub(crate) most: f64,
}

/// All patterns of a trainer.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) trainer: u32,
    pub(crate) blocks: Vec<Block>,
    pub(crate) values: Vec<f64>,
    /// What it is worth to have no nodes, if that is another pattern than to keep.
    pub(crate) nothing: Option<f64>,
    /// What a walk that goes on takes of each class.
    pub(crate) loose: Vec<u32>,
}

impl Table {
    /// All patterns of a trainer; nothing if there is no such trainer.
    pub(crate) fn new(runs: &Runs, j: usize) -> Option<Self> {
        enumerate(runs, j, &runs.loose, &runs.all, &PARTS)
    }

    /// All patterns of a trainer within what is free.
    pub(crate) fn within(runs: &Runs, j: usize, free: &[i64]) -> Option<Self> {
        let trainer = runs.trainers.get(j)?;
        let count = |n: i64| u32::try_from(n.max(0)).unwrap_or(u32::MAX);
        let mut loose: Vec<u32> = free.iter().map(|&n| count(n)).collect();
        let mut all = loose.clone();
        for &(k, n) in &trainer.held {
            let sum = free
                .get(k as usize)
                .map_or(0, |f| f.saturating_add(i64::from(n)));
            if let Some(slot) = all.get_mut(k as usize) {
                *slot = count(sum);
            }
            if let Some(slot) = loose.get_mut(k as usize)
                && trainer.charges.any.is_some()
            {
                *slot = count(sum);
            }
        }
        enumerate(runs, j, &loose, &all, PARTS.get(..1)?)
    }

    /// How many patterns there are beside keeping.
    pub(crate) const fn len(&self) -> usize {
        self.values.len() + self.nothing.is_some() as usize
    }

    /// The best patterns at these prices.
    pub(crate) fn price(&self, trainer: &Trainer, price: &[f64], out: &mut Vec<Column>) {
        let found = self.best::<OFFERS>(trainer, price, |_, _| u32::MAX);
        out.extend(found.iter().map(|&(_, at, m)| self.column(trainer, at, m)));
        self.offer_nothing(trainer, out);
    }

    /// The best pattern at these prices within what is free.
    pub(crate) fn fit(
        &self,
        trainer: &Trainer,
        free: &[i64],
        price: &[f64],
        out: &mut Vec<Column>,
    ) {
        let found = self.best::<1>(trainer, price, |class, base| {
            let free = free.get(class as usize).copied().unwrap_or(0);
            let held = match base {
                Base::Held => 0,
                Base::Nothing | Base::Shrunk => held(trainer, class),
            };
            let most = free.saturating_add(i64::from(held)).max(0);
            u32::try_from(most).unwrap_or(u32::MAX)
        });
        out.extend(found.iter().map(|&(_, at, m)| self.column(trainer, at, m)));
        self.offer_nothing(trainer, out);
    }

    fn offer_nothing(&self, trainer: &Trainer, out: &mut Vec<Column>) {
        if let Some(value) = self.nothing {
            let give = |&(k, n): &(u32, u32)| (k, -signed(n));
            out.push(Column {
                trainer: self.trainer,
                take: trainer.held.iter().map(give).collect(),
                value,
                tag: tag(Kind::Nothing, 0, 0, 0),
            });
        }
    }

    /// The `N` blocks with the best pattern, best first: its reduced value, the block, the
    /// nodes of the last class. `limit` says how many nodes of a class may be used.
    fn best<const N: usize>(
        &self,
        trainer: &Trainer,
        price: &[f64],
        limit: impl Fn(u32, Base) -> u32,
    ) -> Vec<(f64, usize, u32)> {
        let at = |k: u32| price.get(k as usize).copied().unwrap_or(0.0);
        let held = trainer.held.iter().map(|&(k, n)| at(k) * f64::from(n));
        let refund: f64 = held.sum();
        let mut found: Vec<(f64, usize, u32)> = Vec::with_capacity(N + 1);
        let (mut paid, mut open) = (0.0, true);
        for (place, block) in self.blocks.iter().enumerate() {
            if block.first {
                open = true;
                paid = match block.base {
                    Base::Held => 0.0,
                    Base::Nothing | Base::Shrunk => -refund,
                };
            }
            if !open {
                continue;
            }
            let limit = limit(block.class, block.base);
            let unit = at(block.class);
            let bar = match found.last() {
                Some(&(least, _, _)) if found.len() == N => least,
                _ => f64::NEG_INFINITY,
            };
            let most = limit.min(block.len);
            if most > 0 && block.most - paid - unit > bar {
                let values = self.values.get(block.at..).unwrap_or_default();
                let (best, m) = peak(values.get(..most as usize).unwrap_or_default(), unit);
                if best - paid > bar {
                    let rank = found.partition_point(|f| f.0 >= best - paid);
                    found.insert(rank, (best - paid, place, m));
                    found.truncate(N);
                }
            }
            open = block.whole <= limit;
            paid += unit * f64::from(block.whole);
        }
        found
    }

    /// The pattern that takes `m` nodes of the last class of a block.
    fn column(&self, trainer: &Trainer, place: usize, m: u32) -> Column {
        let mut column = Column {
            trainer: self.trainer,
            take: Vec::new(),
            value: f64::NAN,
            tag: 0,
        };
        let Some(block) = self.blocks.get(place) else {
            return column;
        };
        let value = (m as usize).checked_sub(1).map(|m| block.at + m);
        if let Some(&value) = value.and_then(|at| self.values.get(at)) {
            column.value = value;
        }
        let run = (block.from.min(block.class), block.from.max(block.class));
        for (k, &loose) in (0..).zip(&self.loose) {
            let mine = signed(held(trainer, k));
            let inside = run.0 <= k && k <= run.1;
            let now = if k == block.class {
                signed(m)
            } else if inside && block.base == Base::Shrunk {
                mine
            } else if k == block.from && inside {
                signed(block.start)
            } else if inside {
                signed(beside(trainer, block.base, k, loose))
            } else {
                0
            };
            let take = match block.base {
                Base::Held => now,
                Base::Nothing | Base::Shrunk => now - mine,
            };
            if take != 0 {
                column.take.push((k, take));
            }
        }
        column.tag = match block.base {
            Base::Held => tag(Kind::Grow, block.from, block.class, m),
            Base::Nothing => tag(Kind::Any, block.from, block.class, m),
            Base::Shrunk => {
                let given: i64 = column.take.iter().map(|t| i64::from(t.1)).sum();
                let kept = i64::from(trainer.nodes()).saturating_add(given);
                let kept = u32::try_from(kept).unwrap_or(0);
                tag(Kind::Shrink, 0, 0, kept)
            }
        };
        column
    }
}

/// The largest of `values[m - 1] - unit * m`, and its m.
fn peak(values: &[f64], unit: f64) -> (f64, u32) {
    let (mut best, mut at, mut paid) = (f64::NEG_INFINITY, 0, unit);
    for (m, value) in (1..).zip(values) {
        let left = value - paid;
        if left > best {
            (best, at) = (left, m);
        }
        paid += unit;
    }
    (best, at)
}

/// Nodes of a class that a trainer holds.
pub(crate) fn held(trainer: &Trainer, class: u32) -> u32 {
    let at = trainer.held.binary_search_by_key(&class, |h| h.0).ok();
    at.and_then(|at| trainer.held.get(at)).map_or(0, |h| h.1)
}

/// What a walk takes of a class of which so many nodes are loose: what a trainer that may take
/// any set holds is loose, but it cannot grow by that.
pub(crate) fn beside(trainer: &Trainer, base: Base, class: u32, loose: u32) -> u32 {
    if base == Base::Held && trainer.charges.any.is_some() {
        loose.saturating_sub(held(trainer, class))
    } else {
        loose
    }
}

/// Counts stay far below the limit of signed numbers, see [`Runs::new`].
fn signed(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
