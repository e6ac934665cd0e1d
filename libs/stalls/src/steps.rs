//! From reported times to steps that can be replayed: clocks aligned, transfers apart from waiting.
//!
//! Each member has a clock of its own. A sum ends everywhere at once, so the end of a step's last
//! sum aligns the clocks of that step, within the latency of the network. With times counted from it,
//!
//! ```text
//! v_b = min over members r of done_rb         the first to see an end saw it best
//! R_b = max over r of ready_rb                a sum begins when the last member launches it
//! svc_b = max(0, v_b - max(R_b, v_{b-1}))     and when the sum before it has ended
//! ```
//!
//! Backward times cannot tell a slow member from a slow link, since all wait for the slow one.

use lacuna_model::Follows;

use crate::change::{MOST_WORKERS, within};
use crate::error::Error;
use crate::trace::{RankTimes, Trace, VERSION};

/// Fewest steps of which a mean is taken.
const NEEDED: usize = 8;
/// A step that takes this many times the median is none of training alone: a validation,
/// a checkpoint, a machine that was suspended, or a clock that jumped.
const UNUSUAL: f64 = 10.0;

/// A member's part of one step, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) prep: f64,
    pub(crate) fetch: f64,
    /// From the moment at which the batch was read, and asked for, until the program had it.
    pub(crate) hand: f64,
    /// From the batch's arrival to the launch of each sum.
    pub(crate) ready: Vec<f64>,
    /// From the end of the last sum until the next batch is asked for.
    pub(crate) after: f64,
}

/// One member over all steps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    pub(crate) rank: u32,
    pub(crate) rows: Vec<Row>,
}

/// Traced steps, ready to be replayed. At least one member, one sum and eight steps; all times are
/// finite and not negative.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    members: Vec<Member>,
    size: u32,
    workers: u32,
    remote: u32,
    follows: Option<Follows>,
    depth: u32,
    bytes: Vec<u64>,
    /// By step: seconds of each sum's transfer.
    services: Vec<Vec<f64>>,
    /// By step: whether some member waited when a sum ended, so that its end is known exactly.
    exact: Vec<Vec<bool>>,
    measured: f64,
    left_out: usize,
}

impl Steps {
    /// Reads a report.
    ///
    /// # Errors
    /// [`Error`] for a report of another version, one with silent members, with lists of different
    /// lengths, or with fewer than eight usable steps.
    pub fn read(trace: &Trace) -> Result<Self, Error> {
        if trace.version != VERSION {
            return Err(Error::Version {
                found: trace.version,
                known: VERSION,
            });
        }
        if !trace.silent.is_empty() {
            return Err(Error::Silent {
                ranks: trace.silent.clone(),
            });
        }
        if trace.passes > 1 {
            let passes = trace.passes;
            return Err(Error::Accumulates { passes });
        }
        if trace.members > 1 && trace.bytes.is_empty() {
            let members = trace.members;
            return Err(Error::NoSums { members });
        }
        within("the number of workers", trace.workers, MOST_WORKERS)?;
        within("the number of batches ahead", trace.depth, MOST_WORKERS)?;
        let first = trace.ranks.first().ok_or(Error::Empty)?;
        let ranks = u32::try_from(trace.ranks.len()).unwrap_or(u32::MAX);
        within("the number of members with times", ranks, trace.members)?;
        let count = first.wait.len();
        for times in &trace.ranks {
            fits(times, count, trace.bytes.len())?;
        }
        let lines: Vec<Vec<Line>> = (0..count)
            .filter_map(|step| trace.ranks.iter().map(|one| Line::of(one, step)).collect())
            .collect();
        let lines = usual(lines);
        if lines.len() < NEEDED {
            return Err(Error::TooFew {
                usable: lines.len(),
                steps: count,
                needed: NEEDED,
            });
        }
        Ok(Self::of(trace, &lines, count))
    }

    fn of(trace: &Trace, lines: &[Vec<Line>], count: usize) -> Self {
        let inline = trace.workers == 0;
        let members = trace.ranks.iter().enumerate().map(|(place, times)| Member {
            rank: times.rank,
            rows: lines
                .iter()
                .filter_map(|step| step.get(place).map(|line| line.row(inline)))
                .collect(),
        });
        let aligned: Vec<_> = lines.iter().map(|step| align(step)).collect();
        let (services, mut exact): (_, Vec<Vec<bool>>) = aligned.into_iter().unzip();
        if trace.ends_known {
            exact.iter_mut().for_each(|sums| sums.fill(true));
        }
        let total: f64 = lines.iter().map(|step| duration(step)).sum();
        Self {
            members: members.collect(),
            size: trace.members,
            workers: trace.workers,
            remote: trace.remote.min(trace.workers),
            follows: trace.follows,
            depth: trace.depth.max(1),
            bytes: trace.bytes.clone(),
            services,
            exact,
            measured: total / as_f64(lines.len()),
            left_out: count - lines.len(),
        }
    }

    /// The mean step as measured, in seconds.
    #[must_use]
    pub fn measured(&self) -> f64 {
        self.measured
    }

    /// Steps that are replayed.
    #[must_use]
    pub fn count(&self) -> usize {
        self.services.len()
    }

    /// Steps of the report that are not: no numbers, negative, or ten times the median.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Members that trained together.
    #[must_use]
    pub fn members(&self) -> u32 {
        self.size
    }

    /// Workers of each member's loader.
    #[must_use]
    pub fn workers(&self) -> u32 {
        self.workers
    }

    /// Those of them that are on other nodes.
    #[must_use]
    pub fn remote(&self) -> u32 {
        self.remote
    }

