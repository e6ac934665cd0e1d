//! The loop of a replay: time advances, nodes leave and come, trainers end and begin, the
//! planner decides, and every cost is charged.

use lacuna_forecast::{Anomalies, Fits};
use lacuna_model::{NodeChoice, Span, Timestamp, TrainerSpec};
use lacuna_planner::Candidate;
use lacuna_planner::objective::{Objective, Service};
use lacuna_rates::Rates;
use lacuna_trainer::Queue;

use super::decide::Decisions;
use super::kinds::Kinds;
use super::launcher::Launcher;
use super::member::{Member, spec_of};
use super::observer::Observer;
use super::pool::Pool;
use super::recorder::Recorder;
use super::series::StepSums;
use super::sites::Sites;
use super::tally::{Days, Interval, Offer, Tally};
use crate::{
    Apart, History, OracleWalk, OrderFound, PoolSteps, PoolTrace, Settings, SimError, TrainerEnd,
};

/// An end less than this after an event counts as an end at the event, seconds.
pub(super) const END_TOLERANCE_S: f64 = 1e-6;

/// Most events between two steps of the trace and within one second of an endless list.
const MOST_EVENTS: u64 = 100_000;

/// A replay under way.
pub(crate) struct World<'a> {
    pub(super) trace: &'a dyn PoolTrace,
    pub(super) trainers: &'a [TrainerSpec],
    pub(super) kinds: &'a Kinds,
    pub(super) settings: &'a Settings,
    /// Submitted trainers. A life is one passage of a trainer through the queue; an endless list
    /// goes on counting lives when it begins again.
    pub(super) queue: Queue<&'a str, u32>,
    /// Number of lives submitted.
    pub(super) lives: u32,
    /// Number of lives admitted.
    pub(super) admitted: u32,
    pub(super) active: Vec<Member>,
    pub(super) pool: Pool,
    /// The trainers of the newest decision, with their room.
    pub(super) candidates: Vec<Candidate>,
    /// For each slot of the pool, the place of its hole in the newest forecast.
    pub(super) holes: Vec<u32>,
    /// Forecasts, if the policy uses them.
    pub(super) observer: Option<Observer<'a>>,
    /// Where the nodes are, if distance matters.
    pub(super) sites: Option<Sites>,
    /// The rule that launches trainers in place of the decider, if there is one.
    launcher: Option<Launcher>,
    pub(super) service: Service,
    pub(crate) tally: Tally,
    /// Samples at each milestone so far.
    pub(crate) milestones: Vec<f64>,
    pub(super) days: Days,
    pub(super) recorder: Option<Recorder>,
    /// Start of the present second, and events in it so far.
    second: (f64, u64),
}

impl<'a> World<'a> {
    /// `remembers` says whether a history is kept, `fits` where an observer's models are fitted.
    pub(crate) fn new(
        trace: &'a dyn PoolTrace,
        trainers: &'a [TrainerSpec],
        kinds: &'a Kinds,
        settings: &'a Settings,
        remembers: bool,
        fits: Fits,
    ) -> Result<Self, SimError> {
        let forecasts = settings.policy.forecasts();
        let observer = forecasts.then(|| Observer::new(trace, settings, fits));
        let observer = observer.transpose()?;
        Ok(Self {
            trace,
            trainers,
            kinds,
            settings,
            queue: Queue::default(),
            lives: 0,
            admitted: 0,
            active: Vec::new(),
            pool: match settings.node_choice {
                // A random choice needs no order.
                NodeChoice::Random => Pool::new(trace.nodes()),
                NodeChoice::Together => Pool::by_name(trace),
            },
            candidates: Vec::new(),
            holes: Vec::new(),
            sites: Sites::new(trace, settings),
            launcher: None,
            service: Service::default(),
            tally: Tally::default(),
            milestones: Vec::new(),
            days: Days::new(remembers),
            recorder: remembers.then(|| Recorder::new(settings.gantt)),
            observer,
            second: (0.0, 0),
        })
    }

