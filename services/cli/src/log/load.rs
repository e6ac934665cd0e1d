//! Reads the log that the arguments name, as a trace.

use std::collections::HashSet;
use std::path::Path;

use lacuna_model::{HoleRecord, NodeId, Timestamp};
use lacuna_sim::{HoleTrace, PoolTrace, SimulatedTrace, Simulation};
use lacuna_trace::{Format, HoleList, HoleLog, JobLog, JobRecord, Log, Window};

use super::args::LogArgs;
use super::error::unreadable;
use super::from_slurm::Accounting;
use super::in_memory::HolesInMemory;
use super::jobs_on_nodes::{self, JobsOnNodes};
use super::outage_filter::{OutageFilter, crowded};
use super::outages::Activity;
use super::progress::Bar;
use super::summary::{HoleSource, LeftOut, LogSummary, Rule};
use super::{machine, simulated};
use crate::entry::wait_for;
use crate::error::{CliError, Result};
use crate::output::{iso, iso_short};
use crate::up::until_stopped;

/// A log that is ready for a replay.
pub struct Input {
    /// Its summary.
    pub summary: LogSummary,
    /// The requested part of it.
    pub recording: Box<dyn PoolTrace>,
}

/// The requested part of a log.
#[derive(Debug, Clone, Copy)]
struct RequestedPart {
    /// The requested start, if there is one.
    from: Option<Timestamp>,
    until: Option<Timestamp>,
    /// The default start of a replay: the first submission of its trainers.
    submitted: Option<Timestamp>,
}

/// The holes of a log and the time that it covers.
struct HoleHistory {
    holes: Vec<HoleRecord>,
    /// The time in which nodes were watched. It exceeds the time from the first to the last hole if
    /// all nodes were busy at an end. None: the log is a bare list of holes.
    span: Option<(Timestamp, Timestamp)>,
    /// The event that begins this time, in words.
    begins: &'static str,
    /// Starts and ends of the jobs, if the log has jobs.
    activity: Option<Activity>,
}

/// The number of jobs that decides whether a log names the nodes of jobs.
const SAMPLE: u64 = 1_000;

/// Counts of the first jobs of a log.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample {
    /// All records, jobs that ran and others.
    pub(super) records: u64,
    named: u64,
    unnamed: u64,
    /// Pilots of Lacuna among those that ran.
    pilots: u64,
}

/// Opens a log of any format. `submitted` is the default start of a replay, the first submission
/// of its trainers.
///
/// # Errors
/// The log cannot be read, is damaged under `--strict`, or has no hole in the requested part; the
/// size of its machine is unknown; a file beside it is wrong.
pub fn load(args: &LogArgs, submitted: Option<Timestamp>, bar: &mut Bar) -> Result<Input> {
    let Some((span, cluster)) = args.asks_slurm() else {
        return read(args, submitted, bar);
    };
    let accounting = wait_for(until_stopped(Accounting::ask(span, cluster, bar)))?;
    let mut input = read(&args.of_slurm(&accounting), submitted, bar).map_err(|mut error| {
        error.message = accounting.named(&error.message);
        error
    })?;
    let summary = &mut input.summary;
    for note in &mut summary.notes {
        *note = accounting.named(note);
    }
    summary.file = accounting.name;
    summary.notes.extend(accounting.notes);
    Ok(input)
}

fn read(args: &LogArgs, submitted: Option<Timestamp>, bar: &mut Bar) -> Result<Input> {
    let Window { start, end } = args.window()?;
    let requested = RequestedPart {
        from: start,
        until: end,
        submitted,
    };
    match open(args)? {
        Log::Holes(log) => from_holes(args, log, requested, bar),
        Log::Jobs(mut log) => {
            require_regular_file(&args.log)?;
            let sample = sample(args, &mut log)?;
            if sample.records == 0 {
                return Err(unreadable_jobs(&args.log, &log));
            }
            if sample.named > sample.unnamed || args.asks_slurm().is_some() {
                // The sample has consumed the first jobs, so the log is opened again.
                let Log::Jobs(log) = open(args)? else {
                    return Err(CliError::failed("the log has changed while it was read"));
                };
                from_placed(args, log, requested, bar)
            } else {
                from_jobs(args, &log, sample, requested, bar)
            }
        }
    }
}

