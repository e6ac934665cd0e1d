//! Changes of node states, `time,node,state`, which a monitoring system of any cluster can export.
//!
//! - Times are Unix seconds or ISO 8601 (`2022-03-17T23:00:00Z`; without a zone in that of the
//!   reading), and never decrease.
//! - A state is `idle`, `busy` or `down`, or a word of Slurm, PBS or LSF for one of them. Only
//!   `idle` is a hole: up, without a job, and not planned for one.
//! - A hole lasts until the next line of the node with another state. A node that is idle at the
//!   end has a censored hole until the newest time of the log.

use std::collections::{HashMap, VecDeque};

use lacuna_model::{HoleRecord, NodeId, Timestamp};
use lacuna_records::fields::{self, unexpected};
use lacuna_records::times::LocalTimes;

use crate::formats::HoleParser;
use crate::rows::node_id;
use crate::{FieldError, Reading};

/// The first line of every such log.
const HEADER: &[u8] = b"time,node,state";

pub(super) fn knows(lines: &[&[u8]]) -> bool {
    lines.first().is_some_and(|line| is_header(line))
}

fn is_header(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    line.trim_ascii().eq_ignore_ascii_case(HEADER)
}

/// State of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Busy,
    Down,
}

/// The state for a word of this format, of `sinfo`, `pbsnodes` or `bhosts`.
fn state(word: &[u8]) -> Option<State> {
    // Slurm's flags behind the word: not responding, powered down or changing power, failing;
    // planned for a waiting job; in a maintenance reservation; to be rebooted.
    let (word, flag) = match word.split_last() {
        Some((b'*' | b'~' | b'#' | b'!' | b'%' | b'$' | b'@' | b'^', word)) => (word, State::Down),
        Some((b'-', word)) => (word, State::Busy),
        _ => (word, State::Idle),
    };
    // Two states at once: `IDLE+DRAIN` of Slurm, `down,offline` of PBS.
    let mut worst = flag;
    for part in word.split(|&byte| byte == b'+' || byte == b',') {
        match (single(part.trim_ascii())?, worst) {
            (State::Down, _) => worst = State::Down,
            (State::Busy, State::Idle) => worst = State::Busy,
            _ => {}
        }
    }
    Some(worst)
}

fn single(word: &[u8]) -> Option<State> {
    const IDLE: [&[u8]; 3] = [b"idle", b"free", b"ok"];
    const BUSY: [&[u8]; 21] = [
        b"busy",
        b"alloc",
        b"allocated",
        b"mix",
        b"mixed",
        b"comp",
        b"completing",
        b"resv",
        b"reserved",
        b"plnd",
        b"planned",
        b"blocked",
        b"job-busy",
        b"job-exclusive",
        b"job-sharing",
        b"resv-exclusive",
        b"closed",
        b"closed_full",
        b"closed_excl",
        b"closed_busy",
        b"closed_ego",
    ];
    const DOWN: [&[u8]; 31] = [
        b"down",
        b"drain",
        b"drained",
        b"draining",
        b"drng",
        b"fail",
        b"failing",
        b"failg",
        b"unk",
        b"unknown",
        b"maint",
        b"boot",
        b"reboot",
        b"reboot_issued",
        b"futr",
        b"future",
        b"inval",
        b"npc",
        b"perfctrs",
        b"no_respond",
        b"not_responding",
        b"power_down",
        b"powering_down",
        b"powered_down",
        b"powering_up",
        b"offline",
        b"stale",
        b"state-unknown",
        b"unavail",
        b"unreach",
        b"closed_adm",
    ];
    let is_one = |words: &[&[u8]]| words.iter().any(|known| known.eq_ignore_ascii_case(word));
    if is_one(&IDLE) {
        Some(State::Idle)
    } else if is_one(&BUSY) {
        Some(State::Busy)
    } else if is_one(&DOWN) {
        Some(State::Down)
    } else {
        None
    }
}

pub(super) struct NodeStates {
    times: LocalTimes,
    first: Option<Timestamp>,
    newest: Option<Timestamp>,
    places: HashMap<Box<[u8]>, usize>,
    /// Nodes in the order of their first appearance, with the start of their open hole.
    nodes: Vec<(NodeId, Option<Timestamp>)>,
}

impl NodeStates {
    pub(super) fn new(reading: &Reading) -> Self {
        Self {
            times: LocalTimes::new(reading.zone()),
            first: None,
            newest: None,
            places: HashMap::new(),
            nodes: Vec::new(),
        }
    }

    fn place(&mut self, name: &[u8]) -> Result<usize, FieldError> {
        if let Some(&place) = self.places.get(name) {
            return Ok(place);
        }
        let node = node_id("column 2 (node)", name)?;
        let place = self.nodes.len();
        self.nodes.push((node, None));
        self.places.insert(name.into(), place);
        Ok(place)
    }
}

impl HoleParser for NodeStates {
    fn line(&mut self, line: &[u8], ready: &mut VecDeque<HoleRecord>) -> Result<(), FieldError> {
        if line.trim_ascii().is_empty() || is_header(line) {
            return Ok(());
        }
        let mut columns = line.splitn(3, |&byte| byte == b',').map(<[u8]>::trim_ascii);
        let (Some(time), Some(name), Some(word)) = (columns.next(), columns.next(), columns.next())
        else {
            return Err(unexpected("line", "3 columns (time,node,state)", line));
        };
        let place = "column 1 (time)";
        let at = fields::unix(time)
            .or_else(|| self.times.iso(time))
            .ok_or_else(|| {
                unexpected(
                    place,
                    "Unix seconds, or a time as in 2022-03-17T23:00:00Z",
                    time,
                )
            })?;
        if self.newest.is_some_and(|newest| at < newest) {
            return Err(unexpected(
                place,
                "a time that is not before the line before",
                time,
            ));
        }
        let quotes = |word: &'_ [u8]| word.iter().all(|&byte| byte != b'"');
        let word = word
            .strip_prefix(b"\"")
            .and_then(|word| word.strip_suffix(b"\""))
            .filter(|word| quotes(word))
            .unwrap_or(word);
        let state = state(word).ok_or_else(|| {
            unexpected(
                "column 3 (state)",
                "idle, busy, down, or a word of a scheduler for it",
                word,
            )
        })?;
        let node = self.place(name)?;
        self.first = self.first.or(Some(at));
        self.newest = Some(at);
        if let Some((node, since)) = self.nodes.get_mut(node) {
            match (state, *since) {
                (State::Idle, None) => *since = Some(at),
                (State::Busy | State::Down, Some(from)) => {
                    *since = None;
                    if from < at {
                        ready.push_back(HoleRecord {
                            node: node.clone(),
                            from,
                            until: at,
                            censored: false,
                        });
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn nodes(&self) -> Option<u32> {
        u32::try_from(self.nodes.len()).ok()
    }

    fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.first.zip(self.newest)
    }

    fn finish(&mut self, ready: &mut VecDeque<HoleRecord>) {
        let Some(until) = self.newest else { return };
        for (node, since) in &mut self.nodes {
            if let Some(from) = since.take().filter(|&from| from < until) {
                ready.push_back(HoleRecord {
                    node: node.clone(),
                    from,
                    until,
                    censored: true,
                });
            }
        }
    }
}
