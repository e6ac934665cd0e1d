//! Which node trains which trainer: the allocation problem, solved, checked and explained.
//!
//! The way from domain to answer and back: [`translate`] turns pool and trainers into an
//! ordinal-indexed [`Problem`]; [`dp`], [`counts`] or [`equal_share`] turn it into [`Sizes`];
//! [`choose`] turns sizes into nodes; [`check`] judges the plan; [`explain`] words it.
//! [`Planner`] does all of it at every change. By forecasts, [`foresight`] finds sizes and nodes at
//! once, with [`joint`].
//!
//! [`fair::solve`]`(&Problem, users: &[u32], shares: &[f64]) -> Sizes` is another aim: max-min
//! fairness between the users who own the trainers. [`mod@file`] keeps problems as files.

pub mod check;
pub mod choose;
pub mod counts;
mod displace;
pub mod dp;
pub mod equal_share;
pub mod explain;
pub mod fair;
pub mod file;
pub mod foresight;
pub mod instance;
pub mod joint;
pub mod node_binary;
pub mod objective;
pub mod patterns;
mod planner;
mod problem;
pub mod translate;
mod verdict;
mod worths;

pub use planner::{Compat, Input, Planner, Settings};
pub use problem::{Item, Problem, Sizes};
