//! Policies: from a view of the cluster to a plan.
//!
//! | policy | file | jobs keep their GPUs |
//! |---|---|---|
//! | Dally, Tiresias, Gandiva as published, and variants | `dally.rs`, `tiresias.rs`, `gandiva.rs` | for a lease |
//! | ours: re-planning at events, the shortest first | `replan.rs`, `rank.rs` | until a plan stops them |

mod board;
mod catalogue;
mod dally;
mod gandiva;
mod rank;
mod replan;
mod round;
mod tiresias;
mod view;

pub use catalogue::{Entry, catalogue};
pub use view::{Plan, Policy, View};
