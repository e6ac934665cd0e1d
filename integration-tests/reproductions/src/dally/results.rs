//! The results of all runs.

use lacuna_gangs::{Entry, Outcome};

use super::case::Case;
use super::figures::{Measure, Spread};

/// A policy on a case.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) case: Case,
    pub(super) policy: &'static Entry,
    /// One run for each order of the machines.
    pub(super) runs: Vec<Outcome>,
}

impl Cell {
    /// Mean and deviation of a figure.
    pub(super) fn spread(&self, measure: Measure) -> Spread {
        let values: Vec<f64> = self.runs.iter().map(|run| measure.of(run)).collect();
        Spread::of(&values)
    }
}

/// All cells: of one case after another, each with all policies.
#[derive(Debug, Clone)]
pub(super) struct Results {
    pub(super) cases: Vec<Case>,
    pub(super) cells: Vec<Cell>,
    /// Bounds of the mean completion time of rigid gangs by case, seconds.
    pub(super) bounds_s: Vec<f64>,
    pub(super) seeds: Vec<u64>,
    pub(super) published: bool,
    pub(super) lease_s: f64,
}

impl Results {
    /// The cells of a case.
    pub(super) fn of<'a>(&'a self, case: &'a Case) -> impl Iterator<Item = &'a Cell> {
        self.cells.iter().filter(move |cell| cell.case == *case)
    }

    /// A policy on a case.
    pub(super) fn cell(&self, case: &Case, policy: &str) -> Option<&Cell> {
        let mut cells = self.cells.iter();
        cells.find(|cell| cell.case == *case && cell.policy.name == policy)
    }
}
