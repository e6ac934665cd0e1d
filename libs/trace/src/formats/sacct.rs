//! Slurm's accounting, as `sacct --parsable2` prints it: a table of any columns, one job or
//! step a line.
//!
//! Source: the manual page of `sacct`, and tables of versions 16.05 to 22.05.
//!
//! - Texts of users are printed as they are, with delimiters and line ends. So a row may be several
//!   lines, and is cut in the way in which each column between the texts fits its form.
//! - Steps (`123.batch`, `123.0`) are skipped; the line of their job represents them.
//! - Each line of a job is one life. A requeued job (`sacct --duplicates`) has a line for each
//!   start, a resized job one for each size.
//! - Jobs without nodes (`None assigned`) never started, even with a start time.

mod columns;
mod notation;

use std::cmp::Reverse;

use lacuna_model::{Span, Timestamp};
use lacuna_records::fields::{self, Length, unexpected};
use lacuna_records::hosts;
use lacuna_records::times::LocalTimes;

use crate::formats::JobParser;
use crate::formats::clusters::{Clusters, Of};
use crate::{FieldError, JobOutcome, JobRecord, Reading};

use columns::{Columns, Cut, DELIMITERS, NO_TIMES, ROLES, Role, is_data};

pub(super) fn knows(lines: &[&[u8]]) -> bool {
    lines.first().is_some_and(|line| {
        Columns::from_header(line).is_some() || is_data(line) || is_aligned(line, lines.get(1))
    })
}

/// Whether these are first lines of `sacct` without `--parsable2`, which truncates columns.
fn is_aligned(first: &[u8], second: Option<&&[u8]>) -> bool {
    let is_rule = |line: &&&[u8]| line.iter().all(|byte| b"- ".contains(byte));
    let mut names = first.split(u8::is_ascii_whitespace);
    names.any(|name| name.eq_ignore_ascii_case(b"JobID")) && second.as_ref().is_some_and(is_rule)
}

/// Reason why a log with these first bytes cannot be read as a table, if there is one.
pub(super) fn refusal(head: &[u8], reading: &Reading) -> Option<String> {
    let mut lines = head
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty());
    let line = lines.next()?;
    match (Columns::from_header(line), &reading.columns) {
        (Some(columns), _) => columns.err(),
        (None, Some(names)) => match Columns::from_names(names, line) {
            Ok(_) => unlike(names, std::iter::once(line).chain(lines)),
            Err(lacking) => Some(lacking),
        },
        (None, None) if is_aligned(line, lines.next().as_ref()) => Some(
            "its columns are aligned, and cut off where they are narrow: print it with \
             sacct --parsable2"
                .to_owned(),
        ),
        (None, None) => Some(format!(
            "its first line does not name the columns: name them all in their order with --columns, e.g. \
             --columns jobid,submit,start,end,state,nnodes,timelimit,nodelist; its first line has {}",
            numbered(line)
        )),
    }
}

/// The cells of a line of data with their numbers, which a user has to name.
fn numbered(line: &[u8]) -> String {
    const LONGEST: usize = 20;
    let text = String::from_utf8_lossy(line);
    let occurs = |&delimiter: &u8| line.iter().filter(|byte| **byte == delimiter).count() > 1;
    let delimiter = DELIMITERS.into_iter().find(occurs).unwrap_or(b'|');
    let cells = text.split(char::from(delimiter)).enumerate();
    let numbered = cells.map(|(number, cell)| {
        let short: String = cell.chars().take(LONGEST).collect();
        format!("{} {short}", number + 1)
    });
    numbered.collect::<Vec<_>>().join(", ")
}

/// Reason for a refusal if no first line has as many cells as columns are given. Then the given
/// columns are wrong, not the lines.
fn unlike<'a>(names: &str, lines: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let mut first = None;
    for line in lines.take(64) {
        // Any line may give the delimiter, since the first ones may be damaged.
        let columns = Columns::from_names(names, line).ok()?;
        let mut cells: [&[u8]; ROLES] = [&[]; ROLES];
        match columns.cut(line, &mut cells) {
            Cut::Whole => return None,
            Cut::TooMany if columns.has_text() => return None,
            Cut::TooFew | Cut::TooMany => {}
        }
        first = first.or_else(|| {
            Some(format!(
                "--columns names {} columns, but its first line has {}, apart by {:?}: name all, \
                 in their order",
                columns.count(),
                columns.cells(line),
                char::from(columns.delimiter)
            ))
        });
    }
    first
}

