//! The executor's loop.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use lacuna_model::pilots::Assumed;
use lacuna_model::{
    Activity, AgentStatus, ControlsChange, NodeId, NodeKinds, Timestamp, TrainerId, UseState,
    WithheldBy,
};
use lacuna_pilots::keeper::{
    Cause, Effect, Input, Keeper, Limits, Mode, Note, Offer, Refusal, Ticket, Wants,
};
use lacuna_pilots::limit::time_limit;
use lacuna_runtime::{Received, ServiceError, Start, Stopwatch, Subscription};
use lacuna_scheduler::check::{Finding, Verdict};
use lacuna_scheduler::job::JobId;
use lacuna_wire::address;
use lacuna_wire::msg::{PilotsRequest, PoolState, Reply, TrainersState};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::access::{Access, Denied, requester};
use crate::audit::{AuditedRequest, Trail};
use crate::sections::Context;

use super::check::Check;
use super::commands::{Ran, Runner};
use super::helper::Helper;
use super::metrics::PilotMetrics;
use super::observe::{Observation, ObservedMetrics};
use super::owners::{Grants, NoPilots, Owners};
use super::settings::Setup;
use super::{ControlsRequest, Forgotten};

/// Time between two timer inputs of the keeper.
const TICK: Duration = Duration::from_millis(100);
/// Time between two writes of the observed hour.
const KEEP: Duration = Duration::from_secs(10);
/// An operator's request is stored within this time, or refused.
const STORE_LIMIT: Duration = Duration::from_secs(5);

/// A command that has come to its end, and what it was for.
#[derive(Debug)]
enum Done {
    /// With the owner of a pilot that is not control's own.
    Submit(Ticket, Option<String>, Ran),
    Cancel(Vec<JobId>, Ran),
    Check(Vec<Finding>),
    List(Ran),
    /// The helper has heard, or could not, that a trainer is over.
    End(TrainerId, Ran),
    /// An operator's stop (or start) is kept by controls of this version, or is not.
    Stored(bool, Option<u64>),
}

/// The executor.
pub(super) struct Service {
    ctx: Context,
    setup: Setup,
    metrics: PilotMetrics,
    access: Access,
    trail: Trail,
    keeper: Keeper,
    runner: Runner,
    watch: Stopwatch,
    done: mpsc::UnboundedSender<Done>,
    finished: mpsc::UnboundedReceiver<Done>,
    /// Whether the site's configuration forbade pilots at the start, or does now.
    forbidden_at_start: bool,
    forbidden: bool,
    /// The findings of the newest check: only others are logged.
    found: Option<Vec<Finding>>,
    /// Whether an operator has stopped all pilots, by controls of this version.
    stopped: (u64, bool),
    /// Stops (true) and starts of operators that are not stored yet, the newest last.
    unstored: Vec<bool>,
    pub(super) check: Option<Check>,
    /// The assumptions and metrics of mode `observe`.
    pub(super) observe: Option<(Assumed, ObservedMetrics)>,
    /// Gets the nodes whose pilot is being cancelled.
    pub(super) cancels: Option<mpsc::UnboundedSender<NodeId>>,
    /// Stores the controls that operators set.
    pub(super) controls_requests: Option<mpsc::UnboundedSender<ControlsRequest>>,
    /// Which trainer has each node, if pilots are their owners'.
    pub(super) grants: Option<watch::Receiver<Grants>>,
    /// Gets the trainers whose owners may have no pilots.
    pub(super) no_pilots: Option<mpsc::UnboundedSender<NoPilots>>,
    /// Gets the pilots that the scheduler no longer knows, though their agents report.
    pub(super) forgotten: Option<watch::Sender<Forgotten>>,
    owners: Owners,
    /// Of which kind nodes are.
    kinds: NodeKinds,
    /// Whether the last list failed, so that only changes are logged.
    list_failed: bool,
}

type Running = Pin<Box<dyn Future<Output = Result<(), ServiceError>> + Send>>;

