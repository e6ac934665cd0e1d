//! `lacuna-lab reproduce forecast`: what forecasts of holes are worth, ingredient by ingredient.
//!
//! A `case` is a pool, a number of trainers and a factor on their costs; a `column` is a policy.
//! Each cell is one `lacuna replay` in a process of its own. `known` is what was measured before
//! on the same recording and what was aimed at, `judge` says what of it is reached.

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
