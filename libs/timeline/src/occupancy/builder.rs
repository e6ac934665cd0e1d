//! Takes jobs with their nodes, gives holes.

use std::collections::HashMap;

use lacuna_model::{HoleRecord, IdError, NodeId, Span, Timestamp};

use super::facts::Facts;
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
    jobs: Vec<Vec<(i64, i64)>>,
    /// The newest job of each node, counted from 1.
    newest: Vec<u64>,
    outages: Vec<Vec<(i64, i64)>>,
    /// Length and number of nodes of each job that has ended.
    lengths: Vec<(i64, u32)>,
    earliest: Option<i64>,
    latest: Option<i64>,
    facts: Facts,
}

/// An end that is not known: the job holds its nodes as long as the window lasts.
const OPEN: i64 = i64::MAX;

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
        let id = NodeId::new(name)?;
        if self.closed {
            self.facts.unlisted += 1;
            return Ok(None);
        }
        Ok(Some(self.insert(id)))
    }

    /// A job was on these nodes from `start` until `end`; without an end it still runs. A node
    /// that is named twice counts once. Jobs that end before they start, or have no node, are
    /// counted and left out.
    pub fn add(&mut self, nodes: &[u32], start: Timestamp, end: Option<Timestamp>) {
        let from = start.unix_ms();
        let until = end.map_or(OPEN, Timestamp::unix_ms);
        if until < from || nodes.is_empty() {
            self.facts.refused += 1;
            return;
        }
        self.facts.jobs += 1;
        let known = end.map_or(from, Timestamp::unix_ms);
        self.earliest = Some(self.earliest.map_or(from, |at| at.min(from)));
        self.latest = Some(self.latest.map_or(known, |at| at.max(known)));
        match end {
            Some(end) => {
                let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
                self.lengths.push((end.since(start).as_ms(), count));
            }
            None => self.facts.running += 1,
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

    /// As [`add`](Self::add), with nodes by name.
    ///
    /// # Errors
    /// A name is not usable; the job is left out then.
    pub fn add_named<'a>(
        &mut self,
        nodes: impl IntoIterator<Item = &'a str>,
        start: Timestamp,
        end: Option<Timestamp>,
    ) -> Result<(), IdError> {
        let mut numbers = Vec::new();
        for name in nodes {
            numbers.extend(self.node(name)?);
        }
        self.add(&numbers, start, end);
        Ok(())
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
    pub fn finish(self, window: Option<(Timestamp, Timestamp)>) -> Occupied {
        let whole = (self.earliest.unwrap_or(0), self.latest.unwrap_or(0));
        let (from, until) = window.map_or(whole, |(from, until)| (from.unix_ms(), until.unix_ms()));
        let until = until.max(from);
        let mut facts = Facts {
            nodes: u32::try_from(self.names.len()).unwrap_or(u32::MAX),
            from: Timestamp::from_unix_ms(from),
            until: Timestamp::from_unix_ms(until),
            longest: Span::from_ms(self.lengths.iter().map(|l| l.0).max().unwrap_or(0)),
            usual: usual(self.lengths),
            ..self.facts
        };
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
            for (sum, share) in [
                (&mut facts.busy_node_ms, shares.busy),
                (&mut facts.hole_node_ms, shares.hole),
                (&mut facts.down_node_ms, shares.down),
                (&mut facts.doubled_node_ms, shares.doubled),
            ] {
                *sum = sum.saturating_add(share);
            }
        }
        holes.sort_by(|a, b| (a.from, &a.node).cmp(&(b.from, &b.node)));
        facts.holes = holes.len() as u64;
        Occupied {
            holes,
            facts,
            nodes: self.names,
        }
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
fn usual(mut lengths: Vec<(i64, u32)>) -> Span {
    lengths.sort_unstable();
    let weight =
        |&(length, nodes): &(i64, u32)| u128::from(length.unsigned_abs()) * u128::from(nodes);
    let all: u128 = lengths.iter().map(weight).sum();
    let mut upto = 0;
    for entry in &lengths {
        upto += weight(entry);
        if upto * 10 >= all * 9 {
            return Span::from_ms(entry.0);
        }
    }
    Span::ZERO
}
