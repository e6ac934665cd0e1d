//! Controller state and accounting: which trainers there are, which nodes they hold, what they have
//! done.
//!
//! [`Book::step`] takes one [`Input`] and answers with [`Effect`]s in the order in which they must
//! be carried out: leases are written before records, records and members before commands. The
//! outcome of [`Effect::WriteLeases`] comes back as [`Input::LeasesWritten`] before any other
//! input; an unknown outcome is asked for again by the timer.
//!
//! What always holds:
//! 1. A node has at most one owner, the one in the bucket of leases. It gets a new owner only after
//!    its agent has confirmed the release.
//! 2. A trainer's incarnation has only nodes whose lease it holds. Every change of the set is a new
//!    incarnation, recorded before any agent hears of it.
//! 3. Samples are counted once ([`crate::account`]).
//! 4. In doubt less is done: no node is given away while the bus is gone, the pool unknown, or the
//!    plan not made for what is now.

mod admission;
mod agents;
mod archive;
mod broken;
mod effect;
mod harm;
mod input;
mod leases;
mod pauses;
mod plan;
mod pool;
mod profile;
mod quarantine;
mod quota;
mod recover;
mod regroup;
mod runs;
mod settle;
mod state;
mod stats;
mod step;
mod trial;
mod view;
mod withhold;

pub use effect::{Effect, LeaseResult, LeaseWrite, Note, Refusal, RefusalKind};
pub use input::{Input, Taken, Tick};
pub(crate) use profile::is_profiled;
pub use state::{Book, BookConfig};
pub use view::{NodeView, Tally, TrainersView};
pub use withhold::Use;
