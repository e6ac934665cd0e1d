//! Progress of a simulated trainer: an incarnation on `n` nodes makes `P(n)` samples a second,
//! which pay its stall debt first ([`Ledger`]).

use lacuna_model::{Assignment, Span, Timestamp, Work};

use crate::Ledger;

/// State of a simulated incarnation at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedState {
    /// Samples of this incarnation so far.
    pub samples: f64,
    /// Stall debt, samples.
    pub owed: f64,
    /// Whether the trainer's work is done.
    pub done: bool,
}

/// Samples of the trainer's work that earlier incarnations have left undone.
#[must_use]
pub fn left(assignment: &Assignment) -> f64 {
    match assignment.work {
        Work::Samples(samples) => (samples - assignment.samples_before).max(0.0),
        Work::UntilExit => f64::INFINITY,
    }
}

/// Samples/s on the nodes of the incarnation.
fn rate(assignment: &Assignment) -> f64 {
    assignment.throughput.at(assignment.nodes)
}

/// The state at `now` (cluster time). Work past the end does not count.
#[must_use]
pub fn state_at(assignment: &Assignment, now: Timestamp) -> SimulatedState {
    let mut ledger = Ledger::indebted(assignment.owed);
    ledger.advance(now.since(assignment.since).as_secs_f64(), rate(assignment));
    let left = left(assignment);
    SimulatedState {
        samples: ledger.done().min(left),
        owed: ledger.debt(),
        done: ledger.done() >= left,
    }
}

/// When the incarnation completes the trainer's work (cluster time, rounded up to the
/// millisecond), if it ever does.
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
    Some(if state_at(assignment, at).done {
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
            rescale: RescaleCost::of(18.0, 12.0),
            work,
            samples_before: 100.0,
            owed,
            since: Timestamp::from_unix(1000),
            checkpoint: None,
            store: None,
            token: None,
            owner: None,
            shared_account: None,
        }
    }

    #[test]
    fn stall_debt_is_paid_before_any_sample_counts() {
        let a = assignment(2, 60.0, Work::UntilExit);
        let at = |s| state_at(&a, Timestamp::from_unix(s));
        assert_eq!((at(1000).samples, at(1000).owed), (0.0, 60.0));
        assert_eq!((at(1002).samples, at(1002).owed), (0.0, 20.0));
        assert_eq!((at(1003).samples, at(1003).owed), (0.0, 0.0));
        assert_eq!(at(1010).samples, 140.0);
        // A moment before the beginning counts no sample.
        assert_eq!((at(900).samples, at(900).owed), (0.0, 60.0));
    }

    #[test]
    fn work_past_the_end_does_not_count_and_the_end_is_known_before() {
        let a = assignment(3, 15.0, Work::Samples(200.0));
        let end = finish(&a).unwrap();
        assert_eq!(end, Timestamp::from_unix_ms(1_000_000 + 3_834));
        assert!(state_at(&a, end).done);
        assert!(!state_at(&a, end - Span::from_ms(2)).done);
        assert_eq!(state_at(&a, Timestamp::from_unix(5000)).samples, 100.0);
        assert_eq!(finish(&assignment(3, 0.0, Work::UntilExit)), None);
    }
}
