//! The last days of Slurm's accounting, as a log: `--from-slurm 90d`.
//!
//! `sacct` is asked for a day at a time, one question after the other, so that neither slurmdbd nor
//! this process holds the whole. A job that runs over several days is in the answer of each, and is
//! taken from the day of its end. All times are UTC, whatever the zone of this machine.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

use lacuna_model::{Span, Timestamp};
use lacuna_runtime::clock::Stopwatch;
use lacuna_runtime::command::{self, Bounds, CommandError, Ended};

use super::options::LogOptions;
use super::progress::Bar;
use crate::entry::wait_for;
use crate::error::{CliError, Result, file_error};
use crate::output::{iso, iso_short};
use crate::up::until_stopped;

/// The columns of the log. The name of a job is last, since it may be any text.
const COLUMNS: &str =
    "JobID,Submit,Start,End,State,NNodes,TimelimitRaw,NodeList,User,Partition,Account,JobName";

/// Where the end of a job is among them.
const END: usize = 3;

/// The end of a job that has not ended.
const UNKNOWN: &str = "Unknown";

/// The time of one question; of a question that is halved, at the least.
const PORTION: Span = Span::from_secs(86_400);
const LEAST: Span = Span::from_secs(3600);

/// The longest time that is asked for.
const MOST: Span = Span::from_secs(3700 * 86_400);

/// The limits of one answer.
const BOUNDS: Bounds = Bounds {
    time: Span::from_secs(300),
    stdout: 128 << 20,
};

/// The limits of questions about nodes.
const SHORT: Bounds = Bounds {
    time: Span::from_secs(60),
    stdout: 64 << 20,
};

/// Pauses before further tries, in seconds.
const PAUSES: [u64; 2] = [1, 5];

/// The accounting on disk, while it is read.
pub(super) struct Accounting {
    folder: TempDir,
    /// Nodes of the machine, if Slurm names them.
    nodes: Option<PathBuf>,
    /// When nodes were down or drained, if the accounting has it.
    outages: Option<PathBuf>,
    /// Notes for readers of the figures.
    pub(super) notes: Vec<String>,
    /// The source, in words.
    pub(super) name: String,
}

impl Accounting {
    /// The table of jobs.
    fn log(&self) -> PathBuf {
        self.folder.path().join("sacct")
    }

    /// These options, for this accounting in place of a log.
    pub(super) fn read_by(&self, options: &LogOptions) -> LogOptions {
        let mut options = options.clone();
        options.file = self.log();
        if options.nodes_file.is_none() {
            options.nodes_file.clone_from(&self.nodes);
        }
        if options.drained.is_none() {
            options.drained.clone_from(&self.outages);
        }
        options
    }

    /// A text in which files of the accounting are named by the programs that gave them, since the
    /// files do not stay.
    pub(super) fn named(&self, text: &str) -> String {
        text.replace(
            &format!("{}/", self.folder.path().display()),
            "the answer of ",
        )
    }

    /// Asks Slurm, if these options name it in place of a log.
    ///
    /// # Errors
    /// As [`Accounting::ask`].
    pub(super) fn of(options: &LogOptions, bar: &mut Bar) -> Result<Option<Self>> {
        let Some(span) = options.from_slurm else {
            return Ok(None);
        };
        let ask = Self::ask(span, options.cluster.as_deref(), bar);
        wait_for(until_stopped(ask)).map(Some)
    }

    /// Asks Slurm for the time `span` before now.
    ///
    /// # Errors
    /// A portion is not answered, named with its time; there is no job in it; the disk is full.
    async fn ask(span: Span, cluster: Option<&str>, bar: &mut Bar) -> Result<Self> {
        if span <= Span::ZERO || span > MOST {
            return Err(CliError::failed(format!(
                "--from-slurm {span}: expected a time above zero, of ten years at most, such as 90d"
            )));
        }
        let folder = TempDir::new();
        let folder = folder.map_err(|e| file_error("write", &std::env::temp_dir(), &e))?;
        let of = cluster.map_or_else(String::new, |name| format!(" of {name}"));
        let mut accounting = Self {
            folder,
            nodes: None,
            outages: None,
            notes: Vec::new(),
            name: format!("Slurm's accounting{of}, {span}"),
        };
        let now = Timestamp::from_unix(lacuna_runtime::clock::wall().unix_ms().div_euclid(1000));
        let from = now - span;
        accounting.jobs((from, now), cluster, bar).await?;
        accounting.machine((from, now), cluster).await?;
        Ok(accounting)
    }

