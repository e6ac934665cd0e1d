//! The loop of control: messages, the timer and lease renewals.

mod requests;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use lacuna_model::{
    AgentStatus, Member, NodeEvent, NodeId, NodeKinds, Progress, Span, Timestamp, TrainerId,
};
use lacuna_runtime::clock::{Stopwatch, wall};
use lacuna_runtime::{
    Bus, Follow, NoArgs, Received, Requests, Running, ServiceError, Start, Subscription,
};
use lacuna_trainer::Now;
use lacuna_trainer::controller::{Controller, Effect, Input, Refusal, RefusalKind};
use lacuna_wire::address;
use lacuna_wire::msg::{LeaseRecord, PlanState, Renewal, TopologyState, Totals};
use tokio::sync::{mpsc, watch};

use crate::access::Access;
use crate::archive::Archive;
use crate::audit::{AuditMetrics, Trail};
use crate::controls::ControlsStore;
use crate::days::Days;
use crate::effects::EffectRunner;
use crate::executor::{ControlsRequest, Forgotten, Grants, NoPilots};
use crate::feed::{Feed, tick};
use crate::handover::Handovers;
use crate::metrics::Metrics;
use crate::places::Places;
use crate::rate::Rates;
use crate::sections::Context;
use crate::start::totals;
use crate::store::Store;
use crate::times::Arrivals;
use crate::{executor, settings, start, store};

/// The longest time between two inputs of the timer, whatever the configuration says.
const TIMER: Span = Span::from_ms(500);
/// Most attempts at lease writes in one turn of the loop, if another writer is faster each time.
const REWRITES: u32 = 8;
/// Most messages of one kind that are taken at once.
const BATCH: usize = 512;
/// Events that are read again at a start, to meet the snapshot.
const LOOK_BACK: u64 = 2000;

/// Runs control until its shutdown.
///
/// # Errors
/// If the bus is closed for good.
pub fn run(ctx: Context, _: NoArgs) -> Running {
    Box::pin(serve(ctx))
}

async fn serve(ctx: Context) -> Result<(), ServiceError> {
    // Counters of what was harvested go on where they were: at zero first, they would seem to have
    // risen by all of it once they are read again.
    let before = start::last_tally(&ctx).await?;
    let metrics = Metrics::after(&ctx.registry, &before)?;
    let (ctx, store) = store::start(ctx, metrics.store_refused.clone()).await?;
    // A user that sees the first state of the trainers may ask at once: control subscribes before.
    let agents = ctx.bus.subscribe(&address::agents(&ctx.cluster)).await?;
    let requests = ctx.bus.requests().await?;
    // The first commands may end incarnations. Their last reports come before those of the next.
    let progress = address::progress_all(&ctx.cluster);
    let progress = ctx.bus.follow(&progress, Start::LastOn).await?;
    // Before the leases are read: no write of another control is missed.
    let leases = address::leases_bucket(&ctx.cluster).all();
    let leases = ctx.bus.follow(&leases, Start::New).await?;
    // The controls come before any use of a node: some nodes are drained.
    let controls = ControlsStore::open(&ctx).await?;
    let proven = ctx.bus.proven();
    settings::check_owners(&ctx.config, proven)?;
    let access = Access::new(&ctx.config.control.access, proven);
    let trail = Trail::start(&ctx, AuditMetrics::declared(&ctx.registry)?, proven);
    let executor = executor::start(&ctx, (access.clone(), trail.clone())).await?;
    let ctx = executor.context(ctx);
    let effects = (metrics, store);
    let mut control = Control::start(ctx, effects, controls, access, trail).await?;
    control.observes = executor.observes;
    control.cancelled = Some(executor.cancelled);
    control.controls_requests = Some(executor.controls_requests);
    control.grants = executor.grants;
    control.no_pilots = Some(executor.no_pilots);
    control.forgotten = Some(executor.forgotten);
    control.event_loop(agents, requests, progress, leases).await
}

