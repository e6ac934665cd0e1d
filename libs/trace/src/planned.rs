//! Planned starts beside a hole list: `at,node,start`, one announcement a line.
//!
//! Times are Unix seconds (decimals allowed). From `at` on, the batch scheduler plans to start a
//! job on the idle node at `start`, which is later than `at`. An empty `start` withdraws the
//! planned start. The lines may have any order; the last of several for one node and time holds.
//! [`PlannedStart`] defines how long an announcement holds.

use std::collections::HashMap;
use std::path::Path;

use lacuna_model::{HoleRecord, NodeId, PlannedStart, Timestamp};
use lacuna_records::fields::unexpected;

use crate::rows::{Names, Rows, time};
use crate::{FieldError, ReadError, open};

/// The first line of every list of planned starts.
pub const PLANNED_HEADER: &str = "at,node,start";

/// A whole list of planned starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlannedList {
    /// The planned starts, sorted by announcement and node, at most one for both.
    pub starts: Vec<PlannedStart>,
    /// Refused: lines that name a node without a present hole.
    pub without_hole: u64,
}

impl PlannedList {
    /// Sorts planned starts of `holes`, and refuses those of nodes without a present hole.
    #[must_use]
    pub fn of(mut starts: Vec<PlannedStart>, holes: &[HoleRecord]) -> Self {
        let present = Present::of(holes);
        let read = starts.len();
        starts.retain(|planned| present.has(&planned.node, planned.at));
        let without_hole = (read - starts.len()) as u64;
        // Of equal entries the last one stays, which is the first in reverse order.
        starts.reverse();
        starts.sort_by(|a, b| (a.at, &a.node).cmp(&(b.at, &b.node)));
        starts.dedup_by(|a, b| (a.at, &a.node) == (b.at, &b.node));
        starts.shrink_to_fit();
        Self {
            starts,
            without_hole,
        }
    }
}

/// Intervals of the holes of each node.
struct Present<'a>(HashMap<&'a NodeId, Vec<&'a HoleRecord>>);

impl<'a> Present<'a> {
    fn of(holes: &'a [HoleRecord]) -> Self {
        let mut present: HashMap<&NodeId, Vec<&HoleRecord>> = HashMap::new();
        for hole in holes {
            present.entry(&hole.node).or_default().push(hole);
        }
        for holes in present.values_mut() {
            holes.sort_by_key(|hole| hole.from);
        }
        Self(present)
    }

    /// Whether a node has a hole at a moment. A censored hole never ends.
    fn has(&self, node: &NodeId, at: Timestamp) -> bool {
        let Some(holes) = self.0.get(node) else {
            return false;
        };
        let begun = holes.partition_point(|hole| hole.from <= at);
        let newest = begun.checked_sub(1).and_then(|last| holes.get(last));
        newest.is_some_and(|hole| hole.censored || at < hole.until)
    }
}

/// Reads a list of planned starts of `holes`, plain, gzip or zstd.
///
/// # Errors
/// [`ReadError`] for the first damaged line, also if its `start` is not after its `at`. Lines
/// without a present hole are no error; they are counted in [`PlannedList::without_hole`].
pub fn read_planned(path: &Path, holes: &[HoleRecord]) -> Result<PlannedList, ReadError> {
    let mut rows = Rows::new(path, open(path)?, PLANNED_HEADER)?;
    let mut names = Names::default();
    let mut starts = Vec::new();
    while let Some(planned) = rows.next(|row| planned_start(row, &mut names))? {
        starts.push(planned);
    }
    Ok(PlannedList::of(starts, holes))
}

/// One row of a list of planned starts.
fn planned_start(
    [at, node, start]: [&[u8]; 3],
    names: &mut Names,
) -> Result<PlannedStart, FieldError> {
    let place = "column 3 (start)";
    let planned = PlannedStart {
        at: time("column 1 (at)", at)?,
        node: names.node("column 2 (node)", node)?,
        start: match start {
            b"" => None,
            start => Some(time(place, start)?),
        },
    };
    if planned.start.is_some_and(|start| start <= planned.at) {
        let expected = "a time after column 1 (at), or nothing";
        return Err(unexpected(place, expected, start));
    }
    Ok(planned)
}
