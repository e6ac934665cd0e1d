//! Outcomes of submissions, and ends of pilots.

use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_scheduler::job::{End, JobId};

use super::node::{Over, Phase};
use super::{Cause, Effect, Keeper, Note, Refusal, Ticket};

impl Keeper {
    /// Takes the outcome of a submission.
    pub(super) fn submitted(
        &mut self,
        ticket: Ticket,
        outcome: Result<JobId, Refusal>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let found = self.nodes.iter_mut().find(|(_, record)| {
            let pilot = record.pilot.as_ref();
            pilot.is_some_and(|p| p.ticket == ticket && p.phase == Phase::Submitting)
        });
        let Some((node, record)) = found else { return };
        let node = node.clone();
        let Some(pilot) = &mut record.pilot else {
            return;
        };
        let trainer = pilot.serves.clone();
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
                self.let_go(trainer.as_ref());
            }
            Err(refusal) => {
                if refusal.cause.unsure() {
                    pilot.phase = Phase::Unsure;
                    pilot.known_at = now;
                } else {
                    record.pilot = None;
                }
                let again_in = match (refusal.cause, &trainer) {
                    (Cause::Owner, Some(trainer)) => {
                        // The scheduler answers, so other trainers may be tried.
                        self.refused = 0;
                        self.hold_back(trainer, now)
                    }
                    (Cause::Node, _) => {
                        // The scheduler answers, so the next node may be tried.
                        self.refused = 0;
                        self.fail(&node, now, "refused", out)
                    }
                    (Cause::Unclear, _) => {
                        // The node may be the cause. The next attempt uses another node, so that
                        // one bad node does not stop all submissions.
                        self.fail(&node, now, "refused", out);
                        self.pause(now)
                    }
                    _ => self.pause(now),
                };
                out.push(Effect::Note(Note::Refused {
                    node,
                    trainer,
                    refusal,
                    again_in,
                }));
            }
        }
    }

    /// Pauses all submissions, since the cause is not a single node.
    fn pause(&mut self, now: Timestamp) -> Span {
        // Submissions made before the pause add no information.
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

    /// Counts a failure of a node. Returns how long the node gets no pilot.
    pub(super) fn fail(
        &mut self,
        node: &NodeId,
        now: Timestamp,
        cause: &'static str,
        out: &mut Vec<Effect>,
    ) -> Span {
        let settings = &self.settings;
        let Some(record) = self.nodes.get_mut(node) else {
            return Span::ZERO;
        };
        record.failures = record.failures.saturating_add(1);
        record.quarantined = record.failures >= settings.pace.quarantine_after;
        let again_in = if record.quarantined {
            settings.pace.quarantine
        } else {
            doubled(
                settings.pace.backoff,
                record.failures - 1,
                settings.pace.backoff_max,
            )
        };
        record.not_before = now + again_in;
        out.push(Effect::Note(Note::Failed {
            node: node.clone(),
            failures: record.failures,
            cause,
            again_in,
            quarantined: record.quarantined,
        }));
        again_in
    }

    /// A pilot is over. `end` is `None` if the scheduler no longer knows the pilot.
    pub(super) fn over(
        &mut self,
        node: &NodeId,
        end: Option<End>,
        now: Timestamp,
        out: &mut Vec<Effect>,
    ) {
        let Some(record) = self.nodes.get_mut(node) else {
            return;
        };
        let Some(pilot) = record.pilot.take() else {
            return;
        };
        // Reports of its agent before the end do not count for the node now.
        record.agent = record.agent.filter(|_| end.is_none());
        let job = pilot.job.clone().filter(|_| pilot.left.is_none());
        record.over = job.map(|job| Over { job, at: now });
        let by_us = pilot
            .job
            .as_ref()
            .is_some_and(|job| self.cancelled.remove(job).is_some());
        // The scheduler has not taken the node, if it was cancelled for the next trainer's pilot.
        let cancelled = by_us && matches!(end, Some(End::Cancelled) | None);
        let handed_on = cancelled && record.given != pilot.serves;
        if !(handed_on && self.settings.of_trainers) {
            record.rest_until = now + self.settings.pace.rest;
        }
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
            // After an operator's cancellation, no pilot is submitted at once.
            Some(End::Cancelled) => record.not_before = now + self.settings.pace.backoff_max,
            // The outcome is unknown and no agent reported: pilots may be unable to start here.
            None if !pilot.spoke => {
                let (first, longest) = (self.settings.pace.backoff, self.settings.pace.backoff_max);
                record.not_before = now + doubled(first, record.waits, longest);
                record.waits = record.waits.saturating_add(1);
            }
            Some(End::Completed | End::Preempted | End::TimeLimit) | None => {}
        }
    }
}

/// The wait `first`, doubled `times` times, at most `longest`.
pub(super) fn doubled(first: Span, times: u32, longest: Span) -> Span {
    let factor = 1_i64.checked_shl(times.min(30)).unwrap_or(i64::MAX);
    Span::from_ms(first.as_ms().saturating_mul(factor)).min(longest.max(first))
}
