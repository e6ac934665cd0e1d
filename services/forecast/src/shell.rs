//! The loop: messages and a timer in, pools out.

use std::time::Duration;

use lacuna_forecast::{Choice, Predictor};
use lacuna_model::{NodeEvent, Span};
use lacuna_runtime::config::Predictor as Wanted;
use lacuna_runtime::{Context, Follow, NoArgs, Received, Running, ServiceError, Start, Stopwatch};
use lacuna_timeline::Counts;
use lacuna_wire::address;

use crate::publish::{Decision, Moment, Publisher};
use crate::{Forecaster, Metrics, Ready};

/// Without a change, the pool is published again after this time: ages change, and a message
/// may have been lost.
const REPEAT: Span = Span::from_secs(2);

/// The loop also runs when nothing comes.
const TICK: Duration = Duration::from_millis(500);

/// Events that have already come are taken together, up to this many.
const BATCH: usize = 4096;

/// Runs the service until it is told to stop.
///
/// # Errors
/// When the bus is closed for good, or a metric's name is taken.
pub fn run(ctx: Context, _: NoArgs) -> Running {
    Box::pin(serve(ctx))
}

async fn serve(ctx: Context) -> Result<(), ServiceError> {
    let metrics = Metrics::new(&ctx.registry)?;
    let alive = ctx.health.check("loop", Some(Span::from_secs(30)));
    let settings = &ctx.config.forecast;
    let mut shell = Shell {
        forecaster: Forecaster::new(predictor(settings.predictor, settings.constant)),
        publisher: Publisher::new(settings.publish_every, REPEAT),
        metrics,
        counts: Counts::default(),
        last: None,
        oldest: None,
    };
    if let Some(present) = ctx.bus.last(&address::snapshot(&ctx.cluster)).await? {
        shell.forecaster.catch_up(present.message);
    }
    let mut events = ctx
        .bus
        .follow(&address::event(&ctx.cluster), Start::All)
        .await?;
    let mut snapshots = ctx
        .bus
        .follow(&address::snapshot(&ctx.cluster), Start::Last)
        .await?;
    let mut ticks = ctx
        .bus
        .follow(&address::clock(&ctx.cluster), Start::Last)
        .await?;
    let mut timer = tokio::time::interval(TICK);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut later: Option<Span> = None;
    let mut quiet = 0;
    loop {
        let wait = later.map(Span::to_std);
        tokio::select! {
            // Events before snapshots before ticks: what came first is mostly taken first.
            biased;
            () = ctx.shutdown.cancelled() => return Ok(()),
            event = events.next() => {
                quiet = 0;
                shell.events(event?, &mut events);
            }
            snapshot = snapshots.next() => shell.snapshot(&snapshot?),
            tick = ticks.next() => ctx.clock.update(&tick?.message),
            _ = timer.tick() => {
                quiet += 1;
                // The stream holds nothing of the past.
                if quiet >= 2 && shell.forecaster.ready() == Ready::CatchingUp {
                    shell.caught_up();
                }
            }
            () = async { tokio::time::sleep(wait.unwrap_or_default()).await }, if wait.is_some() => {}
        }
        later = shell.publish(&ctx).await;
        alive.ok();
    }
}

fn predictor(wanted: Wanted, constant: Span) -> Box<dyn Predictor> {
    let seconds = constant.as_secs_f64();
    let choice = match wanted {
        Wanted::Constant => Choice::Constant { length_s: seconds },
        Wanted::Survival => Choice::survival(seconds),
    };
    choice.build()
}

struct Shell {
    forecaster: Forecaster,
    publisher: Publisher,
    metrics: Metrics,
    /// What the metrics show.
    counts: Counts,
    /// The last publication.
    last: Option<Stopwatch>,
    /// The arrival of the oldest event that is not yet published.
    oldest: Option<Stopwatch>,
}

impl Shell {
    /// Takes an event and those that have come behind it.
    fn events(&mut self, first: Received<NodeEvent>, more: &mut Follow<NodeEvent>) {
        let mut event = first;
        for taken in 1.. {
            self.oldest.get_or_insert(event.arrived);
            let was_past = self.forecaster.ready() == Ready::CatchingUp;
            let ended = self.forecaster.event(&event.message, correlation(&event));
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
            .snapshot(&snapshot.message, correlation(snapshot));
        let now = (self.forecaster.seq(), self.forecaster.holes());
        if now != (seq, holes) || self.forecaster.counts().repairs != repairs {
            self.publisher.note_change();
        }
    }

    fn caught_up(&mut self) {
        self.forecaster.caught_up();
        self.publisher.note_change();
        tracing::info!(
            seq = self.forecaster.seq(),
            holes = self.forecaster.holes(),
            learning = ?self.forecaster.learning(),
            "caught up with the events"
        );
    }

    /// Publishes if it is time; gives when to ask again.
    async fn publish(&mut self, ctx: &Context) -> Option<Span> {
        let was_stale = self.counts.gaps;
        self.counts = self.metrics.update(&self.forecaster, &self.counts);
        if self.counts.gaps > was_stale {
            tracing::warn!(
                seq = self.forecaster.seq(),
                correlation = self.forecaster.correlation(),
                "events are missing, the pool only shrinks until a snapshot comes"
            );
        }
        if self.forecaster.ready() != Ready::Live {
            return None;
        }
        // Before the first tick the cluster's time is not known, and no age can be told.
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
