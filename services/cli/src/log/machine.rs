//! The number of nodes of the machine, checked against the log.

use std::collections::HashSet;
use std::path::Path;

use lacuna_batchsim::{Machine, Oversized};
use lacuna_model::{HoleRecord, NodeId};
use lacuna_trace::{LogHeader, read_nodes};

use super::args::MOST_NODES;
use super::error::unreadable;
use super::in_memory::nodes_file;
use super::jobs_on_nodes::{JobsOnNodes, jobs, nodes};
use super::options::{LogOptions, Scheduler};
use super::summary::LogSummary;
use super::unavailable;
use crate::error::{CliError, Exit, Result};

/// The sources of the size of a machine, in words.
const SAID: &str = "by --machine-nodes";
const LISTED: &str = "by the list of nodes";

/// The simulated machine of a log without nodes.
///
/// # Errors
/// `L0019` if no source states the size; the size is beyond the limit; a file of outages or
/// reservations cannot be read or is invalid.
pub(super) fn of_jobs(
    options: &LogOptions,
    header: &LogHeader,
    summary: &mut LogSummary,
) -> Result<Machine> {
    let procs = header.procs.map(|procs| {
        let per_node = options.reading.procs_per_node.unwrap_or(1).max(1);
        procs.div_ceil(per_node)
    });
    let listed = match &options.nodes_file {
        Some(file) => Some(count(read_nodes(file).map_err(unreadable)?.len())),
        None => None,
    };
    let found = [
        (options.machine_nodes, SAID),
        (listed, LISTED),
        (header.nodes, "by the log's header"),
        (procs, "by the processors in the log's header"),
    ];
    let path = options.file.display();
    let Some((size, from)) = found
        .into_iter()
        .find_map(|(size, from)| Some((size.filter(|&size| size > 0)?, from)))
    else {
        let message =
            format!("{path}: the log names no nodes and does not say how many the machine has");
        return Err(
            CliError::new("L0019", Exit::Failed, message).remedy("say it with --machine-nodes")
        );
    };
    if size > MOST_NODES {
        return Err(CliError::failed(format!(
            "{path}: the machine has {size} nodes {from}, more than {MOST_NODES}"
        ))
        .remedy("say with --machine-nodes how many it has"));
    }
    (summary.machine_nodes, summary.nodes_from) = (Some(size), from);
    simulated(options, size)
}

/// The simulated machine of this many nodes, for jobs without nodes.
///
/// # Errors
/// A file of outages or reservations cannot be read or is invalid.
fn simulated(options: &LogOptions, nodes: u32) -> Result<Machine> {
    let Scheduler {
        backfill,
        layout,
        starts,
        overrun,
    } = options.scheduler;
    let mut machine = Machine {
        backfill,
        layout,
        starts,
        overrun,
        oversized: Oversized::Skip,
        ..Machine::new(nodes)
    };
    if let Some(path) = &options.drained {
        machine.outages = unavailable::read(path)?
            .iter()
            .map(|entry| entry.outages(nodes))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|what| unavailable::refuse(path, &what))?
            .concat();
    }
    if let Some(path) = &options.reservations {
        machine.reservations = unavailable::read(path)?
            .iter()
            .map(|entry| entry.reservations(nodes))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|what| unavailable::refuse(path, &what))?
            .concat();
    }
    Ok(machine)
}

/// The machine of a list of holes: as stated, as listed, as named in the log; else unknown.
///
/// # Errors
/// The stated number is below the number of nodes with holes; the list is of another machine.
pub(super) fn of_holes(
    options: &LogOptions,
    holes: &[HoleRecord],
    named: Option<u32>,
    summary: &mut LogSummary,
) -> Result<()> {
    let of_log: HashSet<&NodeId> = holes.iter().map(|hole| &hole.node).collect();
    let mut listed = None;
    if let Some(file) = nodes_file(options) {
        let list = read_nodes(&file).map_err(unreadable)?;
        let names: HashSet<&NodeId> = list.iter().collect();
        let foreign = of_log.difference(&names);
        let fit = Fit {
            known: of_log.intersection(&names).count(),
            foreign: foreign.clone().count(),
            example: foreign.min().map(|node| node.as_str()),
            listed: list.first().map_or("", NodeId::as_str),
        };
        match fit.check(options, &file) {
            Ok(note) => {
                summary.notes.extend(note);
                listed = Some(count(list.len()));
            }
            // A list that only lies beside the log may belong to another machine.
            Err(_) if options.nodes_file.is_none() => summary.notes.push(format!(
                "{} is not a list of this log's nodes and is not used",
                file.display()
            )),
            Err(error) => return Err(error),
        }
    }
    let found = [
        (options.machine_nodes, SAID),
        (listed, LISTED),
        (named, "named in the log"),
    ];
    for (size, from) in found {
        if summary.machine_nodes.is_none() && size.is_some() {
            (summary.machine_nodes, summary.nodes_from) = (size, from);
        }
    }
    enough(options, count(of_log.len()))
}

