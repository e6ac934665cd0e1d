//! The exact answer, fast: a multiple-choice knapsack solved by Lagrangian relaxation and a
//! dynamic program over what the relaxation leaves open.
//!
//! Each trainer j chooses one option (n, g): a node count and its net gain. Sum of n at most N;
//! maximise the sum of g. For a price `p >= 0` of a node,
//! `L(p) = p N + sum_j max_n (g_jn - p n)` bounds the optimum from above, and for any choice
//! `sum g = L(p) - sum_j loss_j - p * slack` with `loss_jn = max_m (g_jm - p m) - (g_jn - p n)`
//! (Kellerer, Pferschy, Pisinger: Knapsack Problems, chapter 11). So
//!
//! 1. if the best option of each trainer fits, that is the optimum;
//! 2. else the price is the slope at which the concave hulls of the options, taken in order
//!    of slope, fill the pool, and a greedy choice gives a first answer A;
//! 3. if `L - A` is 0, A is proven optimal; else A is improved by changing the sizes of two
//!    trainers at a time, and tested again;
//! 4. else an option that loses more than `L - A` is in no better answer; a dynamic program
//!    over the few options left, within the node counts that still matter, finds the best.
//!
//! All of it holds for arbitrary curves. Ties go to the present size (it has a bonus far below
//! any tolerance); among equal trainers the earlier one gets more.
//!
//! Events change little, and a [`Solver`] works on the changes alone. It keeps the options and the
//! hull of a trainer for problems with the same rates, size and costs. The search for the price
//! starts at the last one and goes step by step along the hulls. Both only save time: the answer is
//! that of a solver without memory.
//!
//! These short cuts keep the optimum and are counted by name in plans, metrics and replays:
//! `certificate` (3. proves the answer, also for the mixed-integer program, whose solver need not
//! be asked) and `pegging` (4. leaves options out of the solver's problem). The two exact methods,
//! this one and [`crate::milp`], check each other in tests and by `lacuna-lab replay --verify`.
//! `Memory::Forgotten` gives the answers of a solver without memory; tests and `lacuna-lab bench
//! replay` compare.

mod core;
mod exchange;
mod greedy;
mod options;
pub mod reference;
mod table;

use crate::{Problem, Sizes};

/// The proof of an optimum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Proof {
    /// Each trainer has its best size, since nodes are not scarce.
    #[default]
    Slack,
    /// The bound of the relaxation equals the answer.
    Certificate,
    /// The dynamic program over the options that the bound left open.
    Program,
}

/// A solver of successive problems, which keeps the tables of each trainer.
#[derive(Debug, Clone, Default)]
pub struct Solver {
    options: options::Options,
    greedy: greedy::Greedy,
    core: core::Core,
    proof: Proof,
    memory: Memory,
}

/// Whether a [`Solver`] keeps tables of earlier problems. The answers are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Memory {
    /// It works on changes only.
    #[default]
    Kept,
    /// It starts from nothing with each problem, to measure the gain of memory.
    Forgotten,
}

impl Solver {
    /// A solver without memory as yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A solver with or without memory.
    #[must_use]
    pub fn with(memory: Memory) -> Self {
        Self {
            memory,
            ..Self::default()
        }
    }

    /// The optimum.
    pub fn solve(&mut self, problem: &Problem) -> Sizes {
        if self.memory == Memory::Forgotten {
            self.options.forget();
            self.greedy.forget();
        }
        self.options.build(problem);
        if self.options.fits_best(problem.nodes) {
            self.proof = Proof::Slack;
            self.greedy.take_best(&self.options);
        } else {
            self.greedy.run(&self.options, problem.nodes);
            self.proof = if self.greedy.gap() <= self.options.tolerance() {
                Proof::Certificate
            } else {
                self.core
                    .improve(&self.options, &mut self.greedy, problem.nodes);
                Proof::Program
            };
        }
        let mut counts = self.greedy.counts(&self.options);
        order_equals(problem, &mut counts);
        problem.sizes(counts)
    }

    /// The proof of the last answer.
    #[must_use]
    pub const fn proof(&self) -> Proof {
        self.proof
    }

    /// The relaxation of a problem: price, answer and the options that its bound leaves open.
    pub(crate) fn relax(&mut self, problem: &Problem) -> Relaxed {
        self.options.build(problem);
        if self.options.fits_best(problem.nodes) {
            self.greedy.take_best(&self.options);
        } else {
            self.greedy.run(&self.options, problem.nodes);
        }
        Relaxed {
            counts: self.greedy.counts(&self.options),
            gap: self.greedy.gap(),
            proven: self.greedy.gap() <= self.options.tolerance(),
            open: self.core.open(&self.options, &self.greedy),
        }
    }
}

/// The relaxation of a problem.
pub(crate) struct Relaxed {
    /// A feasible answer.
    pub(crate) counts: Vec<u32>,
    /// Largest distance of the answer from the optimum, objective units.
    pub(crate) gap: f64,
    /// Whether the bound proves it optimal.
    pub(crate) proven: bool,
    /// For each trainer the node counts that may be in an optimum.
    pub(crate) open: Vec<Vec<u32>>,
}

/// Gives the earlier of equal trainers more nodes, so that the answer does not depend on the
/// method.
fn order_equals(problem: &Problem, counts: &mut [u32]) {
    for at in 1..counts.len() {
        let mut here = at;
        while here > 0 {
            let (Some(a), Some(b)) = (problem.trainers.get(here - 1), problem.trainers.get(here))
            else {
                return;
            };
            let more = counts.get(here) > counts.get(here - 1);
            if !more || !options::same(a, b) {
                break;
            }
            counts.swap(here - 1, here);
            here -= 1;
        }
    }
}
