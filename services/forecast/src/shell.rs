//! The loop of the service: messages and a timer in, pools out.
//!
//! A snapshot that has overtaken events waits until they come or the stream is quiet for a second,
//! since events carry more than a snapshot.

use std::time::Duration;

use lacuna_forecast::Fitted;
use lacuna_model::{NodeEvent, Span, Timestamp};
use lacuna_pool::Counts;
use lacuna_runtime::leader::LOOP;
use lacuna_runtime::{
    Follow, HealthCheck, Misconfigured, NoArgs, Received, Running, ServiceError, Start, Stopwatch,
};
use lacuna_wire::address;

use crate::given::Given;
use crate::publish::{Decision, Moment, Publisher};
use crate::sections::Context;
use crate::upkeep::{Fitting, Keeper};
use crate::{Forecaster, Metrics, ModelEvent, Models, PredictorSettings, Ready, Situation, Store};

/// The pool is published again after this time without a change, since ages change and a message
/// may have been lost.
const REPEAT: Span = Span::from_secs(2);

/// The loop also runs after this time without messages.
const TICK: Duration = Duration::from_millis(500);

/// The largest number of waiting events that are applied together.
const BATCH: usize = 4096;

/// Runs the service until shutdown.
///
/// # Errors
/// [`ServiceError`] if the bus is closed for good, or the name of a metric is taken.
pub fn run(ctx: Context, _: NoArgs) -> Running {
    Box::pin(serve(ctx))
}

async fn serve(ctx: Context) -> Result<(), ServiceError> {
    let metrics = Metrics::new(&ctx.registry)?;
    let alive = ctx.health.check(LOOP, Some(Span::from_secs(30)));
    let settings = &ctx.config.forecast;
    let predictors = PredictorSettings::from_config(settings);
    let predictors = predictors.map_err(|e| Misconfigured(e.to_string()))?;
    let mut models = Models::new(predictors);
    let present = ctx.bus.last(&address::snapshot(&ctx.cluster)).await?;
    if let Some(tick) = ctx.bus.last(&address::clock(&ctx.cluster)).await? {
        ctx.clock.update(&tick.message);
    }
    let keeper = settings.model_dir.as_deref().map(|dir| {
        let store = Store::new(dir, &ctx.cluster);
        let health = ctx.health.check("models", None);
        let keeper = Keeper::new(store, settings.save_every, metrics.quality.clone(), health);
        let now = present.as_ref().map(|present| present.message.at);
        keeper.restore(&mut models, &situation(&ctx, now));
        keeper
    });
    let given = settings.model.as_deref().map(|path| {
        let health = ctx.health.check("given model", None);
        let mut given = Given::read(path, models.upto(), metrics.quality.clone(), health);
        if let Some(present) = &present {
            given.offer(&mut models, &present.message, &situation(&ctx, None));
        }
        given
    });
    let mut shell = Shell {
        forecaster: Forecaster::new(models),
        publisher: Publisher::new(settings.publish_every, REPEAT),
        metrics,
        keeper,
        given,
        fitting: Fitting::default(),
        counts: Counts::default(),
        last: None,
        oldest: None,
    };
    if let Some(present) = present {
        shell.forecaster.catch_up(present.message, present.kept);
    }
    let served = shell.serve(&ctx, &alive).await;
    if let Some(keeper) = &mut shell.keeper {
        keeper.wait().await;
        keeper.save(&shell.forecaster, &situation(&ctx, None));
        keeper.wait().await;
    }
    served
}

/// The cluster and recording of the models, as of `now`.
fn situation(ctx: &Context, now: Option<Timestamp>) -> Situation {
    Situation {
        cluster: ctx.cluster.clone(),
        recording: ctx
            .clock
            .latest()
            .map_or_else(String::new, |clock| clock.recording),
        now,
    }
}

struct Shell {
    forecaster: Forecaster,
    publisher: Publisher,
    metrics: Metrics,
    /// Saves the models; `None` if they are not saved.
    keeper: Option<Keeper>,
    /// The model to start with; `None` if none is given.
    given: Option<Given>,
    fitting: Fitting,
    /// The totals that the metrics show.
    counts: Counts,
    /// The last publication.
    last: Option<Stopwatch>,
    /// The arrival of the oldest event that is not published yet.
    oldest: Option<Stopwatch>,
}

