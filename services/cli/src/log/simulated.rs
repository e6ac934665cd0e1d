//! What is known, and what is said, of a machine that is simulated.

use lacuna_schedlog::{LogHeader, read_nodes};
use lacuna_sim::Simulated;
use serde_json::Value;

use super::args::LogArgs;
use super::facts::Facts;
use super::load::unreadable;
use crate::error::{CliError, Exit, Result};

/// How many nodes the machine has.
///
/// # Errors
/// `L0019` if nothing says so.
pub(super) fn machine_nodes(args: &LogArgs, header: &LogHeader) -> Result<u32> {
    if let Some(nodes) = args.machine.machine_nodes {
        return Ok(nodes);
    }
    if let Some(file) = &args.machine.nodes_file {
        let nodes = read_nodes(file).map_err(unreadable)?.len();
        return Ok(u32::try_from(nodes).unwrap_or(u32::MAX));
    }
    let procs = header.procs.map(|procs| {
        let per_node = args.machine.procs_per_node.unwrap_or(1).max(1);
        procs.div_ceil(per_node)
    });
    header
        .nodes
        .or(procs)
        .filter(|&nodes| nodes > 0)
        .ok_or_else(|| {
            CliError::new(
                "L0019",
                Exit::Failed,
                format!(
                    "{}: the log names no nodes and does not say how many the machine has",
                    args.log.display()
                ),
            )
            .remedy("say it with --machine-nodes")
        })
}

/// Writes down what the simulation came to.
pub(super) fn describe(simulated: &Simulated, args: &LogArgs, facts: &mut Facts) {
    let survey = simulated.facts();
    let (counts, totals) = (&survey.counts, &survey.totals);
    facts.damage(&survey.damage);
    for (name, count) in [
        ("records", counts.records),
        ("jobs", counts.jobs),
        ("cancelled_waiting", counts.cancelled),
        ("never_started", counts.never_started),
        ("incomplete", counts.incomplete),
        ("running_at_the_end", counts.running),
        ("without_an_end", counts.endless),
        ("without_walltime", counts.without_walltime),
        ("out_of_order", counts.late),
        ("too_large", totals.skipped),
        ("overran", totals.overran),
        ("killed_at_walltime", totals.killed),
        ("found_too_few_nodes", totals.conflicts),
    ] {
        facts.count(name, count);
    }
    let mut put = |name: &str, value: f64| facts.jobs.insert(name.to_owned(), Value::from(value));
    put("utilisation", survey.totals_in_use.utilisation());
    if totals.started > 0 {
        put(
            "mean_wait_hours",
            totals.waited_s as f64 / totals.started as f64 / 3600.0,
        );
    }
    if totals.overran > 0 {
        put(
            "mean_overrun_hours",
            totals.overrun_s as f64 / totals.overran as f64 / 3600.0,
        );
    }
    if totals.skipped > 0 {
        facts.notes.push(format!(
            "{} jobs need more nodes than the machine has and were left out: is --machine-nodes {} \
             right?",
            totals.skipped,
            simulated.machine().nodes
        ));
    }
    if counts.without_walltime > 0 && args.machine.walltime_default.is_none() {
        facts.notes.push(format!(
            "{} jobs have no walltime and are taken to have asked for as long as they ran \
             (--walltime-default)",
            counts.without_walltime
        ));
    }
    facts.notes.push(
        "the log does not say which nodes were idle: holes are those of the simulated scheduler"
            .to_owned(),
    );
}
