//! The executor's loop.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use lacuna_model::{Activity, AgentStatus, Timestamp};
use lacuna_pilots::job::JobId;
use lacuna_pilots::keeper::{Effect, Input, Keeper, Note, Offer, Ticket};
use lacuna_runtime::{Context, Received, ServiceError, Start, Stopwatch, Subscription};
use lacuna_wire::address;
use lacuna_wire::msg::{PoolState, TrainersState};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::commands::{Ran, Runner};
use super::metrics::PilotMetrics;
use super::settings::Setup;

/// The keeper looks around this often.
const TICK: Duration = Duration::from_millis(100);

/// A command that has come to its end, and what it was for.
#[derive(Debug)]
enum Done {
    Submit(Ticket, Ran),
    Cancel(Vec<JobId>, Ran),
    List(Ran),
}

/// The executor.
pub(super) struct Service {
    ctx: Context,
    setup: Setup,
    metrics: PilotMetrics,
    keeper: Keeper,
    runner: Runner,
    watch: Stopwatch,
    done: mpsc::UnboundedSender<Done>,
    finished: mpsc::UnboundedReceiver<Done>,
    /// Whether the last list failed, so that only changes are told.
    list_failed: bool,
}

type Running = Pin<Box<dyn Future<Output = Result<(), ServiceError>> + Send>>;

impl Service {
    pub(super) fn new(ctx: Context, setup: Setup, metrics: PilotMetrics) -> Self {
        let watch = Stopwatch::start();
        let (done, finished) = mpsc::unbounded_channel();
        let keeper = Keeper::new(setup.keeper.clone(), setup.mode, moment(watch.span()));
        Self {
            runner: Runner::new(setup.environment.clone(), setup.limit),
            ctx,
            setup,
            metrics,
            keeper,
            watch,
            done,
            finished,
            list_failed: false,
        }
    }

    /// Runs until it is told to stop. Pilots are left as they are.
    pub(super) fn run(
        self,
        agents: Option<Subscription<AgentStatus>>,
        stop: CancellationToken,
    ) -> Running {
        Box::pin(self.live(agents, stop))
    }

    async fn live(
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
        let mut link = bus.link();
        let mut timer = tokio::time::interval(TICK);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let alive = self
            .ctx
            .health
            .check("pilots", Some(lacuna_model::Span::from_secs(30)));
        loop {
            alive.ok();
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                changed = link.changed() => {
                    changed?;
                    let up = link.borrow_and_update().up;
                    self.step(Input::Link(up));
                }
                Some(done) = self.finished.recv() => self.finished(done),
                pool = pools.next() => self.pool(&pool?.message),
                state = trainers.next() => self.demand(&state?.message),
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
            self.carry_out(effect);
        }
    }

    fn timer(&mut self) {
        self.step(Input::Timer);
        let now = self.now();
        let (counts, blind) = (self.keeper.counts(now), self.keeper.blind(now));
        self.metrics.state(counts, self.setup.mode, blind);
    }

    fn pool(&mut self, state: &PoolState) {
        let pool = &state.pool;
        let offers = pool.holes.iter().map(|hole| Offer {
            node: hole.hole.node.clone(),
            limit: self.setup.time.of(pool.forecast(hole)),
        });
        let offers = offers.collect();
        self.step(Input::Pool(offers));
    }

    fn demand(&mut self, state: &TrainersState) {
        let most = state.trainers.iter().map(|t| u64::from(t.spec.max_nodes));
        let most = u32::try_from(most.sum::<u64>()).unwrap_or(u32::MAX);
        self.step(Input::Demand(most));
    }

    fn status(&mut self, status: Received<AgentStatus>) {
        let status = status.message;
        self.step(Input::Agent {
            node: status.node,
            leaving: status.leaving,
            free: status.activity == Activity::Free,
        });
    }

    fn carry_out(&mut self, effect: Effect) {
        let scheduler = &self.setup.scheduler;
        match effect {
            Effect::Submit {
                ticket,
                node,
                limit,
            } => {
                tracing::debug!(%node, %limit, "pilot goes out");
                let line = scheduler.submit(&node, limit);
                self.start(line, move |ran| Done::Submit(ticket, ran));
            }
            Effect::Cancel { jobs, pending_only } => {
                let line = scheduler.cancel(&jobs, pending_only);
                self.start(line, move |ran| Done::Cancel(jobs, ran));
            }
            Effect::List => self.start(scheduler.list(), Done::List),
            Effect::Note(note) => {
                self.metrics.note(&note);
                log(&note);
            }
        }
    }

    fn start(
        &self,
        line: lacuna_pilots::scheduler::CommandLine,
        wrap: impl FnOnce(Ran) -> Done + Send + 'static,
    ) {
        let (runner, watch, done) = (self.runner.clone(), self.watch, self.done.clone());
        let stop = self.ctx.shutdown.clone();
        tokio::spawn(async move {
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
            Done::Submit(ticket, ran) => {
                let outcome = self.setup.scheduler.submitted(&ran.said);
                self.measure("submit", &ran, outcome.is_ok());
                if outcome.is_ok() {
                    self.metrics.submitted.inc();
                }
                self.step(Input::Submitted { ticket, outcome });
            }
            Done::Cancel(jobs, ran) => {
                // A code other than 0 mostly means that one of them was over already.
                self.measure("cancel", &ran, ran.said.is_ok());
                if let Err(error) = &ran.said {
                    tracing::warn!(%error, jobs = jobs.len(), "pilots not cancelled");
                    self.step(Input::CancelFailed(jobs));
                }
            }
            Done::List(ran) => {
                let asked = moment(ran.started);
                let listed = self.setup.scheduler.listed(&ran.said);
                self.measure("list", &ran, listed.is_ok());
                match listed {
                    Ok(jobs) => {
                        if std::mem::take(&mut self.list_failed) {
                            tracing::info!("the scheduler lists pilots again");
                        }
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

/// A moment on the executor's own clock, which never goes back. Zero is taken for "never".
fn moment(since_start: lacuna_model::Span) -> Timestamp {
    Timestamp::from_unix(1) + since_start
}

fn log(note: &Note) {
    match note {
        Note::Mode(mode) => tracing::warn!(mode = mode.name(), "pilots"),
        Note::Refused {
            node,
            refusal,
            again_in,
        } => {
            let cause = refusal.cause.name();
            tracing::warn!(%node, cause, said = refusal.text, %again_in, "no pilot");
        }
        Note::Adopted { node, job } => tracing::info!(%node, %job, "pilot found"),
        Note::Ended { node, job, end } => {
            let job = job.as_ref().map(ToString::to_string);
            let end = end.map_or("unknown", lacuna_pilots::job::End::name);
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
