//! The allocation problem: which node trains which trainer, solved, checked and explained.
//!
//! | folder | what it holds |
//! |---|---|
//! | `problem` | the problem as ordinal-indexed data: [`Situation`], [`Problem`], [`objective`], [`mod@file`] |
//! | `solve` | sizes: [`dp`], [`milp`], [`equal_share`], [`mixed`]; [`fair`] shares between owners |
//! | [`placement`] | nodes: value of a node set, blocks, columns, decisions by forecasts, [`choose`] |
//! | `plan` | from names to ordinals and back: [`Planner`], [`check`], [`explain`] |
//!
//! `guard` compares the rules of the policy `auto` by what they bring; [`judge`] solves decisions again,
//! off the path.
//!
//! [`Decider`] is the one choice of policy, on ordinals. [`Planner`] wraps it with names for every
//! change of a live cluster; a replay calls the [`Decider`] itself.
//!
//! Each file depends only on files below it: `problem`, `solve`, `placement`, [`Settings`] and
//! [`Decision`], `by_sizes`, `guard`, [`judge`], [`Decider`], `plan`. So [`Situation`] lies in `problem`, below all policies. The
//! choice of nodes for known sizes ([`choose`]) lies in `placement`, since it works on ordinals.

mod by_sizes;
mod decider;
mod decision;
mod guard;
pub mod judge;
pub mod placement;
mod plan;
mod problem;
mod settings;
mod solve;

pub use decider::Decider;
pub use decision::{Decision, Share};
pub use placement::choose;
pub use plan::{Input, Planner, check, explain, translate};
pub use problem::{
    Candidate, Far, History, Item, Lost, Mix, MixProblem, MixSizes, MixTable, NO_NODES, OnKinds,
    PoolForecast, Problem, Shape, Situation, Sizes, Slot, Switches, Users, mixes_of, pair,
};
pub use problem::{file, instance, objective, worth};
pub use settings::{ForecastSettings, Settings};
pub use solve::{dp, equal_share, fair, milp, mixed};
