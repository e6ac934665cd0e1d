//! One step: the input goes to its part of the books, then what it led to is gathered.

use lacuna_model::{Members, Span, Timestamp, TrainerId};

use crate::Now;
use crate::book::state::Out;
use crate::book::{Book, Effect, Input};

impl Book {
    /// Takes one input at `now`, and answers with what is to be done, in this order: the
    /// planner hears, leases are written, records kept, members said, commands sent, then the
    /// rest.
    #[must_use = "effects must be carried out"]
    pub fn step(&mut self, input: Input, now: Now) -> Vec<Effect> {
        let now = self.advance(now);
        let mut out = Out::default();
        if !matches!(input, Input::Pool { .. } | Input::LeasesWritten(_)) {
            self.settle_losses(now, &mut out);
        }
        // A status changes nothing that limits on the use of nodes depend on, and there are many. Who
        // has trainers is looked at again by the timer.
        let look = !matches!(input, Input::Agents(_) | Input::Progress(_));
        match input {
            Input::Submit {
                trainers,
                user,
                test_only,
            } => self.submit(trainers, &user, test_only, now, &mut out),
            Input::Controls(wanted) => self.controls(wanted),
            Input::Cancel(trainer) => self.cancel(&trainer, now, &mut out),
            Input::Pool {
                seq,
                at,
                opened,
                closed,
            } => self.pool_changed(seq, at, opened, closed, now, &mut out),
            Input::Drained => {}
            Input::Snapshot { seq, at, idle } => self.snapshot(seq, at, idle, now, &mut out),
            Input::Plan {
                plan,
                trainers_version,
                runs,
            } => self.planned(plan, trainers_version, runs, &mut out),
            Input::Agents(said) => {
                for status in said {
                    self.heard(status, now, &mut out);
                }
            }
            Input::Progress(progress) => self.reported(&progress, now, &mut out),
            Input::LeasesWritten(results) => self.leases_written(results, now, &mut out),
            Input::Clock(tick) => self.ticked(tick),
            Input::Timer => self.timer(now, &mut out),
            Input::Connected => self.connected_again(now, &mut out),
            Input::Disconnected => self.connected = false,
        }
        if look {
            self.look_at_closed(now, &mut out);
            self.withhold(now, &mut out);
        }
        self.admit(now, &mut out);
        self.keep_quotas(now, &mut out);
        self.try_plan(now, &mut out);
        self.gather(out, now)
    }

    /// Keeps sums up to `now`. The cluster's time never goes back here.
    fn advance(&mut self, now: Now) -> Now {
        let sums = &mut self.sums;
        // A small step back is a matter of clocks; a large one is another recording.
        let back = Span::from_secs(3600);
        if sums.upto.is_some_and(|upto| now.cluster + back < upto) {
            sums.upto = Some(now.cluster);
        }
        let cluster = sums.upto.map_or(now.cluster, |upto| upto.max(now.cluster));
        if let Some(upto) = sums.upto {
            let seconds = cluster.since(upto).as_secs_f64();
            sums.idle_node_s += f64::from(self.pool_nodes) * seconds;
            sums.harvested_node_s += f64::from(self.leased_nodes) * seconds;
        }
        // Before anything is known of the cluster its time is not known either.
        if cluster > Timestamp::default() {
            sums.upto = Some(cluster);
        }
        Now { cluster, ..now }
    }

    pub(crate) fn gather(&mut self, mut out: Out, now: Now) -> Vec<Effect> {
        let mut effects = Vec::new();
        let settled = self.settle(out.writes.is_empty());
        // In lock step the plan of a moment is made from the figures of that moment.
        let reported = matches!(settled, Some(Effect::Settled { complete, .. }) if !complete);
        self.changed |= self.figures && reported;
        if self.changed {
            self.changed = false;
            self.figures = false;
            self.told = now.wall;
            self.version += 1;
            effects.push(Effect::PublishTrainers(self.trainers_view(now)));
        }
        if !out.writes.is_empty() {
            effects.push(Effect::WriteLeases(std::mem::take(&mut out.writes)));
        }
        let records: Vec<Effect> = out.records.iter().filter_map(|id| self.kept(id)).collect();
        effects.extend(records);
        effects.extend(out.members.iter().filter_map(|id| self.said(id)));
        effects.extend(out.sends.into_iter().map(Effect::Send));
        effects.extend(out.rest);
        effects.extend(settled);
        effects
    }

    /// Who trains in a trainer's run.
    fn said(&self, id: &TrainerId) -> Option<Effect> {
        let record = &self.trainers.get(id)?.record;
        Some(Effect::Say(Members {
            trainer: id.clone(),
            run: record.run,
            nodes: record.nodes.clone(),
        }))
    }

    fn kept(&mut self, id: &TrainerId) -> Option<Effect> {
        let trainer = self.trainers.get_mut(id)?;
        trainer.dirty = false;
        Some(Effect::PutTrainer(Box::new(trainer.record.clone())))
    }
}