pub(super) struct Sacct {
    /// Names of columns from the user.
    names: Option<String>,
    columns: Option<Columns>,
    times: LocalTimes,
    clusters: Clusters,
    /// Steps, and jobs of other clusters.
    skipped: u64,
    /// Rows that can be cut in several ways, with different results.
    doubtful: u64,
    /// Whether the lines that were joined may be read in another way.
    is_doubtful: bool,
    /// Whether the line before belongs to a row, which may go on if its last column is a text.
    is_in_row: bool,
    /// Number of the next lines that are no row for certain.
    barren: usize,
    /// Whether a row with a time has been read.
    has_times: bool,
    /// The first time with another meaning elsewhere. In a log without any other time it is no damage.
    unclear: Option<String>,
}

/// Result of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Job,
    /// A step, or a job of another cluster.
    Other,
}

impl Sacct {
    pub(super) fn new(reading: &Reading) -> Self {
        Self {
            names: reading.columns.clone(),
            columns: None,
            times: LocalTimes::new(reading.zone()),
            clusters: Clusters::new(reading.cluster.as_ref()),
            skipped: 0,
            doubtful: 0,
            is_doubtful: false,
            is_in_row: false,
            barren: 0,
            has_times: false,
            unclear: None,
        }
    }

    /// Takes the first line, or a further header of joined tables. Returns whether the line is a
    /// header.
    #[cold]
    fn header(&mut self, line: &[u8]) -> Result<bool, FieldError> {
        let wrong =
            |lacking: String| FieldError::new("line", "a header with more columns", lacking);
        if let Some(columns) = Columns::from_header(line) {
            self.columns = Some(columns.map_err(wrong)?);
            return Ok(true);
        }
        if self.columns.is_none() {
            let names = self.names.as_deref().ok_or_else(|| {
                let expected = "a header that names the columns (JobID|Start|End|NNodes|...)";
                unexpected("line", expected, line)
            })?;
            self.columns = Some(Columns::from_names(names, line).map_err(wrong)?);
        }
        Ok(false)
    }
}

impl JobParser for Sacct {
    fn line(&mut self, line: &[u8], record: &mut JobRecord) -> Result<bool, FieldError> {
        let is_first = self.columns.is_none();
        let may_be_header = match &self.columns {
            None => !line.trim_ascii().is_empty(),
            Some(columns) => columns.begin(line),
        };
        if may_be_header && self.header(line)? {
            return Ok(false);
        }
        let Some(columns) = &self.columns else {
            return Ok(false);
        };
        if line.is_empty() || line.trim_ascii().is_empty() {
            return Ok(false);
        }
        self.barren = self.barren.saturating_sub(1);
        let read = row(columns, line, &mut self.times, &mut self.clusters, record);
        let was_in_row = std::mem::replace(&mut self.is_in_row, read.is_ok());
        let was_doubtful = std::mem::take(&mut self.is_doubtful);
        match read {
            Ok((found, is_doubtful)) => {
                self.skipped += u64::from(found == Found::Other);
                self.doubtful += u64::from(is_doubtful || was_doubtful);
                self.has_times |= record.submit.is_some() || record.start.is_some();
                Ok(found == Found::Job)
            }
            // The line may be the header of a table with another first column.
            Err(at) => match Columns::from_header(line) {
                Some(Ok(columns)) => {
                    self.columns = Some(columns);
                    Ok(false)
                }
                _ if was_in_row && goes_on(columns, line) => {
                    self.is_in_row = true;
                    Ok(false)
                }
                _ => {
                    if !self.has_times && self.unclear.is_none() {
                        self.unclear = unclear_time(columns, line);
                    }
                    if is_first {
                        // The damaged line may have given a wrong delimiter.
                        self.columns = None;
                    }
                    Err(at)
                }
            },
        }
    }

