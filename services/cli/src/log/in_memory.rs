//! Holes held in memory, and the requested part of them.

use std::collections::HashSet;
use std::path::PathBuf;

use lacuna_model::{HoleRecord, NodeId, PlannedStart, Timestamp};
use lacuna_sim::HoleTrace;
use lacuna_trace::{first_nodes, read_nodes, read_planned};

use super::error::unreadable;
use super::options::LogOptions;
use super::outages::{Activity, Outage, crowded, leave_out};
use super::summary::{LeftOut, Rule};
use crate::error::{CliError, Result};

/// The holes and planned starts of a log, in memory.
pub(super) struct HolesInMemory {
    holes: Vec<HoleRecord>,
    /// First and last moment, and number of nodes, of all holes, outages included.
    span: Option<(Timestamp, Timestamp)>,
    named: u32,
    /// How outages, which have no holes, are found; none if none are looked for.
    rule: Option<Rule>,
    outages: Vec<Outage>,
    planned: Vec<PlannedStart>,
    nodes: Option<HashSet<NodeId>>,
}

impl HolesInMemory {
    /// Takes the holes of a whole log, with the activity of its jobs if they are known; returns
    /// them with notes for the reader.
    ///
    /// # Errors
    /// Fewer nodes than requested; the list of nodes, or that of planned starts, cannot be read.
    pub(super) fn new(
        options: &LogOptions,
        holes: Vec<HoleRecord>,
        activity: Option<Activity>,
    ) -> Result<(Self, Vec<String>)> {
        // An outage is seen on the whole machine, so outages are removed before nodes are chosen.
        let nodes = chosen_nodes(options, &holes)?;
        let mut notes = Vec::new();
        let planned = options
            .planned
            .as_ref()
            .map(|path| read_planned(path, &holes));
        let planned = planned.transpose().map_err(unreadable)?.unwrap_or_default();
        if planned.without_hole > 0 {
            notes.push(format!(
                "{} planned starts are left out: their nodes have no hole then",
                planned.without_hole
            ));
        }
        let named: HashSet<&NodeId> = holes.iter().map(|hole| &hole.node).collect();
        let named = u32::try_from(named.len()).unwrap_or(u32::MAX);
        let machine = options.machine_nodes.unwrap_or(named);
        let span = span(&holes);
        let rule = options.outages();
        let outages = match rule {
            Some(Rule::IdleAbove(most)) => crowded(&holes, most),
            Some(Rule::Events) => {
                let activity = activity.unwrap_or_else(|| Activity::of_holes(&holes, machine));
                activity.outages(machine)
            }
            None => Vec::new(),
        };
        let holes = if outages.is_empty() {
            holes
        } else {
            leave_out(&holes, &outages)
        };
        let planned = planned.starts;
        let memory = Self {
            holes,
            span,
            named,
            rule,
            outages,
            planned,
            nodes,
        };
        Ok((memory, notes))
    }

    /// The first and the last moment, outages included; none without holes.
    pub(super) const fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.span
    }

    /// Whether outages are left out.
    pub(super) const fn has_outages(&self) -> bool {
        !self.outages.is_empty()
    }

    /// The outages in a part of the time; none if none are looked for.
    pub(super) fn left_out(&self, from: Timestamp, until: Timestamp) -> Option<LeftOut> {
        Some(LeftOut::of(self.rule?, &self.outages, from, until))
    }

    /// Number of nodes with a hole, outages included.
    pub(super) const fn named(&self) -> u32 {
        self.named
    }

    /// The chosen nodes; none if all are meant.
    pub(super) fn into_chosen(self) -> Option<HashSet<NodeId>> {
        self.nodes
    }

    /// The trace of a part of the time.
    pub(super) fn trace(&self, from: Timestamp, until: Option<Timestamp>) -> HoleTrace {
        let nodes = self.nodes.as_ref();
        HoleTrace::with_planned(&self.holes, &self.planned, nodes, from, until)
    }
}

/// The first and the last moment of holes; none without holes.
fn span(holes: &[HoleRecord]) -> Option<(Timestamp, Timestamp)> {
    let from = holes.iter().map(|hole| hole.from).min()?;
    let until = holes.iter().map(|hole| hole.until).max()?;
    Some((from, until))
}

/// The list of nodes that is named, or that lies beside the log.
pub(super) fn nodes_file(options: &LogOptions) -> Option<PathBuf> {
    let beside = options.file.with_file_name("nodes.txt");
    match &options.nodes_file {
        Some(file) => Some(file.clone()),
        None => beside.exists().then_some(beside),
    }
}

/// The nodes of `--first-nodes`; none if the switch is absent.
fn chosen_nodes(options: &LogOptions, holes: &[HoleRecord]) -> Result<Option<HashSet<NodeId>>> {
    let Some(count) = options.first_nodes else {
        return Ok(None);
    };
    let file = nodes_file(options);
    let order = file.as_deref().map(read_nodes).transpose();
    let order = order.map_err(|e| CliError::failed(e.to_string()))?;
    let chosen = first_nodes(count, order.as_deref(), holes);
    if chosen.len() < count {
        let source = file.unwrap_or_else(|| options.file.clone());
        return Err(CliError::failed(format!(
            "--first-nodes {count}: {} has only {}",
            source.display(),
            chosen.len()
        )));
    }
    Ok(Some(chosen))
}
