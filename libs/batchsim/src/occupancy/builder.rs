//! From jobs with their nodes to holes.

use std::collections::{HashMap, HashSet};

use lacuna_model::{HoleRecord, IdError, NodeId, Span, Timestamp};

use super::summary::{LogSummary, Shares};
use super::sweep::sweep;

/// The nodes of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KnownNodes {
    /// The nodes that the log names. A node without a job is unknown, and so are its holes.
    #[default]
    Seen,
    /// The listed nodes. Other nodes in the log are counted and left out.
    Listed(Vec<NodeId>),
}

/// The holes of a log, with a summary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Occupied {
    /// The holes, by start and node. A hole that is open at the end of the window is censored. A
    /// hole that is open at the beginning of the window starts there.
    pub holes: Vec<HoleRecord>,
    /// The summary of the log.
    pub summary: LogSummary,
    /// Every node, as listed or in order of the first job.
    pub nodes: Vec<NodeId>,
}

/// The jobs of each node. Memory: 16 bytes for each job on each of its nodes.
#[derive(Debug, Clone, Default)]
pub struct Occupancy {
    numbers: HashMap<Box<str>, u32>,
    names: Vec<NodeId>,
    closed: bool,
    /// Names that are not on the list.
    unlisted: HashSet<Box<str>>,
    jobs: Vec<Vec<(i64, i64)>>,
    /// The newest job of each node, counted from 1.
    newest: Vec<u64>,
    outages: Vec<Vec<(i64, i64)>>,
    /// Length and number of nodes of each job that has ended.
    lengths: Vec<(i64, u32)>,
    /// Jobs without an end: their start, and the end of their walltime.
    open: Vec<(i64, Option<i64>)>,
    earliest: Option<i64>,
    latest: Option<i64>,
    summary: LogSummary,
}

/// An unknown end. The job holds its nodes until the end of the window.
const OPEN: i64 = i64::MAX;

/// The end of a job in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// The time of the end.
    At(Timestamp),
    /// The log has no end. A job with a walltime counts as over with it. Its record is probably
    /// incomplete, as of Slurm's runaway jobs, and would hold its nodes for the rest of the log. A
    /// job without a walltime does hold them.
    Unknown {
        /// The requested walltime.
        walltime: Option<Span>,
    },
}

impl Occupancy {
    /// An occupancy without jobs.
    #[must_use]
    pub fn new(nodes: KnownNodes) -> Self {
        let mut occupancy = Self::default();
        if let KnownNodes::Listed(listed) = nodes {
            for node in listed {
                occupancy.insert(node);
            }
            occupancy.closed = true;
        }
        occupancy
    }