impl Service {
    /// `forbidden`: the site's configuration allows no pilots.
    pub(super) fn new(
        ctx: Context,
        setup: Setup,
        (metrics, access, trail): (PilotMetrics, Access, Trail),
        forbidden: bool,
    ) -> Self {
        let watch = Stopwatch::start();
        let (done, finished) = mpsc::unbounded_channel();
        let mode = if forbidden { Mode::Observe } else { setup.mode };
        let now = moment(watch.span());
        let mut keeper = Keeper::new(setup.keeper.clone(), mode, now);
        // Nothing is submitted before the operator's controls are known.
        let nothing = Limits {
            no_growth: true,
            ..Limits::default()
        };
        let _ = keeper.step(Input::Use(nothing), now);
        Self {
            runner: Runner::new(setup.environment.clone(), setup.limit),
            ctx,
            setup,
            metrics,
            access,
            trail,
            keeper,
            watch,
            done,
            finished,
            forbidden_at_start: forbidden,
            forbidden,
            found: None,
            stopped: (0, false),
            unstored: Vec::new(),
            check: None,
            observe: None,
            cancels: None,
            controls_requests: None,
            grants: None,
            no_pilots: None,
            forgotten: None,
            owners: Owners::default(),
            kinds: NodeKinds::default(),
            list_failed: false,
        }
    }

    /// Runs until it is stopped. Pilots are left as they are.
    pub(super) fn run(
        self,
        agents: Option<Subscription<AgentStatus>>,
        stop: CancellationToken,
    ) -> Running {
        Box::pin(self.event_loop(agents, stop))
    }

    async fn event_loop(
        mut self,
        agents: Option<Subscription<AgentStatus>>,
        stop: CancellationToken,
    ) -> Result<(), ServiceError> {
        let (bus, cluster) = (self.ctx.bus.clone(), self.ctx.cluster.clone());
        let mut agents = match agents {
            Some(agents) => agents,
            None => bus.subscribe(&address::agents(&cluster)).await?,
        };
        let mut pools = bus.follow(&address::pool(&cluster), Start::Last).await?;
        let mut trainers = bus
            .follow(&address::trainers(&cluster), Start::Last)
            .await?;
        let mut plans = bus.follow(&address::plan(&cluster), Start::Last).await?;
        let mut uses = bus
            .follow(&address::use_state(&cluster), Start::Last)
            .await?;
        let mut requests = bus.subscribe(&address::pilots(&cluster)).await?;
        // A stop outlives restarts, so it is known before anything goes out.
        let known = bus.last(&address::controls(&cluster)).await?;
        if let Some(known) = known.map(|known| known.message) {
            self.stopped(known.version, known.pilots_stopped.is_some());
        }
        let mut controls = bus
            .follow(&address::controls(&cluster), Start::Last)
            .await?;
        let mut observation = match self.observe.take() {
            Some((assumed, metrics)) => {
                Some(Observation::new(self.ctx.clone(), assumed, metrics).await)
            }
            None => None,
        };
        let places = bus.last(&address::topology(&cluster)).await?;
        self.take_kinds(places.map(|kept| kept.message.kinds).unwrap_or_default());
        let mut places = bus
            .follow(&address::topology(&cluster), Start::Last)
            .await?;
        let mut link = bus.link();
        let mut timer = every(TICK);
        let mut keep = every(KEEP);
        let mut recheck = every(self.setup.check_every);
        // The first tick comes at once, and the start has just checked.
        recheck.reset();
        let mut grants = self.grants.take();
        if let Some(grants) = &mut grants {
            // What an executor before this one has heard counts.
            grants.mark_changed();
        }
        let alive = self
            .ctx
            .health
            .check("pilots", Some(lacuna_model::Span::from_secs(30)));
        loop {
            alive.ok();
            tokio::select! {
                biased;
                () = stop.cancelled() => {
                    if let Some(observation) = &mut observation {
                        observation.keep().await;
                    }
                    return Ok(());
                }
                () = link.changed() => {
                    let up = link.seen().up;
                    self.step(Input::Link(up));
                }
                Some(done) = self.finished.recv() => self.finished(done),
                Some(grants) = next_grants(&mut grants) => {
                    let given = self.owners.take(&grants);
                    self.step(given);
                }
                state = places.next() => self.take_kinds(state?.message.kinds),
                state = uses.next() => {
                    let limits = limits(state?.message);
                    self.step(Input::Use(limits));
                }
                pool = pools.next() => {
                    let pool = pool?.message;
                    self.pool(&pool);
                    if let Some(observation) = &mut observation {
                        observation.pool(&pool);
                    }
                }
                plan = plans.next() => {
                    let plan = plan?.message;
                    if let Some(observation) = &mut observation {
                        observation.plan(&plan);
                    }
                }
                request = requests.next() => self.request(request?),
                state = controls.next() => {
                    let state = state?.message;
                    self.stopped(state.version, state.pilots_stopped.is_some());
                }
                _ = keep.tick() => {
                    if let Some(observation) = &mut observation {
                        observation.keep().await;
                    }
                }
                _ = recheck.tick() => self.check_again(),
                state = trainers.next() => {
                    let state = state?.message;
                    self.demand(&state);
                    if let Some(observation) = &mut observation {
                        observation.trainers(&state);
                    }
                }
                status = agents.next() => self.status(status?),
                _ = timer.tick() => self.timer(),
            }
        }
    }

