//! The number of nodes of the machine, checked against the log.

use std::collections::HashSet;
use std::path::Path;

use lacuna_model::{HoleRecord, NodeId};
use lacuna_trace::{LogHeader, read_nodes};

use super::args::{LogArgs, MOST_NODES};
use super::error::unreadable;
use super::in_memory::nodes_file;
use super::jobs_on_nodes::{JobsOnNodes, jobs, nodes};
use super::summary::LogSummary;
use crate::error::{CliError, Exit, Result};

/// The sources of the size of a machine, in words.
const SAID: &str = "by --machine-nodes";
const LISTED: &str = "by the list of nodes";

/// The size of the machine of a log without nodes.
///
/// # Errors
/// `L0019` if no source states the size; the size is beyond the limit.
pub(super) fn of_jobs(args: &LogArgs, header: &LogHeader, summary: &mut LogSummary) -> Result<u32> {
    let procs = header.procs.map(|procs| {
        let per_node = args.machine.procs_per_node.unwrap_or(1).max(1);
        procs.div_ceil(per_node)
    });
    let listed = match &args.machine.nodes_file {
        Some(file) => Some(count(read_nodes(file).map_err(unreadable)?.len())),
        None => None,
    };
    let found = [
        (args.machine.machine_nodes, SAID),
        (listed, LISTED),
        (header.nodes, "by the log's header"),
        (procs, "by the processors in the log's header"),
    ];
    let path = args.log.display();
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
    Ok(size)
}

/// The machine of a list of holes: as stated, as listed, as named in the log; else unknown.
///
/// # Errors
/// The stated number is below the number of nodes with holes; the list is of another machine.
pub(super) fn of_holes(
    args: &LogArgs,
    holes: &[HoleRecord],
    named: Option<u32>,
    summary: &mut LogSummary,
) -> Result<()> {
    let of_log: HashSet<&NodeId> = holes.iter().map(|hole| &hole.node).collect();
    let mut listed = None;
    if let Some(file) = nodes_file(args) {
        let list = read_nodes(&file).map_err(unreadable)?;
        let names: HashSet<&NodeId> = list.iter().collect();
        let foreign = of_log.difference(&names);
        let fit = Fit {
            known: of_log.intersection(&names).count(),
            foreign: foreign.clone().count(),
            example: foreign.min().map(|node| node.as_str()),
            listed: list.first().map_or("", NodeId::as_str),
        };
        match fit.check(args, &file) {
            Ok(note) => {
                summary.notes.extend(note);
                listed = Some(count(list.len()));
            }
            // A list that only lies beside the log may belong to another machine.
            Err(_) if args.machine.nodes_file.is_none() => summary.notes.push(format!(
                "{} is not a list of this log's nodes and is not used",
                file.display()
            )),
            Err(error) => return Err(error),
        }
    }
    let found = [
        (args.machine.machine_nodes, SAID),
        (listed, LISTED),
        (named, "named in the log"),
    ];
    for (size, from) in found {
        if summary.machine_nodes.is_none() && size.is_some() {
            (summary.machine_nodes, summary.nodes_from) = (size, from);
        }
    }
    enough(args, count(of_log.len()))
}

/// The machine of a log that names the nodes of jobs.
///
/// # Errors
/// As [`of_holes`].
pub(super) fn of_placed(
    args: &LogArgs,
    jobs_on_nodes: &JobsOnNodes,
    summary: &mut LogSummary,
) -> Result<()> {
    let named = jobs_on_nodes.occupancy.nodes();
    if let Some(file) = &args.machine.nodes_file {
        let fit = Fit {
            known: jobs_on_nodes.occupancy.used(),
            foreign: usize::try_from(jobs_on_nodes.found.unlisted).unwrap_or(usize::MAX),
            example: jobs_on_nodes.occupancy.unlisted(),
            listed: named.first().map_or("", NodeId::as_str),
        };
        if let Some(note) = fit.check(args, file)? {
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
    enough(args, names)?;
    match args.machine.machine_nodes {
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
fn enough(args: &LogArgs, names: u32) -> Result<()> {
    match args.machine.machine_nodes {
        Some(size) if size < names => Err(CliError::failed(format!(
            "{}: the log names {}, more than --machine-nodes {size}",
            args.log.display(),
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
    fn check(&self, args: &LogArgs, file: &Path) -> Result<Option<String>> {
        let Some(example) = self.example else {
            return Ok(None);
        };
        let of_log = self.known.saturating_add(self.foreign);
        let (log, file) = (args.log.display(), file.display());
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
