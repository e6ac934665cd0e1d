//! Slurm: `topology.conf` and the output of `scontrol show topology`.
//!
//! Source: topology.conf(5), scontrol(1). Both have lines of `Key=Value`. Above the leaves,
//! `scontrol` lists all nodes below a switch too; these are ignored. The first block size is that of
//! a block, and each further one, a power of two larger, joins as many blocks in their order.
//! Lines that begin with another name (`RingName=`) are of a kind that Lacuna does not know.

use std::collections::HashMap;

use lacuna_model::Topology;

use super::Noted;
use super::error::{Contradiction, TopologyFileError};
use super::tree::{Tree, expand};
use crate::FieldError;

/// Whether a first line is of `scontrol show topology`.
pub(super) fn knows_answer(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let has = |key: &str| line.contains(key);
    (line.starts_with("switchname=") && has(" level="))
        || (line.starts_with("blockname=") && has(" blockindex="))
}

/// Whether a first line is of `topology.conf`.
pub(super) fn knows_file(line: &str) -> bool {
    let key = line.split_once('=').map(|(key, _)| key.trim());
    key.is_some_and(|key| {
        ["switchname", "blockname", "blocksizes"]
            .iter()
            .any(|known| key.eq_ignore_ascii_case(known))
            || kind(key).is_some()
    })
}

/// The kind of a topology whose lines begin with such a key, as `ring` of `RingName`.
fn kind(key: &str) -> Option<String> {
    let key = key.to_ascii_lowercase();
    let kind = key.strip_suffix("name")?;
    let is_word = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_word.then(|| kind.to_owned())
}

/// The unknown kind of a line.
fn unknown_kind(line: &str) -> Option<String> {
    let (key, ..) = pair(line.trim())?;
    kind(key).filter(|kind| !["switch", "block"].contains(&kind.as_str()))
}

/// Reads the lines of either.
pub(super) fn read(text: &str) -> Result<Noted, TopologyFileError> {
    let mut file = File::default();
    let mut unknown = None;
    for (line, text) in joined(text) {
        if let Some(kind) = unknown_kind(&text) {
            unknown = Some(kind);
            continue;
        }
        let record = Record::read(&text, line)?;
        file.take(&record, line)?;
    }
    match unknown.filter(|_| !file.has_switches && file.blocks.is_empty()) {
        Some(kind) => Ok(Noted::unknown("the topology", &kind)),
        None => file.finish().map(Noted::from),
    }
}

/// Lines without comments, with their numbers. A line that ends in a backslash goes on in the next.
fn joined(text: &str) -> Vec<(u64, String)> {
    let mut joined: Vec<(u64, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in super::lines(text) {
        let line = line.split('#').next().unwrap_or_default().trim_end();
        let (content, more) = match line.strip_suffix('\\') {
            Some(content) => (content, true),
            None => (line, false),
        };
        match joined.last_mut() {
            Some((_, last)) if goes_on => last.push_str(content),
            _ => joined.push((number, content.to_owned())),
        }
        goes_on = more;
    }
    joined.retain(|(_, line)| !line.trim().is_empty());
    joined
}

/// The values of one line.
#[derive(Debug, Default)]
struct Record<'a> {
    switch: Option<&'a str>,
    block: Option<&'a str>,
    aggregate: Option<&'a str>,
    sizes: Option<&'a str>,
    nodes: &'a str,
    switches: &'a str,
    size: Option<&'a str>,
    /// Whether `scontrol` has written it.
    is_answer: bool,
}