    fn now(&self) -> Timestamp {
        moment(self.watch.span())
    }

    fn step(&mut self, input: Input) {
        for effect in self.keeper.step(input, self.now()) {
            self.apply(effect);
        }
    }

    fn timer(&mut self) {
        self.step(Input::Timer);
        self.tell_ends();
        let now = self.now();
        let (counts, blind) = (self.keeper.counts(now), self.keeper.blind(now));
        self.metrics.state(counts, self.mode(), blind);
        self.metrics.of_kinds(&self.keeper.counts_by_kind());
        self.tell_forgotten(self.keeper.forgotten(now));
    }

    /// Their agents hear it with the next renewals, and end.
    fn tell_forgotten(&self, forgotten: Forgotten) {
        let Some(known) = &self.forgotten else {
            return;
        };
        if *known.borrow() == forgotten {
            return;
        }
        for (node, job) in &forgotten {
            tracing::warn!(%node, %job, "a pilot is over for the scheduler, and its agent still reports: it is to end");
        }
        known.send_replace(forgotten);
    }

    /// The mode in force.
    fn mode(&self) -> Mode {
        match self.setup.mode {
            _ if self.unstored.last().copied().unwrap_or(self.stopped.1) => Mode::Off,
            Mode::On if self.forbidden => Mode::Observe,
            mode => mode,
        }
    }

    fn set_mode(&mut self) {
        self.step(Input::Mode(self.mode()));
    }

    /// Takes over whether controls of a version stop all pilots.
    fn stopped(&mut self, version: u64, stopped: bool) {
        if version >= self.stopped.0 {
            self.stopped = (version, stopped);
            self.set_mode();
        }
    }

    /// An operator's request was stored, or was not: a stop then holds as long as this control.
    fn stored(&mut self, stop: bool, version: Option<u64>) {
        if !self.unstored.is_empty() {
            self.unstored.remove(0);
        }
        if let Some(version) = version {
            self.stopped(version, stop);
        } else if stop {
            self.stopped.1 = true;
        }
        self.set_mode();
    }

    fn request(&mut self, request: Received<PilotsRequest>) {
        let user = requester(&request.subject);
        let stop = request.message == PilotsRequest::Stop;
        let may = self.access.operator(&user);
        let (answer, kept) = oneshot::channel();
        if may.is_ok() {
            // In force at once; storing it comes next.
            self.unstored.push(stop);
            self.set_mode();
            let change = match stop {
                true => ControlsChange::StopPilots,
                false => ControlsChange::StartPilots,
            };
            let by = user.clone();
            if let Some(controls_requests) = &self.controls_requests {
                let _ = controls_requests.send(ControlsRequest { change, by, answer });
            }
        }
        let audited = AuditedRequest {
            user,
            action: if stop { "pilots-stop" } else { "pilots-resume" },
            target: Vec::new(),
            detail: String::new(),
        };
        let (bus, trail, done) = (self.ctx.bus.clone(), self.trail.clone(), self.done.clone());
        lacuna_runtime::task::spawn(async move {
            let reply = match may {
                Err(denied) => denied.into(),
                Ok(()) => {
                    let kept = tokio::time::timeout(STORE_LIMIT, kept).await;
                    let kept = match kept {
                        Ok(Ok(kept)) => kept.map_err(|denied| denied.reason),
                        Ok(Err(_)) | Err(_) => Err("control has not answered in time".to_owned()),
                    };
                    let _ = done.send(Done::Stored(stop, kept.as_ref().ok().copied()));
                    match kept {
                        Ok(_) => Reply::Accepted {
                            trainers: Vec::new(),
                        },
                        Err(reason) => Reply::from(Denied {
                            code: "L0024",
                            reason: format!(
                                "this would not outlive a restart of control, ask again (a stop \
                                 holds until then): {reason}"
                            ),
                        }),
                    }
                }
            };
            trail.note(audited, &reply).await;
            if let Err(error) = bus.respond(&request, &reply).await {
                tracing::warn!(%error, "request of an operator not answered");
            }
        });
    }

