//! Decisions at each tick of the timer: lists, cancellations, submissions.

use std::collections::BTreeMap;

use lacuna_model::{KindName, NodeId, Span, Timestamp};
use lacuna_scheduler::job::JobStage;

use super::listing::Cancel;
use super::node::{NodeRecord, Phase, Pilot};
use super::{Effect, FIRST_LISTS, Keeper, Mode, Ticket};

impl Keeper {
    /// Lists, cancellations, submissions, in this order.
    pub(super) fn decide(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        self.refill(now);
        self.ask_for_list(now, out);
        self.cancel_useless(now, out);
        if self.mode == Mode::On {
            self.submit(now, out);
        }
    }

    fn refill(&mut self, now: Timestamp) {
        let passed = now.since(self.tokens_at).as_ms().max(0);
        // Thousandths: a rate of one a second gives one a millisecond.
        let more = (passed as f64 * self.settings.pace.rate).floor();
        if more >= 1.0 {
            let full = i64::from(self.settings.pace.burst) * 1000;
            self.tokens = self.tokens.saturating_add(more as i64).min(full);
            self.tokens_at = now;
        }
    }

    /// Requests a list at a slow pace, and sooner while a list would settle an open question.
    fn ask_for_list(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let since = self.asked.map(|at| now.since(at));
        let age = |pilot: &Pilot| now.since(pilot.known_at.max(pilot.began));
        let needed = || {
            if self.lists < FIRST_LISTS {
                return true;
            }
            self.nodes.values().any(|record| match &record.pilot {
                None => false,
                Some(pilot) => match pilot.phase {
                    Phase::Submitting => false,
                    Phase::Unsure | Phase::Pending => {
                        age(pilot) >= self.settings.pace.pending_limit
                    }
                    Phase::Running => pilot.missed.is_some(),
                    // A node that the scheduler has taken is not needed.
                    Phase::Ending => record.hole.is_some(),
                },
            })
        };
        let due = match since {
            None => true,
            Some(since) if since >= self.settings.pace.list_every => true,
            Some(since) => !self.listing && since >= self.settings.pace.list_soon && needed(),
        };
        if due {
            self.asked = Some(now);
            self.listing = true;
            out.push(Effect::List);
        }
    }

    /// Nodes that trainers can use of each kind, less those that have what is asked; below 0 if those
    /// are more.
    fn left_of_kinds(&self, has: impl Fn(&NodeRecord) -> bool) -> BTreeMap<KindName, i64> {
        let demand = self.demand_of.iter();
        let mut left: BTreeMap<_, _> = demand
            .map(|(kind, nodes)| (kind.clone(), i64::from(*nodes)))
            .collect();
        for (node, _) in self.nodes.iter().filter(|(_, record)| has(record)) {
            if let Some(left) = self.kinds.of(node).and_then(|kind| left.get_mut(kind)) {
                *left -= 1;
            }
        }
        left
    }

    /// Cancels pilots that are useless or not wanted.
    fn cancel_useless(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        let settings = &self.settings;
        let fresh = self
            .pool_at
            .is_some_and(|at| now.since(at) <= settings.pool_stale);
        let with_pilots = self.nodes.values().filter(|p| p.pilot.is_some()).count();
        let most = self.limits.at_most.unwrap_or(u32::MAX);
        let mut spare = with_pilots.saturating_sub(self.demand.min(most) as usize);
        // Pilots of each kind beyond what trainers can use of it.
        let mut of_kinds = self.left_of_kinds(|record| record.pilot.is_some());
        let mut cancel = Cancel::default();
        let mut failed = Vec::new();
        for (node, record) in &mut self.nodes {
            let (hole, closed_at) = (record.hole, record.closed_at);
            let Some(pilot) = &mut record.pilot else {
                continue;
            };
            let Some(job) = pilot.job.clone() else {
                continue;
            };
            if self
                .cancelled
                .get(&job)
                .is_some_and(|asked| asked.recent(now))
            {
                continue;
            }
            // Without `on` no plan is followed, so a pilot that stays would hold its node for nothing.
            if self.mode != Mode::On {
                cancel.push(job, Some(node), self.mode.name());
                continue;
            }
            // Control takes the node from its trainer. The pilot is cancelled once the node is
            // free.
            let busy = record.agent.is_some_and(|agent| agent.free_since.is_none());
            let over = pilot.phase == Phase::Ending;
            if self.limits.withheld.contains(node) && !busy && !over {
                cancel.push(job, Some(node), "withheld");
                continue;
            }
            if settings.of_trainers
                && !busy
                && let Some(cause) =
                    Self::is_of_no_use(&self.trainers, record.given.as_ref(), pilot)
            {
                cancel.push(job, Some(node), cause);
                continue;
            }
            // The agent has left, but the pilot does not end.
            let stuck = pilot.listed == Some(JobStage::Running)
                && pilot
                    .left
                    .is_some_and(|at| now.since(at) >= settings.mute_after);
            if stuck {
                cancel.push(job, Some(node), "mute");
                continue;
            }
            if pilot.phase != Phase::Running {
                continue;
            }
            let out_for = closed_at.map(|at| now.since(at));
            let stray =
                hole.is_none() && out_for.is_some_and(|out| out >= settings.pace.stray_after);
            if stray && fresh {
                cancel.push(job, Some(node), "stray");
                continue;
            }
            if !self.linked {
                continue;
            }
            let heard = record.agent.map(|agent| agent.at);
            let since = heard.or(pilot.running_since).unwrap_or(pilot.began);
            let silence = now.since(since.max(self.linked_at));
            let limit = if heard.is_some() {
                settings.mute_after
            } else {
                settings.pace.start_limit
            };
            if silence >= limit {
                let cause = if heard.is_some() { "mute" } else { "no agent" };
                cancel.push(job, Some(node), cause);
                if !pilot.counted {
                    failed.push((node.clone(), cause));
                }
                pilot.counted = true;
                continue;
            }
            let free = record.agent.and_then(|agent| agent.free_since);
            if settings.of_trainers {
                let since = free.map(|at| at.max(record.unused_since));
                let unused = since.is_some_and(|at| now.since(at) >= settings.pace.idle_after);
                if unused && record.given.is_none() {
                    cancel.push(job, Some(node), "idle");
                }
                continue;
            }
            let idle = free.is_some_and(|at| now.since(at) >= settings.pace.idle_after);
            let left = self.kinds.of(node).and_then(|kind| of_kinds.get_mut(kind));
            let of_kind = left.filter(|left| **left < 0);
            if settings.pace.only_with_work && idle && (spare > 0 || of_kind.is_some()) {
                spare = spare.saturating_sub(1);
                if let Some(left) = of_kind {
                    *left += 1;
                }
                cancel.push(job, Some(node), "idle");
            }
        }
        self.cancel(cancel, now, out);
        for (node, cause) in failed {
            self.fail(&node, now, cause, out);
        }
    }

