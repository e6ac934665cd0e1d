//! Outages: times in which too many nodes are idle to be called holes. They are removed from holes in
//! memory here, from other traces in `outage_filter.rs`.

use lacuna_model::{HoleRecord, Timestamp};

/// More idle nodes than this are an outage on any machine.
const MOST: u32 = 1000;

/// A machine of fewer nodes than this has no outages by default: on a quiet day most of its nodes
/// are idle.
const SMALL: u32 = 100;

/// The number of idle nodes above which a machine of this many nodes has an outage; `None` for a small
/// machine.
#[must_use]
pub(super) fn above(nodes: u32) -> Option<u32> {
    (nodes >= SMALL).then(|| MOST.min(nodes / 2))
}

/// An outage, from its start to its end.
pub(super) type Outage = (Timestamp, Timestamp);

/// The parts of the holes outside outages, in which more than `most` nodes are idle; and the outages,
/// in order of time.
#[must_use]
pub(super) fn leave_out(holes: &[HoleRecord], most: u32) -> (Vec<HoleRecord>, Vec<Outage>) {
    let crowded = crowded(holes, most);
    let mut kept: Vec<HoleRecord> = holes.iter().flat_map(|hole| rest(hole, &crowded)).collect();
    kept.sort_by(|a, b| (a.from, &a.node).cmp(&(b.from, &b.node)));
    (kept, crowded)
}

/// The intervals in which more than `most` nodes are idle, in order of time.
fn crowded(holes: &[HoleRecord], most: u32) -> Vec<Outage> {
    let ends = holes.iter().map(|hole| (hole.until, -1_i64));
    let mut changes: Vec<(Timestamp, i64)> = holes.iter().map(|hole| (hole.from, 1)).collect();
    changes.extend(ends);
    changes.sort_unstable();
    let mut crowded = Vec::new();
    let (mut idle, mut since) = (0_i64, None);
    for moment in changes.chunk_by(|a, b| a.0 == b.0) {
        let at = moment.first().map_or_else(Timestamp::default, |m| m.0);
        idle += moment.iter().map(|m| m.1).sum::<i64>();
        match (idle > i64::from(most), since) {
            (true, None) => since = Some(at),
            (false, Some(from)) => {
                crowded.push((from, at));
                since = None;
            }
            _ => {}
        }
    }
    crowded
}

/// The parts of a hole outside these intervals.
fn rest(hole: &HoleRecord, crowded: &[(Timestamp, Timestamp)]) -> Vec<HoleRecord> {
    let first = crowded.partition_point(|(_, until)| *until <= hole.from);
    let mut parts = Vec::new();
    let mut from = hole.from;
    let within = crowded.iter().skip(first);
    for &(begins, ends) in within.take_while(|(begins, _)| *begins < hole.until) {
        if begins > from {
            parts.push(HoleRecord {
                from,
                until: begins,
                censored: false,
                ..hole.clone()
            });
        }
        from = from.max(ends);
    }
    if from < hole.until {
        parts.push(HoleRecord {
            from,
            ..hole.clone()
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use lacuna_model::NodeId;

    fn hole(node: &str, from: i64, until: i64) -> HoleRecord {
        HoleRecord {
            node: NodeId::new(node).unwrap(),
            from: Timestamp::from_unix(from),
            until: Timestamp::from_unix(until),
            censored: until == 100,
        }
    }

    #[test]
    fn idle_nodes_of_a_small_machine_are_no_outage() {
        let most = [3, 99, 100, 4000].map(above);
        assert_eq!(most, [None, None, Some(50), Some(1000)]);
    }

    #[test]
    fn only_outages_are_left_out() {
        // Two nodes are idle in 20..30 and from 60 on; the second hole lies within the first.
        let holes = [hole("a", 0, 100), hole("b", 20, 30), hole("c", 60, 100)];
        let (kept, left_out) = leave_out(&holes, 1);
        let at = Timestamp::from_unix;
        assert_eq!(left_out, [(at(20), at(30)), (at(60), at(100))]);
        let mut first = hole("a", 0, 20);
        first.censored = false;
        let mut second = hole("a", 30, 60);
        second.censored = false;
        assert_eq!(kept, [first, second]);
        assert_eq!(leave_out(&holes, 2), (holes.to_vec(), Vec::new()));
        let node_s =
            |holes: &[HoleRecord]| -> f64 { holes.iter().map(|h| h.length().as_secs_f64()).sum() };
        assert_eq!(node_s(&leave_out(&holes, 0).0), 0.0);
    }
}