    /// Checks again: administrators change the configuration.
    fn check_again(&self) {
        let Some(check) = self.check.clone().filter(|_| self.setup.mode == Mode::On) else {
            return;
        };
        let done = self.done.clone();
        lacuna_runtime::task::spawn(async move {
            let _ = done.send(Done::Check(check.run().await));
        });
    }

    fn checked(&mut self, findings: Vec<Finding>) {
        self.metrics.findings(&findings);
        // Of a scheduler that does not answer nothing new is known.
        let known = findings.iter().all(|f| f.condition != "configuration");
        let Some(check) = self.check.as_ref().filter(|_| known) else {
            return;
        };
        if self.found.as_ref() == Some(&findings) {
            return;
        }
        // What slurmdbd does not say while it is away is as it was.
        let unsaid = |f: &Finding| f.condition == "accounting" && f.verdict == Verdict::Unknown;
        let stays = self.forbidden && findings.iter().any(unsaid);
        let forbidden = check.forbids(&findings) || stays;
        self.found = Some(findings);
        if self.forbidden_at_start && !forbidden {
            // The controller was started to follow no plan. A supervisor starts control again.
            tracing::warn!("nothing forbids pilots any more: control ends, and starts pilots next");
            self.ctx.shutdown.cancel();
        }
        self.forbidden = forbidden || self.forbidden_at_start;
        self.set_mode();
    }

    fn pool(&mut self, state: &PoolState) {
        let pool = &state.pool;
        let offers = pool.holes.iter().map(|hole| Offer {
            node: hole.hole.node.clone(),
            limit: time_limit(&self.setup.time, pool.forecast(hole)),
        });
        let offers = offers.collect();
        self.step(Input::Pool(offers));
    }

    fn demand(&mut self, state: &TrainersState) {
        let wants = state.trainers.iter().map(|t| Wants::of(&t.spec));
        let wants = wants.collect();
        self.step(Input::Demand(wants));
    }

    /// Takes of which kind nodes are: pilots on them differ.
    fn take_kinds(&mut self, kinds: NodeKinds) {
        let names = kinds.names();
        let of_none = self
            .setup
            .by_kind
            .keys()
            .filter(|kind| !names.contains(kind));
        let of_none: Vec<&str> = of_none.map(|kind| kind.as_str()).collect();
        if !of_none.is_empty() && self.kinds != kinds {
            tracing::warn!(
                kinds = of_none.join(", "),
                "no node is of these kinds of control.pilots.kinds: correct them or ingest.kinds"
            );
        }
        self.kinds = kinds;
        self.step(Input::Kinds(self.kinds.clone()));
    }

    fn status(&mut self, status: Received<AgentStatus>) {
        let status = status.message;
        self.step(Input::Agent {
            node: status.node,
            leaving: status.leaving,
            free: status.activity == Activity::Free,
            serves: status.serves,
        });
    }

