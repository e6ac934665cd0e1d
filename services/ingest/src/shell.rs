//! The shell of ingest: reads the bus and the clock, calls ledger and trace source, publishes.

use std::time::Duration;

use lacuna_model::{EventKind, NodeEvent, Span, Timestamp};
use lacuna_pool::UnknownNodes;
use lacuna_runtime::leader::LOOP;
use lacuna_runtime::{
    Bus, BusError, Delivery, HealthCheck, NoArgs, Queue, Running, ServiceError, Start, Stopwatch,
    Subscription, Superseded, clock,
};
use lacuna_wire::msg::{Clock, Pace, Settled};
use lacuna_wire::{address, external};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::adapters::{self, Observation, Receipt};
use crate::files::{Files, read_files};
use crate::ledger::Ledger;
use crate::metrics::{Metrics, type_of};
use crate::sections::Context;
use crate::takeover::{Begun, PAUSE, cause_of, take_over};
use crate::topology::{Places, Source};
use crate::trace_source::{Message, TraceSource};
use crate::writer::Writer;

/// Messages of external programs taken at once.
const BATCH: usize = 512;

/// Batches of the trace published at once.
const BATCHES: usize = 64;

/// A tick without an answer is repeated after this time, since the answer may be lost.
const REPEAT: Duration = Duration::from_secs(1);

/// Attempts to write a snapshot, before the time of the next one.
const ATTEMPTS: u32 = 3;

/// Runs until shutdown.
///
/// # Errors
/// If a file of the configuration cannot be read, if another ingest starts for this cluster
/// ([`Superseded`]), or if the bus is closed for good.
pub fn run(ctx: Context, _: NoArgs) -> Running {
    Box::pin(serve(ctx))
}

async fn serve(ctx: Context) -> Result<(), ServiceError> {
    let settings = ctx.config.ingest.clone();
    let metrics = Metrics::new(&ctx.registry)?;
    let alive = ctx.health.check(LOOP, Some(Span::from_secs(30)));
    let Files {
        nodes,
        recorded,
        first,
    } = {
        let settings = settings.clone();
        let read = lacuna_runtime::task::blocking(move || read_files(&settings)).await?;
        read?
    };
    let listed = nodes.clone();
    let any_node = settings.any_node || !ctx.bus.proven() || listed != UnknownNodes::Accept;
    let mut empty = Ledger::new(0, nodes, settings.dedup_window, settings.max_ahead);
    if !any_node {
        tracing::info!(
            "external events may name only nodes that the scheduler's adapter has observed: the \
             cluster is secured and has no ingest.nodes_file (ingest.any_node = true admits all \
             nodes)"
        );
        empty.restrict_to_observed();
    }
    let Some(begun) = take_over(&ctx, &empty, recorded.as_ref(), &metrics).await? else {
        return Ok(());
    };
    drop(recorded);
    // Before the first event, so that plans know it.
    let places = Places::start(&ctx, first, &metrics).await?;
    let mut source = Source::start(&ctx, &metrics);
    let mut shell = Shell::new(&ctx, begun, metrics, places).await?;
    let first = match &mut shell.source {
        Some(source) => source.start(&mut shell.ledger),
        None => vec![Message::Tick(real_time(&shell.ledger))],
    };
    shell.publish(first, "", Stopwatch::start()).await;
    let incoming = address::incoming(&ctx.cluster);
    let queue = ctx.bus.queue(&incoming).await?;
    let observations = adapters::start(&ctx, &listed, std::mem::take(&mut source.asking))?;
    let mut inputs = Inputs {
        queue,
        observations,
        source,
    };
    go_on(&ctx, &alive, &mut shell, &mut inputs).await
}

/// What comes to ingest, beside the trace.
struct Inputs {
    /// External events.
    queue: Queue,
    /// Of the adapter.
    observations: Option<mpsc::Receiver<Observation>>,
    /// What is known of nodes.
    source: Source,
}

