//! The choices of each trainer of a problem.

use std::sync::Arc;

use super::table::{Choice, ProblemKey, Table, Tables};
use crate::{Item, Problem};

/// For each trainer its table. Tables are kept, so that a problem that differs little from the
/// one before costs little: only trainers whose size, rates or costs are new get a new one.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    tables: Tables,
    /// The place of each trainer's table.
    rows: Vec<u32>,
    tolerance: f64,
}

/// Bonus of the present size, relative to the largest gain of any option.
const KEEP_BONUS: f64 = 1e-10;

/// Whether two trainers are interchangeable.
pub(super) fn same(a: &Item, b: &Item) -> bool {
    a.current == b.current
        && a.min == b.min
        && a.max == b.max
        && a.rate_now == b.rate_now
        && a.up_s == b.up_s
        && a.pilot_s == b.pilot_s
        && a.down_s == b.down_s
        && a.lost == b.lost
        && (Arc::ptr_eq(&a.value, &b.value) || a.value == b.value)
}

impl Options {
    /// Takes the options of a problem.
    pub(super) fn build(&mut self, problem: &Problem) {
        if self.tables.make_room() {
            self.rows.clear();
        }
        let horizon_s = problem.horizon_s;
        let scale = problem
            .trainers
            .iter()
            .map(|item| {
                let best = item.value_at(item.max.min(problem.nodes));
                (horizon_s * best).max(item.grow_cost().max(item.shrink_cost(0)))
            })
            .fold(f64::MIN_POSITIVE, f64::max);
        // A power of two: other trainers change it, and with it all tables, only seldom.
        let bonus = KEEP_BONUS * scale.log2().floor().exp2();
        self.tolerance = bonus / 16.0;
        let frame = ProblemKey {
            nodes: problem.nodes,
            horizon_s,
            bonus,
        };
        self.rows.truncate(problem.trainers.len());
        for (j, item) in problem.trainers.iter().enumerate() {
            match self.rows.get_mut(j) {
                Some(row) => *row = self.tables.place(item, frame, Some(*row)),
                None => {
                    let row = self.tables.place(item, frame, None);
                    self.rows.push(row);
                }
            }
        }
    }

    /// Forgets what is kept.
    pub(super) fn forget(&mut self) {
        self.tables.clear();
        self.rows.clear();
    }

    /// The table of each trainer.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Table> {
        self.rows.iter().map(|&row| self.tables.at(row))
    }

    /// The choices of each trainer: node count and gain both strictly increase.
    pub(super) fn lists(&self) -> impl Iterator<Item = &[Choice]> {
        self.tables().map(|table| table.list.as_slice())
    }

    /// The table of trainer `j`.
    pub(super) fn table(&self, j: usize) -> Option<&Table> {
        self.rows.get(j).map(|&row| self.tables.at(row))
    }

    /// Number of trainers.
    pub(super) fn trainers(&self) -> usize {
        self.rows.len()
    }

    /// Whether all trainers can have their best option at once.
    pub(super) fn fits_best(&self, nodes: u32) -> bool {
        let total: u64 = self
            .lists()
            .map(|list| u64::from(list.last().map_or(0, |c| c.n)))
            .sum();
        total <= u64::from(nodes)
    }

    /// Differences in objective below this count as none.
    pub(super) const fn tolerance(&self) -> f64 {
        self.tolerance
    }
}
