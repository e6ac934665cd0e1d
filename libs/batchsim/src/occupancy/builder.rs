//! Takes jobs with their nodes, gives holes.

use std::collections::{HashMap, HashSet};

use lacuna_model::{HoleRecord, IdError, NodeId, Span, Timestamp};

use super::facts::{Facts, Shares};
use super::sweep::sweep;

/// Which nodes the machine has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KnownNodes {
    /// Those that the log names. A node that never had a job is unknown, and so are its holes.
    #[default]
    Seen,
    /// These. Others that the log names are counted and left out.
    Listed(Vec<NodeId>),
}

/// Holes and what else was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Occupied {
    /// The holes, by start and node. A hole that is open at the end of the window is censored;
    /// one that is open at its beginning starts there.
    pub holes: Vec<HoleRecord>,
    /// What else was found.
    pub facts: Facts,
    /// Every node: as listed, or in order of the first job.
    pub nodes: Vec<NodeId>,
}

/// Jobs on their nodes. Keeps 16 bytes for each job on each of its nodes.
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
    /// Jobs without an end: when they started, and when their walltime is over.
    open: Vec<(i64, Option<i64>)>,
    earliest: Option<i64>,
    latest: Option<i64>,
    facts: Facts,
}

/// An end that is not known: the job holds its nodes as long as the window lasts.
const OPEN: i64 = i64::MAX;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// At this moment.
    At(Timestamp),
    /// The log does not say. If it asked for a walltime it is taken to be over when that is: a
    /// record of its end is missing, as of Slurm's runaway jobs, and its nodes would be held for
    /// the rest of the log. Without a walltime they are.
    Unknown {
        /// What it asked for.
        walltime: Option<Span>,
    },
}

impl Occupancy {
    /// No jobs yet.
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

    /// The number of a node, from 0. Nothing: it is not on the list, which is counted.
    ///
    /// # Errors
    /// The name is not usable.
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

    /// A job was on these nodes from `start` until its end. A node that is named twice counts
    /// once. Jobs that end before they start, or have no node, are counted and left out.
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
            self.facts.nowhere += 1;
            return;
        }
        if until < from {
            self.facts.refused += 1;
            return;
        }
        self.facts.jobs += 1;
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
                && *newest != self.facts.jobs
            {
                *newest = self.facts.jobs;
                jobs.push((from, until));
            }
        }
    }

    /// The nodes: as listed, or in order of the first job.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.names
    }

    /// How many nodes have had a job.
    #[must_use]
    pub fn used(&self) -> usize {
        self.jobs.iter().filter(|jobs| !jobs.is_empty()).count()
    }

    /// The first by name of the nodes that are not on the list.
    #[must_use]
    pub fn unlisted(&self) -> Option<&str> {
        self.unlisted.iter().map(|name| &**name).min()
    }

    /// Nodes could not be used in `[from, until)`: without a job they are down, not idle.
    pub fn outage(&mut self, nodes: &[u32], from: Timestamp, until: Timestamp) {
        for node in nodes {
            if let Some(outages) = self.outages.get_mut(*node as usize) {
                outages.push((from.unix_ms(), until.unix_ms()));
            }
        }
    }

    /// The holes of a window; of the whole log if none is given, from the first start to the
    /// last moment that it names.
    #[must_use]
    pub fn finish(&mut self, window: Option<(Timestamp, Timestamp)>) -> Occupied {
        let whole = (self.earliest.unwrap_or(0), self.latest.unwrap_or(0));
        let (from, until) = window.map_or(whole, |(from, until)| (from.unix_ms(), until.unix_ms()));
        let until = until.max(from);
        let longest = self.lengths.iter().map(|l| l.0).max().unwrap_or(0);
        let mut facts = Facts {
            unlisted: self.unlisted.len() as u64,
            nodes: u32::try_from(self.names.len()).unwrap_or(u32::MAX),
            from: Timestamp::from_unix_ms(from),
            until: Timestamp::from_unix_ms(until),
            longest: Span::from_ms(longest),
            usual: usual(&mut self.lengths),
            ..self.facts
        };
        let latest = self.latest.unwrap_or(0);
        for &(from, over) in &self.open {
            match over {
                Some(over) if over < latest => facts.overdue += 1,
                // Nothing that ended ran as long: that it still runs is not likely.
                None if latest.saturating_sub(from) > longest => facts.stale += 1,
                _ => facts.running += 1,
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
            facts.shares.add(shares);
        }
        holes.sort_by(|a, b| (a.from, &a.node).cmp(&(b.from, &b.node)));
        facts.holes = holes.len() as u64;
        Occupied {
            holes,
            facts,
            nodes: self.names.clone(),
        }
    }

    /// What the time of some nodes consists of, in a window of its own.
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

/// The length up to which nine tenths of the jobs' node-time lie.
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
