//! The times at which the pool is published.

use lacuna_model::{Span, Timestamp};
use lacuna_wire::msg::{Clock, Pace};

/// The state at the time of the decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment<'a> {
    /// The newest tick.
    pub(crate) clock: &'a Clock,
    /// The number of the last event that the pool includes.
    pub(crate) seq: u64,
    /// The time since the last publication, by the wall clock.
    pub(crate) since_last: Span,
}

/// The decision about publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Publish now, as of this time; `None` for the cluster's present time.
    Publish(Option<Timestamp>),
    /// Decide again after this time.
    Later(Span),
    /// Wait for messages.
    Wait,
}

/// Decides when the pool is published. It is published at a change, at most once in `every`. It is
/// published again after `repeat` without a change, since ages change and messages may be lost. In
/// lock step it is published once for each step, when all events of the step are included.
#[derive(Debug)]
pub(crate) struct Publisher {
    every: Span,
    repeat: Span,
    changed: bool,
    /// The step that was last published in lock step, with its recording.
    step: Option<(String, u64)>,
}

impl Publisher {
    pub(crate) fn new(every: Span, repeat: Span) -> Self {
        Self {
            every,
            repeat,
            changed: true,
            step: None,
        }
    }

    /// Notes that the pool may have changed.
    pub(crate) fn note_change(&mut self) {
        self.changed = true;
    }

    pub(crate) fn decide(&self, moment: Moment<'_>) -> Decision {
        let stale = moment.since_last >= self.repeat;
        let clock = moment.clock;
        if clock.pace == Pace::LockStep {
            let due = clock.complete && moment.seq >= clock.events_upto;
            let published = self.step.as_ref().is_some_and(|(recording, step)| {
                *recording == clock.recording && *step == clock.step
            });
            return if due && (!published || stale) {
                Decision::Publish(Some(clock.now))
            } else {
                Decision::Wait
            };
        }
        if stale || (self.changed && moment.since_last >= self.every) {
            Decision::Publish(None)
        } else if self.changed {
            Decision::Later(self.every + Span::from_ms(-moment.since_last.as_ms()))
        } else {
            Decision::Wait
        }
    }

    /// Notes that the pool was published.
    pub(crate) fn done(&mut self, clock: &Clock) {
        self.changed = false;
        let step = clock.pace == Pace::LockStep && clock.complete;
        self.step = step.then(|| (clock.recording.clone(), clock.step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publisher() -> Publisher {
        Publisher::new(Span::from_ms(10), Span::from_secs(2))
    }

    fn moment(clock: &Clock, seq: u64, since_last_ms: i64) -> Moment<'_> {
        Moment {
            clock,
            seq,
            since_last: Span::from_ms(since_last_ms),
        }
    }

    fn tick(step: u64, events_upto: u64, complete: bool) -> Clock {
        Clock {
            now: Timestamp::from_unix(1000 + step as i64),
            pace: Pace::LockStep,
            step,
            events_upto,
            complete,
            ended: false,
            recording: String::new(),
        }
    }

    #[test]
    fn changes_are_coalesced_and_the_pool_is_repeated_without_any() {
        let mut publisher = publisher();
        let clock = Clock {
            pace: Pace::Real,
            ..tick(0, 0, false)
        };
        publisher.done(&clock);
        assert_eq!(publisher.decide(moment(&clock, 1, 500)), Decision::Wait);
        assert_eq!(
            publisher.decide(moment(&clock, 1, 2000)),
            Decision::Publish(None)
        );
        publisher.note_change();
        assert_eq!(
            publisher.decide(moment(&clock, 1, 4)),
            Decision::Later(Span::from_ms(6))
        );
        assert_eq!(
            publisher.decide(moment(&clock, 1, 10)),
            Decision::Publish(None)
        );
    }

    #[test]
    fn a_step_is_published_once_all_its_events_are_included() {
        let mut publisher = publisher();
        let out = tick(1, 7, false);
        assert_eq!(publisher.decide(moment(&out, 7, 50)), Decision::Wait);
        let done = tick(1, 9, true);
        assert_eq!(publisher.decide(moment(&done, 8, 50)), Decision::Wait);
        assert_eq!(
            publisher.decide(moment(&done, 9, 0)),
            Decision::Publish(Some(done.now))
        );
        publisher.done(&done);
        publisher.note_change();
        assert_eq!(publisher.decide(moment(&done, 9, 50)), Decision::Wait);
        // The message may have been lost.
        assert_eq!(
            publisher.decide(moment(&done, 9, 2500)),
            Decision::Publish(Some(done.now))
        );
        let other = Clock {
            recording: "other".to_owned(),
            ..tick(1, 9, true)
        };
        assert_eq!(
            publisher.decide(moment(&other, 9, 0)),
            Decision::Publish(Some(other.now))
        );
        let next = tick(2, 9, true);
        assert_eq!(
            publisher.decide(moment(&next, 9, 0)),
            Decision::Publish(Some(next.now))
        );
    }
}