    /// Lets a rule, if there is one, launch trainers in place of the decider.
    pub(crate) fn with_launcher(mut self, launcher: Option<Launcher>) -> Self {
        self.launcher = launcher;
        self
    }

    /// Runs to the end of the trace or, if the list of trainers has an end, to its end.
    /// Calls `watch` after every event.
    pub(crate) fn run(
        &mut self,
        decisions: &mut Decisions<'_, '_>,
        watch: &mut dyn FnMut(&Tally),
    ) -> Result<(), SimError> {
        let length = self.trace.length_s();
        let lookahead = match self.observer {
            Some(_) => self.settings.lookahead.bound(),
            None => Some(0.0),
        };
        let mut walk = OracleWalk::new(self.trace, lookahead)?;
        self.submit(|spec| spec.submit);
        while !self.until_step(&mut walk, length, decisions, watch)? {}
        if !self.is_over() {
            self.show_begin(length);
            self.advance(length);
            self.dismiss();
        }
        Ok(())
    }

    /// The history, if one is kept.
    pub(crate) fn take_history(&mut self) -> Option<History> {
        let days = self.days.take();
        let recorder = self.recorder.take()?;
        Some(recorder.finish(self.tally.now_s, days, self.trace))
    }

    /// Whether the scheduler takes nodes in an order; nothing if the policy does not forecast.
    pub(crate) fn order(&self) -> Option<OrderFound> {
        self.observer.as_ref()?.order()
    }

    /// Impossible changes of the trace; nothing if the policy does not forecast.
    pub(crate) fn anomalies(&self) -> Option<Anomalies> {
        self.observer.as_ref().map(Observer::anomalies)
    }

    /// Processes all events up to and including the next step of the trace, or up to the end if
    /// there is no step. True if the replay is over.
    fn until_step(
        &mut self,
        walk: &mut OracleWalk<'_>,
        length: f64,
        decisions: &mut Decisions<'_, '_>,
        watch: &mut dyn FnMut(&Tally),
    ) -> Result<bool, SimError> {
        let step_s = walk.next_at_s()?;
        loop {
            let own_s = self.next_end_s().min(self.next_stage_s());
            let own_s = match self.launcher {
                Some(_) => own_s.min(self.next_restart_s()),
                None => own_s,
            };
            let now = step_s.min(self.next_arrival_s()).min(own_s);
            // An event at the end of the trace has no effect.
            if now >= length {
                return Ok(true);
            }
            self.show_begin(now);
            self.advance(now);
            self.pass_stages();
            let stepped = step_s <= now;
            if !stepped {
                walk.advance(now)?;
            } else if let Some(step) = walk.next()? {
                if let Some(observer) = &mut self.observer {
                    observer.step(&step);
                }
                for &node in step.closed {
                    self.lose(node);
                }
                self.measure();
                for &(node, since_ms) in step.opened {
                    self.pool.open(node, since_ms);
                }
            }
            match self.launcher {
                Some(launcher) => self.interrupt(launcher),
                None => self.charge_preemptions(),
            }
            self.dismiss();
            if self.is_over() {
                return Ok(true);
            }
            self.admit();
            match self.launcher {
                Some(launcher) => self.launch(launcher),
                None => self.replan(decisions, walk.ends())?,
            }
            self.look();
            self.tally.events += 1;
            self.remember();
            watch(&self.tally);
            if stepped {
                return Ok(false);
            }
            self.goes_on()?;
        }
    }

    /// Counts the ends and arrivals of a second. An endless list of trainers that end at once
    /// would stop time.
    fn goes_on(&mut self) -> Result<(), SimError> {
        let now_s = self.tally.now_s;
        if now_s >= self.second.0 + 1.0 {
            self.second = (now_s, 0);
        }
        self.second.1 += 1;
        if self.settings.endless && self.second.1 > MOST_EVENTS {
            return Err(SimError::Standstill {
                events: self.second.1,
                at_s: now_s,
            });
        }
        Ok(())
    }

