//! Generated machines: a published workload model, the scheduler simulator, and the load set
//! so that the machine is as busy as wanted.
//!
//! The jobs come from Lublin and Feitelson, "The workload on parallel supercomputers: modeling
//! the characteristics of rigid jobs", J. Parallel Distrib. Comput. 63(11), 2003, with the
//! parameters for jobs of all types. Two things are not in that model and are added here: a
//! walltime for each job (runtime times a drawn over-estimate) and the calibration of the load
//! ([`calibrate`]), which changes nothing but the rate of arrivals.

mod calibrate;
mod lublin;
mod machine;
mod stream;

pub use calibrate::{Calibrated, Workload, WorkloadError, calibrate, generate};
pub use machine::{GeneratedMachine, generated_machine, generated_trace, machine, node_names};
pub use stream::{Jobs, jobs};
