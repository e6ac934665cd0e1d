//! Jobs with the nodes that they ran on. The time in which a node has no job is a hole.

use std::collections::HashSet;
use std::path::Path;

use lacuna_batchsim::occupancy::{JobEnd, KnownNodes, LogSummary as Found, Occupancy};
use lacuna_model::{HoleRecord, NodeId, Span, Timestamp};
use lacuna_records::hosts;
use lacuna_sim::HoleTrace;
use lacuna_trace::{JobLog, JobRecord, read_nodes};
use serde_json::Value;

use super::caveats::{Caveat, caveat};
use super::error::unreadable;
use super::options::LogOptions;
use super::ours::Ours;
use super::outages::Activity;
use super::progress::Bar;
use super::summary::LogSummary;
use super::unavailable;
use crate::error::Result;
use crate::output::iso_short;

/// The jobs of a log on their nodes.
#[derive(Default)]
pub(super) struct JobsOnNodes {
    pub(super) occupancy: Occupancy,
    /// Starts and ends of jobs, which tell outages.
    pub(super) activity: Activity,
    /// The counts of the whole log.
    pub(super) found: Found,
    caveat: Option<Caveat>,
    records: u64,
    never_started: u64,
    /// Number of jobs on unlisted nodes only, and on some unlisted nodes.
    pub(super) elsewhere: u64,
    pub(super) partly: u64,
    /// Number of pilots of Lacuna, and the time of each on each of its nodes.
    pilots: u64,
    piloted: Vec<(u32, Timestamp, Option<Timestamp>)>,
    without_nodes: u64,
    bad_hosts: u64,
    bad_host: Option<String>,
    /// Node-hours of ended jobs, on named nodes and on unnamed ones.
    named_hours: f64,
    unnamed_hours: f64,
    /// The earliest end and the latest moment of all jobs.
    first_end: Option<Timestamp>,
    last: Option<Timestamp>,
    /// Number of nodes that only files of outages and reservations name.
    pub(super) added: usize,
    numbers: Vec<u32>,
    notes: Vec<String>,
}

impl JobsOnNodes {
    /// Reads all jobs.
    ///
    /// # Errors
    /// The log or a file beside it cannot be read.
    pub(super) fn read(options: &LogOptions, log: &mut JobLog, bar: &mut Bar) -> Result<Self> {
        let listed = options.nodes_file.as_deref().map(read_nodes);
        let known = match listed.transpose().map_err(unreadable)? {
            Some(nodes) => KnownNodes::Listed(nodes),
            None => KnownNodes::Seen,
        };
        let mut jobs_on_nodes = Self {
            occupancy: Occupancy::new(known),
            ..Self::default()
        };
        let mut record = JobRecord::default();
        while log.read(&mut record).map_err(unreadable)? {
            jobs_on_nodes.add(&record, Ours::has(options.ours.as_ref(), &record));
            if jobs_on_nodes.records.is_multiple_of(4096) {
                bar.reading(&options.file, jobs_on_nodes.records);
            }
        }
        let away = [&options.drained, &options.reservations];
        for path in away.into_iter().flatten() {
            jobs_on_nodes.away(path)?;
        }
        Ok(jobs_on_nodes)
    }

