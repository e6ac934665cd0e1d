//! What became of a submission, and how a pilot ended.

use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_scheduler::job::{End, JobId};

use super::place::Phase;
use super::{Cause, Effect, Keeper, Note, Refusal, Ticket};

impl Keeper {
    /// The answer to a submission.
    pub(super) fn submitted(
        &mut self,
        ticket: Ticket,
        outcome: Result<JobId, Refusal>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let found = self.places.iter_mut().find(|(_, place)| {
            let pilot = place.pilot.as_ref();
            pilot.is_some_and(|p| p.ticket == ticket && p.phase == Phase::Submitting)
        });
        let Some((node, place)) = found else { return };
        let node = node.clone();
        let Some(pilot) = &mut place.pilot else {
            return;
        };
        match outcome {
            Ok(job) => {
                pilot.job = Some(job);
                pilot.phase = if pilot.spoke {
                    pilot.running_since = Some(now);
                    Phase::Running
                } else {
                    Phase::Pending
                };
                pilot.known_at = now;
                self.refused = 0;
            }
            Err(refusal) => {
                if refusal.cause.unsure() {
                    pilot.phase = Phase::Unsure;
                    pilot.known_at = now;
                } else {
                    place.pilot = None;
                }
                let again_in = match refusal.cause {
                    Cause::Node => {
                        // The scheduler answers, so the next node may be tried.
                        self.refused = 0;
                        self.fail(&node, now, "refused", out)
                    }
                    Cause::Unclear => {
                        // Whether it is the node nobody knows: the next try is another's, so
                        // that one bad node stops nothing.
                        self.fail(&node, now, "refused", out);
                        self.pause(now)
                    }
                    _ => self.pause(now),
                };
                out.push(Effect::Note(Note::Refused {
                    node,
                    refusal,
                    again_in,
                }));
            }
        }
    }

    /// Nothing at all is submitted for a while: the reason is no single node's.
    fn pause(&mut self, now: Timestamp) -> Span {
        // Answers of submissions made before the pause say nothing new.
        if self.paused_until > now {
            return self.paused_until.since(now);
        }
        let wait = doubled(
            self.settings.pace.backoff,
            self.refused,
            self.settings.pace.backoff_max,
        );
        self.refused = self.refused.saturating_add(1);
        self.paused_until = now + wait;
        wait
    }

    /// Counts a failure against a node; gives how long it is left alone.
    pub(super) fn fail(
        &mut self,
        node: &NodeId,
        now: Timestamp,
        cause: &'static str,
        out: &mut Vec<Effect>,
    ) -> Span {
        let settings = &self.settings;
        let Some(place) = self.places.get_mut(node) else {
            return Span::ZERO;
        };
        place.failures = place.failures.saturating_add(1);
        place.quarantined = place.failures >= settings.pace.quarantine_after;
        let again_in = if place.quarantined {
            settings.pace.quarantine
        } else {
            doubled(
                settings.pace.backoff,
                place.failures - 1,
                settings.pace.backoff_max,
            )
        };
        place.not_before = now + again_in;
        out.push(Effect::Note(Note::Failed {
            node: node.clone(),
            failures: place.failures,
            cause,
            again_in,
            quarantined: place.quarantined,
        }));
        again_in
    }

    /// A pilot is over; `end` is nothing if the scheduler no longer knows it.
    pub(super) fn over(
        &mut self,
        node: &NodeId,
        end: Option<End>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some(place) = self.places.get_mut(node) else {
            return;
        };
        let Some(pilot) = place.pilot.take() else {
            return;
        };
        // What its agent said before it ended says nothing of the node now.
        place.agent = place.agent.filter(|_| end.is_none());
        place.rest_until = now + self.settings.pace.rest;
        let by_us = pilot
            .job
            .as_ref()
            .is_some_and(|job| self.cancelled.remove(job).is_some());
        let lived = now.since(pilot.running_since.unwrap_or(pilot.began));
        let young = lived < self.settings.young || !pilot.spoke;
        out.push(Effect::Note(Note::Ended {
            node: node.clone(),
            job: pilot.job.clone(),
            end,
        }));
        if by_us || pilot.left.is_some() || pilot.counted {
            return;
        }
        match end {
            Some(End::NodeFailed) => {
                self.fail(node, now, "node failed", out);
            }
            Some(End::Failed | End::Completed) if young => {
                self.fail(node, now, "died young", out);
            }
            Some(End::Failed) => {
                self.fail(node, now, "failed", out);
            }
            // An operator who cancels a pilot does not want another at once.
            Some(End::Cancelled) => place.not_before = now + self.settings.pace.backoff_max,
            // Nobody knows how it ended, and nobody was ever there: perhaps it cannot start.
            None if !pilot.spoke => {
                let (first, longest) = (self.settings.pace.backoff, self.settings.pace.backoff_max);
                place.not_before = now + doubled(first, place.waits, longest);
                place.waits = place.waits.saturating_add(1);
            }
            Some(End::Completed | End::Preempted | End::TimeLimit) | None => {}
        }
    }
}

/// A wait, doubled so often, but no longer than the longest.
pub(super) fn doubled(first: Span, times: u32, longest: Span) -> Span {
    let factor = 1_i64.checked_shl(times.min(30)).unwrap_or(i64::MAX);
    Span::from_ms(first.as_ms().saturating_mul(factor)).min(longest.max(first))
}
