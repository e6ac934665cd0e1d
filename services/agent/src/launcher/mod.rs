//! Launchers: they start, watch and stop training.

mod command;
mod costs;
mod crew;
mod devices;
mod environment;
mod failure;
mod files;
mod front;
mod names;
mod orphans;
mod past;
mod run;
mod settings;
mod simulated;
mod stand_in;
mod talk;

use lacuna_model::{Assignment, Ending, NodeId, Progress, RunId, Timestamp};
use lacuna_trainer::agent::Exit;

pub use command::Command;
pub(crate) use files::{Wanted, output, text_of};
pub use names::{Answer as MembersAnswer, Names};
pub use run::Order;
pub use settings::Settings;
pub use simulated::Simulated;
pub use stand_in::{Played, StandIn};

/// An event of a launcher.
#[derive(Debug, Clone, PartialEq)]
pub enum LauncherEvent {
    /// A run has made progress.
    Progress(Progress),
    /// A program that regroups is ready to join an incarnation.
    Ready {
        /// The node.
        node: NodeId,
        /// The incarnation under which it was started.
        run: RunId,
    },
    /// A program that regroups has found the group of an incarnation broken, or whole again.
    Group {
        /// The node.
        node: NodeId,
        /// The incarnation under which it was started.
        run: RunId,
        /// The incarnation of the group.
        of: RunId,
        /// Whether the group is broken.
        broken: bool,
    },
    /// A program says how far its end has come; `None` if it has work again.
    Ends {
        /// The node.
        node: NodeId,
        /// The incarnation under which it was started.
        run: RunId,
        /// How far.
        ending: Option<Ending>,
    },
    /// The program of a run has ended by itself.
    Exited {
        /// The node.
        node: NodeId,
        /// The incarnation under which it was started.
        run: RunId,
        /// How.
        exit: Exit,
    },
    /// The guard of a run has ended its program, since this agent was suspended.
    Suspended {
        /// The node.
        node: NodeId,
        /// The incarnation under which it was started.
        run: RunId,
    },
    /// The program of a run has ended after it was stopped.
    Stopped {
        /// The node.
        node: NodeId,
        /// The incarnation under which it was started.
        run: RunId,
    },
}

/// A way to run trainers. Events come from [`Launcher::events`]. Launchers with processes of
/// their own send them through the channel that they were given.
pub trait Launcher {
    /// Starts a node's part of an incarnation at `now` (cluster time).
    fn start(&mut self, node: &NodeId, assignment: Assignment, now: Timestamp);

    /// Stops a node's part of an incarnation. Its last report is for `at` at the latest, where that
    /// is possible.
    fn stop(&mut self, node: &NodeId, run: RunId, at: Timestamp);

    /// The events since the last call.
    fn events(&mut self) -> Vec<LauncherEvent>;

    /// The last lines of a trainer's output on a node, oldest first.
    fn output(&self, node: &NodeId, trainer: &str, lines: usize) -> Vec<String>;
}
