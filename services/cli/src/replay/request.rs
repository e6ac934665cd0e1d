//! What a replay is asked for: a log, trainers, settings, and what is shown.

use std::path::PathBuf;

use lacuna_model::Timestamp;
use lacuna_sim::{Lookahead, Settings};
use lacuna_trainer_file::{Purpose, TrainerList, read};

use super::model::ModelArg;
use super::network::Network;
use super::window::{Part, SavedProblem};
use crate::error::{CliError, Result};
use crate::log::LogOptions;

/// A replay that is asked for.
#[derive(Debug)]
pub struct Request {
    /// How the log is read.
    pub log: LogOptions,
    /// The file of trainers; without it, the built-in ones.
    pub trainers: Option<PathBuf>,
    /// Whether the user says how many trainers are admitted at a time.
    pub says_parallel: bool,
    /// Number of idle nodes that stay free.
    pub keep_idle: usize,
    /// Where nodes are, and what distance costs.
    pub network: Network,
    /// The list of kinds of nodes.
    pub kinds: Option<PathBuf>,
    /// The model that forecasts start with.
    pub model: ModelArg,
    /// The settings. Stages come with the trainers.
    pub settings: Settings,
    /// The file of objectives of single trainers.
    pub objectives: Option<PathBuf>,
    /// The file for the problem of one decision.
    pub save_problem: Option<SavedProblem>,
    /// What is shown.
    pub shown: Shown,
}

/// What is shown of a replay.
#[derive(Debug)]
pub struct Shown {
    /// Whether exactly one JSON value is printed.
    pub json: bool,
    /// The file of the page.
    pub report: Option<PathBuf>,
    /// The file of the drawing.
    pub svg: Option<PathBuf>,
    /// The part of time that is drawn node by node; without it, the first day.
    pub gantt: Option<Part>,
    /// The number of nodes in that part.
    pub gantt_nodes: u32,
}

impl Shown {
    /// The default number of nodes that are drawn node by node.
    pub const GANTT_NODES: u32 = 64;
}

impl Request {
    /// The files that are read.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> + Clone {
        let beside = [
            &self.trainers,
            &self.kinds,
            &self.model.model,
            &self.network.file,
            &self.objectives,
        ];
        self.log.files().chain(beside.into_iter().flatten())
    }

    /// The list of trainers, if one is named.
    ///
    /// # Errors
    /// It cannot be read, or a saved problem could not hold its trainers.
    pub(super) fn list(&self) -> Result<Option<TrainerList>> {
        let list = self.trainers.as_deref();
        let list = list.map(|path| read(path, Purpose::Replay)).transpose();
        let list = list.map_err(|error| CliError::failed(error.to_string()))?;
        let stages = list.iter().flat_map(|list| list.stages.values());
        if self.save_problem.is_some() && stages.into_iter().any(|one| !one.later.is_empty()) {
            let message = "--save-problem: a trainer of the list has stages, and a saved problem knows \
                           one curve";
            return Err(CliError::failed(message).remedy("leave stages out of the list"));
        }
        Ok(list)
    }

    /// How the log is read for these trainers.
    pub(super) fn log_for(&self, list: Option<&TrainerList>) -> LogOptions {
        let trainers = list.iter().flat_map(|list| &list.trainers);
        let settings = &self.settings;
        let mut log = self.log.clone();
        // A trainer without a time of submission is there from the beginning on.
        let first = trainers.map(|trainer| trainer.submit).min();
        log.submitted = first.filter(|first| *first != Timestamp::default());
        log.finds_outages = true;
        // A policy that knows all ends of holes needs no planned starts.
        log.planned_starts = settings.policy.forecasts() && settings.lookahead != Lookahead::All;
        log
    }
}
