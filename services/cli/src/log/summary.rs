//! The summary of a log, for people and for programs.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use lacuna_model::{Span, Timestamp};
use lacuna_sim::pool_stats::PoolStats;
use lacuna_trace::{Damage, Refused};

use super::outages::Outage;

/// The origin of the holes of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HoleSource {
    /// The log is a list of holes, or of the states of nodes.
    Holes,
    /// The log has jobs with the nodes that they ran on.
    Placed,
    /// The log has jobs without nodes: the simulated batch scheduler placed them.
    Simulated,
}

impl HoleSource {
    /// The origin in words.
    #[must_use]
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Holes => "idle nodes",
            Self::Placed => "batch jobs with their nodes",
            Self::Simulated => "batch jobs, placed by the simulated scheduler",
        }
    }
}

/// The number of damaged lines that are named.
const NAMED: usize = 3;

/// The counts of jobs, by name in JSON, and in words.
const COUNTS: [(&str, &str); 23] = [
    ("records", "records"),
    ("passed_over", "other lines (steps, jobs of other clusters)"),
    (
        "doubtful",
        "with texts of users that can be cut in several ways",
    ),
    ("jobs", "jobs that ran"),
    ("with_nodes", "jobs on named nodes"),
    (
        "pilots",
        "pilots of Lacuna, whose nodes count as idle (--ours)",
    ),
    ("without_nodes", "on nodes without names"),
    (
        "unreadable_nodes",
        "with lists of nodes that cannot be read",
    ),
    ("on_nodes_not_listed", "only on nodes that are not listed"),
    ("nodes_not_listed", "nodes that are not listed"),
    ("cancelled_waiting", "cancelled while they waited"),
    ("never_started", "never started"),
    ("incomplete", "without a number of nodes"),
    ("running_at_the_end", "still running at the end"),
    (
        "over_with_their_walltime",
        "without an end, and over by their walltime",
    ),
    ("without_an_end", "without an end"),
    ("end_before_they_start", "end before they start"),
    ("without_walltime", "without a walltime"),
    ("out_of_order", "not in order of submission"),
    ("too_large", "too large for the machine"),
    ("overran", "ran longer than they asked for"),
    ("killed_at_walltime", "ended at their walltime"),
    ("found_too_few_nodes", "found too few free nodes"),
];

/// How outages are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// By what happens (`outages.rs`).
    Events,
    /// More nodes than this are idle.
    IdleAbove(u32),
}

/// The time that counts as outages: no node counts as idle in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOut {
    /// The limit of idle nodes, if a limit tells outages.
    #[serde(skip_serializing_if = "Option::is_none")]
    above: Option<u32>,
    /// Number of outages.
    outages: usize,
    /// Their length, hours.
    hours: f64,
    /// The time that was looked at, hours.
    of_hours: f64,
    #[serde(skip)]
    rule: Rule,
    #[serde(skip)]
    all: Vec<Outage>,
    #[serde(skip)]
    from: Timestamp,
}

impl LeftOut {
    /// The outages in a part of the time.
    pub(super) fn of(rule: Rule, outages: &[Outage], from: Timestamp, until: Timestamp) -> Self {
        let parts = outages.iter().map(|&(a, b)| (a.max(from), b.min(until)));
        let all: Vec<Outage> = parts.filter(|(from, until)| from < until).collect();
        let lengths = all.iter().map(|(from, until)| until.since(*from));
        Self {
            above: match rule {
                Rule::Events => None,
                Rule::IdleAbove(most) => Some(most),
            },
            outages: all.len(),
            hours: lengths
                .map(Span::as_secs_f64)
                .fold(0.0, |sum, one| sum + one)
                / 3600.0,
            of_hours: until.since(from).as_secs_f64() / 3600.0,
            rule,
            all,
            from,
        }
    }