/// The loop.
async fn go_on(
    ctx: &Context,
    alive: &HealthCheck,
    shell: &mut Shell,
    inputs: &mut Inputs,
) -> Result<(), ServiceError> {
    let Inputs {
        queue,
        observations,
        source,
    } = inputs;
    let snapshot = address::snapshot(&ctx.cluster);
    let mut others = ctx.bus.follow(&snapshot, Start::Last).await?;
    let every = ctx.config.ingest.snapshot_every;
    let mut snapshots = tokio::time::interval(every.to_std());
    let mut repeats = tokio::time::interval(REPEAT);
    let mut link = ctx.bus.link();
    let mut generation = link.seen().generation;
    // The newest external event whose events are stored. It leaves the queue once a snapshot on the
    // disk contains its effect, since the stream of events is written to the disk later.
    let mut done: Option<Delivery> = None;
    loop {
        alive.ok();
        let due = shell.wait();
        // The rarest branch is first, so that none starves.
        tokio::select! {
            biased;
            () = ctx.shutdown.cancelled() => return Ok(()),
            () = link.changed() => {
                let now = link.seen();
                if now.up && now.generation != generation {
                    generation = now.generation;
                    // The server may have lost the newest events; a snapshot repairs that.
                    shell.snapshot(queue, &mut done).await?;
                    shell.places.repeat().await;
                    shell.repeat_tick().await;
                }
            }
            other = others.next() => shell.writer.heard(&other?, shell.ledger.seq())?,
            answer = shell.settled.next() => {
                let answer = answer?.message;
                shell.settle(&answer).await;
            }
            Some(news) = source.news.recv() => shell.places.take(news).await,
            _ = snapshots.tick() => shell.snapshot(queue, &mut done).await?,
            _ = repeats.tick() => shell.repeat_unanswered().await,
            Some(observation) = next_of(observations) => shell.observe(observation).await,
            () = due => shell.play().await,
            delivery = queue.next() => {
                let mut batch = vec![delivery?];
                while batch.len() < BATCH && let Some(more) = queue.try_next() {
                    batch.push(more);
                }
                if shell.external(&batch, queue).await? {
                    done = batch.pop();
                }
            }
        }
    }
}

/// The next message of a source; pending forever without one.
async fn next_of<T>(source: &mut Option<mpsc::Receiver<T>>) -> Option<T> {
    match source {
        Some(source) => source.recv().await,
        None => std::future::pending().await,
    }
}

pub(crate) struct Shell {
    bus: Bus,
    writer: Writer,
    stop: CancellationToken,
    ledger: Ledger,
    source: Option<TraceSource>,
    metrics: Metrics,
    places: Places,
    settled: Subscription<Settled>,
    /// The newest published tick.
    clock: Option<Clock>,
    /// Correlation id of the newest event.
    newest: String,
    /// Whether unread external events wait.
    backlog: bool,
}

impl Shell {
    async fn new(
        ctx: &Context,
        begun: Begun,
        metrics: Metrics,
        places: Places,
    ) -> Result<Self, BusError> {
        Ok(Self {
            settled: ctx.bus.subscribe(&address::settled(&ctx.cluster)).await?,
            bus: ctx.bus.clone(),
            writer: begun.writer,
            stop: ctx.shutdown.clone(),
            ledger: begun.ledger,
            source: begun.source,
            metrics,
            places,
            clock: None,
            newest: String::new(),
            backlog: false,
        })
    }

    /// The present cluster time.
    fn now(&self) -> Timestamp {
        clock::at(self.clock.as_ref(), clock::wall())
    }

    /// Waits until the trace has messages by time; forever without such a trace.
    fn wait(&self) -> impl Future<Output = ()> + use<> {
        let due = self.source.as_ref().and_then(TraceSource::due);
        let rate = match self.clock.as_ref().map(|c| c.pace) {
            Some(Pace::Scaled { rate, .. }) => rate,
            _ => 1.0,
        };
        let left = due.map(|due| (due.since(self.now()).as_secs_f64() / rate).max(0.0));
        async move {
            match left {
                Some(seconds) => {
                    // Clocks have milliseconds. Waking late is better than a busy loop.
                    let wait = Duration::from_secs_f64(seconds.min(3600.0));
                    tokio::time::sleep(wait + Duration::from_millis(1)).await;
                }
                None => std::future::pending().await,
            }
        }
    }

    async fn play(&mut self) {
        let now = self.now();
        let Some(source) = &mut self.source else {
            return;
        };
        let lag = source.due().map_or(0.0, |due| now.since(due).as_secs_f64());
        self.metrics.lag.set(lag.max(0.0));
        let out = source.poll(now, BATCHES, &mut self.ledger);
        self.publish(out, "", Stopwatch::start()).await;
    }

    async fn settle(&mut self, answer: &Settled) {
        let Some(source) = &mut self.source else {
            return;
        };
        let out = source.settled(answer, &mut self.ledger);
        self.publish(out, "", Stopwatch::start()).await;
    }