    /// Whether every trainer of the list is done.
    fn is_over(&self) -> bool {
        let more = self.settings.endless && !self.trainers.is_empty();
        self.active.is_empty() && self.queue.is_empty() && !more
    }

    /// The present moment.
    pub(super) fn now(&self) -> Timestamp {
        self.trace.start() + Span::from_secs_f64(self.tally.now_s)
    }

    /// The next arrival of a trainer with a possible place, not before now, seconds.
    fn next_arrival_s(&self) -> f64 {
        let (now_s, places) = (self.tally.now_s, self.places());
        if self.waits(&places) {
            return now_s;
        }
        let next = self.queue.next_submission(|owner| places.free_for(owner));
        next.map_or(f64::INFINITY, |at| {
            at.since(self.trace.start()).as_secs_f64().max(now_s)
        })
    }

    /// The next end of a trainer, if ends are events, seconds.
    fn next_end_s(&self) -> f64 {
        if self.settings.trainer_end == TrainerEnd::NextEvent {
            return f64::INFINITY;
        }
        let left = |m: &Member| m.ledger.time_to(m.work, m.rate);
        let soonest = self.active.iter().map(left).fold(f64::INFINITY, f64::min);
        self.tally.now_s + soonest
    }

    /// Lets every trainer train until `now`, and notes the samples at each milestone.
    fn advance(&mut self, now: f64) {
        let milestones = &self.settings.milestones;
        while let Some(&at_s) = milestones.get(self.milestones.len())
            && at_s <= now
        {
            self.train(at_s);
            self.milestones.push(self.tally.samples);
        }
        self.train(now);
    }

    /// Lets every trainer train until `now`.
    fn train(&mut self, now: f64) {
        let before = self.tally.now_s;
        let dt = (now - before).max(0.0);
        let pool = f64::from(self.pool.len());
        let endless = self.settings.endless;
        let serves = self.settings.objective == Objective::LeastAttained;
        let by_kind = self.kinds.nodes().is_some();
        let mut interval = Interval::default();
        let mut last_end = None::<f64>;
        let mut held = 0.0;
        let every_s = self.settings.beside.checkpoint_every.as_secs_f64();
        let at = self.trace.start() + Span::from_secs_f64(now);
        for member in &mut self.active {
            let nodes = f64::from(member.nodes);
            held += nodes;
            if !endless && member.ended_s.is_some() {
                interval.offer.idling += dt * member.rate;
                continue;
            }
            if self.launcher.is_some() {
                let (ledger, rate) = (member.ledger, member.rate);
                member.saves.pass((before, dt), &ledger, rate, every_s);
            }
            let end = member.ledger.time_to(member.work, member.rate);
            let done = member.ledger.done();
            let would = member.ledger.advance(dt, member.rate);
            let mut trained = dt;
            // An end that is an event must count here, however its time was rounded.
            if end <= dt + END_TOLERANCE_S && member.ended_s.is_none() {
                let end = end.min(dt);
                member.ended_s = Some(before + end);
                last_end = Some(last_end.map_or(end, |last| last.max(end)));
                if !endless {
                    // Samples after the end do not count.
                    member.ledger.finish(member.work);
                    trained = end;
                }
            }
            let gained = member.ledger.done() - done;
            interval.used += trained * nodes;
            for (of, nodes) in self
                .tally
                .of_kinds
                .iter_mut()
                .zip(member.mix.iter().filter(|_| by_kind))
            {
                of.used += trained * f64::from(*nodes);
            }
            if let Some(sites) = &mut self.sites {
                sites.trained(member.tier, nodes, trained);
            }
            interval.samples += gained;
            if !endless {
                interval.offer.idling += would - gained;
            }
            if let Some(spec) = serves
                .then(|| spec_of(self.trainers, member.life))
                .flatten()
            {
                self.service
                    .add(member.owner, Rates::from(spec).service_s(gained), at);
            }
        }
        if let Some(sites) = &mut self.sites {
            sites.passed(self.pool.len(), dt, interval.samples);
        }
        interval.offer.node_s = dt * pool;
        if self.kinds.nodes().is_some() {
            for node in self.pool.nodes() {
                if let Some(of) = self.tally.of_kind(self.trace.kind(*node)) {
                    of.node_s += dt;
                }
            }
        }
        interval.offer.waiting_node_s = dt * (pool - held);
        let tally = &mut self.tally;
        if let Some(end) = last_end {
            tally.last_end_s = tally.last_end_s.max(before + end);
            // Nodes of trainers that ended before the last one idle until its end.
            let idled = self.active.iter().filter_map(|member| {
                let ended = member.ended_s? - before;
                Some((end - ended).max(0.0) * member.rate)
            });
            tally.offer_at_last_end = tally.offer.plus(Offer {
                node_s: end * pool,
                waiting_node_s: end * (pool - held),
                idling: if endless { 0.0 } else { idled.sum() },
            });
        }
        tally.offer = tally.offer.plus(interval.offer);
        tally.used += interval.used;
        tally.samples += interval.samples;
        tally.now_s = now;
        self.days.add(before, now, &interval);
    }

