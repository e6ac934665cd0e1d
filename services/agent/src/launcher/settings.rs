//! Settings of the launcher.

use std::path::PathBuf;

use lacuna_model::Span;
use lacuna_owner::Ticket;
use lacuna_trainer::settings::Agent;

/// Where and how programs run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The program that runs as guard: the agent's own.
    pub guard: PathBuf,
    /// Time between two reads of a progress file.
    pub poll_every: Span,
    /// In a pilot of its owner's: the program that it may run.
    pub ticket: Option<Ticket>,
    /// The section `[agent]`.
    pub agent: Agent,
}
