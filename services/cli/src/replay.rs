//! `lacuna replay`: runs a log through the cores of the services in virtual time.
//!
//! The arguments of a command come to a [`Request`]. The log that it names becomes a trace, the
//! trace with trainers and settings a case; the case is replayed and its figures are shown.

mod args;
mod builtin;
mod case;
mod failed;
mod model;
mod network;
mod order;
mod output;
mod pages;
mod problem;
mod report;
mod request;
mod table;
mod verified;
mod window;

use lacuna_runtime::clock::Stopwatch;
use lacuna_sim::Kept;

pub(crate) use args::{EXAMPLES, MORE, USUAL};

use crate::error::Result;
use crate::log::{Bar, load};

pub use args::ReplayArgs;
pub use model::ModelArg;
pub use network::Network;
pub use order::order;
pub use report::Target;
pub use request::{Request, Shown};
pub use window::{Part, SavedProblem};

/// Replays the log, prints the results and writes the report.
///
/// # Errors
/// A file cannot be read or written, a setting is invalid, or verification failed.
pub fn run(request: &Request) -> Result<()> {
    let watch = Stopwatch::start();
    let pages = pages::Pages::open(request)?;
    let list = request.list()?;
    let log = request.log_for(list.as_ref());
    let mut bar = Bar::new(request.shown.json);
    let input = load(&log, &mut bar)?;
    let known = (request.network).known(input.recording.as_ref(), request.kinds.as_deref())?;
    let trace = Kept::new(&known, request.keep_idle);
    let mut case = case::Case::new(request, list, input.summary, &trace)?;
    let replayed = case.replay(&watch, &mut bar)?;
    pages.write(&case, &replayed)?;
    output::show(&case, replayed, request.shown.json, &watch, &bar)
}