fn open(args: &LogArgs) -> Result<Log> {
    Log::open(&args.log, &args.reading()).map_err(unreadable)
}

/// Refuses a switch that only the simulated scheduler uses: it would be ignored, against the
/// expectation of the user.
fn refuse_unused_switch(args: &LogArgs, what: &str, more: Option<&'static str>) -> Result<()> {
    let Some(switch) = args.of_the_scheduler().or(more) else {
        return Ok(());
    };
    Err(CliError::failed(format!(
        "{switch} changes nothing: {} {what}",
        args.log.display()
    ))
    .remedy(format!("leave {switch} out")))
}

/// Refuses a pipe: a log of jobs is read more than once, and a second reading would lack the
/// beginning.
fn require_regular_file(path: &Path) -> Result<()> {
    if std::fs::metadata(path).is_ok_and(|file| !file.is_file()) {
        let path = path.display();
        return Err(CliError::failed(format!(
            "{path} is no regular file, and a log of batch jobs is read more than once"
        ))
        .remedy("write it to a file first (it may be compressed with gzip or zstd)"));
    }
    Ok(())
}

/// The error of a log without a readable job.
fn unreadable_jobs(path: &Path, log: &JobLog) -> CliError {
    let (path, format) = (path.display(), log.format());
    let damage = log.damage();
    let what = match damage.first.first() {
        Some(first) => format!(
            "{} damaged lines, the first: line {}, {}",
            damage.lines, first.line, first.at
        ),
        None => format!("{} lines", log.lines()),
    };
    CliError::failed(format!(
        "{path}: no job could be read from it as {format}: {what}"
    ))
    .remedy("name its format with --format, or the columns of a table with --columns")
}

/// Counts the first jobs that ran, with and without names of nodes.
fn sample(args: &LogArgs, log: &mut JobLog) -> Result<Sample> {
    let mut record = JobRecord::default();
    let mut sample = Sample::default();
    while sample.named + sample.unnamed < SAMPLE && log.read(&mut record).map_err(unreadable)? {
        sample.records += 1;
        sample.pilots += u64::from(record.start.is_some() && args.is_ours(&record));
        match (record.start, record.hosts.is_empty()) {
            (None, _) => {}
            (Some(_), true) => sample.unnamed += 1,
            (Some(_), false) => sample.named += 1,
        }
    }
    Ok(sample)
}

fn from_holes(
    args: &LogArgs,
    mut log: HoleLog,
    requested: RequestedPart,
    bar: &mut Bar,
) -> Result<Input> {
    refuse_unused_switch(args, "has the idle nodes themselves", args.of_jobs())?;
    let mut summary = LogSummary::new(name(&args.log), log.format().name(), HoleSource::Holes);
    let mut records = 0_u64;
    let list = HoleList::collect((&mut log).inspect(|_| {
        records += 1;
        if records.is_multiple_of(4096) {
            bar.reading(&args.log, records);
        }
    }))
    .map_err(unreadable)?;
    summary.damage(log.damage());
    summary.refused_holes = list.refused;
    if args.strict() && list.refused.total() > 0 {
        return Err(CliError::failed(format!(
            "{}: holes contradict each other: {} end before they start, {} are there twice, {} \
             overlap another of their node",
            args.log.display(),
            list.refused.not_positive,
            list.refused.duplicates,
            list.refused.overlaps
        )));
    }
    machine::of_holes(args, &list.records, log.nodes(), &mut summary)?;
    let span = log.span();
    if span.is_none() {
        summary.notes.push(
            "a list of holes has nothing but holes: the time from the first to the last counts as \
             observed"
                .to_owned(),
        );
    }
    let recorded = HoleHistory {
        holes: list.records,
        span,
        begins: "its first look at the nodes",
        activity: None,
    };
    let (trace, _) = part_in_memory(args, recorded, &mut summary, requested)?;
    if summary.machine_nodes.is_none() {
        summary.notes.push(format!(
            "shares are of the {} that had a hole: say with --machine-nodes how many there are",
            jobs_on_nodes::nodes(trace.nodes())
        ));
    }
    Ok(Input {
        summary,
        recording: Box::new(trace),
    })
}

