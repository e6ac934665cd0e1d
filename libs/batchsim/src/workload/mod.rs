//! Generated machines: a published workload model, simulated at a given utilisation.
//!
//! The jobs come from Lublin and Feitelson, "The workload on parallel supercomputers: modeling
//! the characteristics of rigid jobs", J. Parallel Distrib. Comput. 63(11), 2003, with the
//! parameters for jobs of all types. Two additions are not in that model. Each job has a walltime
//! (runtime times a drawn over-estimate). The calibration of the load ([`calibrate`]) changes only
//! the rate of arrivals.

mod calibrate;
mod lublin;
mod machine;
mod stream;

pub use calibrate::{Calibrated, Workload, WorkloadError, calibrate, generate};
pub use machine::{GeneratedMachine, generated_machine, generated_trace, machine, node_names};
pub use stream::{Jobs, jobs};