impl<'a> Record<'a> {
    fn read(line: &'a str, number: u64) -> Result<Self, TopologyFileError> {
        let mut record = Self::default();
        let mut unknown = None;
        let mut rest = line.trim();
        while !rest.is_empty() {
            let (key, value, after) = pair(rest).ok_or_else(|| {
                let expected = "Key=Value, as in SwitchName=s1 Nodes=n[1-4]; a file that is \
                                included must stand here itself";
                TopologyFileError::new(number, FieldError::new("line", expected, rest))
            })?;
            rest = after;
            match key.to_ascii_lowercase().as_str() {
                "switchname" => record.switch = Some(value),
                "blockname" => record.block = Some(value),
                "aggregatedblock" => record.aggregate = Some(value),
                "blocksizes" => record.sizes = Some(value),
                "blocksize" => record.size = Some(value),
                "nodes" => record.nodes = value,
                "switches" => record.switches = value,
                "level" | "blockindex" => record.is_answer = true,
                "linkspeed" => {}
                _ => unknown = unknown.or(Some(key)),
            }
        }
        // Later releases of `scontrol` may write further values. In a file it is a mistyped key.
        if let Some(key) = unknown.filter(|_| !record.is_answer) {
            let expected = "SwitchName, Nodes, Switches, LinkSpeed, BlockName or BlockSizes";
            return Err(TopologyFileError::new(
                number,
                FieldError::new("key", expected, format!("{key:?}")),
            ));
        }
        Ok(record)
    }
}

/// The first `Key=Value` of a text, and what follows. Blanks around `=` and quotes around a value
/// are not part of it. A value may be empty, which the next key then follows.
fn pair(text: &str) -> Option<(&str, &str, &str)> {
    let (key, after) = text.split_once('=')?;
    let key = key.trim_end();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return None;
    }
    let value = after.trim_start();
    if let Some(quoted) = value.strip_prefix('"') {
        let (value, rest) = quoted.split_once('"')?;
        return Some((key, value, rest.trim_start()));
    }
    let end = value.find(char::is_whitespace).unwrap_or(value.len());
    let (word, rest) = value.split_at(end);
    if value.len() < after.len() && word.contains('=') {
        return Some((key, "", value));
    }
    Some((key, word, rest.trim_start()))
}

#[derive(Debug, Default)]
struct File {
    tree: Tree,
    has_switches: bool,
    /// Blocks in their order, with their lines.
    blocks: Vec<(String, u64)>,
    /// `BlockSizes` with its line.
    sizes: Option<(Vec<u64>, u64)>,
    /// Aggregates of `scontrol`, by size: their blocks, and the line.
    aggregates: Vec<(u64, String, u64)>,
}