fn from_placed(
    args: &LogArgs,
    mut log: JobLog,
    requested: RequestedPart,
    bar: &mut Bar,
) -> Result<Input> {
    refuse_unused_switch(args, "says on which nodes its jobs ran, and when", None)?;
    let mut summary = LogSummary::new(name(&args.log), log.format().name(), HoleSource::Placed);
    let mut jobs_on_nodes = JobsOnNodes::read(args, &mut log, bar)?;
    summary.damage(log.damage());
    summary.computer = log.header().computer;
    let (span, holes) = jobs_on_nodes.holes(requested.from);
    machine::of_placed(args, &jobs_on_nodes, &mut summary)?;
    let recorded = HoleHistory {
        holes,
        span: Some(span),
        begins: "the end of its first job",
        activity: Some(std::mem::take(&mut jobs_on_nodes.activity)),
    };
    let (trace, chosen) = part_in_memory(args, recorded, &mut summary, requested)?;
    jobs_on_nodes.describe(args, &log, &trace, chosen.as_ref(), &mut summary);
    zone(args, log.format(), &mut summary);
    Ok(Input {
        summary,
        recording: Box::new(trace),
    })
}

/// Turns holes in memory into the trace. It begins at the start of the log, or at the first
/// submission of trainers.
fn part_in_memory(
    args: &LogArgs,
    recorded: HoleHistory,
    summary: &mut LogSummary,
    requested: RequestedPart,
) -> Result<(HoleTrace, Option<HashSet<NodeId>>)> {
    let (memory, notes) = HolesInMemory::new(args, recorded.holes, recorded.activity)?;
    summary.notes.extend(notes);
    if let (Some(chosen), Some(nodes)) = (args.part.first_nodes, &mut summary.machine_nodes) {
        let chosen = u32::try_from(chosen).unwrap_or(u32::MAX);
        if chosen < *nodes {
            (*nodes, summary.nodes_from) = (chosen, "by --first-nodes");
        }
    }
    if summary.machine_nodes.is_none() && memory.has_outages() {
        let chosen = args
            .part
            .first_nodes
            .and_then(|count| u32::try_from(count).ok());
        summary.machine_nodes = Some(memory.named().min(chosen.unwrap_or(u32::MAX)));
        summary.nodes_from = "those that had a hole";
    }
    let Some((first, last)) = recorded.span.or_else(|| memory.span()) else {
        let path = args.log.display();
        let mut error = CliError::failed(format!("{path}: there is no hole in it"));
        error.remedy = summary.warning();
        return Err(error);
    };
    let start = start(args, (first, last), requested)?;
    if let Some(from) = requested.from.filter(|&from| from < first)
        && recorded.span.is_some()
    {
        summary.notes.push(format!(
            "--from {} lies before {}, {}, before which the log has almost no data: nodes seem \
             idle there",
            iso_short(from),
            recorded.begins,
            iso_short(first)
        ));
    }
    let until = requested.until.map_or(last, |until| until.min(last));
    summary.left_out = memory.left_out(start, until);
    let trace = memory.trace(start, Some(until));
    Ok((trace, memory.into_chosen()))
}

/// The start: the requested one, else the first submission, but not before the log.
fn start(
    args: &LogArgs,
    (first, last): (Timestamp, Timestamp),
    requested: RequestedPart,
) -> Result<Timestamp> {
    let (source, start) = match (requested.from, requested.submitted) {
        (Some(from), _) => ("--from", from),
        (None, Some(submitted)) => ("the first submission", submitted.max(first)),
        (None, None) => ("the beginning of the log", first),
    };
    if start >= last {
        return Err(CliError::failed(format!(
            "nothing of the log is left: {source} is {}, but {} ends at {}",
            iso(start),
            args.log.display(),
            iso(last)
        )));
    }
    match requested.until {
        Some(until) if until <= start => Err(CliError::failed(format!(
            "nothing of the log is left: --until {} is not after {source}, {}",
            iso(until),
            iso(start)
        ))),
        _ => Ok(start),
    }
}