    /// Of the ways to read the lines, the one without damage counts. But a line that is a row of its
    /// own stays one, unless the lines on both sides of it are damaged otherwise.
    fn joins(&mut self, ahead: &[u8]) -> Option<usize> {
        let columns = self.columns.as_ref().filter(|_| self.barren == 0)?;
        let mut lines = ahead.split_inclusive(|&byte| byte == b'\n');
        let first = lines.next().unwrap_or(&[]);
        if !columns.is_beginning(without_end(first)) {
            return None;
        }
        let times = &mut self.times;
        let mut is_row = |text: &[u8]| {
            let (mut none, mut record) = (Clusters::default(), JobRecord::default());
            row(columns, without_end(text), times, &mut none, &mut record).is_ok()
        };
        let (mut until, mut tried) = (first.len(), 0);
        // The number of the first line that is a row of its own.
        let mut whole = None;
        // Where other rows may begin.
        let mut beginnings = Vec::new();
        for (number, line) in (1..).zip(lines) {
            let from = until;
            until += line.len();
            let text = without_end(line);
            if whole.is_some_and(|whole| number > whole + MOST_BEHIND) {
                return None;
            }
            if is_row(text) || matches!(Columns::from_header(text), Some(Ok(_))) {
                whole = whole.or(Some(number));
                continue;
            }
            if columns.is_beginning(text) && beginnings.len() < MOST_BEHIND {
                beginnings.push(from);
            }
            if !columns.is_ending(text) {
                continue;
            }
            if is_row(ahead.get(..until).unwrap_or(ahead)) {
                let mut others = beginnings.iter().filter_map(|&from| ahead.get(from..until));
                let is_of_another = others.any(&mut is_row);
                if whole.is_some() && is_of_another {
                    return None;
                }
                self.is_doubtful = whole.is_some() || is_of_another;
                return Some(number);
            }
            // Where a text is the first column, any line may begin a row.
            tried += if columns.begins_with_text() {
                MOST_JOINED
            } else {
                1
            };
            if tried >= MOST_JOINED {
                break;
            }
        }
        // In a log without any row, only some lines are looked behind.
        if whole.is_none() && (tried >= MOST_JOINED || until > MOST_BARREN) {
            self.barren = ahead.split(|&byte| byte == b'\n').count();
        }
        None
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn doubtful(&self) -> u64 {
        self.doubtful
    }

    fn refusal(&self, is_end: bool) -> Option<String> {
        let unclear = self.unclear.as_ref().filter(|_| is_end && !self.has_times);
        let unclear = unclear.map(|time| {
            format!(
                "its times ({time}) are no whole dates with one meaning: print it again with \
                 SLURM_TIME_FORMAT=standard sacct ..."
            )
        });
        unclear.or_else(|| self.clusters.refusal(is_end, "sacct"))
    }
}

/// Bytes without a row from which on lines are not looked behind.
const MOST_BARREN: usize = 32 * 1024;

/// Most tries to join a line with those behind it.
const MOST_JOINED: u32 = 16;

/// Most lines of a text from the first on that is a row of its own.
const MOST_BEHIND: usize = 16;

/// A line without its end.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A time in a row with another meaning elsewhere, as of `SLURM_TIME_FORMAT=relative`.
fn unclear_time(columns: &Columns, line: &[u8]) -> Option<String> {
    let mut cells: [&[u8]; ROLES] = [&[]; ROLES];
    if columns.cut(line, &mut cells) != Cut::Whole {
        return None;
    }
    let row = Row { columns, cells };
    let mut times = [Role::Submit, Role::Start, Role::End]
        .map(|role| row.cell(role))
        .into_iter();
    let unclear = times.find(|time| notation::is_unclear(time))?;
    Some(String::from_utf8_lossy(unclear).into_owned())
}

/// Whether a refused line behind a row belongs to the text in the row's last column: it has fewer
/// cells than a row, and nothing of one.
fn goes_on(columns: &Columns, line: &[u8]) -> bool {
    let cells = || line.split(|&byte| byte == columns.delimiter);
    columns.ends_in_text()
        && cells().count() < columns.count()
        && !cells().any(columns::is_date)
        && !(columns.is_beginning(line) && cells().count() > 1)
}

/// Reads a row. Returns whether it is a job, and whether it can be cut in several ways.
#[inline]
fn row(
    columns: &Columns,
    line: &[u8],
    times: &mut LocalTimes,
    clusters: &mut Clusters,
    record: &mut JobRecord,
) -> Result<(Found, bool), FieldError> {
    let mut cells: [&[u8]; ROLES] = [&[]; ROLES];
    match columns.cut(line, &mut cells) {
        Cut::Whole if memchr::memchr(b'\n', line).is_none() => {
            let found = Row { columns, cells }.read(times, clusters, record)?;
            Ok((found, false))
        }
        Cut::Whole | Cut::TooMany if columns.has_text() => {
            among(columns, line, times, clusters, record)
        }
        _ => {
            let expected = format!("{} columns", columns.count());
            let found = format!("{}", columns.cells(line));
            Err(FieldError::new("line", expected, found))
        }
    }
}

/// How good a way to cut a row is: whether its list has as many nodes as the row says, then the fewest
/// texts with delimiters or line ends.
type Rank = (bool, Reverse<usize>);

/// Reads a row in which texts hold delimiters or line ends. Of all ways to cut it, the one counts
/// whose list has as many nodes as the row says, then the one with the fewest such texts.
#[cold]
fn among(
    columns: &Columns,
    line: &[u8],
    times: &mut LocalTimes,
    clusters: &mut Clusters,
    record: &mut JobRecord,
) -> Result<(Found, bool), FieldError> {
    let mut refused = None;
    let mut best: Option<(Rank, Found, JobRecord, Vec<u8>)> = None;
    let mut is_doubtful = false;
    for way in columns.ways(line) {
        let mut cells: [&[u8]; ROLES] = [&[]; ROLES];
        columns.cut_by(&way, line, &mut cells);
        let row = Row { columns, cells };
        let mut read = JobRecord::default();
        match row.read(times, &mut Clusters::default(), &mut read) {
            Ok(found) => {
                let listed = hosts::count(&read.hosts).is_ok_and(|listed| listed == read.nodes);
                let rank = (listed, Reverse(way.texts()));
                match &best {
                    Some((known, ..)) if *known > rank => {}
                    Some((known, _, before, _)) if *known == rank => {
                        is_doubtful |= *before != read;
                    }
                    _ => {
                        is_doubtful = false;
                        best = Some((rank, found, read, row.cell(Role::Cluster).to_vec()));
                    }
                }
            }
            Err(at) => refused = refused.or(Some(at)),
        }
    }
    let Some((_, found, read, cluster)) = best else {
        let none = || FieldError::new("line", "as many cells as columns", "more");
        return Err(refused.unwrap_or_else(none));
    };
    *record = read;
    match of_cluster(clusters, &cluster)? {
        true => Ok((found, is_doubtful)),
        false => Ok((Found::Other, false)),
    }
}

/// Whether a row is of the cluster that is read.
fn of_cluster(clusters: &mut Clusters, name: &[u8]) -> Result<bool, FieldError> {
    match clusters.take(name) {
        Of::Ours => Ok(true),
        Of::Another => Ok(false),
        Of::Second => Err(unexpected("Cluster", "one cluster", name)),
    }
}

/// A line, cut into cells.
struct Row<'a> {
    columns: &'a Columns,
    cells: [&'a [u8]; ROLES],
}

impl<'a> Row<'a> {
    #[inline]
    fn cell(&self, role: Role) -> &'a [u8] {
        self.cells
            .get(role as usize)
            .copied()
            .unwrap_or(&[])
            .trim_ascii()
    }