    /// What is left out, and of which time, in words.
    #[must_use]
    pub fn words(&self) -> String {
        let (hours, of) = (self.hours, duration(self.of_hours));
        match self.rule {
            Rule::IdleAbove(most) => format!(
                "{hours:.1} h of {of} in which more than {} were idle count as busy",
                grouped(u64::from(most))
            ),
            Rule::Events if self.outages == 0 => format!("0 h of {of}: no outage was found"),
            Rule::Events => format!(
                "{hours:.1} h of {of} count as busy, as {}: next to nothing ran, then much started at once",
                if self.outages == 1 {
                    "an outage".to_owned()
                } else {
                    format!("{} outages", self.outages)
                }
            ),
        }
    }
}

/// A length of time in hours; in days or in smaller units where these say more.
fn duration(hours: f64) -> String {
    if hours < 1.0 {
        Span::from_secs_f64((hours * 3600.0).round()).to_string()
    } else if hours < 48.0 {
        format!("{hours:.1} h")
    } else {
        format!("{:.1} d", hours / 24.0)
    }
}

/// The summary of a log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogSummary {
    /// The file with its folder.
    pub file: String,
    /// The format.
    pub(crate) format: &'static str,
    /// The origin of the holes.
    pub kind: HoleSource,
    /// The name of the machine, if the log has it.
    pub(crate) computer: Option<String>,
    /// The number of nodes of the machine, if it is known.
    pub(crate) machine_nodes: Option<u32>,
    /// The source of that number, in words.
    #[serde(rename = "machine_nodes_from", skip_serializing_if = "str::is_empty")]
    pub(super) nodes_from: &'static str,
    /// Whether jobs without nodes start at their recorded times.
    #[serde(skip)]
    pub(super) starts_recorded: bool,
    /// The base of the utilisation, in words.
    #[serde(skip)]
    utilisation_of: String,
    /// Number of damaged lines that were skipped.
    pub(crate) damaged_lines: u64,
    /// The first damaged lines, each with its place and fault.
    pub(crate) first_damaged: Vec<String>,
    /// Holes that contradict each other and were left out.
    pub(crate) refused_holes: Refused,
    /// Outages that no figure counts as idle; none if they were not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// Counts of the jobs, by name.
    pub(crate) jobs: Map<String, Value>,
    /// Notes for readers of the figures.
    pub(crate) notes: Vec<String>,
}

impl LogSummary {
    /// A summary with only name, format and origin.
    #[must_use]
    pub(super) fn new(log: &Path, format: &'static str, kind: HoleSource) -> Self {
        Self {
            file: name(log),
            format,
            kind,
            computer: None,
            machine_nodes: None,
            nodes_from: "",
            starts_recorded: false,
            utilisation_of: String::new(),
            damaged_lines: 0,
            first_damaged: Vec::new(),
            refused_holes: Refused::default(),
            left_out: None,
            jobs: Map::new(),
            notes: Vec::new(),
        }
    }

    /// Records the damaged lines, and the records that can be read in several ways.
    pub(super) fn damage(&mut self, damage: &Damage) {
        self.count("doubtful", damage.doubtful);
        if damage.doubtful > 0 {
            let lines = damage.first_doubtful.iter().map(u64::to_string);
            let lines = lines.collect::<Vec<_>>().join(", ");
            let more = damage.doubtful > damage.first_doubtful.len() as u64;
            self.notes.push(format!(
                "{} records with texts of users that look like other columns or rows, of which the likeliest \
                 reading was taken (lines {lines}{}): print the log without these texts to be sure",
                grouped(damage.doubtful),
                if more { ", ..." } else { "" }
            ));
        }
        self.damaged_lines = damage.lines;
        self.first_damaged = damage
            .first
            .iter()
            .map(|one| format!("line {}, {}", one.line, one.at))
            .collect();
    }

    /// Records a count of jobs; a count of 0 is left out.
    pub(super) fn count(&mut self, name: &str, count: u64) {
        if count > 0 {
            self.jobs.insert(name.to_owned(), Value::from(count));
        }
    }

    /// Records a figure of the jobs.
    pub(super) fn put(&mut self, name: &str, value: Value) {
        self.jobs.insert(name.to_owned(), value);
    }

