//! A live scheduler as ingest reads it: commands of a polling cycle, lines of a followed file, and what
//! their answers say of nodes.
//!
//! A polling cycle runs the commands of [`Live::requests`] in their order, gives each answer to
//! [`Live::read`], and takes the result of all. A failed answer ends the cycle, and changes nothing.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use jiff::tz::TimeZone;
use lacuna_model::{NodeId, SchedulerName, SettingError, Timestamp};
use lacuna_records::FieldError;
use serde_json::Value;

use crate::answer::AnswerError;
use crate::labels::Labels;
use crate::node_status::NodeStatus;
use crate::shared::{Following, Polling};
use crate::unsupported::{Unsupported, lacks};

/// A command whose output is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its label in metrics, as `sinfo`.
    pub label: &'static str,
    /// A program and its arguments.
    pub command: Vec<String>,
}

impl Request {
    pub(crate) fn new(label: &'static str, command: &[String], more: Vec<String>) -> Self {
        let command = command.iter().cloned().chain(more).collect();
        Self { label, command }
    }
}

/// Where an answer to a question about nodes is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// In the answer of a request of its own.
    Own(Request),
    /// In the answer of this request of the polling cycle.
    Cycle(usize),
}

/// A file that a scheduler writes.
#[derive(Debug, Clone, Copy)]
pub struct Followed<'a> {
    /// The file, or a folder with a file a day.
    pub path: &'a Path,
    /// How it is followed.
    pub following: &'a Following,
}

/// The planned start of a waiting job on named nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedJob {
    /// Job id of the scheduler.
    pub job: String,
    /// Nodes on which the job is to start. Empty: the planned start is withdrawn.
    pub nodes: Vec<NodeId>,
    /// Planned start.
    pub start: Timestamp,
}

/// One poll, compared with the polls before it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PollResult {
    /// Nodes with their status, sorted. Nodes that are gone count as unusable.
    pub nodes: Vec<(NodeId, NodeStatus)>,
    /// Planned starts that are new, changed or withdrawn.
    pub planned: Vec<PlannedJob>,
    /// Number of planned starts that are kept.
    pub kept: usize,
    /// Number of nodes that are missing and not yet gone.
    pub missing: usize,
    /// Number of silent nodes that keep their status.
    pub silent: usize,
    /// Parts of the answers that could not be read as they are.
    pub flaws: Vec<String>,
}

/// The remedy of a scheduler that says nothing of the topology.
pub(crate) const NO_TOPOLOGY: &str = "a file (the guide of topologies lists the formats)";

/// A live scheduler. It is polled, or a file of it is followed, or both.
pub trait Live: fmt::Debug + Send + Sync {
    /// Its name.
    fn scheduler(&self) -> SchedulerName;

    /// Checks the section.
    ///
    /// # Errors
    /// [`SettingError`] for the first wrong value.
    fn check(&self) -> Result<(), SettingError>;

    /// Time zone of local times in answers; the zone of this machine if absent.
    fn time_zone(&self) -> Option<&str> {
        None
    }

    /// Whether a list of all nodes is needed, since no answer has one.
    fn needs_nodes(&self) -> bool {
        false
    }

    /// Begins to read, with local times of `zone`, and `nodes` if they are known.
    fn begin(&mut self, zone: TimeZone, nodes: &BTreeSet<NodeId>) {
        let _ = (zone, nodes);
    }

    /// How often it is polled.
    ///
    /// # Errors
    /// [`Unsupported`] if it is only followed.
    fn polling(&self) -> Result<&Polling, Unsupported> {
        Err(lacks(self.scheduler(), "polling", "a file to follow"))
    }

    /// Commands of a polling cycle, in their order.
    fn requests(&self) -> Vec<Request> {
        Vec::new()
    }

    /// Variables that give answers their form.
    fn variables(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Beginnings of the names of variables that would change the form of answers.
    fn unset(&self) -> &'static [&'static str] {
        &[]
    }

    /// Reads the answer to a request of the cycle.
    ///
    /// # Errors
    /// [`AnswerError`] if it cannot be used.
    fn read(&mut self, request: usize, answer: &str) -> Result<(), AnswerError> {
        let _ = (request, answer);
        Ok(())
    }

    /// The result of a cycle whose answers all were read.
    fn result(&mut self) -> PollResult {
        PollResult::default()
    }

    /// Expects further nodes in the next answer, which another source has reported as idle.
    fn expect(&mut self, nodes: Vec<NodeId>) {
        let _ = nodes;
    }

    /// How it is asked where nodes are. The answer is read as a file of the same form is; `keys` are the
    /// resources that name switches, where a scheduler needs them.
    ///
    /// # Errors
    /// [`Unsupported`] if it does not say.
    fn topology(&self, keys: &[String]) -> Result<Question, Unsupported> {
        let _ = keys;
        Err(lacks(self.scheduler(), "topology", NO_TOPOLOGY))
    }

    /// Whether an answer says that the scheduler knows no topology.
    fn has_no_topology(&self, answer: &str) -> bool {
        let _ = answer;
        false
    }

    /// How it is asked what tells nodes apart.
    ///
    /// # Errors
    /// [`Unsupported`] if it does not say.
    fn kinds(&self) -> Result<Question, Unsupported> {
        let remedy = "a file in ingest.kinds_file, or lists (nodes:) in ingest.kinds";
        Err(lacks(self.scheduler(), "labels of nodes", remedy))
    }

    /// Reads what tells nodes apart.
    ///
    /// # Errors
    /// [`AnswerError`] if the answer cannot be used.
    fn labels(&self, answer: &str) -> Result<Labels, AnswerError> {
        let _ = answer;
        Ok(Labels::new())
    }

    /// The file that is followed.
    ///
    /// # Errors
    /// [`Unsupported`] if there is none.
    fn follow(&self) -> Result<Followed<'_>, Unsupported> {
        Err(lacks(self.scheduler(), "followed file", "polling"))
    }

    /// Takes a line. Returns the time of its event, if it has one.
    ///
    /// # Errors
    /// [`FieldError`] if the line is damaged. It then changes nothing.
    fn line(&mut self, line: &[u8]) -> Result<Option<Timestamp>, FieldError> {
        let _ = line;
        Ok(None)
    }

    /// Nodes that lines have changed since the call before, with their status.
    fn changes(&mut self) -> Vec<(NodeId, NodeStatus)> {
        Vec::new()
    }

    /// Status of all nodes by lines alone; nothing if the scheduler is polled.
    fn statuses(&self) -> Vec<(NodeId, NodeStatus)> {
        Vec::new()
    }

    /// What a restart needs to go on at the position of the file.
    ///
    /// # Errors
    /// If it cannot be written as JSON.
    fn state(&self) -> Result<Value, serde_json::Error> {
        Ok(Value::Null)
    }

    /// Goes on from a state.
    ///
    /// # Errors
    /// If it is no state of this scheduler. The reader is then as it was.
    fn restore(&mut self, state: Value) -> Result<(), serde_json::Error> {
        let _ = state;
        Ok(())
    }
}
