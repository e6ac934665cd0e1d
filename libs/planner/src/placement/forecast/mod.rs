//! Decisions by forecasts: from a pool with forecasts to owners of slots and an evaluation.
//!
//! `view` leaves out doubtful holes, and `line` puts the others into departure order. Scenarios are
//! drawn from their forecasts, with a seed from the slots. [`super::blocks`] places.
//! `decide` runs all of it on ordinals, for the planner service and for replays.
//!
//! **In doubt it does less.** A stale pool, a pool without forecasts, or one whose order does not
//! fit its holes makes no plan: every trainer keeps its nodes, as far as the pool still has them. A
//! hole with a broken forecast goes to no new trainer, and its present trainer keeps exactly its
//! nodes. An ordinal outside its list (`problem::ordinal`) is a bug of the planner: no trainer
//! grows, the plan reports it, and a replay ends.

mod decide;
mod evaluation;
mod kept;
mod line;
mod parts;
mod view;

pub(crate) use decide::{Query, decide, reach};
pub use evaluation::Evaluation;
pub(crate) use kept::keep;
pub(crate) use view::View;
