//! `lacuna-lab reproduce forecast`: the value of forecasts of holes, ingredient by ingredient.
//!
//! A `case` is a pool, a number of trainers and a factor on their costs; a `column` is a policy.
//! Each cell is one `lacuna replay` in a process of its own. `reference` has the figures and goals
//! of an earlier replayer on the same trace; `goals` compares the cells with them.

mod args;
mod case;
mod column;
mod goals;
mod json;
mod measure;
mod page;
mod reference;
mod results;
mod table;

pub(super) use args::{ForecastTableArgs, run};