    /// Records the share of node-time that jobs used, on this many nodes over this time.
    pub(super) fn utilised(&mut self, share: f64, nodes: u32, time: Span) {
        self.put("utilisation", Value::from(share));
        let s = if nodes == 1 { "" } else { "s" };
        self.utilisation_of = format!("of {} node{s} over {time}", grouped(u64::from(nodes)));
    }

    /// Records the node-hours that pilots of Lacuna had, of `idle` node-hours without batch jobs.
    pub(super) fn harvested(&mut self, hours: f64, idle: f64) {
        self.put("pilot_node_hours", Value::from(hours));
        self.put("idle_node_hours", Value::from(idle));
    }

    /// Adds a note for the reader.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// The warning about damaged lines, if there are any.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        if self.damaged_lines == 0 {
            return None;
        }
        let lines = if self.damaged_lines == 1 {
            "line was"
        } else {
            "lines were"
        };
        let mut text = format!(
            "warning: {}: {} damaged {lines} skipped (lacuna holes --strict refuses them):",
            self.file, self.damaged_lines
        );
        for line in self.first_damaged.iter().take(NAMED) {
            let _ = write!(text, "\n  {line}");
        }
        let more = self.damaged_lines.saturating_sub(NAMED as u64);
        if more > 0 && self.first_damaged.len() > NAMED {
            let _ = write!(text, "\n  and {more} more");
        }
        Some(text)
    }

    /// The reliability of the holes, in words.
    #[must_use]
    fn certainty(&self) -> String {
        let source = match self.kind {
            HoleSource::Holes => "the log states which nodes were idle",
            HoleSource::Placed => "the log states where batch jobs ran",
            HoleSource::Simulated => "an estimate: a simulated scheduler placed the batch jobs",
        };
        match self.notes.len() {
            0 => source.to_owned(),
            1 => format!("{source}; see the note below"),
            notes => format!("{source}; see the {notes} notes below"),
        }
    }

    /// The figures are of the time until this moment.
    pub(crate) fn ends(&mut self, until: Timestamp) {
        if let Some(all) = &self.left_out {
            self.left_out = Some(LeftOut::of(all.rule, &all.all, all.from, until));
        }
    }

    /// The rows on idle nodes at the top of an answer: how many, what counts as busy, how sure that is.
    #[must_use]
    pub(crate) fn headline(&self, pool: &PoolStats) -> Vec<(&'static str, String)> {
        let [idle, by_quarter] = pool.headline();
        let left_out = self.left_out.as_ref().map(|one| ("left out", one.words()));
        let sure = ("how sure", self.certainty());
        let rows = [idle].into_iter().chain(left_out);
        rows.chain([sure, by_quarter]).collect()
    }

    /// The rows of a table.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let kind = if self.starts_recorded {
            "batch jobs at their recorded starts, on nodes that the simulator chose"
        } else {
            self.kind.words()
        };
        let mut rows = vec![("log", format!("{}: {kind}", self.format))];
        if let Some(computer) = &self.computer {
            rows.push(("machine", computer.clone()));
        }
        if let Some(nodes) = self.machine_nodes {
            let from = match self.nodes_from {
                "" => String::new(),
                from => format!(" ({from})"),
            };
            rows.push(("machine's nodes", format!("{nodes}{from}")));
        }
        rows.extend(self.job_rows());
        if self.damaged_lines > 0 {
            rows.push(("damaged lines", self.damaged_lines.to_string()));
        }
        let refused = self.refused_holes;
        if refused.total() > 0 {
            rows.push((
                "refused holes",
                format!(
                    "{} (not positive {}, duplicate {}, overlapping {})",
                    refused.total(),
                    refused.not_positive,
                    refused.duplicates,
                    refused.overlaps
                ),
            ));
        }
        rows.extend(self.notes.iter().map(|note| ("note", note.clone())));
        rows
    }

    /// The part of a report on the log: labels with values, and notes, damage included.
    #[must_use]
    pub fn about(&self) -> (Vec<(String, String)>, Vec<String>) {
        let rows = self.rows().into_iter().filter(|(name, _)| *name != "note");
        let rows = rows.map(|(name, value)| (name.to_owned(), value)).collect();
        (
            rows,
            self.notes.iter().cloned().chain(self.warning()).collect(),
        )
    }

    /// The rows on the batch jobs.
    fn job_rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        let counts: Vec<String> = COUNTS
            .iter()
            .filter_map(|(name, words)| {
                let count = self.jobs.get(*name)?.as_u64()?;
                Some(format!("{} {words}", grouped(count)))
            })
            .collect();
        if !counts.is_empty() {
            rows.push(("batch jobs", counts.join(", ")));
        }
        let of = |name: &str| self.jobs.get(name).and_then(Value::as_f64);
        let hours = |hours: f64| Span::from_ms((hours * 3_600_000.0).round() as i64).to_string();
        if let Some(share) = of("utilisation") {
            let share = format!("{:.2} % {}", share * 100.0, self.utilisation_of);
            rows.push(("utilisation", share));
        }
        if let Some(hours) = of("pilot_node_hours") {
            let idle = of("idle_node_hours").filter(|idle| *idle >= 1.0);
            let share = match idle {
                Some(idle) => format!("{:.1} % of {idle:.1} idle ones", hours / idle * 100.0),
                None => "next to none was idle".to_owned(),
            };
            rows.push((
                "harvested by pilots",
                format!("{hours:.1} node-hours ({share})"),
            ));
        }
        if let Some(share) = of("busy_time_shared") {
            let text = format!(
                "{:.2} % of the busy time has two jobs or more",
                share * 100.0
            );
            rows.push(("shared nodes", text));
        }
        let waits: Vec<String> = [
            ("mean_wait_hours", "simulated"),
            ("mean_recorded_wait_hours", "recorded"),
        ]
        .into_iter()
        .filter_map(|(name, whose)| Some(format!("{} {whose}", hours(of(name)?))))
        .collect();
        if !waits.is_empty() {
            rows.push(("mean wait", waits.join(", ")));
        }
        for (label, name) in [
            ("mean overrun", "mean_overrun_hours"),
            ("longest job", "longest_hours"),
        ] {
            rows.extend(of(name).map(|value| (label, hours(value))));
        }
        rows
    }
}