    fn apply(&mut self, effect: Effect) {
        let scheduler = &self.setup.scheduler;
        match effect {
            Effect::Submit {
                ticket,
                node,
                limit,
                trainer,
            } => {
                tracing::debug!(%node, %limit, "pilot goes out");
                let Some(helper) = &self.setup.helper else {
                    let kind = self.kinds.of(&node);
                    let own = kind.and_then(|kind| self.setup.by_kind.get(kind));
                    let line = own.unwrap_or(scheduler).submit(&node, limit);
                    self.start(line, move |ran| Done::Submit(ticket, None, ran));
                    return;
                };
                // The keeper submits for trainers with a ticket alone.
                let Some((signed, owner)) = trainer.and_then(|id| self.owners.of(&id)) else {
                    let refusal = Refusal {
                        cause: Cause::Owner,
                        text: "its trainer has no ticket".to_owned(),
                    };
                    let outcome = Err(refusal);
                    self.step(Input::Submitted { ticket, outcome });
                    return;
                };
                let (line, owner) = (helper.submit(signed, &node, limit), owner.to_owned());
                self.start(line, move |ran| Done::Submit(ticket, Some(owner), ran));
            }
            Effect::Cancel { jobs, pending_only } => {
                if let Some(helper) = &self.setup.helper {
                    for job in jobs {
                        let Some(owner) = self.owners.owner(&job) else {
                            continue;
                        };
                        let line = helper.cancel(owner, &job, pending_only);
                        self.start(line, move |ran| Done::Cancel(vec![job], ran));
                    }
                    return;
                }
                let line = scheduler.cancel(&jobs, pending_only);
                self.start(line, move |ran| Done::Cancel(jobs, ran));
            }
            Effect::List => self.start(self.setup.lister.list(), Done::List),
            Effect::Note(note) => {
                self.metrics.note(&note);
                log(&note);
                self.tell_refusal(&note);
                if let Note::Cancelling {
                    node: Some(node), ..
                } = note
                    && let Some(cancels) = &self.cancels
                {
                    // Sent before the cancellation, and so before the agent can leave.
                    let _ = cancels.send(node);
                }
            }
        }
    }

    /// The controller hears that the owner of a trainer may have no pilots.
    fn tell_refusal(&self, note: &Note) {
        let Note::Refused {
            trainer: Some(trainer),
            refusal,
            again_in,
            ..
        } = note
        else {
            return;
        };
        if let (Cause::Owner, Some(no_pilots)) = (refusal.cause, &self.no_pilots) {
            let _ = no_pilots.send(NoPilots {
                trainer: trainer.clone(),
                reason: refusal.text.clone(),
                again_in: *again_in,
            });
        }
    }

    /// The helper hears that trainers are over, of one at a time.
    fn tell_ends(&mut self) {
        let now = self.now();
        if let Some(helper) = &self.setup.helper
            && let Some((trainer, ticket)) = self.owners.next_end(now)
        {
            let line = helper.end(&ticket);
            self.start(line, move |ran| Done::End(trainer, ran));
        }
    }

    fn start(
        &self,
        line: lacuna_scheduler::submit::CommandLine,
        wrap: impl FnOnce(Ran) -> Done + Send + 'static,
    ) {
        let (runner, watch, done) = (self.runner.clone(), self.watch, self.done.clone());
        let stop = self.ctx.shutdown.clone();
        lacuna_runtime::task::spawn(async move {
            tokio::select! {
                // Given up, the command is killed; what it has begun is found at the next start.
                () = stop.cancelled() => {}
                ran = runner.run(line, watch) => {
                    let _ = done.send(wrap(ran));
                }
            }
        });
    }