    /// How the batch follows the members, if the program says it.
    #[must_use]
    pub fn follows(&self) -> Option<Follows> {
        self.follows
    }

    /// What the time of a reader is multiplied by if loaders on other nodes read for other members,
    /// of which there are now `over` as many.
    pub(crate) fn reading(&self, over: f64) -> f64 {
        let (all, remote) = (f64::from(self.workers), f64::from(self.remote));
        if remote > 0.0 {
            all / (all - remote + remote * over)
        } else {
            1.0
        }
    }

    /// Size of each sum, in bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u64] {
        &self.bytes
    }

    pub(crate) fn ranks(&self) -> &[Member] {
        &self.members
    }

    /// Batches that a worker reads ahead, at least one.
    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    pub(crate) fn services(&self) -> &[Vec<f64>] {
        &self.services
    }

    /// Median transfer of each sum in seconds, and whether it is exact in half of the steps.
    pub(crate) fn transfers(&self) -> Vec<(f64, bool)> {
        (0..self.bytes.len())
            .map(|sum| {
                let known = self.exact.iter().filter(|s| s.get(sum) == Some(&true));
                let exact = 2 * known.count() >= self.exact.len();
                let column = self.services.iter().filter_map(|s| s.get(sum).copied());
                (median(column.collect()), exact)
            })
            .collect()
    }
}

/// Times of a member in one step, in seconds.
struct Line {
    wait: f64,
    hand: f64,
    prep: f64,
    fetch: f64,
    after: f64,
    ready: Vec<f64>,
    done: Vec<f64>,
}

impl Line {
    /// None if a time is no number or negative.
    fn of(times: &RankTimes, step: usize) -> Option<Self> {
        let one = |list: &Vec<f64>| {
            let seconds = list.get(step)? * 1e-6;
            (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
        };
        Some(Self {
            wait: one(&times.wait)?,
            hand: one(&times.hand)?,
            prep: one(&times.prep)?,
            fetch: one(&times.fetch)?,
            after: one(&times.update)? + one(&times.rest)?,
            ready: times.ready.iter().map(one).collect::<Option<_>>()?,
            done: times.done.iter().map(one).collect::<Option<_>>()?,
        })
    }

    fn end(&self) -> f64 {
        self.done.last().copied().unwrap_or(0.0)
    }

    fn row(&self, inline: bool) -> Row {
        // Without workers the wait is the reading itself, and what the program does around it.
        let around = (self.wait - self.prep - self.fetch).max(0.0);
        Row {
            prep: self.prep,
            fetch: self.fetch,
            hand: self.hand + if inline { around } else { 0.0 },
            ready: self.ready.clone(),
            after: self.after,
        }
    }
}

/// Mean over members of a step's duration, in seconds.
fn duration(step: &[Line]) -> f64 {
    let total: f64 = step
        .iter()
        .map(|line| line.wait + line.hand + line.end() + line.after)
        .sum();
    total / as_f64(step.len())
}

fn usual(lines: Vec<Vec<Line>>) -> Vec<Vec<Line>> {
    let limit = UNUSUAL * median(lines.iter().map(|step| duration(step)).collect());
    lines
        .into_iter()
        .filter(|step| duration(step) <= limit)
        .collect()
}

/// Transfers of the sums of one step, and whether their ends are exact. See the module.
fn align(step: &[Line]) -> (Vec<f64>, Vec<bool>) {
    let sums = step.first().map_or(0, |line| line.done.len());
    let mut before = f64::NEG_INFINITY;
    let mut services = Vec::with_capacity(sums);
    let mut exact = Vec::with_capacity(sums);
    for sum in 0..sums {
        let at = |list: &Vec<f64>, line: &Line| list.get(sum).copied().unwrap_or(0.0) - line.end();
        let ended = step
            .iter()
            .map(|line| at(&line.done, line))
            .fold(f64::INFINITY, f64::min);
        let launched = step
            .iter()
            .map(|line| at(&line.ready, line))
            .fold(f64::NEG_INFINITY, f64::max);
        services.push((ended - launched.max(before)).max(0.0));
        exact.push(step.iter().any(|line| waited(line, sum)));
        before = before.max(ended);
    }
    (services, exact)
}

/// Whether the member had launched all of its sums when it saw the end of one.
fn waited(line: &Line, sum: usize) -> bool {
    let last = line.ready.last().copied().unwrap_or(0.0);
    line.done.get(sum).is_some_and(|&done| done >= last)
}

fn fits(times: &RankTimes, steps: usize, sums: usize) -> Result<(), Error> {
    let wrong = |what: String| {
        Err(Error::Shape {
            rank: times.rank,
            what,
        })
    };
    if sums == 0 {
        return wrong("a step has no sum".to_owned());
    }
    for (name, list) in [("ready", &times.ready), ("done", &times.done)] {
        if list.len() != sums {
            return wrong(format!("{name} has {} sums, bytes has {sums}", list.len()));
        }
    }
    let columns = [
        &times.wait,
        &times.hand,
        &times.prep,
        &times.fetch,
        &times.update,
        &times.rest,
    ];
    let mut lengths = columns.into_iter().chain(&times.ready).chain(&times.done);
    if let Some(odd) = lengths.find(|list| list.len() != steps) {
        return wrong(format!("a list has {} steps, another {steps}", odd.len()));
    }
    Ok(())
}

/// The median; 0 of no values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle).copied().unwrap_or(0.0);
    match values.len() % 2 {
        0 if middle > 0 => values
            .get(middle - 1)
            .map_or(upper, |&low| (low + upper) / 2.0),
        _ => upper,
    }
}

/// A small count as a number.
pub(crate) fn as_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