    /// Takes external messages of the queue. Returns whether a stream keeps all their events. A
    /// crash before that repeats the messages, so none is lost.
    ///
    /// # Errors
    /// If a later ingest writes. The messages then stay in the queue for that ingest.
    async fn external(
        &mut self,
        batch: &[Delivery],
        queue: &mut Queue,
    ) -> Result<bool, ServiceError> {
        let wall = clock::wall();
        let mut events = Vec::new();
        for delivery in batch {
            if !queue.begin(delivery).await {
                self.metrics.external.with_label_values(&["deadly"]).inc();
                continue;
            }
            // An event without a time has the time of its arrival at the server. So a repeated
            // event does not count as newer than events that have overtaken it.
            let now = clock::at(self.clock.as_ref(), delivery.stored.min(wall));
            for part in external::read_all(delivery.headers(), delivery.payload()) {
                let outcome = self.take(&part, now, delivery.subject(), &mut events);
                self.metrics.external.with_label_values(&[outcome]).inc();
            }
        }
        queue.end().await;
        self.backlog = !queue.is_empty() || batch.last().is_some_and(|d| d.pending > 0);
        if !self.store(&events).await {
            return Ok(false);
        }
        if let Err(error) = self.writer.check(self.ledger.seq()).await {
            if error.is::<Superseded>() {
                return Err(error);
            }
            tracing::warn!(%error, "the queue keeps these events until later ones are stored");
            return Ok(false);
        }
        for delivery in batch {
            self.metrics.latency.observe(delivery.arrived.seconds());
        }
        if let Some(last) = batch.last() {
            self.metrics
                .pending
                .set(i64::try_from(last.pending).unwrap_or(i64::MAX));
        }
        Ok(true)
    }

