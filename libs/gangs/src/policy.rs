//! Policies: from a view of the cluster to a plan.
//!
//! | policy | file | jobs keep their GPUs |
//! |---|---|---|
//! | Dally, Tiresias, Gandiva as published, and variants | `dally.rs`, `tiresias.rs`, `gandiva.rs` | for a lease |
//! | expected-value waiting | `wait.rs` | for a lease |
//! | re-planning at events, by a rank of jobs; FIFO | `replan.rs`, `rank.rs` | until a plan stops them |
//! | what ended jobs say about the work of others | `learnt.rs` | |
//! | malleable gangs | `malleable.rs` | until a plan resizes or stops them |

mod board;
mod catalogue;
mod dally;
mod gandiva;
mod learnt;
mod malleable;
mod path;
mod rank;
mod replan;
mod round;
mod tiresias;
mod view;
mod wait;

pub use catalogue::{Entry, Family, catalogue};
pub use view::{Plan, Policy, View};