    /// The number of a node, from 0. `None` if it is not on the list, which is counted.
    ///
    /// # Errors
    /// [`IdError`] if the name is not valid.
    pub fn node(&mut self, name: &str) -> Result<Option<u32>, IdError> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(Some(*number));
        }
        if self.unlisted.contains(name) {
            return Ok(None);
        }
        let id = NodeId::new(name)?;
        if self.closed {
            self.unlisted.insert(Box::from(name));
            return Ok(None);
        }
        Ok(Some(self.insert(id)))
    }

    /// Adds a job on these nodes from `start` until its end. A repeated node counts once. Jobs that
    /// end before they start, or have no node, are counted and left out.
    pub fn add(&mut self, nodes: &[u32], start: Timestamp, end: JobEnd) {
        let from = start.unix_ms();
        let (until, known) = match end {
            JobEnd::At(end) => (end.unix_ms(), end.unix_ms()),
            JobEnd::Unknown { walltime } => {
                let over = walltime.map(|asked| from.saturating_add(asked.as_ms().max(0)));
                (over.unwrap_or(OPEN), from)
            }
        };
        if nodes.is_empty() {
            self.summary.nowhere += 1;
            return;
        }
        if until < from {
            self.summary.refused += 1;
            return;
        }
        self.summary.jobs += 1;
        self.earliest = Some(self.earliest.map_or(from, |at| at.min(from)));
        self.latest = Some(self.latest.map_or(known, |at| at.max(known)));
        if let JobEnd::At(_) = end {
            let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
            self.lengths.push((until.saturating_sub(from), count));
        } else {
            self.open.push((from, (until != OPEN).then_some(until)));
        }
        for node in nodes {
            let place = *node as usize;
            if let (Some(jobs), Some(newest)) =
                (self.jobs.get_mut(place), self.newest.get_mut(place))
                && *newest != self.summary.jobs
            {
                *newest = self.summary.jobs;
                jobs.push((from, until));
            }
        }
    }

    /// The nodes, as listed or in order of the first job.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.names
    }

    /// The number of nodes with at least one job.
    #[must_use]
    pub fn used(&self) -> usize {
        self.jobs.iter().filter(|jobs| !jobs.is_empty()).count()
    }

    /// The first by name of the nodes that are not on the list; `None` if all are.
    #[must_use]
    pub fn unlisted(&self) -> Option<&str> {
        self.unlisted.iter().map(|name| &**name).min()
    }

    /// Adds an outage in `[from, until)`. Without a job, its nodes are down then and not idle.
    pub fn outage(&mut self, nodes: &[u32], from: Timestamp, until: Timestamp) {
        for node in nodes {
            if let Some(outages) = self.outages.get_mut(*node as usize) {
                outages.push((from.unix_ms(), until.unix_ms()));
            }
        }
    }

    /// The holes of a window. Without a window, it is the whole log, from the first start to the
    /// last time in it.
    #[must_use]
    pub fn finish(&mut self, window: Option<(Timestamp, Timestamp)>) -> Occupied {
        let whole = (self.earliest.unwrap_or(0), self.latest.unwrap_or(0));
        let (from, until) = window.map_or(whole, |(from, until)| (from.unix_ms(), until.unix_ms()));
        let until = until.max(from);
        let longest = self.lengths.iter().map(|l| l.0).max().unwrap_or(0);
        let mut summary = LogSummary {
            unlisted: self.unlisted.len() as u64,
            nodes: u32::try_from(self.names.len()).unwrap_or(u32::MAX),
            from: Timestamp::from_unix_ms(from),
            until: Timestamp::from_unix_ms(until),
            longest: Span::from_ms(longest),
            usual: usual(&mut self.lengths),
            ..self.summary
        };
        let latest = self.latest.unwrap_or(0);
        for &(from, over) in &self.open {
            match over {
                Some(over) if over < latest => summary.overdue += 1,
                // No ended job was as long, so the job has probably ended.
                None if latest.saturating_sub(from) > longest => summary.stale += 1,
                _ => summary.running += 1,
            }
        }
        let mut holes = Vec::new();
        for ((node, jobs), outages) in self.names.iter().zip(&self.jobs).zip(&self.outages) {
            let shares = sweep(jobs, outages, (from, until), |start, end| {
                holes.push(HoleRecord {
                    node: node.clone(),
                    from: Timestamp::from_unix_ms(start),
                    until: Timestamp::from_unix_ms(end),
                    censored: end == until,
                });
            });
            summary.shares.add(shares);
        }
        holes.sort_by(|a, b| (a.from, &a.node).cmp(&(b.from, &b.node)));
        summary.holes = holes.len() as u64;
        Occupied {
            holes,
            summary,
            nodes: self.names.clone(),
        }
    }

    /// The shares of the time of some nodes in a window.
    #[must_use]
    pub fn shares(
        &self,
        (from, until): (Timestamp, Timestamp),
        counts: impl Fn(&NodeId) -> bool,
    ) -> Shares {
        let window = (from.unix_ms(), until.unix_ms().max(from.unix_ms()));
        let mut sum = Shares::default();
        for ((node, jobs), outages) in self.names.iter().zip(&self.jobs).zip(&self.outages) {
            if counts(node) {
                sum.add(sweep(jobs, outages, window, |_, _| {}));
            }
        }
        sum
    }

    fn insert(&mut self, node: NodeId) -> u32 {
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let name = Box::from(node.as_str());
        *self.numbers.entry(name).or_insert_with(|| {
            self.names.push(node);
            self.jobs.push(Vec::new());
            self.newest.push(0);
            self.outages.push(Vec::new());
            next
        })
    }
}

/// The length at which the shorter jobs make up nine tenths of the node-time.
fn usual(lengths: &mut [(i64, u32)]) -> Span {
    lengths.sort_unstable();
    let weight =
        |&(length, nodes): &(i64, u32)| u128::from(length.unsigned_abs()) * u128::from(nodes);
    let all: u128 = lengths.iter().map(weight).sum();
    let mut upto = 0;
    for entry in lengths.iter() {
        upto += weight(entry);
        if upto * 10 >= all * 9 {
            return Span::from_ms(entry.0);
        }
    }
    Span::ZERO
}
