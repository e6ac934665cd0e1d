//! Goodput: how much a trainer learns per second, at each number of nodes and each batch.
//!
//! A larger batch gives more samples a second, and each of them teaches less. Goodput is the
//! product of both: throughput times efficiency. Its unit is samples of the user's batch `M0` a
//! second.
//!
//! - [`StepFormula`]: seconds of a step by nodes, replicas, samples of a pass, and accumulation.
//! - [`fit`]: the model's seven parameters from measured steps. [`StepProfile`] prefers what was
//!   measured.
//! - [`Noise`]: what a sample is worth at each batch, and the factor of the learning rate.
//! - [`Bounds`], [`best`]: the batch with the largest goodput within the user's bounds.
//! - [`GoodputCurve`]: the goodput at each node count, which may dip; the planner takes it as it is.
//!   Control makes it of a trainer's reports, and the lab of published measurements.
//!
//! Programs measure the noise scale, and cut batches into uneven shares, by `noise.py` and
//! `balance.py` of the Python package.
//!
//! Sources: Pollux (OSDI 2021) and its code AdaptDL, Sia (SOSP 2023).

mod batch;
mod error;
mod fit;
mod minimise;
mod noise;
mod observation;
mod profile;
mod step;
mod table;

pub use batch::{Bounds, Choice, best};
pub use error::Error;
pub use fit::{Fit, fit};
pub use noise::Noise;
pub use observation::Observation;
pub use profile::{StepProfile, StepTimes};
pub use step::{FLOOR, Layout, StepFormula};
pub use table::{BatchRule, Entry, GoodputCurve};
