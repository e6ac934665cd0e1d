//! The summary of a log whose jobs go through the simulated scheduler.

use lacuna_sim::{PoolTrace, SimulatedTrace};
use serde_json::Value;

use super::args::LogArgs;
use super::jobs_on_nodes::jobs;
use super::summary::LogSummary;
use crate::error::{CliError, Exit, Result};

/// A log is odd if its smallest job takes more than one in this many of the machine's nodes.
const LARGE: u64 = 100;

/// Refuses a machine that is too small for some of the jobs: its size is not that of the log.
///
/// # Errors
/// `L0019` with the number of such jobs, unless `--leave-out-too-large` is given.
pub(super) fn check_size(
    simulated: &SimulatedTrace,
    args: &LogArgs,
    summary: &LogSummary,
) -> Result<()> {
    let (nodes, survey) = (simulated.machine().nodes, simulated.survey());
    if survey.totals.skipped == 0 || args.machine.leave_out_too_large {
        return Ok(());
    }
    let largest = survey.counts.largest;
    let message = format!(
        "{}: {} of {} need more nodes than the machine's {nodes} ({}), the largest {largest}",
        args.log.display(),
        survey.totals.skipped,
        jobs(survey.counts.jobs),
        summary.nodes_from
    );
    Err(CliError::new("L0019", Exit::Failed, message).remedy(format!(
        "say with --machine-nodes how many it has, {largest} at least; with processors in place of \
         nodes in the log say --procs-per-node; or go on without these jobs with \
         --leave-out-too-large"
    )))
}

/// Records the figures of the simulation.
pub(super) fn describe(simulated: &SimulatedTrace, args: &LogArgs, summary: &mut LogSummary) {
    let survey = simulated.survey();
    let (counts, totals) = (&survey.counts, &survey.totals);
    summary.damage(&survey.damage);
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
        summary.count(name, count);
    }
    summary.starts_recorded = args.starts_recorded();
    summary.utilised(
        survey.utilisation,
        simulated.machine().nodes,
        simulated.end().since(simulated.start()),
    );
    let mut put = |name: &str, value: f64| summary.put(name, Value::from(value));
    if totals.started > 0 {
        let waited = totals.waited_s as f64 / totals.started as f64 / 3600.0;
        // At recorded starts, the waiting times are those of the log.
        if !args.starts_recorded() {
            put("mean_wait_hours", waited);
        }
    }
    if counts.recorded_wait_s > 0 {
        put(
            "mean_recorded_wait_hours",
            counts.recorded_wait_s as f64 / counts.jobs.max(1) as f64 / 3600.0,
        );
    }
    if totals.overran > 0 {
        put(
            "mean_overrun_hours",
            totals.overrun_s as f64 / totals.overran as f64 / 3600.0,
        );
    }
    if args.starts_recorded() && counts.recorded_wait_s == 0 {
        summary.notes.push(
            "no job of the log waited: --starts recorded starts each when it was \
             submitted, which the log may not mean"
                .to_owned(),
        );
    }
    if totals.conflicts > 0 {
        summary.notes.push(format!(
            "{} jobs found too few free nodes when the log says that they started, and start \
             later: is --machine-nodes {} right?",
            totals.conflicts,
            simulated.machine().nodes
        ));
    }
    if totals.skipped > 0 {
        summary.notes.push(format!(
            "{} of {} need more nodes than the machine's {} and are left out \
             (--leave-out-too-large): nodes that they used seem idle",
            totals.skipped,
            jobs(counts.jobs),
            simulated.machine().nodes
        ));
    }
    if counts.without_walltime > 0 && args.machine.walltime_default.is_none() {
        summary.notes.push(format!(
            "{} jobs have no walltime and are taken to have asked for as long as they ran \
             (--walltime-default)",
            counts.without_walltime
        ));
    }
    for (count, what) in [
        (
            counts.incomplete,
            "no number of nodes in the log and are left out",
        ),
        (
            counts.endless,
            "neither an end nor a walltime in the log and are left out",
        ),
    ] {
        if count > 0 {
            summary.notes.push(format!("{count} jobs have {what}"));
        }
    }
    if simulated.start() > survey.first_submit || simulated.end() < survey.last_submit {
        summary.notes.push(
            "counts of jobs and waits are of the whole log, not of the part that is asked for"
                .to_owned(),
        );
    }
    if u64::from(counts.smallest) * LARGE > u64::from(simulated.machine().nodes) {
        summary.notes.push(format!(
            "no job has fewer than {} of the {} nodes: if the log leaves small jobs out, holes were \
             smaller than these",
            counts.smallest,
            simulated.machine().nodes
        ));
    }
    summary.notes.push(if args.starts_recorded() {
        "the log does not say which nodes were idle: jobs start when it says, on nodes that the \
         simulator chooses"
            .to_owned()
    } else {
        "the log does not say which nodes were idle: holes are those of the simulated scheduler"
            .to_owned()
    });
}