impl Shell {
    /// Runs the loop.
    async fn serve(&mut self, ctx: &Context, alive: &HealthCheck) -> Result<(), ServiceError> {
        let events = address::event(&ctx.cluster);
        let mut events = ctx.bus.follow(&events, Start::All).await?;
        let snapshots = address::snapshot(&ctx.cluster);
        let mut snapshots = ctx.bus.follow(&snapshots, Start::Last).await?;
        let ticks = address::clock(&ctx.cluster);
        let mut ticks = ctx.bus.follow(&ticks, Start::Last).await?;
        let mut timer = tokio::time::interval(TICK);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut later: Option<Span> = None;
        let mut quiet = 0;
        loop {
            let wait = later.map(Span::to_std);
            tokio::select! {
                // Events, then snapshots, then ticks: mostly the order of their arrival.
                biased;
                () = ctx.shutdown.cancelled() => return Ok(()),
                event = events.next() => {
                    quiet = 0;
                    self.events(event?, &mut events);
                }
                snapshot = snapshots.next() => {
                    let awaited = self.forecaster.awaits_events();
                    let snapshot = snapshot?;
                    if let Some(given) = &mut self.given {
                        let models = self.forecaster.models_mut();
                        given.offer(models, &snapshot.message, &situation(ctx, None));
                    }
                    self.snapshot(&snapshot);
                    if !awaited {
                        // The overtaken events have a second from now on.
                        quiet = 0;
                    }
                }
                tick = ticks.next() => ctx.clock.update(&tick?.message),
                fitted = self.fitting.ended(), if self.fitting.is_running() => self.fitted(fitted),
                _ = timer.tick() => {
                    quiet += 1;
                    // The stream does not hold the events that the snapshot includes.
                    if quiet >= 2 && self.forecaster.awaits_events() {
                        self.caught_up();
                    }
                }
                () = async { tokio::time::sleep(wait.unwrap_or_default()).await }, if wait.is_some() => {}
            }
            self.forecaster.set_lock_step(ctx.clock.lock_step());
            later = self.publish(ctx).await;
            self.fitting.start(&mut self.forecaster);
            if let Some(keeper) = &mut self.keeper {
                keeper.save_if_due(&self.forecaster, &situation(ctx, None));
            }
            alive.ok();
        }
    }

    /// Installs a new model, which the next forecast uses.
    fn fitted(&mut self, ended: Option<(Fitted, f64)>) {
        let quality = &self.metrics.quality;
        match &ended {
            Some((fitted, seconds)) => {
                quality.fit_seconds.observe(*seconds);
                let (samples, trees) = (fitted.samples(), fitted.trees());
                tracing::info!(seconds, samples, trees, "new model installed");
            }
            None => quality.fits_failed.inc(),
        }
        self.forecaster.install(ended.map(|(fitted, _)| fitted));
        self.publisher.note_change();
    }

    /// Logs the events of the predictors.
    fn log_events(&mut self) {
        for event in self.forecaster.take_events() {
            let predictor = self.forecaster.models().label();
            match event {
                ModelEvent::Adrift(why) => tracing::warn!(
                    predictor,
                    reason = %why,
                    "the predictor is adrift: its probabilities do not come true"
                ),
                ModelEvent::Recovered => {
                    tracing::info!(predictor, "the predictor is no longer adrift");
                }
                ModelEvent::FellBack => tracing::warn!(
                    predictor,
                    "the rival has taken over: it was better on the same holes"
                ),
                ModelEvent::CameBack => {
                    tracing::info!(predictor, "the configured predictor forecasts again");
                }
                ModelEvent::Forgot => tracing::warn!(
                    "time restarted: the learnt state is of its future and is dropped"
                ),
            }
        }
    }