    /// What distance did, where it matters.
    pub(crate) fn apart(&self) -> Option<Apart> {
        self.sites.as_ref().map(Sites::figures)
    }

    /// Measures how far apart the nodes of each trainer are. Uplinks count as they were until a
    /// decision: control looks at them when it follows a plan.
    pub(super) fn measure(&mut self) {
        let Some(sites) = &self.sites else { return };
        let tiers = sites.tiers(self.pool.nodes(), self.pool.slots(), self.active.len());
        for (member, (tier, _)) in self.active.iter_mut().zip(tiers) {
            member.set_tier(tier, member.crowd);
        }
    }

    /// Takes in the pool after an event.
    fn look(&mut self) {
        if let Some(sites) = &mut self.sites {
            let tiers: Vec<usize> = self.active.iter().map(|member| member.tier).collect();
            sites.look(self.pool.nodes(), self.pool.slots(), &tiers);
        }
    }

    /// Records the state at the start of the node window, if it began since the last event.
    fn show_begin(&mut self, now: f64) {
        let watcher = self.recorder.as_mut().and_then(|r| r.gantt.as_mut());
        if let Some(watcher) = watcher.filter(|watcher| watcher.begins_before(now)) {
            let active = &self.active;
            let admitted = |owner: u32| active.get(owner as usize).map(|member| member.admitted);
            watcher.record(0.0, self.pool.nodes(), self.pool.slots(), admitted);
        }
    }

    fn remember(&mut self) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        let at_s = self.tally.now_s;
        let used = self.active.iter().map(|member| member.nodes).sum();
        let mut steps = StepSums::default();
        for member in self.active.iter().filter(|member| member.nodes > 0) {
            let spec = spec_of(self.trainers, member.life);
            let staged = spec.and_then(|spec| self.settings.stages.get(&spec.id));
            if let Some(known) = staged.and_then(|staged| staged.steps(member.stage)) {
                steps.trainer(member.nodes, &known.at(member.nodes));
            }
        }
        recorder.point(at_s, (self.pool.len(), used), self.tally.samples, steps);
        for member in &self.active {
            recorder.size(member.admitted, at_s, member.nodes, member.ledger.done());
        }
        let watcher = recorder.gantt.as_mut();
        if let Some(watcher) = watcher.filter(|watcher| watcher.wants(at_s)) {
            let active = &self.active;
            let admitted = |owner: u32| active.get(owner as usize).map(|member| member.admitted);
            watcher.record(at_s, self.pool.nodes(), self.pool.slots(), admitted);
        }
    }
}