    fn add(&mut self, record: &JobRecord, is_ours: bool) {
        self.records += 1;
        let Some(start) = record.start else {
            self.never_started += 1;
            return;
        };
        let ran = record
            .end
            .map(|end| end.since(start).as_secs_f64().max(0.0) / 3600.0);
        if record.hosts.is_empty() {
            self.without_nodes += 1;
            self.unnamed_hours += ran.unwrap_or(0.0) * f64::from(record.nodes);
            return;
        }
        let Self {
            occupancy, numbers, ..
        } = self;
        numbers.clear();
        let (mut refused, mut foreign) = (None, false);
        let expanded = hosts::expand(&record.hosts, &mut |name| match occupancy.node(name) {
            Ok(Some(number)) => numbers.push(number),
            Ok(None) => foreign = true,
            Err(error) => refused = Some(error.to_string()),
        });
        let wrong = expanded.err().map(|at| at.to_string()).or(refused);
        if let Some(wrong) = wrong {
            self.bad_hosts += 1;
            self.bad_host
                .get_or_insert_with(|| format!("job {}: {wrong}", record.id));
            return;
        }
        if foreign {
            let count = if self.numbers.is_empty() {
                &mut self.elsewhere
            } else {
                &mut self.partly
            };
            *count += 1;
        }
        if self.numbers.is_empty() {
            return;
        }
        if is_ours {
            self.pilots += 1;
            for &node in &self.numbers {
                self.piloted.push((node, start, record.end));
            }
            return;
        }
        self.named_hours += ran.unwrap_or(0.0) * self.numbers.len() as f64;
        let end = record.end.map_or(
            JobEnd::Unknown {
                walltime: record.walltime,
            },
            JobEnd::At,
        );
        self.occupancy.add(&self.numbers, start, end);
        let nodes = self.numbers.len() as u64;
        self.activity.job((record.submit, start, record.end), nodes);
        match record.end {
            // This job is left out, since its start or its end is wrong.
            Some(end) if end < start => {}
            Some(end) => {
                self.first_end = Some(self.first_end.map_or(end, |first| first.min(end)));
                self.last = self.last.max(Some(end));
            }
            None => self.last = self.last.max(Some(start)),
        }
    }

    /// Removes the holes of unavailable nodes.
    fn away(&mut self, path: &Path) -> Result<()> {
        let before = self.occupancy.nodes().len();
        for entry in unavailable::read(path)? {
            let mut nodes = Vec::new();
            let mut unknown = None;
            let named = entry.names(&mut |name| match self.occupancy.node(name) {
                Ok(number) => nodes.extend(number),
                Err(error) => unknown = Some(format!("line {}: {error}", entry.line)),
            });
            if let Some(what) = named.err().or(unknown) {
                return Err(unavailable::refuse(path, &what));
            }
            self.occupancy.outage(&nodes, entry.from, entry.until);
        }
        let added = self.occupancy.nodes().get(before..).unwrap_or_default();
        self.added = self.added.saturating_add(added.len());
        if let Some(first) = added.first() {
            self.notes.push(format!(
                "{} names {} that had no job, the first {first}: taken for part of the machine",
                path.display(),
                nodes(u32::try_from(added.len()).unwrap_or(u32::MAX)),
            ));
        }
        Ok(())
    }

    /// The time that the log covers, and the holes in it. `requested` may extend the time to an
    /// earlier start.
    ///
    /// The time begins at the end of the first job. Jobs that ended before the log began are
    /// unknown, and the first job of the log may have started long before.
    pub(super) fn holes(
        &mut self,
        requested: Option<Timestamp>,
    ) -> ((Timestamp, Timestamp), Vec<HoleRecord>) {
        let first = self
            .first_end
            .zip(self.last)
            .filter(|(first, last)| first < last);
        let window = first.map(|(first, last)| {
            let from = requested.map_or(first, |requested| requested.min(first));
            (from, last)
        });
        let occupied = self.occupancy.finish(window);
        self.found = occupied.summary;
        self.caveat = caveat(&occupied);
        let span = first.unwrap_or((self.found.from, self.found.until));
        (span, occupied.holes)
    }

