//! Which node trains which trainer: the allocation problem, solved, checked and explained.
//!
//! The way from domain to answer and back: [`translate`] turns pool and trainers into ordinals;
//! [`Decider`], the one choice of policy, turns them into sizes and nodes; [`check`] judges the
//! plan; [`explain`] words it. [`Planner`] does all of it at every change; a replay asks the
//! [`Decider`] itself. Behind it, [`dp`], [`counts`] or [`equal_share`] turn a [`Problem`] into
//! [`Sizes`] and [`choose`] turns sizes into nodes; by forecasts, [`foresight`] finds both at once,
//! with [`joint`].
//!
//! [`mod@fair`] shares nodes out over the owners of trainers, and any policy decides within a share.
//! [`mod@file`] keeps problems as files.

pub mod check;
pub mod choose;
pub mod counts;
pub mod decider;
mod displace;
pub mod dp;
pub mod equal_share;
pub mod explain;
pub mod fair;
pub mod file;
pub mod foresight;
pub mod instance;
pub mod joint;
pub mod kind;
pub mod node_binary;
pub mod objective;
mod ordinal;
pub mod patterns;
mod planner;
mod problem;
mod roster;
pub mod translate;
mod verdict;

pub use decider::{Decider, Settings};
pub use planner::{Input, Planner};
pub use problem::{Item, Problem, Sizes};