struct Control {
    ctx: Context,
    effects: EffectRunner,
    controller: Controller,
    archive: Archive,
    feed: Feed,
    arrivals: Arrivals,
    handovers: Handovers,
    places: Places,
    kinds: NodeKinds,
    controls: ControlsStore,
    access: Access,
    rates: Rates,
    trail: Trail,
    /// The newest write in the bucket of leases when they were read.
    newest_lease: u64,
    /// Whether an outage may have emptied the buckets.
    state_at_risk: bool,
    /// Nodes whose pilot the executor cancels.
    cancelled: Option<mpsc::UnboundedReceiver<NodeId>>,
    /// Controls that the executor's operators set, to be stored.
    controls_requests: Option<mpsc::UnboundedReceiver<ControlsRequest>>,
    /// The nodes and tickets of trainers, for the executor, where a helper submits pilots.
    grants: Option<watch::Sender<Grants>>,
    /// Trainers whose owners may have no pilots, as the executor finds.
    no_pilots: Option<mpsc::UnboundedReceiver<NoPilots>>,
    /// Pilots that the scheduler no longer knows, as the executor finds.
    forgotten: Option<watch::Receiver<Forgotten>>,
    /// Real time since the start.
    clock: RealTime,
    /// The correlation id of the newest event, for the timer's inputs. Ids of requests and of agents'
    /// statuses are their senders' own.
    newest: String,
    totals: Option<Totals>,
    days: Days,
    /// Whether plans are observed only: no agent will be started.
    observes: bool,
    /// The present leases, for their renewal.
    leases: watch::Sender<Vec<Member>>,
}

impl Control {
    async fn start(
        ctx: Context,
        (metrics, store): (Metrics, Option<Store>),
        controls: ControlsStore,
        access: Access,
        trail: Trail,
    ) -> Result<Self, ServiceError> {
        if let Some(clock) = ctx.bus.last(&address::clock(&ctx.cluster)).await? {
            ctx.clock.update(&clock.message);
        }
        let clock = RealTime::start();
        let now = moment(&ctx, &clock);
        let start::Recovered {
            controller,
            first,
            revisions,
            restored,
            newest_lease,
            room,
            archive,
        } = start::recover(&ctx, now).await?;
        let rates = Rates::new(ctx.config.control.access.rate);
        let days = Days::read(&ctx).await?;
        let mut control = Self {
            effects: EffectRunner::new(ctx.clone(), metrics, store, (revisions, restored), room),
            leases: watch::Sender::new(controller.leases()),
            ctx,
            controller,
            archive,
            newest_lease,
            state_at_risk: false,
            feed: Feed::new(),
            arrivals: Arrivals::default(),
            handovers: Handovers::default(),
            places: Places::default(),
            kinds: NodeKinds::default(),
            controls,
            rates,
            access,
            trail,
            cancelled: None,
            controls_requests: None,
            grants: None,
            no_pilots: None,
            forgotten: None,
            clock,
            newest: String::new(),
            totals: None,
            days,
            observes: false,
        };
        // Before the records: a start that ends here does not shorten their time again.
        control.save_totals().await?;
        control.apply(first, "").await?;
        control.apply_controls().await?;
        Ok(control)
    }

    fn now(&self) -> Now {
        moment(&self.ctx, &self.clock)
    }

    /// Feeds one input, then applies its effects until there are none left.
    async fn input(
        &mut self,
        input: Input,
        correlation: &str,
    ) -> Result<(u32, Option<Result<Vec<TrainerId>, Refusal>>), ServiceError> {
        let effects = self.controller.step(input, self.now());
        self.apply(effects, correlation).await
    }

    async fn apply(
        &mut self,
        mut effects: Vec<Effect>,
        correlation: &str,
    ) -> Result<(u32, Option<Result<Vec<TrainerId>, Refusal>>), ServiceError> {
        let (mut commands, mut reply) = (0, None);
        for round in 0.. {
            if effects.is_empty() {
                break;
            }
            let done = self.effects.apply(effects, correlation).await?;
            commands += done.commands;
            reply = reply.or(done.reply);
            if let Some((trainers, reason)) = done.untaken {
                reply = Some(Err(Refusal {
                    kind: RefusalKind::Room,
                    reason: format!("{reason}: nothing was submitted (`lacuna help L0025`)"),
                }));
                let now = self.now();
                trainers
                    .iter()
                    .for_each(|id| self.controller.withdraw(id, now));
            }
            effects = match done.leases {
                Some(mut results) => {
                    if round >= REWRITES {
                        // Left open: tried again at the next turn of the loop.
                        let lost = results.iter_mut().filter(|result| !result.written);
                        lost.for_each(|result| result.entry = None);
                    }
                    let next = self
                        .controller
                        .step(Input::LeasesWritten(results), self.now());
                    self.leases.send_replace(self.controller.leases());
                    self.tell_grants();
                    next
                }
                None => Vec::new(),
            };
        }
        Ok((commands, reply))
    }

