//! Slurm: snapshots of `sinfo`, in blocks that end with `----`.
//!
//! A block is the Unix time, then optionally `invokers:` with the nodes that low-priority pilots
//! hold, then the lines of `sinfo -h`, one for each partition and state (`lowprio up 12:00:00 2
//! idle p[0016-0017]`). Pilots leave at once, so their nodes count as idle. Source: the trace
//! published with HPC-Whisk (SC22). Only the state `idle` is a hole: `idle~`, `idle#` and `idle%`
//! are powered down, up or being powered down, `idle*` does not answer, `idle-` is planned for a
//! job, `idle$` is reserved for maintenance, and so on (manual page of `sinfo`, "NODE STATE
//! CODES").
//!
//! A partition without nodes has a line with 0 nodes and no list. With `-M` a line `CLUSTER: name` is
//! in front of the lines of each cluster.
//!
//! A hole lasts from the first block in which its node is available to the first block in which it
//! is not. A damaged block, or a last block without its end mark, is skipped whole and ends no
//! hole. Between two blocks further apart than [`GAP`] the states are unknown: holes end with the
//! block before, and new holes begin with the block after. These holes are not censored; only holes
//! that are open at the end of the trace are. A leap ahead in time is accepted only if the next
//! block does not go back behind it. A hole with a single block before such an end has no length
//! and is omitted.

use std::collections::{HashMap, VecDeque};

use lacuna_model::{HoleRecord, NodeId, Span, Timestamp};
use lacuna_records::fields::{unexpected, unix, unsigned};
use lacuna_records::hosts;

use crate::formats::HoleParser;
use crate::formats::clusters::{Clusters, Of};
use crate::{FieldError, Reading};

/// Longest distance of two blocks between which states are known. The trace of HPC-Whisk has a
/// block every 11 s, at most 38 s apart.
const GAP: Span = Span::from_secs(600);

/// Largest number of nodes of a trace: a few short lists can denote many millions.
const MOST: usize = 1_000_000;

/// End mark of a block.
const END: &[u8] = b"----";

/// Beginning of the line of nodes that pilots hold.
const PILOTS: &[u8] = b"invokers:";

/// First column of the header of `sinfo` without `-h`.
const HEADING: &[u8] = b"PARTITION";

/// Beginning of the line in front of a cluster's lines.
const CLUSTER: &[u8] = b"CLUSTER:";

/// Whether these first lines are a block: a time alone on the first, and an end mark.
pub(super) fn knows(lines: &[&[u8]]) -> bool {
    lines
        .first()
        .is_some_and(|line| unsigned(line).is_some() && unix(line).is_some())
        && lines.contains(&END)
}

/// A node that has been available.
struct Node {
    id: NodeId,
    /// Start of its open hole.
    since: Option<Timestamp>,
    /// Number of the last block in which it was available.
    seen: u64,
}

/// Content of a block.
#[derive(Default)]
struct Block {
    at: Option<Timestamp>,
    /// Whether the block is damaged. It is skipped up to its end mark.
    damaged: bool,
    /// Indices of nodes, perhaps repeated.
    available: Vec<usize>,
    /// Whether the next lines are of a cluster that is not read.
    is_another: bool,
}

pub(super) struct Sinfo {
    nodes: Vec<Node>,
    places: HashMap<Box<str>, usize>,
    /// Indices of the nodes with open holes, in the order in which the holes opened.
    open: Vec<usize>,
    block: Block,
    clusters: Clusters,
    /// A block whose time leaps ahead, until the next block confirms it.
    leap: Option<(Timestamp, Vec<usize>)>,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    number: u64,
}

impl Sinfo {
    pub(super) fn new(reading: &Reading) -> Self {
        Self {
            nodes: Vec::new(),
            places: HashMap::new(),
            open: Vec::new(),
            block: Block::default(),
            clusters: Clusters::new(reading.cluster.as_ref()),
            leap: None,
            first: None,
            last: None,
            number: 0,
        }
    }

    /// Takes the nodes of a list as available.
    fn list(&mut self, place: &str, list: &[u8], nodes: Option<u64>) -> Result<(), FieldError> {
        let text =
            std::str::from_utf8(list).map_err(|_| unexpected(place, "a list of nodes", list))?;
        let (known, places) = (&mut self.nodes, &mut self.places);
        let available = &mut self.block.available;
        if let Some(nodes) = nodes
            && hosts::count(text).is_ok_and(|found| u64::from(found) != nodes)
        {
            let expected = format!("as many nodes as column 4 says ({nodes})");
            return Err(unexpected(place, &expected, list));
        }
        let mut wrong = None;
        hosts::expand(text, &mut |name| {
            if let Some(&at) = places.get(name) {
                available.push(at);
                return;
            }
            if known.len() >= MOST {
                let unexpected = || unexpected(place, "a million nodes at most in all", list);
                wrong.get_or_insert_with(unexpected);
                return;
            }
            match NodeId::new(name) {
                Ok(id) => {
                    let (since, seen) = (None, 0);
                    available.push(known.len());
                    places.insert(name.into(), known.len());
                    known.push(Node { id, since, seen });
                }
                Err(error) => {
                    let unexpected = || unexpected(place, error.expected, name.as_bytes());
                    wrong.get_or_insert_with(unexpected);
                }
            }
        })
        .map_err(|error| FieldError {
            place: place.to_owned(),
            ..error
        })?;
        wrong.map_or(Ok(()), Err)
    }

