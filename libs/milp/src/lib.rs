//! A solver-neutral mixed-integer programme, solved by HiGHS.
//!
//! The only crate that knows HiGHS. A [`Model`] is plain data; [`solve`] hands it to the
//! solver, bounded by work, and maps every way in which the solver can end to an
//! [`Outcome`]. Solves have one thread and one seed: the same model has the same answer, unless
//! the emergency stop by the clock ends a solve, which the answer then says. A [`Linear`] grows by
//! columns between solves and gives the prices of its rows, which column generation asks for.

mod highs_backend;
mod linear;
mod model;
mod solution;

pub use highs_backend::solve;
pub use linear::{Linear, Vertex};
pub use model::{ColumnId, Heuristics, Kind, Model, Options, Sense, Violation};
pub use solution::{Outcome, Solution};
