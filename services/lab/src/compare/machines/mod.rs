//! `lacuna-lab compare machines`: machines that Lacuna was not built on, from their first hour on.
//!
//! `machine` lists the machines, `column` what is compared on each, and `cells` has the shares of
//! the zero-cost bound with figures over all of them.

mod args;
mod cells;
mod column;
mod machine;
mod table;

pub(super) use args::{MachinesArgs, run};
