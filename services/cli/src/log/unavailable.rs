//! Lists of unavailable nodes: outages and reservations.
//!
//! A CSV file with the columns `nodes,from,until`. Nodes are names as the log writes them
//! (`n[1-4,7]`), or for a simulated machine numbers from 1 (`1-128,200`). Times are Unix seconds or
//! ISO-8601. A header line, blank lines and lines that start with `#` are skipped.

use std::path::Path;

use lacuna_batchsim::{NodeRange, Outage, Reservation};
use lacuna_model::Timestamp;
use lacuna_records::hosts;

use crate::error::{CliError, Exit, Result, file_error};
use crate::output::parse_time;

/// Nodes that are unavailable for a time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unavailable {
    /// Its line in the file, from 1.
    pub(super) line: usize,
    /// The nodes as written.
    pub(super) nodes: String,
    /// The start.
    pub(super) from: Timestamp,
    /// The end.
    pub(super) until: Timestamp,
}

/// Reads a file of unavailable nodes.
///
/// # Errors
/// `L0011`; the text names the file, the line and the expectation.
pub(super) fn read(path: &Path) -> Result<Vec<Unavailable>> {
    let text = std::fs::read_to_string(path).map_err(|e| file_error("read", path, &e))?;
    parse(&text).map_err(|what| refuse(path, &what))
}

/// The error of an invalid file.
pub(super) fn refuse(path: &Path, what: &str) -> CliError {
    CliError::new("L0011", Exit::Failed, format!("{}: {what}", path.display()))
}

fn parse(text: &str) -> std::result::Result<Vec<Unavailable>, String> {
    let mut entries = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || (at == 0 && line == "nodes,from,until") {
            continue;
        }
        // A list of nodes may contain commas, times do not.
        let mut parts = line.rsplitn(3, ',').map(str::trim);
        let (until, from, nodes) = (parts.next(), parts.next(), parts.next());
        let (Some(until), Some(from), Some(nodes)) = (until, from, nodes) else {
            return Err(format!(
                "line {}: expected 3 columns (nodes,from,until), found {line:?}",
                at + 1
            ));
        };
        let time = |name: &str, text: &str| {
            parse_time(text).map_err(|what| format!("line {}, {name}: {what}", at + 1))
        };
        let entry = Unavailable {
            line: at + 1,
            nodes: nodes.trim_matches('"').to_owned(),
            from: time("from", from)?,
            until: time("until", until)?,
        };
        if entry.until <= entry.from {
            return Err(format!("line {}: it ends before it begins", at + 1));
        }
        entries.push(entry);
    }
    Ok(entries)
}

impl Unavailable {
    /// Hands out the names of its nodes.
    ///
    /// # Errors
    /// The list is invalid; the text names the line.
    pub(super) fn names(&self, each: &mut dyn FnMut(&str)) -> std::result::Result<(), String> {
        hosts::expand(&self.nodes, each).map_err(|at| format!("line {}, {at}", self.line))
    }

    /// Its nodes as intervals of numbers from 0, on a machine of `machine` nodes.
    fn runs(&self, machine: u32) -> std::result::Result<Vec<NodeRange>, String> {
        let mut runs = Vec::new();
        for part in self.nodes.split(',').map(str::trim) {
            let number = |text: &str| text.trim().parse::<u32>().ok();
            let range = match part.split_once('-') {
                Some((first, last)) => number(first).zip(number(last)),
                None => number(part).map(|one| (one, one)),
            };
            match range {
                Some((first, last)) if (1..=last).contains(&first) && last <= machine => {
                    runs.push(NodeRange {
                        first: first - 1,
                        count: last - first + 1,
                    });
                }
                _ => {
                    return Err(format!(
                        "line {}, nodes: expected numbers from 1 to {machine} such as 1-128,200, \
                         found {part:?}",
                        self.line
                    ));
                }
            }
        }
        Ok(runs)
    }

    /// Its nodes as outages of a machine of `machine` nodes.
    ///
    /// # Errors
    /// Its nodes are not of this machine.
    pub(super) fn outages(&self, machine: u32) -> std::result::Result<Vec<Outage>, String> {
        let of = |nodes| Outage {
            nodes,
            from: seconds(self.from),
            until: seconds(self.until),
        };
        Ok(self.runs(machine)?.into_iter().map(of).collect())
    }

    /// Its nodes as reservations on a machine of `machine` nodes.
    ///
    /// # Errors
    /// Its nodes are not of this machine.
    pub(super) fn reservations(
        &self,
        machine: u32,
    ) -> std::result::Result<Vec<Reservation>, String> {
        let of = |nodes| Reservation {
            name: format!("line {}", self.line),
            nodes,
            from: seconds(self.from),
            until: seconds(self.until),
        };
        Ok(self.runs(machine)?.into_iter().map(of).collect())
    }
}

/// Whole seconds, the unit of the batch scheduler.
fn seconds(at: Timestamp) -> i64 {
    at.unix_ms().div_euclid(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_nodes_and_times() {
        let text =
            "nodes,from,until\n# a drain\n\n\"1-3,7\",100,2000-01-01T00:00:00Z\nn[1-2],5,6\n";
        let entries = parse(text).unwrap();
        assert_eq!(entries.len(), 2);
        let outages = entries[0].outages(8).unwrap();
        let runs: Vec<_> = outages
            .iter()
            .map(|o| (o.nodes.first, o.nodes.count))
            .collect();
        assert_eq!(runs, [(0, 3), (6, 1)]);
        assert_eq!((outages[0].from, outages[0].until), (100, 946_684_800));
        assert_eq!(entries[0].reservations(8).unwrap()[0].name, "line 4");
        let mut names = Vec::new();
        entries[1]
            .names(&mut |name| names.push(name.to_owned()))
            .unwrap();
        assert_eq!(names, ["n1", "n2"]);
    }

    #[test]
    fn an_invalid_line_is_named() {
        for (text, expected) in [
            ("1-3,100\n", "line 1: expected 3 columns"),
            ("\n1,soon,5\n", "line 2, from: "),
            ("1,9,5\n", "line 1: it ends before it begins"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        for nodes in ["0-3", "3-1", "7-9", "x", ""] {
            let entry = &parse(&format!("{nodes},1,2")).unwrap()[0];
            let error = entry.outages(8).unwrap_err();
            assert!(error.contains("expected numbers from 1 to 8"), "{error}");
        }
    }
}