impl File {
    fn take(&mut self, record: &Record<'_>, line: u64) -> Result<(), TopologyFileError> {
        if let Some(name) = record.switch {
            self.has_switches = true;
            let switch = self.tree.define(name, line)?;
            // The nodes of a line with switches are those of the leaves below.
            if !record.switches.is_empty() {
                if !record.is_answer && !record.nodes.is_empty() {
                    let fault = Contradiction::Mixed(name.to_owned());
                    return Err(TopologyFileError::new(line, fault));
                }
                return self.tree.link(switch, record.switches, line);
            }
            self.tree.put(switch, record.nodes, line)?;
        }
        if let Some(name) = record.block {
            let block = self.tree.define(name, line)?;
            self.tree.put(block, record.nodes, line)?;
            self.blocks.push((name.to_owned(), line));
        }
        if let Some(sizes) = record.sizes {
            self.sizes = Some((read_sizes(sizes, line)?, line));
        }
        if let Some(blocks) = record.aggregate {
            let size = match record.size {
                Some(size) => number(size, line)?,
                None => 1,
            };
            self.aggregates.push((size, blocks.to_owned(), line));
        }
        if self.has_switches && !(self.blocks.is_empty() && self.sizes.is_none()) {
            return Err(TopologyFileError::new(line, Contradiction::TwoKinds));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Topology, TopologyFileError> {
        if let Some((sizes, line)) = self.sizes.take() {
            join(&mut self.tree, &self.blocks, &sizes, line)?;
        }
        self.join_aggregates()?;
        self.tree.finish()
    }

    /// Puts blocks below their aggregates, the smaller ones first.
    fn join_aggregates(&mut self) -> Result<(), TopologyFileError> {
        self.aggregates.sort_by_key(|(size, ..)| *size);
        // What stands above each block so far: name, size and line.
        let mut top: HashMap<&str, (String, u64, u64)> = self
            .blocks
            .iter()
            .map(|(block, line)| (block.as_str(), (block.clone(), 0, *line)))
            .collect();
        for (size, list, line) in &self.aggregates {
            let (size, line) = (*size, *line);
            let mut names = Vec::new();
            expand("AggregatedBlock", list, line, &mut |name| {
                names.push(name.to_owned());
            })?;
            let name = aggregate(size, names.first(), names.last());
            let above = self.tree.define(&name, line)?;
            for block in names {
                let Some(below) = top.get_mut(block.as_str()) else {
                    let missing = block;
                    let fault = Contradiction::Undefined {
                        above: name,
                        missing,
                    };
                    return Err(TopologyFileError::new(line, fault));
                };
                if below.1 >= size {
                    let fault = Contradiction::TwoAbove {
                        switch: block,
                        first: below.0.clone(),
                        line: below.2,
                        second: name,
                    };
                    return Err(TopologyFileError::new(line, fault));
                }
                self.tree.link(above, &below.0, line)?;
                *below = (name.clone(), size, line);
            }
        }
        Ok(())
    }
}

/// Name of an aggregate of blocks, which is the same for a file and for `scontrol`.
fn aggregate(size: u64, first: Option<&String>, last: Option<&String>) -> String {
    let name = |block: Option<&String>| block.map_or("", String::as_str).to_owned();
    format!("{size}:{}-{}", name(first), name(last))
}

fn number(text: &str, line: u64) -> Result<u64, TopologyFileError> {
    let read = text.parse::<u64>().ok().filter(|size| *size > 0);
    read.ok_or_else(|| {
        let expected = "a number of nodes above 0";
        let at = FieldError::new("block size", expected, format!("{text:?}"));
        TopologyFileError::new(line, at)
    })
}

fn read_sizes(text: &str, line: u64) -> Result<Vec<u64>, TopologyFileError> {
    text.split(',')
        .map(|size| number(size.trim(), line))
        .collect()
}

/// Joins blocks by `sizes`: the first is that of a block, each further one that of an aggregate.
/// Blocks are joined in their order.
///
/// # Errors
/// If a size is not a power of two times the first, or not above the one before.
pub(super) fn join(
    tree: &mut Tree,
    blocks: &[(String, u64)],
    sizes: &[u64],
    line: u64,
) -> Result<(), TopologyFileError> {
    let Some((base, larger)) = sizes.split_first() else {
        return Ok(());
    };
    let mut present: Vec<(String, u64)> = blocks.to_vec();
    let mut before = 1;
    for size in larger {
        let times = size / base;
        if size % base != 0 || !times.is_power_of_two() || times <= before {
            let expected = "each a power of two times the first, and larger than the one before";
            let at = FieldError::new("block sizes", expected, format!("{size}"));
            return Err(TopologyFileError::new(line, at));
        }
        let many = usize::try_from(times / before).unwrap_or(usize::MAX);
        let mut joined = Vec::with_capacity(present.len() / many + 1);
        let most = blocks.chunks(usize::try_from(times).unwrap_or(usize::MAX));
        for (part, of) in present.chunks(many).zip(most) {
            let name = |block: Option<&(String, u64)>| block.map(|(name, _)| name.clone());
            let (first, last) = (name(of.first()), name(of.last()));
            let name = aggregate(*size, first.as_ref(), last.as_ref());
            let above = tree.define(&name, line)?;
            for (below, line) in part {
                tree.link(above, below, *line)?;
            }
            joined.push((name, line));
        }
        present = joined;
        before = times;
    }
    Ok(())
}
