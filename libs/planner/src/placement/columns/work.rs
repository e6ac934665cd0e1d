//! The state of a solve by columns: its columns, its bound and its best answer.

use super::clock::Clock;
use super::incumbent::Choice;
use super::master::Columns;
use super::{Options, Pricing, Source};

/// Scale of the largest value, since HiGHS works to absolute tolerances of 1e-7.
pub(super) const LARGEST: f64 = 1e4;

/// The best answer so far.
pub(super) struct Best {
    pub(super) choice: Choice,
    pub(super) objective: f64,
    pub(super) source: Source,
}

impl Best {
    /// Replaces the answer if the new choice has a higher objective.
    pub(super) fn update(&mut self, choice: Choice, source: Source) {
        let objective = choice.objective();
        if objective > self.objective {
            *self = Self {
                choice,
                objective,
                source,
            };
        }
    }
}

/// A solve in progress.
pub(super) struct Work<'a> {
    pub(super) patterns: &'a mut dyn Pricing,
    pub(super) trainers: usize,
    pub(super) capacity: &'a [u32],
    pub(super) options: &'a Options<'a>,
    pub(super) columns: Columns,
    pub(super) clock: Clock<'a>,
    /// The least of L(w) so far.
    pub(super) bound: f64,
    /// The prices of that bound.
    pub(super) at: Vec<f64>,
    /// For each group the largest reduced value at those prices.
    pub(super) tops: Vec<f64>,
    pub(super) rounds: u32,
    pub(super) converged: bool,
    pub(super) failed: bool,
}