    /// Tells the executor which trainer has each node, and what their owners have signed.
    fn tell_grants(&self) {
        let Some(grants) = &self.grants else {
            return;
        };
        let signed = self.controller.signed().filter_map(|record| {
            let ticket = record.ticket.clone()?;
            Some((record.spec.id.clone(), (ticket, record.phase.is_final())))
        });
        let new = Grants {
            nodes: self.controller.given(),
            tickets: signed.collect(),
        };
        grants.send_if_modified(|old| {
            let differs = *old != new;
            *old = new;
            differs
        });
    }

    async fn event_loop(
        mut self,
        mut agents: Subscription<AgentStatus>,
        mut requests: Requests,
        mut progress: Follow<Progress>,
        mut leases: Follow<LeaseRecord>,
    ) -> Result<(), ServiceError> {
        let (bus, cluster) = (self.ctx.bus.clone(), self.ctx.cluster.clone());
        let mut clocks = bus.follow(&address::clock(&cluster), Start::Last).await?;
        let mut events = bus
            .follow(&address::event(&cluster), Start::Newest(LOOK_BACK))
            .await?;
        let mut snapshots = bus
            .follow(&address::snapshot(&cluster), Start::Last)
            .await?;
        let mut plans = bus.follow(&address::plan(&cluster), Start::Last).await?;
        let mut topologies = bus
            .follow(&address::topology(&cluster), Start::Last)
            .await?;
        // Before the first plan, since nodes of no known kind could break a trainer's mix.
        let kept = bus.last(&address::topology(&cluster)).await?;
        if let Some(kept) = kept.filter(|kept| !kept.message.kinds.is_empty()) {
            self.take_places(kept.message).await?;
        }
        let mut link = bus.link();
        let settings = &self.ctx.config.control;
        let every = settings.reconcile_every.min(TIMER);
        let mut timer = interval(every);
        let renewing = renew(
            self.ctx.clone(),
            self.leases.subscribe(),
            self.forgotten.take(),
        );
        lacuna_runtime::task::spawn(renewing);
        let mut controls_requests = self.controls_requests.take();
        let mut no_pilots = self.no_pilots.take();
        let alive = self.effects.alive.clone();
        let shutdown = self.ctx.shutdown.clone();
        loop {
            alive.ok();
            let due = self.due();
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return self.save_totals().await,
                () = link.changed() => {
                    let up = link.seen().up;
                    tracing::debug!(up, "bus");
                    let input = if up { Input::Connected } else { Input::Disconnected };
                    self.input(input, "").await?;
                    self.state_at_risk |= up;
                    self.controls.check_stored(up).await;
                }
                topology = topologies.next() => {
                    let state = topology?.message;
                    self.take_places(state).await?;
                }
                clock = clocks.next() => {
                    let clock = clock?;
                    self.ctx.clock.update(&clock.message);
                    self.input(tick(&clock.message), &clock.envelope.correlation).await?;
                }
                // Before the events, which under load come without end: a lost command would not be
                // sent again. No agent is silent whose status waits in line.
                _ = timer.tick() => {
                    while let Some(lease) = leases.try_next() {
                        self.check_lease(&lease)?;
                    }
                    self.restore().await?;
                    self.waiting_statuses(&mut agents).await?;
                    self.timer().await?;
                }
                // Before the events too: plans are few, only the newest counts, and those that wait
                // in line take a megabyte each.
                plan = plans.next() => {
                    let plan = gather(plan?, &mut plans).pop();
                    if let Some(plan) = plan.filter(|_| !self.observes) {
                        self.reports(progress.try_next(), &mut progress).await?;
                        self.plan(plan).await?;
                    }
                }
                event = events.next() => {
                    let batch = gather(event?, &mut events);
                    self.reports(progress.try_next(), &mut progress).await?;
                    self.events(batch).await?;
                    self.waiting_statuses(&mut agents).await?;
                }
                snapshot = snapshots.next() => {
                    let snapshot = snapshot?;
                    let correlation = snapshot.envelope.correlation.clone();
                    self.pool(&[snapshot], &correlation).await?;
                }
                status = agents.next() => {
                    let first = status?;
                    self.statuses(first, &mut agents).await?;
                }
                report = progress.next() => self.reports(Some(report?), &mut progress).await?,
                request = requests.next() => self.request(request?).await?,
                Some(request) = next_of(&mut controls_requests) => {
                    self.store_controls(request).await?;
                }
                Some(NoPilots { trainer, reason, again_in }) = next_of(&mut no_pilots) => {
                    let input = Input::NoPilots { trainer, reason, again_in };
                    self.input(input, "").await?;
                }
                () = sleep(due) => self.timer().await?,
            }
        }
    }

    /// Time until the controller or the controls are due, if that is before the timer.
    fn due(&self) -> Option<Span> {
        let controller = self.controller.due().map(|at| at.since(self.now().wall));
        let left = controller.into_iter().chain(self.controls.due()).min()?;
        (left > Span::ZERO).then_some(left)
    }

    /// A former leader's write may be long on its way. If this control has not written that lease
    /// since, the bucket takes it, and then this control no longer knows who holds the node. As with a
    /// record that another has changed, it ends, and its successor reads all leases.
    fn check_lease(&self, lease: &Received<LeaseRecord>) -> Result<(), ServiceError> {
        let sender = Bus::sender(&lease.envelope);
        if sender == self.ctx.bus.instance() || lease.sequence <= self.newest_lease {
            return Ok(());
        }
        Err(format!(
            "a lease ({}) was changed by another writer, {sender}: another control runs for cluster \
             {} (stop one of them), or ended with this write on its way",
            lease.subject, self.ctx.cluster
        )
        .into())
    }

    /// After an outage, writes records and leases again that the server has lost.
    async fn restore(&mut self) -> Result<(), ServiceError> {
        if !std::mem::take(&mut self.state_at_risk) {
            return Ok(());
        }
        let records = self.controller.records(true).into_iter().cloned();
        let mut owners = self.controller.given();
        let leases = self.controller.leases().into_iter();
        let held = leases.filter_map(|lease| {
            let record = LeaseRecord {
                trainer: Some(owners.remove(&lease.node)?),
                epoch: Some(lease.epoch),
            };
            Some((lease.node, record))
        });
        let restored = self.effects.restore(records.collect(), held.collect());
        self.state_at_risk = !restored.await?;
        Ok(())
    }

    async fn events(&mut self, batch: Vec<Received<NodeEvent>>) -> Result<(), ServiceError> {
        let mut correlation = String::new();
        for event in &batch {
            self.effects.metrics.events.inc();
            correlation = event.envelope.correlation.to_string();
            self.arrivals.note(&correlation, event.arrived);
            self.handovers.event(&event.message, &correlation);
        }
        self.pool(&batch, &correlation).await
    }

    async fn pool(
        &mut self,
        events: &[Received<NodeEvent>],
        correlation: &str,
    ) -> Result<(), ServiceError> {
        if !correlation.is_empty() {
            correlation.clone_into(&mut self.newest);
        }
        let inputs = self
            .feed
            .events(events.iter().map(|e| (&e.message, e.kept)));
        // All waiting events have been read: trainers that lost nodes go on with the others.
        for input in inputs.into_iter().chain([Input::Drained]) {
            let (commands, _) = self.input(input, correlation).await?;
            self.measure(commands, correlation, "loss");
        }
        Ok(())
    }

    fn measure(&self, commands: u32, correlation: &str, by: &str) {
        if commands > 0
            && let Some(seconds) = self.arrivals.seconds(correlation)
        {
            let histogram = self.effects.metrics.latency.with_label_values(&[by]);
            histogram.observe(seconds);
        }
    }

    async fn plan(&mut self, plan: Received<PlanState>) -> Result<(), ServiceError> {
        let correlation = plan.envelope.correlation;
        let PlanState {
            mut plan,
            trainers_version,
            runs,
            ..
        } = plan.message;
        // Explanations are for people. The controller keeps a plan until its time has come.
        plan.report.holes = Vec::new();
        plan.report.forecast = None;
        let input = Input::Plan {
            plan,
            trainers_version,
            runs,
        };
        let (commands, _) = self.input(input, &correlation).await?;
        self.measure(commands, &correlation, "plan");
        Ok(())
    }

    /// Takes the statuses that wait, so that a load of events delays no agent.
    async fn waiting_statuses(
        &mut self,
        agents: &mut Subscription<AgentStatus>,
    ) -> Result<(), ServiceError> {
        while let Some(first) = agents.next().now_or_never() {
            self.statuses(first?, agents).await?;
        }
        Ok(())
    }

    /// Takes an agent's status and those that wait behind it: all with the same cause are one
    /// input. Each lease write waits for a disk. One after the other they would take long when
    /// thousands of nodes change hands.
    async fn statuses(
        &mut self,
        first: Received<AgentStatus>,
        agents: &mut Subscription<AgentStatus>,
    ) -> Result<(), ServiceError> {
        let mut next = Some(first);
        let mut taken = 0;
        while let Some(Received {
            message, envelope, ..
        }) = next.take()
        {
            let mut correlation = envelope.correlation;
            let mut statuses = vec![message];
            taken += 1;
            while taken < BATCH
                && let Some(more) = agents.next().now_or_never()
            {
                let more = more?;
                let cause = &more.envelope.correlation;
                if correlation.is_empty() {
                    correlation.clone_from(cause);
                } else if !cause.is_empty() && *cause != correlation {
                    next = Some(more);
                    break;
                }
                statuses.push(more.message);
                taken += 1;
            }
            self.apply_statuses(statuses, &correlation).await?;
        }
        Ok(())
    }

    async fn apply_statuses(
        &mut self,
        statuses: Vec<AgentStatus>,
        correlation: &str,
    ) -> Result<(), ServiceError> {
        let now = self.ctx.clock.now();
        while let Some(Ok(node)) = self
            .cancelled
            .as_mut()
            .map(mpsc::UnboundedReceiver::try_recv)
        {
            self.handovers.cancelled(node, now);
        }
        for status in &statuses {
            self.handovers.status(status, now);
            self.places.hear(status);
        }
        let (commands, _) = self.input(Input::Agents(statuses), correlation).await?;
        // A node that changes hands: the command goes out once its agent has confirmed.
        self.measure(commands, correlation, "plan");
        Ok(())
    }

    /// Counts a report and those that have come after it; before a plan or an event, so that the
    /// incarnations that these end have been counted.
    async fn reports(
        &mut self,
        first: Option<Received<Progress>>,
        more: &mut Follow<Progress>,
    ) -> Result<(), ServiceError> {
        let batch = first.map(|first| gather(first, more));
        for report in batch.into_iter().flatten() {
            let correlation = report.envelope.correlation;
            self.input(Input::Progress(report.message), &correlation)
                .await?;
        }
        Ok(())
    }

    /// Takes where nodes are and of which kind.
    async fn take_places(&mut self, state: TopologyState) -> Result<(), ServiceError> {
        let TopologyState {
            topology, kinds, ..
        } = state;
        self.places.take(topology.clone());
        self.input(Input::Topology(topology), "").await?;
        if self.kinds != kinds {
            self.kinds = kinds.clone();
            self.input(Input::Kinds(kinds), "").await?;
        }
        Ok(())
    }

    async fn timer(&mut self) -> Result<(), ServiceError> {
        let correlation = self.newest.clone();
        self.controls.check_stored(false).await;
        self.apply_controls().await?;
        self.input(Input::Timer, &correlation).await?;
        self.tell_grants();
        self.publish_use().await;
        self.archive().await?;
        let tally = self.controller.tally();
        self.effects.metrics.tally(&tally);
        self.effects.metrics.apart(&self.controller.apart());
        self.effects
            .metrics
            .training
            .show(self.controller.records(false));
        if let Some(contradictions) = self.places.contradictions() {
            self.effects.metrics.contradictions(contradictions);
        }
        for waited in self.handovers.complete(self.ctx.clock.now()) {
            self.effects.metrics.handover.observe(waited.as_secs_f64());
        }
        self.effects
            .metrics
            .unacknowledged(self.controller.unacknowledged());
        let now = self.now();
        if let Some(upto) = tally.since.and(tally.upto) {
            let whole = || start::whole(&self.controller, now);
            self.days.keep(&self.ctx, upto, whole).await;
        }
        let totals = totals(&tally, self.controller.troubled(now), now);
        if self.totals.as_ref() != Some(&totals) {
            self.publish_totals(&totals).await;
            self.totals = Some(totals);
        }
        Ok(())
    }

    /// Moves trainers that ended long ago to the archive.
    async fn archive(&mut self) -> Result<(), ServiceError> {
        self.effects.store_unkept().await?;
        let (now, share) = (self.now(), self.effects.room.share());
        let revision = |id: &TrainerId| self.effects.revision(id);
        let archived = self
            .archive
            .step(&mut self.controller, share, now, revision)
            .await?;
        archived.iter().for_each(|id| self.effects.forget(id));
        let total = i64::try_from(self.controller.past().trainers).unwrap_or(i64::MAX);
        self.effects.metrics.archived.set(total);
        Ok(())
    }

    async fn publish_totals(&self, totals: &Totals) {
        let subject = address::totals(&self.ctx.cluster);
        if let Err(error) = self.ctx.bus.publish(&subject, totals, "").await {
            tracing::warn!(%error, "totals not published");
        }
    }

    async fn save_totals(&mut self) -> Result<(), ServiceError> {
        let (controller, now) = (&self.controller, self.now());
        let totals = totals(&controller.tally(), controller.troubled(now), now);
        self.publish_totals(&totals).await;
        Ok(())
    }
}

