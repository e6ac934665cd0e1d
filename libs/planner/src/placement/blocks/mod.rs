//! Placement by blocks: consecutive runs of the departure order, by dynamic programming.
//!
//! `partition` cuts the ordered free nodes into consecutive blocks, one for each flexible trainer,
//! or leaves nodes out. Its answer is exact among such cuts. `growth` then lets pinned trainers
//! grow into the remaining nodes as long as that pays.
//!
//! The sizes of pinned trainers are *guided* by several proposals: no change, and the optimal sizes
//! without forecasts over a short and a longer time ([`crate::dp`]). Each proposal is applied in
//! this way, and the best by V wins; without a better one every trainer keeps its nodes. Refusing a
//! hole is an answer like any other.

mod growth;
mod lines;
mod partition;
mod placer;

pub use placer::BlockPlacer;
pub(crate) use placer::{bounds, use_all};
