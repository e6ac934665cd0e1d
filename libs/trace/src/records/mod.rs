//! Records of schedulers' own logs, cut into fields.
//!
//! The parsers of whole logs and the readers of live logs (crate `lacuna-scheduler`) share them.

mod hosts;
pub mod lsf;
pub mod pbs;
