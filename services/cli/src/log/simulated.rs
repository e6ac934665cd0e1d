//! Batch jobs without nodes, which the simulated scheduler places, as a trace.

use lacuna_sim::{PoolTrace, SimulatedTrace, Simulation};
use lacuna_trace::{JobRecord, Log, Window};
use serde_json::Value;

use super::error::unreadable;
use super::input::Input;
use super::jobs_on_nodes::jobs;
use super::machine;
use super::options::LogOptions;
use super::outage_filter::{OutageFilter, crowded};
use super::outages::Activity;
use super::part::start;
use super::progress::Bar;
use super::sample::Sample;
use super::summary::{HoleSource, LeftOut, LogSummary, Rule};
use crate::error::{CliError, Exit, Result};

/// Runs jobs without nodes through the simulated scheduler.
///
/// # Errors
/// As [`load`](super::load()).
pub(super) fn read(options: &LogOptions, sample: &Sample, bar: &mut Bar) -> Result<Input> {
    refuse_named_nodes(options)?;
    let mut summary = LogSummary::new(&options.file, sample.format.name(), HoleSource::Simulated);
    let machine = machine::of_jobs(options, &sample.header, &mut summary)?;
    if sample.pilots > 0 {
        summary.notes.push(
            "the log has pilots of Lacuna and names no nodes: they count as batch jobs, so more nodes were \
             idle than it says"
                .to_owned(),
        );
    }
    let simulation = Simulation {
        window: Window {
            start: options.window.start.or(options.submitted),
            end: options.window.end,
        },
        walltime: options.walltime_default,
        planned_starts: options.planned_starts,
    };
    let simulated = SimulatedTrace::open(
        &options.file,
        &options.reading,
        machine,
        simulation,
        &mut |p| {
            bar.reading(&options.file, p.jobs);
        },
    )
    .map_err(|e| CliError::failed(e.to_string()))?;
    check_size(&simulated, options, &summary)?;
    summary.computer = sample.header.computer.clone();
    describe(&simulated, options, &mut summary);
    if simulated.length_s() <= 0.0 {
        // The error texts are the same as for other logs.
        let span = (simulated.survey().first_submit, simulated.survey().last_end);
        start(options, span)?;
        return Err(CliError::failed(format!(
            "nothing of the log is left: all jobs of {} are submitted at one moment",
            options.file.display()
        )));
    }
    without_outages(options, simulated, summary, bar)
}

/// Leaves out the outages of the simulated machine.
fn without_outages(
    options: &LogOptions,
    simulated: SimulatedTrace,
    mut summary: LogSummary,
    bar: &mut Bar,
) -> Result<Input> {
    let Some(rule) = options.outages() else {
        return Ok(Input {
            summary,
            recording: Box::new(simulated),
        });
    };
    let outages = match rule {
        Rule::IdleAbove(most) => {
            crowded(&simulated, most).map_err(|e| CliError::failed(e.to_string()))?
        }
        Rule::Events => activity(options, bar)?.outages(simulated.machine().nodes),
    };
    let (start, end) = (simulated.start(), simulated.end());
    summary.left_out = Some(LeftOut::of(rule, &outages, start, end));
    let inner: Box<dyn PoolTrace> = Box::new(simulated);
    let recording: Box<dyn PoolTrace> = if outages.is_empty() {
        inner
    } else {
        Box::new(OutageFilter { inner, outages })
    };
    Ok(Input { summary, recording })
}

/// Refuses what needs a log that names nodes.
fn refuse_named_nodes(options: &LogOptions) -> Result<()> {
    if options.ours.is_some() {
        return Err(CliError::failed(format!(
            "--ours needs a log that names nodes: {} does not say which nodes pilots had",
            options.file.display()
        ))
        .remedy("print the log with the nodes of jobs (sacct: nodelist), or leave --ours out"));
    }
    if options.first_nodes.is_some() {
        return Err(CliError::failed(format!(
            "--first-nodes needs a log that names nodes: {} has batch jobs without their nodes",
            options.file.display()
        )));
    }
    if options.planned.is_some() {
        return Err(CliError::failed(format!(
            "--planned needs a log that names nodes: {} has batch jobs without their nodes, and \
             the simulated scheduler plans its own starts",
            options.file.display()
        ))
        .remedy("leave --planned out"));
    }
    Ok(())
}

/// Starts and ends of the jobs of a log as it has them, whatever a simulated scheduler makes of them.
fn activity(options: &LogOptions, bar: &mut Bar) -> Result<Activity> {
    let mut activity = Activity::default();
    let Log::Jobs(mut log) = options.open()? else {
        return Ok(activity);
    };
    let (mut record, mut records) = (JobRecord::default(), 0_u64);
    while log.read(&mut record).map_err(unreadable)? {
        if let Some(start) = record.start {
            let times = (record.submit, start, record.end);
            activity.job(times, u64::from(record.nodes));
        }
        records += 1;
        if records.is_multiple_of(4096) {
            bar.reading(&options.file, records);
        }
    }
    Ok(activity)
}

/// A log is odd if its smallest job takes more than one in this many of the machine's nodes.
const LARGE: u64 = 100;

/// Refuses a machine that is too small for some of the jobs: its size is not that of the log.
///
/// # Errors
/// `L0019` with the number of such jobs, unless `--leave-out-too-large` is given.
fn check_size(
    simulated: &SimulatedTrace,
    options: &LogOptions,
    summary: &LogSummary,
) -> Result<()> {
    let (nodes, survey) = (simulated.machine().nodes, simulated.survey());
    if survey.totals.skipped == 0 || options.leave_out_too_large {
        return Ok(());
    }
    let largest = survey.counts.largest;
    let message = format!(
        "{}: {} of {} need more nodes than the machine's {nodes} ({}), the largest {largest}",
        options.file.display(),
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
fn describe(simulated: &SimulatedTrace, options: &LogOptions, summary: &mut LogSummary) {
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
    summary.starts_recorded = options.starts_recorded();
    summary.utilised(
        survey.utilisation,
        simulated.machine().nodes,
        simulated.end().since(simulated.start()),
    );
    let mut put = |name: &str, value: f64| summary.put(name, Value::from(value));
    if totals.started > 0 {
        let waited = totals.waited_s as f64 / totals.started as f64 / 3600.0;
        // At recorded starts, the waiting times are those of the log.
        if !options.starts_recorded() {
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
    if options.starts_recorded() && counts.recorded_wait_s == 0 {
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
    if counts.without_walltime > 0 && options.walltime_default.is_none() {
        summary.notes.push(format!(
            "{} jobs have no walltime and are taken to have asked for as long as they ran \
             (lacuna holes --walltime-default)",
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
    summary.notes.push(if options.starts_recorded() {
        "the log does not say which nodes were idle: jobs start when it says, on nodes that the \
         simulator chooses"
            .to_owned()
    } else {
        "the log does not say which nodes were idle: holes are those of the simulated scheduler"
            .to_owned()
    });
}