    async fn jobs(
        &self,
        (from, now): (Timestamp, Timestamp),
        cluster: Option<&str>,
        bar: &mut Bar,
    ) -> Result<()> {
        let path = self.log();
        let failed = |e| file_error("write", &path, &e);
        let mut file = BufWriter::new(File::create(&path).map_err(failed)?);
        writeln!(file, "{}", COLUMNS.replace(',', "|")).map_err(failed)?;
        let mut rows = 0_u64;
        let (mut at, mut portion, mut was_late) = (from, PORTION, false);
        while at < now {
            bar.asking(at.since(from), now.since(from), rows);
            let until = now.min(at + portion);
            let watch = Stopwatch::start();
            let said = match answer(&sacct(at, until, cluster)).await {
                Ok(said) => said,
                Err(error) => {
                    let less = shorter(portion, &error, was_late);
                    portion = less.ok_or_else(|| refuse(&error, at, until))?;
                    was_late = is_late(&error);
                    continue;
                }
            };
            was_late = false;
            portion = longer(portion, said.len(), watch.span());
            // Jobs that have not ended are taken from the last answer.
            let last = until == now;
            let (begins, ends) = (local(at), local(until));
            let is_here = |end: &str| {
                end >= begins.as_str() && (last || (end != UNKNOWN && end < ends.as_str()))
            };
            rows += keep(&said, is_here, &mut file).map_err(failed)?;
            at = until;
        }
        file.flush().map_err(failed)?;
        if rows == 0 {
            return Err(CliError::failed(format!(
                "Slurm's accounting has no job from {} to {}",
                iso_short(from),
                iso_short(now)
            ))
            .remedy(
                "ask for a longer time, or as an account that may see all jobs: `sacct --allusers` shows only what its \
                 caller may see",
            ));
        }
        Ok(())
    }

    /// Asks for the nodes, and for the times in which they were down or drained.
    async fn machine(
        &mut self,
        (from, now): (Timestamp, Timestamp),
        cluster: Option<&str>,
    ) -> Result<()> {
        let mut sinfo = question("sinfo", cluster);
        sinfo.extend(["--noheader", "--all", "--Node", "--format=%N"].map(str::to_owned));
        match ask(&sinfo, SHORT).await {
            Ok(said) => {
                let mut nodes: Vec<&str> = said.lines().map(str::trim).collect();
                // A node has a line for each of its partitions.
                let mut seen = std::collections::HashSet::new();
                nodes.retain(|name| {
                    !name.is_empty() && !name.starts_with("CLUSTER:") && seen.insert(*name)
                });
                if !nodes.is_empty() {
                    let text = format!("{}\n", nodes.join("\n"));
                    self.nodes = Some(self.write("sinfo", &text)?);
                }
            }
            Err(error) => self.notes.push(format!(
                "sinfo does not name the machine's nodes ({error}): those that had a job count"
            )),
        }
        let mut events = vec!["sacctmgr".to_owned()];
        events.extend(["--noheader", "--parsable2", "show", "event"].map(str::to_owned));
        events.extend(cluster.map(|name| format!("clusters={name}")));
        events.push(format!("start={}", local(from)));
        events.push(format!("end={}", local(now)));
        events.push("format=NodeName,TimeStart,TimeEnd".to_owned());
        match ask(&events, SHORT).await {
            Ok(said) => {
                let text = unavailable(&said, now);
                self.outages = Some(self.write("sacctmgr", &text)?);
            }
            Err(error) => self.notes.push(format!(
                "sacctmgr does not say when nodes were down or drained ({error}): they count as idle then"
            )),
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).map_err(|e| file_error("write", &path, &e))?;
        Ok(path)
    }
}

