//! Settings of live schedulers: the sections, as `[ingest.slurm]`, each in the folder of its
//! scheduler, and what they share.

pub use crate::flux::Flux;
pub use crate::lsf::Lsf;
pub use crate::pbs::Pbs;
pub use crate::shared::{Following, Marks, Polling};
pub use crate::slurm::{Answers, Slurm};
