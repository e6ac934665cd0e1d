//! Every reader: what it reads, what it refuses, and what damaged input does to it.

mod extremes;
mod fuzz;
mod fuzz_more;
mod holes;
mod jobcomp;
#[path = "common/logs.rs"]
mod logs;
mod lsf;
#[path = "common/mutate.rs"]
mod mutate;
mod pbs;
mod planned;
#[path = "records/main.rs"]
mod records;
mod sinfo;
mod slurmctld;
mod tail;
#[path = "topology/main.rs"]
mod topology;