/// Half of a portion whose answer was too long or late. Nothing if that is of no use: where the half
/// of a late portion is late too, Slurm does not answer at all.
fn shorter(portion: Span, error: &CommandError, was_late: bool) -> Option<Span> {
    let is_too_long = matches!(error, CommandError::TooLong { .. });
    let may_help = is_too_long || (is_late(error) && !was_late);
    (may_help && portion > LEAST).then(|| LEAST.max(Span::from_ms(portion.as_ms() / 2)))
}

/// Twice a portion, a day at most, if its answer was well within the limits: the next one may be as
/// quiet.
fn longer(portion: Span, bytes: usize, took: Span) -> Span {
    if bytes > BOUNDS.stdout / 4 || took.as_ms() > BOUNDS.time.as_ms() / 4 {
        return portion;
    }
    PORTION.min(portion + portion)
}

const fn is_late(error: &CommandError) -> bool {
    matches!(error, CommandError::Late { .. })
}

/// A program with the switch for a cluster.
fn question(program: &str, cluster: Option<&str>) -> Vec<String> {
    let mut words = vec![program.to_owned()];
    words.extend(cluster.map(|name| format!("--clusters={name}")));
    words
}

fn sacct(from: Timestamp, until: Timestamp, cluster: Option<&str>) -> Vec<String> {
    let mut words = question("sacct", cluster);
    let switches = [
        "--allusers",
        "--allocations",
        "--duplicates",
        "--parsable2",
        "--noheader",
    ];
    words.extend(switches.map(str::to_owned));
    words.push(format!("--starttime={}", local(from)));
    words.push(format!("--endtime={}", local(until)));
    words.push(format!("--format={COLUMNS}"));
    words
}

/// Runs a program once.
async fn ask(words: &[String], bounds: Bounds) -> std::result::Result<String, CommandError> {
    let (program, args) = words
        .split_first()
        .map_or(("", words), |(p, a)| (p.as_str(), a));
    let mut asked = Command::new(program);
    asked
        .args(args)
        .env("TZ", "UTC")
        .env_remove("SLURM_TIME_FORMAT");
    let ended = command::run(asked, None, bounds).await;
    Ok(ended.and_then(Ended::good)?.stdout)
}

/// Asks `sacct`, again after a failure.
async fn answer(words: &[String]) -> std::result::Result<String, CommandError> {
    for pause in PAUSES {
        match ask(words, BOUNDS).await {
            Err(CommandError::Failed { .. } | CommandError::Io { .. }) => {
                tokio::time::sleep(Duration::from_secs(pause)).await;
            }
            said => return said,
        }
    }
    ask(words, BOUNDS).await
}

fn refuse(error: &CommandError, from: Timestamp, until: Timestamp) -> CliError {
    let tries = match error {
        CommandError::Failed { .. } | CommandError::Io { .. } => {
            format!(", in {} tries", PAUSES.len() + 1)
        }
        _ => String::new(),
    };
    let (from, until) = (iso(from), iso(until));
    let error = CliError::failed(format!(
        "Slurm's accounting from {from} to {until}{tries}: {error}"
    ));
    error.remedy(
        "run it where `sacct` works, or give a log: sacct --allusers --duplicates -X --parsable2 -S START -o \
         jobid,submit,start,end,state,nnodes,timelimit,nodelist > sacct.log",
    )
}

/// A moment as Slurm reads and writes it.
fn local(at: Timestamp) -> String {
    iso(at).trim_end_matches('Z').chars().take(19).collect()
}

/// Writes the rows whose end `is_here`, with the lines that a text in them adds. Returns their
/// number.
fn keep(
    said: &str,
    is_here: impl Fn(&str) -> bool,
    file: &mut impl std::io::Write,
) -> std::io::Result<u64> {
    let (mut rows, mut kept) = (0, false);
    for line in said.lines() {
        let end = line.split('|').nth(END);
        let is_row = line.starts_with(|first: char| first.is_ascii_digit());
        if let Some(end) = end.filter(|end| is_row && is_time(end)) {
            kept = is_here(end);
            rows += u64::from(kept);
        }
        if kept {
            writeln!(file, "{line}")?;
        }
    }
    Ok(rows)
}