    /// Takes one external event, or dead-letters it. Returns its outcome as a label.
    fn take(
        &mut self,
        part: &external::Part<'_>,
        now: Timestamp,
        subject: &str,
        events: &mut Vec<(NodeEvent, String)>,
    ) -> &'static str {
        let (label, reason) = match &part.event {
            Ok(event) => match self.ledger.external(event, now) {
                Ok(taken) => {
                    let correlation = event.id.as_deref().unwrap_or_default().to_owned();
                    events.extend(taken.into_iter().map(|e| (e, correlation.clone())));
                    return "taken";
                }
                Err(refusal) if !refusal.is_fault() => return refusal.label(),
                Err(refusal) => (refusal.label(), refusal.to_string()),
            },
            Err(error) => ("malformed", error.to_string()),
        };
        self.bus.dead_letter(subject, &reason, &part.payload);
        label
    }

    /// Publishes the events that follow from an observation.
    async fn observe(&mut self, observation: Observation) {
        let Observation {
            at,
            nodes,
            planned,
            done,
        } = observation;
        let unseen = self.ledger.unseen(&nodes);
        let events = self.ledger.reconcile(&nodes, &planned, at);
        let events: Vec<_> = events.into_iter().map(|e| (e, String::new())).collect();
        let stored = self.store(&events).await;
        // An adapter that has ended needs no receipt.
        let _ = done.send(Receipt { stored, unseen });
    }

    /// Publishes in order: events reach their stream before the tick that follows them.
    async fn publish(&mut self, out: Vec<Message>, correlation: &str, since: Stopwatch) {
        let mut events = Vec::new();
        for message in out {
            match message {
                Message::Event(event) => events.push((event, correlation.to_owned())),
                Message::Tick(tick) => {
                    self.store(&std::mem::take(&mut events)).await;
                    self.tick(tick).await;
                }
            }
        }
        if !events.is_empty() {
            self.store(&events).await;
            self.metrics.latency.observe(since.seconds());
        }
    }

    /// Stores events, with retries until all are stored or the service stops. Returns whether all
    /// are stored. A repeated number is harmless.
    async fn store(&mut self, events: &[(NodeEvent, String)]) -> bool {
        let subject = address::event(self.bus.cluster());
        let mut left: Vec<&(NodeEvent, String)> = events.iter().collect();
        while !left.is_empty() && !self.stop.is_cancelled() {
            let mut pending = Vec::with_capacity(left.len());
            for entry in left {
                let (event, cause) = entry;
                self.newest = if cause.is_empty() {
                    format!("{}-{}", self.bus.cluster(), event.seq)
                } else {
                    cause.clone()
                };
                let cause = &self.newest;
                let sent = self.bus.store_later(&subject, event, cause).await;
                tracing::debug!(seq = event.seq, kind = type_of(&event.kind),
                    correlation = %cause, "event");
                pending.push((entry, sent));
            }
            let mut failed = Vec::new();
            for (entry, sent) in pending {
                let kept = match sent {
                    Ok(ack) => ack.wait().await,
                    Err(error) => Err(error),
                };
                match kept {
                    Ok(_) => {
                        let label = type_of(&entry.0.kind);
                        self.metrics.events.with_label_values(&[label]).inc();
                    }
                    Err(BusError::TooLarge { subject, bytes }) => {
                        tracing::error!(subject, bytes, "event too large, dropped");
                        self.bus
                            .dead_letter(&subject, "its event is too large to be kept", &[]);
                    }
                    Err(error) => {
                        if failed.is_empty() {
                            tracing::warn!(%error, "event not kept, trying again");
                        }
                        self.metrics.retries.inc();
                        failed.push(entry);
                    }
                }
            }
            if !failed.is_empty() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            left = failed;
        }
        self.metrics
            .seq
            .set(i64::try_from(self.ledger.seq()).unwrap_or(i64::MAX));
        self.metrics
            .idle
            .set(i64::try_from(self.ledger.idle()).unwrap_or(i64::MAX));
        left.is_empty()
    }

    async fn tick(&mut self, tick: Clock) {
        self.metrics
            .step
            .set(i64::try_from(tick.step).unwrap_or(i64::MAX));
        if tick.ended {
            tracing::info!(seq = tick.events_upto, "the trace has ended");
        }
        let subject = address::clock(self.bus.cluster());
        // Without acknowledgement: a tick is repeated until its answer, and after each
        // reconnection.
        match self.bus.store_later(&subject, &tick, "").await {
            Ok(ack) => drop(ack),
            Err(error) => tracing::warn!(%error, "tick not sent"),
        }
        self.clock = Some(tick);
    }

    async fn repeat_tick(&mut self) {
        if let Some(tick) = self.clock.clone() {
            self.tick(tick).await;
        }
    }

    /// In lock step, repeats a tick without an answer.
    async fn repeat_unanswered(&mut self) {
        let waiting = self.source.as_ref().is_some_and(|p| !p.ended());
        if waiting
            && self
                .clock
                .as_ref()
                .is_some_and(|c| c.pace == Pace::LockStep)
        {
            self.repeat_tick().await;
        }
    }

    /// Publishes a snapshot. If that fails, a later one repairs it.
    ///
    /// # Errors
    /// If a later ingest writes.
    async fn snapshot(
        &mut self,
        queue: &Queue,
        done: &mut Option<Delivery>,
    ) -> Result<(), ServiceError> {
        if !self.bus.connected() {
            // The reconnection publishes the next one.
            return Ok(());
        }
        let now = self.now();
        // A snapshot must not have a time whose events are still to come.
        let behind = self
            .source
            .as_ref()
            .and_then(TraceSource::due)
            .is_some_and(|due| due <= now)
            || self.backlog;
        let at = if behind || self.clock.is_none() {
            self.ledger.newest_at()
        } else {
            now
        };
        let snapshot = self.ledger.snapshot(at);
        if let EventKind::Snapshot { idle } = &snapshot.kind {
            self.places.check(idle);
        }
        self.places.store().await;
        let cause = cause_of(&snapshot, &self.newest);
        for _ in 0..ATTEMPTS {
            match self.writer.keep(&snapshot, &cause).await {
                Ok(()) => {
                    self.metrics.snapshots.inc();
                    if let Some(done) = done.take() {
                        queue.done(&done);
                    }
                    return Ok(());
                }
                Err(error) if error.is::<Superseded>() => return Err(error),
                // After a reconnection, the server may lack some of its streams for a while.
                Err(error) => tracing::warn!(%error, "snapshot not kept"),
            }
            self.metrics.retries.inc();
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }
}

/// The tick of a cluster without a trace, whose time is that of the wall clock.
fn real_time(ledger: &Ledger) -> Clock {
    Clock {
        now: clock::wall(),
        pace: Pace::Real,
        step: 0,
        events_upto: ledger.seq(),
        complete: true,
        ended: false,
        recording: String::new(),
    }
}
