//! Jobs with the nodes that they ran on: what is not occupied is a hole.

use lacuna_model::{HoleRecord, Span, Timestamp};
use lacuna_schedlog::{JobLog, JobRecord, ReadError, hosts, read_nodes};
use lacuna_timeline::occupancy::{KnownNodes, Occupancy, Occupied};
use serde_json::Value;

use super::args::LogArgs;
use super::blocks;
use super::facts::Facts;
use super::progress::Bar;
use crate::error::{CliError, Result};
use crate::output::iso_short;

/// What is known while jobs are read.
struct Jobs {
    occupancy: Occupancy,
    records: u64,
    never_started: u64,
    without_nodes: u64,
    bad_hosts: u64,
    bad_host: Option<String>,
    /// The earliest end and the latest moment of all jobs.
    first_end: Option<Timestamp>,
    last: Option<Timestamp>,
    still_running: bool,
    numbers: Vec<u32>,
}

/// Reads all jobs and finds the holes between them.
///
/// # Errors
/// The log or a file beside it cannot be read.
pub(super) fn holes(
    args: &LogArgs,
    log: &mut JobLog,
    facts: &mut Facts,
    bar: &mut Bar,
) -> Result<Vec<HoleRecord>> {
    let failed = |error: ReadError| CliError::failed(error.to_string());
    let listed = args.machine.nodes_file.as_deref().map(read_nodes);
    let known = match listed.transpose().map_err(failed)? {
        Some(nodes) => KnownNodes::Listed(nodes),
        None => KnownNodes::Seen,
    };
    let listed = matches!(known, KnownNodes::Listed(_));
    let mut jobs = Jobs {
        occupancy: Occupancy::new(known),
        records: 0,
        never_started: 0,
        without_nodes: 0,
        bad_hosts: 0,
        bad_host: None,
        first_end: None,
        last: None,
        still_running: false,
        numbers: Vec::new(),
    };
    let mut record = JobRecord::default();
    while log.read(&mut record).map_err(failed)? {
        jobs.add(&record);
        if jobs.records.is_multiple_of(4096) {
            bar.reading(&args.log, jobs.records);
        }
    }
    if let Some(path) = &args.machine.outages {
        jobs.away(path)?;
    }
    if let Some(path) = &args.machine.reservations {
        jobs.away(path)?;
    }
    Ok(jobs.finish(args, listed, facts))
}

impl Jobs {
    fn add(&mut self, record: &JobRecord) {
        self.records += 1;
        let Some(start) = record.start else {
            self.never_started += 1;
            return;
        };
        if record.hosts.is_empty() {
            self.without_nodes += 1;
            return;
        }
        let Self {
            occupancy, numbers, ..
        } = self;
        numbers.clear();
        let mut refused = None;
        let expanded = hosts::expand(&record.hosts, &mut |name| match occupancy.node(name) {
            Ok(number) => numbers.extend(number),
            Err(error) => refused = Some(error.to_string()),
        });
        let wrong = expanded.err().map(|at| at.to_string()).or(refused);
        if let Some(wrong) = wrong {
            self.bad_hosts += 1;
            self.bad_host
                .get_or_insert_with(|| format!("job {}: {wrong}", record.id));
            return;
        }
        self.occupancy.add(&self.numbers, start, record.end);
        let newest = record.end.unwrap_or(start);
        self.last = Some(self.last.map_or(newest, |last| last.max(newest)));
        match record.end {
            Some(end) => {
                self.first_end = Some(self.first_end.map_or(end, |first| first.min(end)));
            }
            None => self.still_running = true,
        }
    }

    /// Nodes that are away for a time are no holes then.
    fn away(&mut self, path: &std::path::Path) -> Result<()> {
        for block in blocks::read(path)? {
            let mut nodes = Vec::new();
            let mut unknown = None;
            let named = block.names(&mut |name| match self.occupancy.node(name) {
                Ok(number) => nodes.extend(number),
                Err(error) => unknown = Some(format!("line {}: {error}", block.line)),
            });
            if let Some(what) = named.err().or(unknown) {
                return Err(blocks::refuse(path, &what));
            }
            self.occupancy.outage(&nodes, block.from, block.until);
        }
        Ok(())
    }

