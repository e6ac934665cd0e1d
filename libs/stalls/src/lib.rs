//! Where the time of a training step goes, and what its user can change.
//!
//! The members of a trainer time their own steps ([`Trace`]). A small model of the pipeline from
//! the loader to the optimiser replays these steps ([`Change`]) with one thing changed. The cost of
//! a cause is what its removal alone would save. So a stall that hides behind another one costs
//! nothing, and a member that waits for a slow one does not wait for the link.
//!
//! - [`Trace`] is what a trainer reports, [`Steps`] what can be replayed of it.
//! - [`Steps::replay`] is the model, with its formulas.
//! - [`answer`]: the costs of all causes, other sizes, links and loaders, and the advice, which
//!   [`in_words`] says. It advises nothing if the replayed step is not the measured one.
//! - [`recommend`]: the cheapest resource that does a work in time.
//!
//! Source of the causes: Stash (arXiv 2208.14344) and its program.

mod advice;
mod answer;
mod change;
mod error;
mod link;
mod recommend;
mod replay;
mod steps;
mod trace;
mod words;

pub use advice::advice_in_words;
pub use answer::answer;
pub use change::Change;
pub use error::Error;
pub use link::Link;
pub use recommend::{Candidate, Kind, Site, Work, recommend};
pub use steps::Steps;
pub use trace::{RankTimes, Trace, VERSION};
pub use words::in_words;