fn is_time(cell: &str) -> bool {
    cell == UNKNOWN || (cell.len() == 19 && cell.starts_with(|first: char| first.is_ascii_digit()))
}

/// The times of nodes that were down or drained, as a file of outages.
fn unavailable(events: &str, now: Timestamp) -> String {
    let mut text = "nodes,from,until\n".to_owned();
    for line in events.lines() {
        let mut cells = line.split('|').map(str::trim);
        let (Some(node), Some(from), Some(until)) = (cells.next(), cells.next(), cells.next())
        else {
            continue;
        };
        let until = if until == UNKNOWN {
            local(now)
        } else {
            until.to_owned()
        };
        if !node.is_empty() && is_time(from) && is_time(&until) && from < until.as_str() {
            text.push_str(&format!("{node},{from}Z,{until}Z\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_kept_once_with_the_lines_of_its_name() {
        let said = "\
1|s|s|2024-01-01T23:59:59|COMPLETED|1|10|n1|u|p|a|a job
2|s|s|2024-01-02T00:00:00|COMPLETED|1|10|n1|u|p|a|two
lines|of a name
3|s|s|2024-01-03T00:00:00|COMPLETED|1|10|n1|u|p|a|x
4|s|s|Unknown|RUNNING|1|10|n1|u|p|a|x
";
        let kept = |last: bool| {
            let mut file = Vec::new();
            let (from, until) = ("2024-01-02T00:00:00", "2024-01-03T00:00:00");
            let is_here = |end: &str| end >= from && (last || (end != UNKNOWN && end < until));
            let rows = keep(said, is_here, &mut file).unwrap();
            (rows, String::from_utf8(file).unwrap())
        };
        let (rows, text) = kept(false);
        assert_eq!(rows, 1);
        assert!(
            text.starts_with("2|") && text.ends_with("lines|of a name\n"),
            "{text}"
        );
        assert_eq!(kept(true).0, 3);
    }

    #[test]
    fn a_long_answer_is_asked_for_in_parts_and_a_slurm_that_hangs_is_given_up() {
        let late = CommandError::Late {
            program: "sacct".to_owned(),
            limit: BOUNDS.time,
        };
        let long = CommandError::TooLong {
            program: "sacct".to_owned(),
            most: BOUNDS.stdout,
        };
        let half = Span::from_secs(43_200);
        assert_eq!(shorter(PORTION, &late, false), Some(half));
        assert_eq!(shorter(half, &late, true), None);
        assert_eq!(shorter(half, &long, true), Some(Span::from_secs(21_600)));
        assert_eq!(shorter(Span::from_secs(5000), &long, false), Some(LEAST));
        assert_eq!(shorter(LEAST, &long, false), None);
    }

    #[test]
    fn portions_grow_to_a_day_again_once_answers_are_short_and_early() {
        let (early, half) = (Span::from_secs(2), Span::from_secs(43_200));
        assert_eq!(longer(half, 1 << 20, early), PORTION);
        assert_eq!(longer(PORTION, 1 << 20, early), PORTION);
        assert_eq!(longer(LEAST, 1 << 20, early), LEAST + LEAST);
        assert_eq!(longer(half, BOUNDS.stdout / 2, early), half);
        assert_eq!(longer(half, 1 << 20, Span::from_secs(200)), half);
    }

    #[test]
    fn nodes_that_are_down_until_now_are_unavailable_until_now() {
        let now = Timestamp::from_unix(1_704_153_600);
        let events = "|2024-01-01T00:00:00|Unknown\nn1|2024-01-01T00:00:00|Unknown\nn2|2024-01-01T01:00:00|2024-01-01T02:00:00\n";
        assert_eq!(
            unavailable(events, now),
            "nodes,from,until\nn1,2024-01-01T00:00:00Z,2024-01-02T00:00:00Z\n\
             n2,2024-01-01T01:00:00Z,2024-01-01T02:00:00Z\n"
        );
    }
}
