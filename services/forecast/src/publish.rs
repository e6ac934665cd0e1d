//! When the pool is published.

use lacuna_model::{Span, Timestamp};
use lacuna_wire::msg::{Clock, Pace};

/// What is known when the question is put.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment<'a> {
    /// The newest tick.
    pub(crate) clock: &'a Clock,
    /// The last event that the pool includes.
    pub(crate) seq: u64,
    /// Time since the last publication, by the wall clock.
    pub(crate) since_last: Span,
}

/// What to do about publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Publish now, as of this moment; nothing: as of the cluster's time now.
    Publish(Option<Timestamp>),
    /// Ask again after this long.
    Later(Span),
    /// Wait for messages.
    Wait,
}

/// Decides when the pool is published: at a change, but at most every `every`; again when
/// `repeat` has passed without one, since ages change and messages may be lost; in lock step
/// once for each step, when all its events are included.
#[derive(Debug)]
pub(crate) struct Publisher {
    every: Span,
    repeat: Span,
    changed: bool,
    /// The lock-step step that was last published, and of which recording.
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

    /// The pool may have changed.
    pub(crate) fn note_change(&mut self) {
        self.changed = true;
    }

    pub(crate) fn decide(&self, moment: Moment<'_>) -> Decision {
        let stale = moment.since_last >= self.repeat;
        let clock = moment.clock;
        if clock.pace == Pace::LockStep {
            let due = clock.complete && moment.seq >= clock.events_upto;
            let said = self.step.as_ref().is_some_and(|(recording, step)| {
                *recording == clock.recording && *step == clock.step
            });
            return if due && (!said || stale) {
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

    /// It has been published.
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
    fn changes_are_coalesced_and_repeated_without_any() {
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
    fn a_step_is_published_once_its_events_are_in_even_if_there_are_none() {
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
        // Nobody may have heard it.
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
