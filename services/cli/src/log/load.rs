//! From the arguments to a recording.

use std::path::Path;

use lacuna_model::Timestamp;
use lacuna_schedlog::{HoleList, HoleLog, JobLog, JobRecord, Log, ReadError, Window, read_nodes};
use lacuna_sim::{Recording, Simulated, Simulation};

use super::args::LogArgs;
use super::crowded::Uncrowded;
use super::facts::{Facts, Kind};
use super::held::{Held, nodes_file};
use super::progress::Bar;
use super::{placed, simulated};
use crate::error::{CliError, Exit, Result};
use crate::output::iso;

/// A log, ready to be walked over.
pub(crate) struct Input {
    /// What it turned out to be.
    pub(crate) facts: Facts,
    /// The part of it that counts.
    pub(crate) recording: Box<dyn Recording>,
}

/// So many jobs tell whether a log names their nodes.
const SAMPLE: usize = 1_000;

/// Opens a log of any format. `submitted` is where the replay of trainers begins if nothing else
/// is said: their first submission.
///
/// # Errors
/// The log cannot be read, is damaged and the reading is strict, has nothing in it, or nothing
/// in the part that is asked for; its machine's size is not known; a file beside it is wrong.
pub(crate) fn load(args: &LogArgs, submitted: Option<Timestamp>, bar: &mut Bar) -> Result<Input> {
    match open(args)? {
        Log::Holes(log) => from_holes(args, log, submitted, bar),
        Log::Jobs(mut log) => {
            if names_nodes(&mut log)? {
                // From the beginning: the first jobs have been read to learn this.
                let Log::Jobs(log) = open(args)? else {
                    return Err(CliError::failed("the log has changed while it was read"));
                };
                from_placed(args, log, submitted, bar)
            } else {
                from_jobs(args, &log, submitted, bar)
            }
        }
    }
}

fn open(args: &LogArgs) -> Result<Log> {
    Log::open(&args.log, &args.reading()).map_err(unreadable)
}

/// An error of the reader, which names the file, the line and what was expected.
pub(crate) fn unreadable(error: ReadError) -> CliError {
    let message = error.to_string();
    match error {
        ReadError::UnknownFormat { .. } => CliError::new("L0018", Exit::Failed, message),
        _ => CliError::failed(message),
    }
}

/// Whether most of the first jobs that ran have their nodes named.
fn names_nodes(log: &mut JobLog) -> Result<bool> {
    let mut record = JobRecord::default();
    let (mut named, mut unnamed) = (0_usize, 0_usize);
    while named + unnamed < SAMPLE && log.read(&mut record).map_err(unreadable)? {
        match (record.start, record.hosts.is_empty()) {
            (None, _) => {}
            (Some(_), true) => unnamed += 1,
            (Some(_), false) => named += 1,
        }
    }
    Ok(named > unnamed)
}

fn from_holes(
    args: &LogArgs,
    mut log: HoleLog,
    submitted: Option<Timestamp>,
    bar: &mut Bar,
) -> Result<Input> {
    let mut facts = Facts::new(name(&args.log), log.format().name(), Kind::Holes);
    let mut records = 0_u64;
    let list = HoleList::collect((&mut log).inspect(|_| {
        records += 1;
        if records.is_multiple_of(4096) {
            bar.reading(&args.log, records);
        }
    }))
    .map_err(unreadable)?;
    facts.damage(log.damage());
    facts.refused_holes = list.refused;
    let watched = log.span().map(|(first, _)| first);
    held(args, list.records, facts, (watched, submitted))
}

fn from_placed(
    args: &LogArgs,
    mut log: JobLog,
    submitted: Option<Timestamp>,
    bar: &mut Bar,
) -> Result<Input> {
    let mut facts = Facts::new(name(&args.log), log.format().name(), Kind::Placed);
    facts.machine_nodes = args.machine.machine_nodes;
    let holes = placed::holes(args, &mut log, &mut facts, bar)?;
    facts.damage(log.damage());
    facts.computer = log.header().computer;
    held(args, holes, facts, (None, submitted))
}