/// Renews the leases from time to time, whatever the loop waits for: a change of ten thousand nodes
/// waits longer for the disk than agents wait for a renewal. A loop that hangs gives its leadership
/// up, and then no renewal is sent. An agent gets the leases of its node's shard alone: all of them
/// to each of ten thousand agents would be 350 MB/s.
async fn renew(
    ctx: Context,
    mut leases: watch::Receiver<Vec<Member>>,
    forgotten: Option<watch::Receiver<Forgotten>>,
) {
    let mut number = 0;
    let mut due = interval(ctx.config.control.renew_every);
    loop {
        tokio::select! {
            biased;
            () = ctx.shutdown.cancelled() => return,
            _ = due.tick() => {}
        }
        if leases.has_changed().is_err() {
            return;
        }
        number += 1;
        let leases = leases.borrow_and_update().clone();
        let forgotten = forgotten.as_ref().map(|known| known.borrow().clone());
        let forgotten = forgotten.unwrap_or_default();
        let sent = shards(leases).into_iter().map(|(shard, leases)| {
            let of_shard = forgotten
                .iter()
                .filter(|(node, _)| address::shard(node) == shard);
            let forgotten = of_shard.map(|(_, job)| job.to_string()).collect();
            let (bus, lead) = (&ctx.bus, ctx.bus.leader_since());
            let subject = address::renewal(&ctx.cluster, shard);
            async move {
                let renewal = Renewal {
                    lead,
                    number,
                    leases,
                    forgotten,
                };
                bus.publish(&subject, &renewal, "").await
            }
        });
        // Together: each waits for the lead to be sure.
        if let Some(error) = join_all(sent).await.into_iter().find_map(Result::err) {
            tracing::warn!(%error, "leases not renewed");
        }
    }
}