    /// Applies an event and those that wait behind it.
    fn events(&mut self, first: Received<NodeEvent>, more: &mut Follow<NodeEvent>) {
        let mut event = first;
        for taken in 1.. {
            self.oldest.get_or_insert(event.arrived);
            let was_past = self.forecaster.ready() == Ready::CatchingUp;
            let about = correlation(&event);
            let ended = self
                .forecaster
                .event_kept(&event.message, event.kept, about);
            for length in ended {
                self.metrics.hole_seconds.observe(length);
            }
            if was_past && event.pending == 0 {
                self.caught_up();
            }
            let next = if taken < BATCH { more.try_next() } else { None };
            match next {
                Some(next) => event = next,
                None => break,
            }
        }
        self.publisher.note_change();
    }

    fn snapshot(&mut self, snapshot: &Received<NodeEvent>) {
        let (seq, holes) = (self.forecaster.seq(), self.forecaster.holes());
        let repairs = self.forecaster.counts().repairs;
        self.forecaster
            .snapshot(&snapshot.message, snapshot.kept, correlation(snapshot));
        let now = (self.forecaster.seq(), self.forecaster.holes());
        if now != (seq, holes) || self.forecaster.counts().repairs != repairs {
            self.publisher.note_change();
        }
    }

    fn caught_up(&mut self) {
        if self.forecaster.ready() == Ready::Live {
            tracing::warn!(
                seq = self.forecaster.seq(),
                "events that a snapshot includes have not come: the snapshot is applied instead"
            );
        }
        self.forecaster.caught_up();
        self.publisher.note_change();
        tracing::info!(
            seq = self.forecaster.seq(),
            holes = self.forecaster.holes(),
            learning = ?self.forecaster.models().learning(),
            "caught up with the events"
        );
    }

    /// Publishes the pool if it is due. Returns the time after which to decide again.
    async fn publish(&mut self, ctx: &Context) -> Option<Span> {
        let was_stale = self.counts.gaps;
        self.counts = self.metrics.update(&self.forecaster, &self.counts);
        if self.counts.gaps > was_stale {
            tracing::warn!(
                seq = self.forecaster.seq(),
                correlation = self.forecaster.correlation(),
                "events are missing: the pool only shrinks until a snapshot comes"
            );
        }
        if self.forecaster.ready() != Ready::Live {
            return None;
        }
        // Before the first tick the cluster's time is not known, and so are ages.
        let clock = ctx.clock.latest()?;
        let moment = Moment {
            clock: &clock,
            seq: self.forecaster.seq(),
            since_last: self.last.map_or(Span::from_secs(3600), |last| last.span()),
        };
        let as_of = match self.publisher.decide(moment) {
            Decision::Publish(as_of) => as_of.unwrap_or_else(|| ctx.clock.now()),
            Decision::Later(span) => return Some(span),
            Decision::Wait => return None,
        };
        let stopwatch = Stopwatch::start();
        let state = self.forecaster.pool(as_of);
        self.metrics.forecast_seconds.observe(stopwatch.seconds());
        self.log_events();
        // The metrics include this forecast before its pool is published.
        self.counts = self.metrics.update(&self.forecaster, &self.counts);
        let correlation = self.forecaster.correlation();
        let sent = ctx
            .bus
            .publish(&address::pool(&ctx.cluster), &state, correlation)
            .await;
        self.last = Some(stopwatch);
        if let Err(error) = sent {
            // The pool is published again soon; the loop goes on.
            tracing::warn!(%error, correlation, "pool not published");
            return None;
        }
        self.publisher.done(&clock);
        self.metrics.published.inc();
        if let Some(oldest) = self.oldest.take() {
            self.metrics.publish_seconds.observe(oldest.seconds());
        }
        tracing::debug!(
            seq = state.pool.seq,
            holes = state.pool.holes.len(),
            predictor = state.predictor,
            correlation,
            "pool published"
        );
        None
    }
}

/// The correlation id that a message carries, or its own id.
fn correlation(message: &Received<NodeEvent>) -> &str {
    if message.envelope.correlation.is_empty() {
        &message.envelope.id
    } else {
        &message.envelope.correlation
    }
}