    /// Submits pilots for idle nodes, the longest holes first.
    fn submit(&mut self, now: Timestamp, out: &mut Vec<Effect>) {
        if self.blind(now) || self.paused_until > now || self.limits.no_growth {
            return;
        }
        let counts = self.counts(now);
        let waiting = counts.submitting + counts.pending;
        let mut room = self.settings.pace.max_pending.saturating_sub(waiting);
        if self.refused > 0 {
            // A single pilot probes whether the scheduler takes pilots again.
            room = u32::from(waiting == 0);
        }
        let pilots = waiting + counts.running + counts.ending;
        let most = self.limits.at_most.unwrap_or(u32::MAX);
        let most = most.min(self.settings.pace.most_pilots());
        room = room.min(most.saturating_sub(pilots));
        let mut of_kinds = BTreeMap::new();
        // A node that a trainer has is needed.
        if self.settings.pace.only_with_work && !self.settings.of_trainers {
            // An agent without a pilot, started by the site, also serves trainers.
            let nodes = self.nodes.values();
            let served = nodes.filter(|p| p.pilot.is_some() || self.agent_speaks(p, now));
            let served = u32::try_from(served.count()).unwrap_or(u32::MAX);
            room = room.min(self.demand.saturating_sub(served));
            of_kinds = self.left_of_kinds(|p| p.pilot.is_some() || self.agent_speaks(p, now));
        }
        room = room.min(u32::try_from(self.tokens / 1000).unwrap_or(0));
        if room == 0 {
            return;
        }
        let mut open: Vec<(Span, NodeId)> = self
            .nodes
            .iter()
            .filter(|(node, record)| {
                record.pilot.is_none()
                    && !self.limits.withheld.contains(*node)
                    && record.not_before <= now
                    && record.rest_until <= now
                    && !self.agent_speaks(record, now)
                    && self.may_have_pilot(record, now)
            })
            .filter_map(|(node, record)| Some((record.hole?, node.clone())))
            .collect();
        open.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        // Of each kind no more than trainers can use of it.
        let may_go = |(_, node): &(Span, NodeId)| {
            let left = self.kinds.of(node).and_then(|kind| of_kinds.get_mut(kind));
            left.is_none_or(|left| {
                *left -= 1;
                *left >= 0
            })
        };
        let open: Vec<_> = open
            .into_iter()
            .filter(may_go)
            .take(room as usize)
            .collect();
        for (limit, node) in open {
            let ticket = Ticket(self.next_ticket);
            self.next_ticket = self.next_ticket.saturating_add(1);
            self.tokens = self.tokens.saturating_sub(1000);
            let mut trainer = None;
            if let Some(record) = self.nodes.get_mut(&node) {
                trainer = record.given.clone().filter(|_| self.settings.of_trainers);
                record.pilot = Some(Pilot {
                    serves: trainer.clone(),
                    ..Pilot::new(ticket, now)
                });
            }
            out.push(Effect::Submit {
                ticket,
                node,
                limit,
                trainer,
            });
        }
    }
}
