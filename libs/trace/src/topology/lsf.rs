//! LSF: compute units, from the section `ComputeUnit` of `lsb.hosts` or from `bmgroup -cu`.
//!
//! Source: LSF's configuration reference, `lsb.hosts`, and command reference, `bmgroup`; tried on
//! samples of the manual only. A member of a unit is another unit, or else a host.

use lacuna_model::Topology;

use super::error::TopologyFileError;
use super::tree::Tree;
use crate::FieldError;

/// Whether a first line is of either.
pub(super) fn knows(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let mut words = line.split_whitespace();
    match words.next() {
        Some("begin") => words.next().is_some(),
        Some("name" | "cu_name") => line.contains("type"),
        _ => false,
    }
}

/// A unit with its members and its line.
struct Unit<'a> {
    name: &'a str,
    members: Vec<&'a str>,
    line: u64,
}

/// Reads the units.
pub(super) fn read(text: &str) -> Result<Topology, TopologyFileError> {
    let mut units = Vec::new();
    // Columns of the table that is being read.
    let mut columns: Option<Vec<String>> = None;
    let is_file = super::lines(text).any(|(_, line)| is_section(line));
    let mut inside = !is_file;
    for (number, line) in super::lines(text) {
        let content = line.split('#').next().unwrap_or_default().trim();
        if is_file && line.to_ascii_lowercase().starts_with("begin") {
            (inside, columns) = (is_section(line), None);
        } else if is_file && line.to_ascii_lowercase().starts_with("end") {
            inside = false;
        } else if !inside || content.is_empty() {
        } else if let Some(columns) = &columns {
            units.push(unit(columns, content, number)?);
        } else {
            let words = content.split_whitespace();
            columns = Some(words.map(str::to_ascii_uppercase).collect());
        }
    }
    let mut tree = Tree::default();
    for unit in &units {
        tree.define(unit.name, unit.line)?;
    }
    link(tree, &units)
}

fn is_section(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words
        .next()
        .is_some_and(|word| word.eq_ignore_ascii_case("begin"))
        && words
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case("computeunit"))
}

/// A row: the name, the type, and the members, in parentheses or up to the end of the line.
fn unit<'a>(columns: &[String], row: &'a str, line: u64) -> Result<Unit<'a>, TopologyFileError> {
    let refuse = || {
        let expected = "columns NAME, TYPE and MEMBER or HOSTS, and a row with all of them";
        TopologyFileError::new(line, FieldError::new("compute unit", expected, row))
    };
    let mut found = Unit {
        name: "",
        members: Vec::new(),
        line,
    };
    let mut rest = row;
    for (place, column) in columns.iter().enumerate() {
        rest = rest.trim_start();
        let is_last = place + 1 == columns.len();
        let (value, after) = match rest.strip_prefix('(') {
            Some(list) => list.split_once(')').ok_or_else(refuse)?,
            None if is_last => (rest, ""),
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        rest = after;
        match column.as_str() {
            "NAME" | "CU_NAME" => found.name = value,
            "MEMBER" | "MEMBERS" | "HOSTS" => found.members = value.split_whitespace().collect(),
            _ => {}
        }
    }
    if found.name.is_empty() || found.members.is_empty() {
        return Err(refuse());
    }
    let sound = |c: char| c.is_ascii_alphanumeric() || "_-.[],".contains(c);
    if let Some(wrong) = found.members.iter().find(|name| !name.chars().all(sound)) {
        let expected = "names of hosts and units, without patterns, ~ or +";
        let at = FieldError::new("member", expected, format!("{wrong:?}"));
        return Err(TopologyFileError::new(line, at));
    }
    Ok(found)
}

/// Puts members below their units.
fn link(mut tree: Tree, units: &[Unit<'_>]) -> Result<Topology, TopologyFileError> {
    // Hosts first, so that a unit with both kinds of members is known as such.
    for is_unit in [false, true] {
        for unit in units {
            let Some(above) = tree.find(unit.name) else {
                continue;
            };
            for member in &unit.members {
                match (tree.find(member).is_some(), is_unit) {
                    (true, true) => tree.link(above, member, unit.line)?,
                    (false, false) => tree.put(above, member, unit.line)?,
                    _ => {}
                }
            }
        }
    }
    tree.finish()
}
