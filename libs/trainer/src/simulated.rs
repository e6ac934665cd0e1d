//! How far a simulated trainer has come: a run of `n` nodes makes `P(n)` samples a second, which
//! pay its stall debt first ([`Ledger`]).

use lacuna_model::{Assignment, Span, Timestamp, Work};

use crate::Ledger;

/// Where a simulated run stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Samples of this run so far.
    pub samples: f64,
    /// Stall debt, samples.
    pub owed: f64,
    /// Whether the trainer's work is done.
    pub done: bool,
}

/// Samples that this run may still make: what is left of the trainer's work.
#[must_use]
pub fn left(assignment: &Assignment) -> f64 {
    match assignment.work {
        Work::Samples(samples) => (samples - assignment.samples_before).max(0.0),
        Work::UntilExit => f64::INFINITY,
    }
}

/// Samples/s on the nodes of the run.
fn rate(assignment: &Assignment) -> f64 {
    assignment.throughput.at(assignment.nodes)
}

/// Where the run stands at `now` (cluster time). Work past the end does not count.
#[must_use]
pub fn standing(assignment: &Assignment, now: Timestamp) -> Standing {
    let mut ledger = Ledger::indebted(assignment.owed);
    ledger.advance(now.since(assignment.since).as_secs_f64(), rate(assignment));
    let left = left(assignment);
    Standing {
        samples: ledger.done().min(left),
        owed: ledger.debt(),
        done: ledger.done() >= left,
    }
}

/// When the run will have done the trainer's work (cluster time, rounded up to the
/// millisecond), if it ever will.
#[must_use]
pub fn finish(assignment: &Assignment) -> Option<Timestamp> {
    let ledger = Ledger::indebted(assignment.owed);
    let seconds = ledger.time_to(left(assignment), rate(assignment));
    if !seconds.is_finite() {
        return None;
    }
    let ms = (seconds * 1000.0).ceil();
    // Rounding may leave the last fraction of a sample undone; one more millisecond does it.
    let at = assignment.since + Span::from_ms(ms as i64);
    Some(if standing(assignment, at).done {
        at
    } else {
        at + Span::from_ms(1)
    })
}

#[cfg(test)]
mod tests {
    use lacuna_model::{Launch, RescaleCost, RunId, ScalingCurve, TrainerId};

    use super::*;

    fn assignment(nodes: u32, owed: f64, work: Work) -> Assignment {
        Assignment {
            trainer: TrainerId::new("a").unwrap(),
            run: RunId(1),
            rank: 0,
            nodes,
            launch: Launch::Simulated.into(),
            throughput: ScalingCurve::linear(10.0, 8).unwrap(),
            rescale: RescaleCost {
                up_s: 18.0,
                down_s: 12.0,
                start_s: None,
            },
            work,
            samples_before: 100.0,
            owed,
            since: Timestamp::from_unix(1000),
            checkpoint: None,
            store: None,
        }
    }

    #[test]
    fn what_is_owed_is_sat_out_before_anything_counts() {
        let a = assignment(2, 60.0, Work::UntilExit);
        let at = |s| standing(&a, Timestamp::from_unix(s));
        assert_eq!((at(1000).samples, at(1000).owed), (0.0, 60.0));
        assert_eq!((at(1002).samples, at(1002).owed), (0.0, 20.0));
        assert_eq!((at(1003).samples, at(1003).owed), (0.0, 0.0));
        assert_eq!(at(1010).samples, 140.0);
        // A moment before the run began counts nothing.
        assert_eq!((at(900).samples, at(900).owed), (0.0, 60.0));
    }

    #[test]
    fn work_past_the_end_does_not_count_and_the_end_is_foretold() {
        let a = assignment(3, 15.0, Work::Samples(200.0));
        let end = finish(&a).unwrap();
        assert_eq!(end, Timestamp::from_unix_ms(1_000_000 + 3_834));
        assert!(standing(&a, end).done);
        assert!(!standing(&a, end - Span::from_ms(2)).done);
        assert_eq!(standing(&a, Timestamp::from_unix(5000)).samples, 100.0);
        assert_eq!(finish(&assignment(3, 0.0, Work::UntilExit)), None);
    }
}
