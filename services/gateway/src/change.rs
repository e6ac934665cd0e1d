//! Updates for browsers: the state of each node as a whole, or only the changes.
//!
//! With ten thousand nodes the whole takes tens of kilobytes, and a change a few hundred bytes.

use serde::Serialize;

use crate::history::Code;
use crate::view::{Reading, View};

/// (moment, nodes idle, nodes training)
type ReadingRow = (i64, u32, u32);

/// The state of each node, in the order of the names, and the readings of the pool.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Whole {
    cells: Vec<Code>,
    readings: Vec<ReadingRow>,
}

/// The differences from the snapshot before.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    /// Index into the list of names, and the present state of that node.
    cells: Vec<(usize, Code)>,
    /// Number of earlier readings that are kept. Those after them are new.
    keep: usize,
    readings: Vec<ReadingRow>,
}

/// The snapshot before.
#[derive(Debug, Default)]
pub(crate) struct Before {
    cells: Vec<Code>,
    readings: Vec<ReadingRow>,
}

fn row(reading: &Reading) -> ReadingRow {
    (reading.at.unix_ms(), reading.idle, reading.training)
}

impl Before {
    /// The newest snapshot as a whole, and its changes. The change is valid only with the same list
    /// of names.
    pub(crate) fn next(&mut self, view: &View) -> (Whole, Change) {
        let cells: Vec<Code> = view.history.present().collect();
        let readings: Vec<ReadingRow> = view.readings().iter().map(row).collect();
        let both = self.readings.iter().zip(&readings);
        let keep = both.take_while(|(before, now)| before == now).count();
        let both = self.cells.iter().zip(&cells).enumerate();
        let change = Change {
            cells: both
                .filter(|(_, (before, now))| before != now)
                .map(|(place, (_, now))| (place, *now))
                .collect(),
            keep,
            readings: readings.iter().skip(keep).copied().collect(),
        };
        (self.cells, self.readings) = (cells.clone(), readings.clone());
        (Whole { cells, readings }, change)
    }
}

#[cfg(test)]
mod tests {
    use lacuna_model::{Span, Timestamp};
    use lacuna_testkit::{pool, record, spec};
    use lacuna_wire::msg::{PoolState, TrainersState};

    use super::*;

    fn take(view: &mut View, as_of: i64, nodes: &[&str]) {
        view.take_pool(PoolState {
            pool: pool(1, as_of, &["a", "b", "c"]),
            predictor: "constant".to_owned(),
        });
        view.take_trainers(TrainersState {
            version: 1,
            as_of: Timestamp::from_unix(as_of),
            trainers: vec![record(spec("t", 4), 1, nodes)],
            unusable: vec![],
            pilot_s: 0.0,
            followed: lacuna_model::Generation(0),
        });
        view.settle();
    }

    #[test]
    fn the_changes_add_up_to_the_whole() {
        let (mut view, mut before) = (View::new(Span::from_secs(3600)), Before::default());
        take(&mut view, 10, &["a"]);
        let (whole, _) = before.next(&view);
        let (mut cells, mut readings) = (whole.cells, whole.readings);
        for (as_of, nodes) in [(20, &["a", "b"][..]), (21, &["c"]), (21, &[]), (40, &["b"])] {
            take(&mut view, as_of, nodes);
            let (whole, change) = before.next(&view);
            for (place, code) in change.cells {
                *cells.get_mut(place).unwrap() = code;
            }
            readings.truncate(change.keep);
            readings.extend(change.readings);
            assert_eq!((&cells, &readings), (&whole.cells, &whole.readings));
        }
        let (_, change) = before.next(&view);
        assert_eq!((change.cells.len(), change.readings.len()), (0, 0));
    }
}
