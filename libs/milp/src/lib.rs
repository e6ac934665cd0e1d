//! A solver-neutral mixed-integer program, solved by HiGHS.
//!
//! This crate alone knows HiGHS. A [`Model`] is plain data. [`solve`] gives it to the solver,
//! bounded by work, and maps every end of the solver to an [`Outcome`]. Solves have one thread and
//! one seed, so the same model has the same answer. The emergency stop by the clock is the
//! exception, and the answer reports it. A [`Linear`] grows by columns between solves and returns
//! the prices of its rows, for column generation.

mod highs_backend;
mod instance;
mod linear;
mod model;
mod options;
mod solution;

pub use highs_backend::solve;
pub use linear::{Linear, Vertex};
pub use model::{ColumnId, Heuristics, Kind, Model, Options, Sense, Violation};
pub use solution::{Outcome, Solution};