/// Holes in memory become the recording. It begins with the first hole, or earlier if nodes were
/// watched from then on and none was idle; with trainers, at their first submission.
fn held(
    args: &LogArgs,
    holes: Vec<lacuna_model::HoleRecord>,
    mut facts: Facts,
    (watched, submitted): (Option<Timestamp>, Option<Timestamp>),
) -> Result<Input> {
    let (held, notes) = Held::new(args, holes)?;
    facts.notes.extend(notes);
    if facts.machine_nodes.is_none() {
        facts.machine_nodes = match nodes_file(args) {
            Some(file) => Some(read_nodes(&file).map_err(unreadable)?.len() as u32),
            None => args.machine.machine_nodes,
        };
    }
    if let (Some(chosen), Some(nodes)) = (args.part.first_nodes, &mut facts.machine_nodes) {
        *nodes = u32::try_from(chosen).unwrap_or(u32::MAX).min(*nodes);
    }
    let Some((first, last)) = held.span() else {
        let path = args.log.display();
        let mut error = CliError::failed(format!("{path}: there is no hole in it"));
        error.remedy = facts.warning();
        return Err(error);
    };
    let first = watched.map_or(first, |watched| watched.min(first));
    let start = start(args, (first, last), submitted)?;
    let trace = held.trace(start, args.part.until);
    if facts.machine_nodes.is_none() {
        facts.notes.push(format!(
            "shares are of the {} that had a hole: say with --machine-nodes how many there are",
            placed::nodes(trace.nodes())
        ));
    }
    Ok(Input {
        facts,
        recording: Box::new(trace),
    })
}

/// The first submission, unless another time is asked for; never before the recording.
fn start(
    args: &LogArgs,
    (first, last): (Timestamp, Timestamp),
    submitted: Option<Timestamp>,
) -> Result<Timestamp> {
    let (source, start) = match (args.part.from, submitted) {
        (Some(from), _) => ("--from", from),
        (None, Some(submitted)) => ("the first submission", submitted.max(first)),
        (None, None) => ("the beginning of the log", first),
    };
    if start >= last {
        return Err(CliError::failed(format!(
            "nothing to replay: {source} is {}, but {} ends at {}",
            iso(start),
            args.log.display(),
            iso(last)
        )));
    }
    match args.part.until {
        Some(until) if until <= start => Err(CliError::failed(format!(
            "nothing to replay: --until {} is not after {source}, {}",
            iso(until),
            iso(start)
        ))),
        _ => Ok(start),
    }
}

/// Jobs without nodes go through the simulated scheduler.
fn from_jobs(
    args: &LogArgs,
    log: &JobLog,
    submitted: Option<Timestamp>,
    bar: &mut Bar,
) -> Result<Input> {
    if args.part.first_nodes.is_some() {
        return Err(CliError::failed(format!(
            "--first-nodes needs a log that names nodes: {} has batch jobs without their nodes",
            args.log.display()
        )));
    }
    let header = log.header();
    let nodes = simulated::machine_nodes(args, &header)?;
    let machine = args.machine(nodes)?;
    let simulation = Simulation {
        window: Window {
            start: args.part.from.or(submitted),
            end: args.part.until,
        },
        walltime: args.machine.walltime_default,
    };
    let simulated = Simulated::survey(&args.log, &args.reading(), machine, simulation, &mut |p| {
        bar.reading(&args.log, p.jobs);
    })
    .map_err(|e| CliError::failed(e.to_string()))?;
    let mut facts = Facts::new(name(&args.log), log.format().name(), Kind::Simulated);
    facts.computer = header.computer;
    facts.machine_nodes = Some(nodes);
    simulated::describe(&simulated, args, &mut facts);
    if simulated.length_s() <= 0.0 {
        // The same words as for other logs.
        let span = (simulated.facts().first_submit, simulated.facts().last_end);
        start(args, span, submitted)?;
        return Err(CliError::failed(format!(
            "nothing to replay: all jobs of {} are submitted at one moment",
            args.log.display()
        )));
    }
    let recording: Box<dyn Recording> = match args.part.leave_out_idle_above {
        None => Box::new(simulated),
        Some(most) => {
            facts.notes.push(format!(
                "the time in which more than {most} nodes were idle is left out"
            ));
            Box::new(Uncrowded {
                inner: Box::new(simulated),
                most,
            })
        }
    };
    Ok(Input { facts, recording })
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