    /// Records the figures of the jobs, for the requested part of time and nodes.
    pub(super) fn describe(
        self,
        options: &LogOptions,
        log: &JobLog,
        part: &HoleTrace,
        chosen: Option<&HashSet<NodeId>>,
        summary: &mut LogSummary,
    ) {
        let found = &self.found;
        for (name, count) in [
            ("records", self.records),
            ("passed_over", log.skipped()),
            ("never_started", self.never_started),
            ("without_nodes", self.without_nodes),
            ("unreadable_nodes", self.bad_hosts),
            ("on_nodes_not_listed", self.elsewhere),
            ("with_nodes", found.jobs),
            ("pilots", self.pilots),
            ("running_at_the_end", found.running),
            ("over_with_their_walltime", found.overdue),
            ("without_an_end", found.stale),
            ("end_before_they_start", found.refused),
            ("nodes_not_listed", found.unlisted),
        ] {
            summary.count(name, count);
        }
        let counts = |node: &NodeId| chosen.is_none_or(|chosen| chosen.contains(node));
        let shares = self.occupancy.shares((part.start(), part.end()), counts);
        let names = self.occupancy.nodes();
        let of = names.iter().filter(|node| counts(node)).count();
        if self.pilots == 0 && options.ours.is_some() {
            summary.notes.push(
                "no job fits --ours, so all are batch jobs: does the log have the columns jobname, account \
                 and partition?"
                    .to_owned(),
            );
        }
        if self.pilots > 0 {
            let ours = self.piloted.iter().filter(|(node, ..)| {
                let node = names.get(*node as usize);
                node.is_some_and(&counts)
            });
            let hours = ours.map(|&(_, from, until)| {
                let until = until.unwrap_or(part.end()).min(part.end());
                until.since(from.max(part.start())).as_secs_f64().max(0.0) / 3600.0
            });
            let idle = shares.hole_node_ms as f64 / 3_600_000.0;
            summary.harvested(hours.sum(), idle);
        }
        summary.utilised(
            shares.utilisation(),
            u32::try_from(of).unwrap_or(u32::MAX),
            part.end().since(part.start()),
        );
        if shares.doubled_node_ms > 0 {
            let share = shares.doubled_node_ms as f64 / shares.busy_node_ms.max(1) as f64;
            summary.put("busy_time_shared", Value::from(share));
            if share > MOSTLY {
                summary.notes.push(
                    "nearly all busy time has two jobs or more: does the log have its records \
                     twice?"
                        .to_owned(),
                );
            }
        }
        if found.longest > Span::ZERO {
            summary.put(
                "longest_hours",
                Value::from(found.longest.as_secs_f64() / 3600.0),
            );
        }
        summary.notes.extend(self.incomplete());
        summary.notes.extend(self.notes);
        // A log that records starts has jobs that still run, so the caveat does not apply.
        if let (false, Some(caveat)) = (log.has_starts(), self.caveat) {
            summary.notes.extend(caveat.text(part.end()));
        }
    }

    /// Notes on data that the log lacks for some jobs.
    fn incomplete(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let found = &self.found;
        if self.without_nodes > 0 {
            let most = if self.unnamed_hours > self.named_hours {
                "; they are most of it: --columns without the nodes' column, and --machine-nodes, \
                 have the simulated scheduler place all jobs"
            } else {
                ""
            };
            notes.push(format!(
                "{} ran on nodes that the log does not name ({:.1} node-hours, beside {:.1} on named \
                 ones): holes may be false{most}",
                jobs(self.without_nodes),
                self.unnamed_hours,
                self.named_hours
            ));
        }
        if let Some(bad) = &self.bad_host {
            notes.push(format!(
                "{} with lists of nodes that cannot be read, the first of {bad}",
                jobs(self.bad_hosts)
            ));
        }
        if found.overdue > 0 {
            notes.push(format!(
                "{} without an end in the log, and with a walltime that was over before the log: \
                 taken to have ended with it",
                jobs(found.overdue)
            ));
        }
        if found.stale > 0 {
            notes.push(format!(
                "{} with neither an end nor a walltime in the log, and started longer ago than any \
                 other job ran: taken to hold their nodes until {}",
                jobs(found.stale),
                iso_short(found.until)
            ));
        }
        if found.refused > 0 {
            notes.push(format!(
                "{} ended before they started, by the log: left out",
                jobs(found.refused)
            ));
        }
        notes
    }
}

/// A share of doubled busy time above this means that all nodes are shared, or an error.
const MOSTLY: f64 = 0.9;

/// A number of jobs in words.
pub(super) fn jobs(count: u64) -> String {
    if count == 1 {
        "1 job".to_owned()
    } else {
        format!("{count} jobs")
    }
}

/// A number of nodes in words.
pub(super) fn nodes(count: u32) -> String {
    if count == 1 {
        "1 node".to_owned()
    } else {
        format!("{count} nodes")
    }
}