/// A count with separated thousands.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_named_with_its_lines_and_counts_are_rows() {
        let mut summary = LogSummary::new(Path::new("a.swf"), "swf", HoleSource::Simulated);
        assert_eq!(summary.warning(), None);
        summary.damaged_lines = 5;
        summary.first_damaged = (1..=4).map(|n| format!("line {n}, field 2")).collect();
        let warning = summary.warning().unwrap();
        assert!(
            warning.contains("5 damaged lines were skipped"),
            "{warning}"
        );
        assert!(
            warning.contains("line 3, field 2\n  and 2 more"),
            "{warning}"
        );
        summary.count("never_started", 3);
        summary.count("too_large", 0);
        summary.count("records", 10);
        summary.utilised(0.5, 1024, Span::from_secs(129_600));
        summary.put("mean_wait_hours", Value::from(1.5));
        summary.put("mean_recorded_wait_hours", Value::from(42.0 / 3600.0));
        let estimate = "an estimate: a simulated scheduler placed the batch jobs";
        assert_eq!(summary.certainty(), estimate);
        summary.notes = vec!["small jobs are missing".to_owned(); 2];
        assert_eq!(
            summary.certainty(),
            format!("{estimate}; see the 2 notes below")
        );
        let rows = summary.rows();
        let row = |name| &rows.iter().find(|row| row.0 == name).unwrap().1;
        assert_eq!(row("batch jobs"), "10 records, 3 never started");
        assert_eq!(row("utilisation"), "50.00 % of 1,024 nodes over 1d12h");
        assert_eq!(row("mean wait"), "1h30m simulated, 42s recorded");
    }
}
