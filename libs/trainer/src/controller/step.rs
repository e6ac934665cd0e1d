//! One step: the input goes to its procedure, then all effects are collected.

use crate::Now;
use crate::controller::out::Out;
use crate::controller::{Controller, Effect, Input};

impl Controller {
    /// Takes one input at `now`. Returns the effects in the order in which they must be applied:
    /// the view published, leases written, records and members kept, commands sent, then the rest.
    #[must_use = "effects must be carried out"]
    pub fn step(&mut self, input: Input, now: Now) -> Vec<Effect> {
        if let Some(jump) = self.usage.find_jump(now, self.lock_step.is_wall()) {
            self.trainers.skip(jump);
        }
        let (all, of_kinds) = (self.nodes.count(), self.nodes.count_of_kinds());
        let now = Now {
            cluster: self.usage.advance(now, all, of_kinds),
            ..now
        };
        let mut out = Out::default();
        if !matches!(input, Input::Pool { .. } | Input::LeasesWritten(_)) {
            self.settle_losses(now, &mut out);
        }
        // A status changes nothing on which limits depend, and there are many. The timer looks
        // again at which owners have trainers.
        let limits = !matches!(input, Input::Agents(_) | Input::Progress(_));
        self.route(input, now, &mut out);
        if limits {
            self.review_closed(now, &mut out);
            self.withhold(now, &mut out);
        }
        self.admit(now, &mut out);
        self.keep_quotas(now, &mut out);
        self.keep_loaders(now, &mut out);
        self.try_plan(now, &mut out);
        self.gather(out, now)
    }

    fn route(&mut self, input: Input, now: Now, out: &mut Out) {
        match input {
            Input::Submit {
                trainers,
                tickets,
                user,
                test_only,
            } => self.submit((trainers, tickets), &user, test_only, now, out),
            Input::NoPilots {
                trainer,
                reason,
                again_in,
            } => self.no_pilots(&trainer, reason, again_in, now, out),
            Input::Renew { trainer, ticket } => self.renew(&trainer, ticket, now, out),
            Input::Controls(wanted) => self.withholding.want(wanted, &mut self.nodes),
            Input::Reopen(nodes) => self.reopen(&nodes, now, out),
            Input::Cancel(trainer) => self.cancel(&trainer, now, out),
            Input::Pool {
                seq,
                at,
                opened,
                closed,
            } => self.pool_changed(seq, at, opened, closed, now, out),
            Input::Drained => {}
            Input::Snapshot { seq, at, idle } => self.snapshot(seq, at, idle, now, out),
            Input::Plan {
                plan,
                trainers_version,
                runs,
            } => self.offer_plan(plan, trainers_version, runs, out),
            Input::Agents(statuses) => {
                for status in statuses {
                    self.heard(&status, now, out);
                }
            }
            Input::Progress(progress) => self.reported(&progress, now, out),
            Input::LeasesWritten(results) => self.leases_written(&results, now, out),
            Input::Topology(topology) => self.topology = topology,
            Input::Kinds(kinds) => self.take_kinds(kinds, now, out),
            Input::Clock(tick) => self.lock_step.ticked(tick),
            Input::Timer => self.timer(now, out),
            Input::Connected => self.reconnected(now, out),
            Input::Disconnected => self.connected = false,
        }
    }

    /// The effects of a step or of a start.
    pub(super) fn gather(&mut self, out: Out, now: Now) -> Vec<Effect> {
        let settled = self.settle(!out.has_writes());
        // In lock step the plan of a moment is made from the figures of that moment.
        if matches!(settled, Some(Effect::Settled { complete, .. }) if !complete) {
            self.publication.count_figures();
        }
        let mut effects = Vec::new();
        if self.publication.by_step(now) {
            effects.push(Effect::PublishTrainers(self.trainers_view(now)));
        }
        effects.extend(out.into_effects(&mut self.trainers));
        effects.extend(settled);
        effects
    }
}