/// The machine of a log that names the nodes of jobs.
///
/// # Errors
/// As [`of_holes`].
pub(super) fn of_placed(
    options: &LogOptions,
    jobs_on_nodes: &JobsOnNodes,
    summary: &mut LogSummary,
) -> Result<()> {
    let named = jobs_on_nodes.occupancy.nodes();
    if let Some(file) = &options.nodes_file {
        let fit = Fit {
            known: jobs_on_nodes.occupancy.used(),
            foreign: usize::try_from(jobs_on_nodes.found.unlisted).unwrap_or(usize::MAX),
            example: jobs_on_nodes.occupancy.unlisted(),
            listed: named.first().map_or("", NodeId::as_str),
        };
        if let Some(note) = fit.check(options, file)? {
            summary.notes.push(format!(
                "{note}: {} ran only there, {} in part",
                jobs(jobs_on_nodes.elsewhere),
                jobs_on_nodes.partly
            ));
        }
        (summary.machine_nodes, summary.nodes_from) = (Some(count(named.len())), LISTED);
        return Ok(());
    }
    let names = count(named.len());
    enough(options, names)?;
    match options.machine_nodes {
        Some(size) => {
            (summary.machine_nodes, summary.nodes_from) = (Some(size), SAID);
            if size > names {
                summary.notes.push(format!(
                    "{} of the machine's {size} are not named in the log: whether they were idle \
                     is not known, and they count as busy in shares of the machine (--nodes-file \
                     lists all)",
                    nodes(size - names)
                ));
            }
        }
        None => {
            (summary.machine_nodes, summary.nodes_from) = (Some(names), "named in the log");
            summary.notes.push(format!(
                "the log names {}; one that never had a job is unknown (--nodes-file lists all)",
                nodes(names - count(jobs_on_nodes.added).min(names))
            ));
        }
    }
    Ok(())
}

/// Refuses a stated number of nodes that is below the number in the log.
fn enough(options: &LogOptions, names: u32) -> Result<()> {
    match options.machine_nodes {
        Some(size) if size < names => Err(CliError::failed(format!(
            "{}: the log names {}, more than --machine-nodes {size}",
            options.file.display(),
            nodes(names)
        ))
        .remedy("leave --machine-nodes out, or take some of the nodes with --first-nodes")),
        _ => Ok(()),
    }
}

/// The match between a list of nodes and the nodes of a log.
struct Fit<'a> {
    /// The number of nodes of the log that are on the list, and that are not.
    known: usize,
    foreign: usize,
    /// A node that is not on the list.
    example: Option<&'a str>,
    /// A node of the list.
    listed: &'a str,
}

impl Fit<'_> {
    /// The note on missing nodes, if there are any.
    fn check(&self, options: &LogOptions, file: &Path) -> Result<Option<String>> {
        let Some(example) = self.example else {
            return Ok(None);
        };
        let of_log = self.known.saturating_add(self.foreign);
        let (log, file) = (options.file.display(), file.display());
        if self.known < self.foreign {
            return Err(CliError::failed(format!(
                "{file}: of the {of_log} nodes that {log} names, such as {example}, {} are in this \
                 list, which has names such as {}",
                self.known, self.listed
            ))
            .remedy("give the list of the nodes of this log's machine, written as the log does"));
        }
        Ok(Some(format!(
            "{} of the {of_log} nodes that the log names, such as {example}, are not in {file} and \
             are left out",
            self.foreign
        )))
    }
}

fn count(nodes: usize) -> u32 {
    u32::try_from(nodes).unwrap_or(u32::MAX)
}
