//! Gangs on a cluster of one's own: rigid jobs, racks, machines, slots and GPUs.
//!
//! A dedicated cluster is a pool that never shrinks, and a rigid job a trainer with `min = max`.
//! What such a cluster adds is the network: where the GPUs of a gang lie decides how fast it runs.
//!
//! - [`Fabric`], [`Shape`], [`Speeds`]: the speed of a gang by its placement, from the layers of
//!   its model (a flow line, within .2 % of ASTRA-sim) or from measured figures.
//! - [`Layout`], [`Cluster`], [`Placement`]: which GPUs are free and which a gang has.
//! - [`simulate`]: the cluster in virtual time under [`Terms`]: leases, chunks, restarts, contention.
//! - [`Policy`]: from a [`View`] to a [`Plan`]. [`catalogue`] has all policies by name.
//!
//! **Why an engine and a trait of its own.** `planner::Decider` gives nodes to curves of node counts,
//! while the speed of a gang depends on which GPUs of which racks it has. Forecasts and shadow prices
//! mean nothing on a pool that never shrinks. The published policies need leases, chunks, timers and a
//! delayed round, which no trainer of Lacuna has. [`Policy`] has the shape of `Decider`: a view in, a
//! whole plan out, time an argument, and an engine that refuses a plan which gives a GPU twice.
//!
//! Source of the published policies and of the speed model: Dally (arXiv 2401.16492) and its public
//! simulator. Defects of that simulator are behind [`Terms::published`].

mod bound;
mod calibration;
mod cluster;
mod engine;
mod error;
mod fabric;
mod flow_line;
mod job;
mod layers;
mod layout;
mod outcome;
mod packing;
mod placement;
mod policy;
mod speed;
mod terms;
mod trace;

pub use bound::mean_bound_s;
pub use calibration::{Calibration, Profiles};
pub use cluster::Cluster;
pub use engine::simulate;
pub use error::Error;
pub use fabric::{Collective, Fabric, Shape, ShapeRule};
pub use flow_line::Iteration;
pub use job::{Job, JobState, Run};
pub use layers::Library;
pub use layout::Layout;
pub use outcome::{Ended, Kind, Outcome, Segment};
pub use placement::Placement;
pub use policy::{Entry, Plan, Policy, View, catalogue};
pub use speed::Speeds;
pub use terms::{Contention, Lease, Restart, Terms};
pub use trace::{TraceJob, read_jobs};
