//! `lacuna-lab compare forecast`: the value of forecasts of holes, ingredient by ingredient.
//!
//! A `case` is a pool, a number of trainers and a factor on their costs; a `column` is a policy.
//! Each cell is one `lacuna replay` in a process of its own, and `measure` has its figures.

mod args;
mod case;
mod column;
mod measure;
mod results;
mod table;

pub(super) use args::{ForecastTableArgs, run};