    #[cold]
    fn unexpected(&self, role: Role, expected: &str) -> FieldError {
        unexpected(self.columns.place(role), expected, self.cell(role))
    }

    /// Reads the line into a record.
    #[inline]
    fn read(
        &self,
        times: &mut LocalTimes,
        clusters: &mut Clusters,
        record: &mut JobRecord,
    ) -> Result<Found, FieldError> {
        let (is_step, id) = self.id()?;
        if !is_step {
            self.job(id, times, record)?;
        }
        // Only a sound row tells of a second cluster.
        let is_ours =
            !self.columns.has(Role::Cluster) || of_cluster(clusters, self.cell(Role::Cluster))?;
        Ok(match is_step || !is_ours {
            true => Found::Other,
            false => Found::Job,
        })
    }

    /// Job id, and whether the line is a step.
    fn id(&self) -> Result<(bool, &'a [u8]), FieldError> {
        let role = if self.columns.has(Role::JobId) {
            Role::JobId
        } else {
            Role::JobIdRaw
        };
        let id = self.cell(role);
        let is_part = |byte: &u8| byte.is_ascii_digit() || b"_+[]-,%.".contains(byte);
        let is_id =
            |id: &[u8]| id.first().is_some_and(u8::is_ascii_digit) && id.iter().all(is_part);
        // A dot within brackets is an abbreviation of indices: `123_[1-9,...]`.
        let step = memchr::memchr2(b'.', b'[', id);
        match step.and_then(|at| id.split_at_checked(at)) {
            Some((job, rest)) if rest.starts_with(b".") && is_id(job) => Ok((true, job)),
            _ if is_id(id) => Ok((false, id)),
            _ => Err(self.unexpected(role, "the id of a job, as in 123, 123_4 and 123+0")),
        }
    }