/// Notes that local times count as UTC without `--time-zone`, which shifts the hours of the day.
fn zone(args: &LogArgs, format: Format, summary: &mut LogSummary) {
    if format.has_local_times() && !args.has_zone() {
        summary
            .notes
            .push("times that name no zone are taken as UTC (--time-zone)".to_owned());
    }
}

/// Runs jobs without nodes through the simulated scheduler.
fn from_jobs(
    args: &LogArgs,
    log: &JobLog,
    sample: Sample,
    requested: RequestedPart,
    bar: &mut Bar,
) -> Result<Input> {
    if args.marks_ours() {
        return Err(CliError::failed(format!(
            "--ours needs a log that names nodes: {} does not say which nodes pilots had",
            args.log.display()
        ))
        .remedy("print the log with the nodes of jobs (sacct: nodelist), or leave --ours out"));
    }
    if args.part.first_nodes.is_some() {
        return Err(CliError::failed(format!(
            "--first-nodes needs a log that names nodes: {} has batch jobs without their nodes",
            args.log.display()
        )));
    }
    if args.planned.is_some() {
        return Err(CliError::failed(format!(
            "--planned needs a log that names nodes: {} has batch jobs without their nodes, and \
             the simulated scheduler plans its own starts",
            args.log.display()
        ))
        .remedy("leave --planned out"));
    }
    let header = log.header();
    let mut summary = LogSummary::new(name(&args.log), log.format().name(), HoleSource::Simulated);
    let nodes = machine::of_jobs(args, &header, &mut summary)?;
    if sample.pilots > 0 {
        summary.notes.push(
            "the log has pilots of Lacuna and names no nodes: they count as batch jobs, so more nodes were \
             idle than it says"
                .to_owned(),
        );
    }
    let machine = args.machine(nodes)?;
    let simulation = Simulation {
        window: Window {
            start: requested.from.or(requested.submitted),
            end: requested.until,
        },
        walltime: args.machine.walltime_default,
        planned_starts: args.planned_starts,
    };
    let simulated =
        SimulatedTrace::open(&args.log, &args.reading(), machine, simulation, &mut |p| {
            bar.reading(&args.log, p.jobs);
        })
        .map_err(|e| CliError::failed(e.to_string()))?;
    simulated::check_size(&simulated, args, &summary)?;
    summary.computer = header.computer;
    simulated::describe(&simulated, args, &mut summary);
    zone(args, log.format(), &mut summary);
    if simulated.length_s() <= 0.0 {
        // The error texts are the same as for other logs.
        let span = (simulated.survey().first_submit, simulated.survey().last_end);
        start(args, span, requested)?;
        return Err(CliError::failed(format!(
            "nothing of the log is left: all jobs of {} are submitted at one moment",
            args.log.display()
        )));
    }
    let Some(rule) = args.outages() else {
        return Ok(Input {
            summary,
            recording: Box::new(simulated),
        });
    };
    let outages = match rule {
        Rule::IdleAbove(most) => {
            crowded(&simulated, most).map_err(|e| CliError::failed(e.to_string()))?
        }
        Rule::Events => activity(args, bar)?.outages(nodes),
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

/// Starts and ends of the jobs of a log as it has them, whatever a simulated scheduler makes of them.
fn activity(args: &LogArgs, bar: &mut Bar) -> Result<Activity> {
    let mut activity = Activity::default();
    let Log::Jobs(mut log) = open(args)? else {
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
            bar.reading(&args.log, records);
        }
    }
    Ok(activity)
}

/// The file with its folder, for headings.
fn name(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name);
    let file = path.file_name().unwrap_or(path.as_os_str());
    folder.map_or_else(
        || file.to_string_lossy().into_owned(),
        |folder| format!("{}/{}", folder.to_string_lossy(), file.to_string_lossy()),
    )
}