    /// One line of `sinfo`.
    fn state(&mut self, line: &[u8]) -> Result<(), FieldError> {
        let mut columns: [&[u8]; 6] = [&[]; 6];
        let mut found = 0_usize;
        for column in line
            .split(u8::is_ascii_whitespace)
            .filter(|column| !column.is_empty())
        {
            if let Some(place) = columns.get_mut(found) {
                *place = column;
            }
            found += 1;
        }
        let [partition, avail, _limit, nodes, state, list] = columns;
        // A partition without nodes has an empty list, or a word for one.
        let is_empty = matches!(found, 5 | 6) && unsigned(nodes) == Some(0);
        if partition == HEADING || is_empty {
            return Ok(());
        }
        if found != columns.len() {
            let expected = "6 columns (PARTITION AVAIL TIMELIMIT NODES STATE NODELIST)";
            return Err(unexpected("line of sinfo", expected, line));
        }
        let Some(nodes) = unsigned(nodes) else {
            return Err(unexpected("column 4 (NODES)", "a number of nodes", nodes));
        };
        if state == b"idle" && avail == b"up" {
            self.list("column 6 (NODELIST)", list, Some(nodes))?;
        }
        Ok(())
    }

    /// A line that begins a block.
    fn time(&mut self, line: &[u8]) -> Result<(), FieldError> {
        self.block.available.clear();
        self.block.damaged = false;
        self.block.is_another = false;
        self.block.at = unix(line);
        match self.block.at {
            None => {
                self.block.damaged = true;
                Err(unexpected("time", "a time in Unix seconds", line))
            }
            Some(at) if self.last.is_some_and(|last| at <= last) => {
                self.block.damaged = true;
                Err(unexpected(
                    "time",
                    "a time after that of the block before",
                    line,
                ))
            }
            Some(_) => Ok(()),
        }
    }

    /// The end mark of a block.
    fn end(&mut self, ready: &mut VecDeque<HoleRecord>) -> Result<(), FieldError> {
        let Block { at, damaged, .. } = self.block;
        let mut available = std::mem::take(&mut self.block.available);
        self.block.at = None;
        self.block.damaged = false;
        let Some(at) = at.filter(|_| !damaged) else {
            available.clear();
            self.block.available = available;
            return Ok(());
        };
        let mut error = None;
        if let Some((leapt, nodes)) = self.leap.take() {
            if at > leapt {
                self.part(ready);
                self.take(leapt, &nodes, ready);
            } else {
                let found = leapt.unix_seconds().to_string();
                let expected = "a time before that of this block";
                error = Some(unexpected(
                    "time of the block before",
                    expected,
                    found.as_bytes(),
                ));
            }
        }
        if self.last.is_some_and(|last| at.since(last) > GAP) {
            self.leap = Some((at, available));
        } else {
            self.take(at, &available, ready);
            available.clear();
            self.block.available = available;
        }
        error.map_or(Ok(()), Err)
    }

    /// Opens and ends holes by a block.
    fn take(&mut self, at: Timestamp, available: &[usize], ready: &mut VecDeque<HoleRecord>) {
        self.number += 1;
        for &place in available {
            if let Some(node) = self.nodes.get_mut(place) {
                node.seen = self.number;
                if node.since.is_none() {
                    node.since = Some(at);
                    self.open.push(place);
                }
            }
        }
        let (nodes, number) = (&mut self.nodes, self.number);
        self.open.retain(|&place| match nodes.get_mut(place) {
            Some(node) if node.seen != number => {
                ready.extend(ended(node, at, false));
                false
            }
            _ => true,
        });
        self.first = self.first.or(Some(at));
        self.last = Some(at);
    }

    /// Ends all holes with the last block, because the following states are unknown.
    fn part(&mut self, ready: &mut VecDeque<HoleRecord>) {
        let Some(last) = self.last else { return };
        for place in self.open.drain(..) {
            if let Some(node) = self.nodes.get_mut(place) {
                ready.extend(ended(node, last, false));
            }
        }
    }
}

/// Ends the hole of a node; `None` if the hole has no length.
fn ended(node: &mut Node, until: Timestamp, censored: bool) -> Option<HoleRecord> {
    let from = node.since.take().filter(|&from| from < until)?;
    Some(HoleRecord {
        node: node.id.clone(),
        from,
        until,
        censored,
    })
}

impl HoleParser for Sinfo {
    fn line(&mut self, line: &[u8], ready: &mut VecDeque<HoleRecord>) -> Result<(), FieldError> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(());
        }
        if line == END {
            return self.end(ready);
        }
        if unsigned(line).is_some() {
            let unfinished = self.block.at.is_some() && !self.block.damaged;
            let begun = self.time(line);
            if unfinished {
                begun?;
                return Err(unexpected(
                    "end of block",
                    "---- before the next time",
                    line,
                ));
            }
            return begun;
        }
        if self.block.damaged {
            return Ok(());
        }
        let found = if self.block.at.is_none() {
            Err(unexpected("time", "a time in Unix seconds", line))
        } else if let Some(name) = line.strip_prefix(CLUSTER) {
            let of = self.clusters.take(name);
            self.block.is_another = of == Of::Another;
            match of {
                Of::Second => Err(unexpected("CLUSTER", "one cluster", name)),
                Of::Ours | Of::Another => Ok(()),
            }
        } else if let Some(list) = line.strip_prefix(PILOTS) {
            self.list("invokers", list, None)
        } else if self.block.is_another {
            Ok(())
        } else {
            self.state(line)
        };
        if found.is_err() {
            self.block.damaged = true;
        }
        found
    }

    fn refusal(&self, is_end: bool) -> Option<String> {
        self.clusters.refusal(is_end, "sinfo")
    }

    fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.first.zip(self.last)
    }

    fn finish(&mut self, ready: &mut VecDeque<HoleRecord>) {
        // A leap without confirmation is not accepted.
        let Some(last) = self.last else { return };
        for place in self.open.drain(..) {
            if let Some(node) = self.nodes.get_mut(place) {
                ready.extend(ended(node, last, true));
            }
        }
    }
}