    /// What counts begins where the first job ended: of jobs that ended before the log began
    /// nothing is known, and a job that is in the log may have run long before.
    fn window(&self, args: &LogArgs) -> Option<(Timestamp, Timestamp)> {
        let last = self.last?;
        let first = self.first_end.filter(|&first| first < last);
        let from = match (first, args.part.from) {
            (Some(first), Some(asked)) => Some(first.min(asked)),
            (first, asked) => first.or(asked),
        };
        Some((from?, args.part.until.unwrap_or(last).min(last)))
    }

    fn finish(self, args: &LogArgs, listed: bool, facts: &mut Facts) -> Vec<HoleRecord> {
        let window = self.window(args);
        for (name, count) in [
            ("records", self.records),
            ("never_started", self.never_started),
            ("without_nodes", self.without_nodes),
            ("unreadable_nodes", self.bad_hosts),
        ] {
            facts.count(name, count);
        }
        if self.without_nodes > 0 {
            facts.notes.push(format!(
                "{} jobs ran on nodes that the log does not name: holes may be false",
                self.without_nodes
            ));
        }
        facts.notes.extend(self.bad_host.map(|bad| {
            format!(
                "{} lists of nodes cannot be read, the first of {bad}",
                self.bad_hosts
            )
        }));
        let occupied = self.occupancy.finish(window);
        let found = &occupied.facts;
        for (name, count) in [
            ("with_nodes", found.jobs),
            ("running_at_the_end", found.running),
            ("end_before_they_start", found.refused),
            ("nodes_not_listed", found.unlisted),
        ] {
            facts.count(name, count);
        }
        facts
            .jobs
            .insert("utilisation".to_owned(), Value::from(found.utilisation()));
        let doubled = share(found.doubled_node_ms, found.busy_node_ms);
        if doubled > 0.0 {
            facts
                .jobs
                .insert("busy_time_shared".to_owned(), Value::from(doubled));
        }
        facts.machine_nodes = facts.machine_nodes.or(Some(found.nodes));
        if !listed {
            facts.notes.push(format!(
                "the log names {}; one that never had a job is unknown (--nodes-file lists all)",
                nodes(found.nodes)
            ));
        }
        if let (Some(doubtful), false) = (found.doubtful_from(), self.still_running) {
            facts.notes.push(doubt(&occupied, doubtful));
        }
        if found.longest > Span::ZERO {
            let hours = found.longest.as_secs_f64() / 3600.0;
            facts
                .jobs
                .insert("longest_hours".to_owned(), Value::from(hours));
        }
        occupied.holes
    }
}

/// What is to be said of a log that has only jobs that ended. How many nodes seem idle early and
/// late shows what is missing.
fn doubt(occupied: &Occupied, doubtful: Timestamp) -> String {
    let found = &occupied.facts;
    let hours = found.until.since(doubtful).as_secs_f64() / 3600.0;
    let remedy = if doubtful > found.from {
        format!(
            "holes of its last {hours:.1} h may be false (leave them out with --until {})",
            iso_short(doubtful)
        )
    } else {
        "many jobs are as long as the log itself, so any hole may be false, the later the likelier"
            .to_owned()
    };
    let quarter = found.until.since(found.from).as_ms() / 4;
    let mean = |from: Timestamp, until: Timestamp| {
        let within = occupied.holes.iter().map(|hole| {
            let part = hole.until.min(until).since(hole.from.max(from));
            part.as_ms().max(0) as f64
        });
        within.sum::<f64>() / until.since(from).as_ms().max(1) as f64
    };
    let quarter = Span::from_ms(quarter);
    format!(
        "the log has only jobs that ended, so that some that ran at its end are missing: {remedy}; \
         {:.0} nodes are idle on average in its first quarter, {:.0} in its last",
        mean(found.from, found.from + quarter),
        mean(found.until - quarter, found.until)
    )
}

/// So many nodes, in words.
pub(super) fn nodes(count: u32) -> String {
    if count == 1 {
        "1 node".to_owned()
    } else {
        format!("{count} nodes")
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}
