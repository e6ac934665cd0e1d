//! The solver, on linear and on mixed-integer problems.

mod linear;
mod solve;