    fn job(
        &self,
        id: &[u8],
        times: &mut LocalTimes,
        record: &mut JobRecord,
    ) -> Result<(), FieldError> {
        record.submit = self.time(Role::Submit, times, None)?;
        let start = self.time(Role::Start, times, record.submit)?;
        let end = self.time(Role::End, times, start)?;
        let (outcome, is_waiting) = self.state()?;
        record.outcome = outcome;

        let list = self.cell(Role::NodeList);
        let no_node = matches!(list, b"None assigned" | b"(null)" | b"None");
        if !no_node {
            fields::copy(&mut record.hosts, list);
        }
        let in_list = hosts::count(&record.hosts).map_err(|_| {
            self.unexpected(Role::NodeList, "a list of hosts, as in n[1-4,7],login")
        })?;
        let allocated = self.count(Role::AllocNodes)?;
        let mut nodes = self
            .count(Role::NNodes)?
            .filter(|&nodes| nodes > 0)
            .or(allocated);
        if nodes.is_none_or(|nodes| nodes == 0) && in_list > 0 {
            nodes = Some(in_list);
        }
        if nodes.is_none_or(|nodes| nodes == 0) {
            nodes = self.count(Role::ReqNodes)?;
        }
        record.nodes = nodes.unwrap_or(0);

        let limit = if self.cell(Role::Timelimit).is_empty() {
            Role::TimelimitRaw
        } else {
            Role::Timelimit
        };
        let limit = self.limit(limit)?.and_then(Length::span);
        record.walltime = limit.filter(|&limit| limit > Span::ZERO);
        let never = is_waiting
            || no_node
            || allocated == Some(0)
            // Without a list, start and end of the same second mean that the job ended in the
            // queue.
            || list.is_empty()
                && matches!(outcome, JobOutcome::Cancelled | JobOutcome::Timeout)
                && start == end;
        if let Some(start) = start.filter(|_| !never) {
            record.start = Some(start);
            record.end = end;
            match end {
                Some(end) if end < start => {
                    return Err(self.unexpected(Role::End, "a time that is not before the start"));
                }
                None if outcome != JobOutcome::Running && !self.cell(Role::State).is_empty() => {
                    return Err(self.unexpected(Role::End, "the end of a job that has ended"));
                }
                _ => {}
            }
        }
        fields::copy(&mut record.id, id);
        fields::copy(&mut record.user, self.cell(Role::User));
        fields::copy(&mut record.queue, self.cell(Role::Partition));
        fields::copy(&mut record.name, self.cell(Role::JobName));
        fields::copy(&mut record.account, self.cell(Role::Account));
        Ok(())
    }