/// The leases of each shard. An agent without a lease learns that control is alive.
fn shards(leases: Vec<Member>) -> BTreeMap<u32, Vec<Member>> {
    let mut shards: BTreeMap<u32, Vec<Member>> = (0..address::SHARDS)
        .map(|shard| (shard, Vec::new()))
        .collect();
    for lease in leases {
        let shard = address::shard(&lease.node);
        shards.entry(shard).or_default().push(lease);
    }
    shards
}

/// Real time that never goes back: the wall clock's at the start, and what has passed since. Records
/// keep such times over starts.
#[derive(Debug)]
struct RealTime {
    began: Timestamp,
    watch: Stopwatch,
}

impl RealTime {
    fn start() -> Self {
        Self {
            began: wall(),
            watch: Stopwatch::start(),
        }
    }
}

/// The moment on both clocks.
fn moment(ctx: &Context, clock: &RealTime) -> Now {
    Now {
        cluster: ctx.clock.now(),
        wall: clock.began + clock.watch.span(),
    }
}

/// What the executor asks for or tells next; pending forever without one.
async fn next_of<T>(from: &mut Option<mpsc::UnboundedReceiver<T>>) -> Option<T> {
    match from {
        Some(from) => from.recv().await,
        None => std::future::pending().await,
    }
}

async fn sleep(length: Option<Span>) {
    match length {
        Some(length) => tokio::time::sleep(length.to_std()).await,
        None => std::future::pending().await,
    }
}

fn interval(every: Span) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(every.to_std().max(Duration::from_millis(10)));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}

/// A message and those that have come after it.
fn gather<M>(first: Received<M>, more: &mut Follow<M>) -> Vec<Received<M>> {
    let mut batch = vec![first];
    while batch.len() < BATCH {
        let Some(next) = more.try_next() else { break };
        batch.push(next);
    }
    batch
}