    fn finished(&mut self, done: Done) {
        match done {
            Done::Submit(ticket, owner, ran) => {
                let scheduler = self.setup.scheduler.as_ref();
                let outcome = match &owner {
                    Some(_) => Helper::submitted(scheduler, &ran.output),
                    None => scheduler.submitted(&ran.output),
                };
                if let (Some(owner), Ok(job)) = (owner, &outcome) {
                    self.owners.submitted(job.clone(), owner);
                }
                self.measure("submit", &ran, outcome.is_ok());
                if outcome.is_ok() {
                    self.metrics.submitted.inc();
                }
                self.step(Input::Submitted { ticket, outcome });
            }
            Done::Cancel(jobs, ran) => {
                // A code other than 0 mostly means that one of them was over already.
                self.measure("cancel", &ran, ran.output.is_ok());
                if let Err(error) = &ran.output {
                    tracing::warn!(%error, jobs = jobs.len(), "pilots not cancelled");
                    self.step(Input::CancelFailed(jobs));
                } else if self.setup.helper.is_some() && !Helper::is_settled(&ran.output) {
                    let said = ran.said();
                    tracing::warn!(said, "the helper has cancelled no pilot");
                    self.step(Input::CancelFailed(jobs));
                }
            }
            Done::End(trainer, ran) => {
                let settled = Helper::is_settled(&ran.output);
                self.measure("end", &ran, settled);
                if !settled {
                    let said = ran.said();
                    tracing::warn!(%trainer, said, "the helper does not know that it is over");
                }
                self.owners.heard_of_end(trainer, settled, self.now());
            }
            Done::Check(findings) => self.checked(findings),
            Done::Stored(stop, version) => self.stored(stop, version),
            Done::List(ran) => {
                let asked = moment(ran.started);
                let listed = self.setup.lister.listed(&ran.output);
                self.measure("list", &ran, listed.is_ok());
                match listed {
                    Ok(jobs) => {
                        if std::mem::take(&mut self.list_failed) {
                            tracing::info!("the scheduler lists pilots again");
                        }
                        self.owners.listed(&jobs);
                        self.step(Input::Listing { asked, jobs });
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut self.list_failed, true) {
                            tracing::warn!(%error, "the scheduler lists no pilots");
                        }
                        self.step(Input::ListingFailed);
                    }
                }
            }
        }
    }

    fn measure(&self, command: &str, ran: &Ran, good: bool) {
        let seconds = self.metrics.seconds.with_label_values(&[command]);
        seconds.observe(ran.seconds);
        if !good {
            let failures = &self.metrics.command_failures;
            failures.with_label_values(&[command]).inc();
        }
    }
}

/// The operator's limits for pilots. A cap limits the number of pilots, wherever they
/// are, since the controller uses the nodes that have one. A pilot on a node that the main scheduler
/// has drained ends as one on a withheld node.
fn limits(state: UseState) -> Limits {
    let capped = state.at_most.is_some_and(|most| most > 0) && !state.no_growth;
    let withheld = state.withheld.into_iter().filter(|(by, _)| {
        use WithheldBy::{Drained, List, Reserve};
        matches!(by, Drained | List | Reserve) || !capped
    });
    let withheld = withheld.flat_map(|(_, nodes)| nodes);
    Limits {
        withheld: withheld.chain(state.down).collect(),
        at_most: state.at_most,
        no_growth: state.no_growth,
    }
}

/// What the controller tells next; pending forever without a helper.
async fn next_grants(grants: &mut Option<watch::Receiver<Grants>>) -> Option<Grants> {
    let Some(receiver) = grants else {
        return std::future::pending().await;
    };
    if receiver.changed().await.is_err() {
        // The controller ends.
        *grants = None;
        return None;
    }
    Some(receiver.borrow_and_update().clone())
}

fn every(time: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(time);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    interval
}

/// A moment on the executor's own clock, which never goes back. Zero is taken for "never".
fn moment(since_start: lacuna_model::Span) -> Timestamp {
    Timestamp::from_unix(1) + since_start
}

fn log(note: &Note) {
    match note {
        Note::Mode(mode) => tracing::warn!(mode = mode.name(), "pilots"),
        Note::Refused {
            node,
            trainer,
            refusal,
            again_in,
        } => {
            let cause = refusal.cause.name();
            let trainer = trainer.as_ref().map(ToString::to_string);
            tracing::warn!(%node, trainer, cause, said = refusal.text, %again_in, "no pilot");
        }
        Note::Adopted { node, job } => tracing::info!(%node, %job, "pilot found"),
        Note::Ended { node, job, end } => {
            let job = job.as_ref().map(ToString::to_string);
            let end = end.map_or("unknown", lacuna_scheduler::job::End::name);
            tracing::debug!(%node, job, end, "pilot is over");
        }
        Note::Cancelling { job, node, cause } => {
            let node = node.as_ref().map(ToString::to_string);
            tracing::info!(%job, node, cause, "pilot is cancelled");
        }
        Note::Failed {
            node,
            failures,
            cause,
            again_in,
            quarantined,
        } => {
            tracing::warn!(%node, failures, cause, %again_in, quarantined, "pilot failed");
        }
    }
}