    #[inline]
    fn time(
        &self,
        role: Role,
        times: &mut LocalTimes,
        earliest: Option<Timestamp>,
    ) -> Result<Option<Timestamp>, FieldError> {
        let text = self.cell(role);
        if let Some(time) = times.iso_after(text, earliest) {
            return Ok(Some(time));
        }
        if text.is_empty() || NO_TIMES.iter().any(|no| text.eq_ignore_ascii_case(no)) {
            return Ok(None);
        }
        // With another `SLURM_TIME_FORMAT`: `%s`, or one of the user.
        let other = || {
            let (local, is_utc) = notation::local(text)?;
            let seconds = if is_utc {
                local
            } else {
                times.unix_seconds(local)?
            };
            Some(Timestamp::from_unix(seconds))
        };
        fields::unix(text).or_else(other).map(Some).ok_or_else(|| {
            let expected =
                "a time as in 2016-12-21T21:43:34 (SLURM_TIME_FORMAT=standard), or Unknown";
            self.unexpected(role, expected)
        })
    }

    /// Outcome of the job, and whether it still waits.
    fn state(&self) -> Result<(JobOutcome, bool), FieldError> {
        let text = self.cell(Role::State);
        // `CANCELLED by 1500`, and `CANCELLED+` where a column was too narrow.
        let word = text
            .split(|&byte| byte == b' ' || byte == b'+')
            .next()
            .unwrap_or(text);
        if let Some(outcome) = JobOutcome::of_slurm(word) {
            return Ok((outcome, false));
        }
        let outcome = match word {
            b"REQUEUED" => JobOutcome::Preempted,
            b"RUNNING" | b"COMPLETING" | b"SUSPENDED" | b"STOPPED" | b"SIGNALING"
            | b"STAGE_OUT" => JobOutcome::Running,
            b"PENDING" | b"CONFIGURING" | b"REQUEUE_HOLD" | b"SPECIAL_EXIT" | b"RESV_DEL_HOLD"
            | b"REQUEUE_FED" => return Ok((JobOutcome::Unknown, true)),
            // An unknown word of a newer version.
            _ if word
                .iter()
                .all(|&byte| byte.is_ascii_uppercase() || byte == b'_') =>
            {
                JobOutcome::Unknown
            }
            _ => {
                let expected = "a state, as in COMPLETED or CANCELLED by 1";
                return Err(self.unexpected(Role::State, expected));
            }
        };
        Ok((outcome, false))
    }

    /// A count of nodes: `128`, and `2K` for 2048, as `sacct` writes without `--noconvert`.
    fn count(&self, role: Role) -> Result<Option<u32>, FieldError> {
        let text = self.cell(role);
        if text.is_empty() {
            return Ok(None);
        }
        let (number, unit) = match text.split_last() {
            Some((b'K' | b'k', number)) => (number, 1024.0),
            Some((b'M' | b'm', number)) => (number, 1_048_576.0),
            _ => (text, 1.0),
        };
        let nodes = match fields::unsigned(number) {
            Some(number) if unit == 1.0 => u32::try_from(number).ok(),
            _ if unit == 1.0 => None,
            // Thousandths of 2.25 in `2.25K`.
            _ => fields::milliseconds(number)
                .map(|thousandths| thousandths as f64 / 1000.0 * unit)
                .filter(|nodes| (0.0..4e9).contains(nodes))
                .map(|nodes| nodes.round() as u32),
        };
        nodes
            .map(Some)
            .ok_or_else(|| self.unexpected(role, "a number of nodes"))
    }

    fn limit(&self, role: Role) -> Result<Option<Length>, FieldError> {
        let text = self.cell(role);
        let unknown = [
            &b"Partition_Limit"[..],
            b"INVALID",
            b"NOT_SET",
            b"None",
            b"Unknown",
        ];
        if text.is_empty() || unknown.iter().any(|word| text.eq_ignore_ascii_case(word)) {
            return Ok(None);
        }
        fields::length(text)
            .map(Some)
            .ok_or_else(|| self.unexpected(role, "a length of time, as in 1-12:30:00 or UNLIMITED"))
    }
}
