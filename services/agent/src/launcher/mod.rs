//! What trains: started, stopped, watched.

mod command;
mod devices;
mod environment;
mod files;
mod names;
mod orphans;
mod run;
mod settings;
mod simulated;
mod talk;

use lacuna_model::{Assignment, NodeId, Progress, RunId, Timestamp};

pub use command::Command;
pub use names::{Names, Said as MembersSaid};
pub use settings::Settings;
pub use simulated::Simulated;

/// What a launcher has to tell.
#[derive(Debug, Clone, PartialEq)]
pub enum Happened {
    /// A run has come so far.
    Progress(Progress),
    /// A program that regroups is ready to be taken into a run.
    Ready {
        /// On which node.
        node: NodeId,
        /// The run under which it was started.
        run: RunId,
    },
    /// A program that regroups has found the group of a run broken, or whole again.
    Group {
        /// On which node.
        node: NodeId,
        /// The run under which it was started.
        run: RunId,
        /// The run whose group it is.
        of: RunId,
        /// Whether it is broken.
        broken: bool,
    },
    /// The program of a run ended by itself.
    Exited {
        /// On which node.
        node: NodeId,
        /// The run under which it was started.
        run: RunId,
        /// Exit code, or 128 + the signal's number.
        code: i32,
        /// Its last words.
        reason: String,
    },
    /// The program of a run has ended, as it was told to.
    Stopped {
        /// On which node.
        node: NodeId,
        /// The run under which it was started.
        run: RunId,
    },
}

/// A way to run trainers. What happens comes out of [`Launcher::happened`] or, for launchers
/// with processes of their own, through the channel that they were given.
pub trait Launcher {
    /// Starts a node's part of a run at `now` (cluster time).
    fn start(&mut self, node: &NodeId, assignment: Assignment, now: Timestamp);

    /// Stops a node's part of a run; its last report is for no later than `at` where that can
    /// be told.
    fn stop(&mut self, node: &NodeId, run: RunId, at: Timestamp);

    /// What has happened since the last call.
    fn happened(&mut self) -> Vec<Happened>;

    /// The last lines of a trainer's output on a node, oldest first.
    fn output(&self, node: &NodeId, trainer: &str, lines: usize) -> Vec<String>;
}
