//! The shell: bus and clock in, ledger and player, bus out.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use lacuna_model::{NodeEvent, Span, Timestamp};
use lacuna_runtime::config::{Ingest, Recording, RecordingPace};
use lacuna_runtime::{
    Bus, BusError, Context, Delivery, Misconfigured, NoArgs, Running, ServiceError, Stopwatch,
    Subscription, clock,
};
use lacuna_schedlog::Window;
use lacuna_timeline::UnknownNodes;
use lacuna_wire::msg::{Clock, Pace, Settled};
use lacuna_wire::{address, external, time_text};
use tokio_util::sync::CancellationToken;

use crate::ledger::Ledger;
use crate::metrics::{Metrics, type_of};
use crate::player::{Out, Player, Tape};
use crate::recover::recover;

/// External events taken at once.
const BATCH: usize = 512;

/// Recorded moments published at once.
const MOMENTS: usize = 64;

/// A tick that has found no answer is repeated this often: the answer may be lost.
const REPEAT: Duration = Duration::from_secs(1);

/// Runs until shutdown.
///
/// # Errors
/// If the recording or the list of nodes cannot be read, or the bus is closed for good.
pub fn run(ctx: Context, _: NoArgs) -> Running {
    Box::pin(serve(ctx))
}

async fn serve(ctx: Context) -> Result<(), ServiceError> {
    let settings = ctx.config.ingest.clone();
    let metrics = Metrics::new(&ctx.registry)?;
    let alive = ctx.health.check("loop", Some(Span::from_secs(30)));
    let (nodes, recorded) = {
        let settings = settings.clone();
        let read = tokio::task::spawn_blocking(move || read_files(&settings)).await?;
        read.map_err(|error| Misconfigured(error.to_string()))?
    };
    let mut ledger = Ledger::new(0, nodes, settings.dedup_window, settings.max_ahead);
    let before = recover(&ctx.bus, &mut ledger).await?;
    let mut player = match recorded {
        Some(tape) => Some(Player::begin(tape, before, &mut ledger)),
        None => {
            if before.is_some_and(|tick| !tick.recording.is_empty()) {
                // The nodes of a recording are not ours.
                ledger.reset(ledger.seq(), clock::wall());
            }
            None
        }
    };
    let snapshot = ledger.snapshot(ledger.newest_at());
    let first = match &mut player {
        Some(player) => player.start(&mut ledger),
        None => vec![Out::Tick(real_time(&ledger))],
    };
    let mut shell = Shell {
        settled: ctx.bus.subscribe(&address::settled(&ctx.cluster)).await?,
        bus: ctx.bus.clone(),
        stop: ctx.shutdown.clone(),
        ledger,
        player,
        metrics,
        clock: None,
    };
    // Before any event: its number may be far ahead of all that consumers have seen.
    shell.keep_snapshot(&snapshot).await;
    shell.publish(first, "", Stopwatch::start()).await;
    let mut queue = ctx
        .bus
        .work_queue(&address::incoming(&ctx.cluster), "ingest")
        .await?;
    let mut snapshots = tokio::time::interval(settings.snapshot_every.to_std());
    let mut repeats = tokio::time::interval(REPEAT);
    let mut link = ctx.bus.link();
    let mut generation = link.borrow_and_update().generation;
    loop {
        alive.ok();
        let due = shell.wait();
        tokio::select! {
            () = ctx.shutdown.cancelled() => return Ok(()),
            changed = link.changed() => {
                changed?;
                let now = *link.borrow_and_update();
                if now.up && now.generation != generation {
                    generation = now.generation;
                    // The server may have lost the newest events; a snapshot repairs that.
                    shell.snapshot().await;
                    shell.repeat_tick().await;
                }
            }
            delivery = queue.next() => {
                let mut batch = vec![delivery?];
                while batch.len() < BATCH && let Some(more) = queue.try_next() {
                    batch.push(more);
                }
                shell.external(&batch).await;
            }
            answer = shell.settled.next() => {
                let answer = answer?.message;
                shell.settle(&answer).await;
            }
            () = due => shell.play().await,
            _ = snapshots.tick() => shell.snapshot().await,
            _ = repeats.tick() => shell.repeat_unanswered().await,
        }
    }
}

struct Shell {
    bus: Bus,
    stop: CancellationToken,
    ledger: Ledger,
    player: Option<Player>,
    metrics: Metrics,
    settled: Subscription<Settled>,
    /// The newest tick published.
    clock: Option<Clock>,
}

impl Shell {
    /// The cluster's time now.
    fn now(&self) -> Timestamp {
        clock::at(self.clock.as_ref(), clock::wall())
    }

    /// Waits until the recording has something to say by time; for ever if it has not.
    fn wait(&self) -> impl Future<Output = ()> + use<> {
        let due = self.player.as_ref().and_then(Player::due);
        let rate = match self.clock.as_ref().map(|c| c.pace) {
            Some(Pace::Scaled { rate, .. }) => rate,
            _ => 1.0,
        };
        let left = due.map(|due| (due.since(self.now()).as_secs_f64() / rate).max(0.0));
        async move {
            match left {
                Some(seconds) => {
                    // Clocks go by milliseconds; a little late is better than a loop.
                    let wait = Duration::from_secs_f64(seconds.min(3600.0));
                    tokio::time::sleep(wait + Duration::from_millis(1)).await;
                }
                None => std::future::pending().await,
            }
        }
    }

    async fn play(&mut self) {
        let now = self.now();
        let Some(player) = &mut self.player else {
            return;
        };
        let lag = player.due().map_or(0.0, |due| now.since(due).as_secs_f64());
        self.metrics.lag.set(lag.max(0.0));
        let out = player.poll(now, MOMENTS, &mut self.ledger);
        self.publish(out, "", Stopwatch::start()).await;
    }

    async fn settle(&mut self, answer: &Settled) {
        let Some(player) = &mut self.player else {
            return;
        };
        let out = player.settled(answer, &mut self.ledger);
        self.publish(out, "", Stopwatch::start()).await;
    }

    /// Takes what external programs said. Each delivery is acknowledged when all that came of
    /// it is kept by a stream, so that a crash between repeats it and nothing is lost.
    async fn external(&mut self, batch: &[Delivery]) {
        let now = self.now();
        let mut events = Vec::new();
        for delivery in batch {
            let outcome = match external::read(delivery.headers(), delivery.payload()) {
                Ok(event) => match self.ledger.external(&event, now) {
                    Ok(taken) => {
                        let correlation = event.id.unwrap_or_default();
                        events.extend(taken.into_iter().map(|e| (e, correlation.clone())));
                        "taken"
                    }
                    Err(refusal) => {
                        if refusal.is_fault() {
                            let reason = refusal.to_string();
                            self.bus
                                .bury(delivery.subject(), &reason, delivery.payload());
                        }
                        refusal.label()
                    }
                },
                Err(error) => {
                    let reason = error.to_string();
                    self.bus
                        .bury(delivery.subject(), &reason, delivery.payload());
                    "malformed"
                }
            };
            self.metrics.external.with_label_values(&[outcome]).inc();
        }
        self.store(&events).await;
        for delivery in batch {
            if let Err(error) = delivery.ack().await {
                tracing::warn!(%error, "acknowledgement lost, the event will come again");
            }
            self.metrics.latency.observe(delivery.arrived.seconds());
        }
        if let Some(last) = batch.last() {
            self.metrics
                .pending
                .set(i64::try_from(last.pending).unwrap_or(i64::MAX));
        }
    }

    /// Publishes in order: events first reach their stream, then the tick that follows them.
    async fn publish(&mut self, out: Vec<Out>, correlation: &str, since: Stopwatch) {
        let mut events = Vec::new();
        for message in out {
            match message {
                Out::Event(event) => events.push((event, correlation.to_owned())),
                Out::Tick(tick) => {
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

    /// Stores events, again and again until all are kept. The same number twice is no harm.
    async fn store(&self, events: &[(NodeEvent, String)]) {
        let subject = address::event(self.bus.cluster());
        let mut left: Vec<&(NodeEvent, String)> = events.iter().collect();
        while !left.is_empty() && !self.stop.is_cancelled() {
            let mut pending = Vec::with_capacity(left.len());
            for entry in left {
                let (event, cause) = entry;
                let own;
                let cause = if cause.is_empty() {
                    own = format!("{}-{}", self.bus.cluster(), event.seq);
                    &own
                } else {
                    cause
                };
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
    }

    async fn tick(&mut self, tick: Clock) {
        self.metrics
            .step
            .set(i64::try_from(tick.step).unwrap_or(i64::MAX));
        if tick.ended {
            tracing::info!(seq = tick.events_upto, "the recording has ended");
        }
        let subject = address::clock(self.bus.cluster());
        // Unacknowledged: it is repeated until it is answered, and after every reconnection.
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

    /// In lock step, a tick without an answer is said again.
    async fn repeat_unanswered(&mut self) {
        let waiting = self.player.as_ref().is_some_and(|p| !p.ended());
        if waiting
            && self
                .clock
                .as_ref()
                .is_some_and(|c| c.pace == Pace::LockStep)
        {
            self.repeat_tick().await;
        }
    }

    /// Publishes the snapshot of the start, again and again until it is kept.
    async fn keep_snapshot(&self, snapshot: &NodeEvent) {
        let subject = address::snapshot(self.bus.cluster());
        while !self.stop.is_cancelled() {
            let sent = self.bus.store_later(&subject, snapshot, "").await;
            let kept = match sent {
                Ok(ack) => ack.wait().await,
                Err(error) => Err(error),
            };
            match kept {
                Ok(_) => {
                    self.metrics.snapshots.inc();
                    return;
                }
                Err(error) => tracing::warn!(%error, "snapshot not kept, trying again"),
            }
            self.metrics.retries.inc();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn snapshot(&mut self) {
        let now = self.now();
        // A snapshot must not claim a time whose events are still to come.
        let behind = self
            .player
            .as_ref()
            .and_then(Player::due)
            .is_some_and(|due| due <= now);
        let at = if behind || self.clock.is_none() {
            self.ledger.newest_at()
        } else {
            now
        };
        let snapshot = self.ledger.snapshot(at);
        let subject = address::snapshot(self.bus.cluster());
        match self.bus.store_later(&subject, &snapshot, "").await {
            Ok(ack) => {
                drop(ack);
                self.metrics.snapshots.inc();
            }
            Err(error) => tracing::warn!(%error, "snapshot not sent"),
        }
    }
}

/// Without a recording, the cluster's time is the wall clock's.
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

/// Reads the list of nodes and the recording.
fn read_files(settings: &Ingest) -> Result<(UnknownNodes, Option<Tape>), ServiceError> {
    let nodes = match &settings.nodes_file {
        Some(path) => {
            let nodes = lacuna_schedlog::read_nodes(path)?;
            UnknownNodes::Refuse(nodes.into_iter().collect::<BTreeSet<_>>())
        }
        None => UnknownNodes::Accept,
    };
    let recorded = settings
        .recording
        .as_ref()
        .map(read_recording)
        .transpose()?;
    Ok((nodes, recorded))
}

/// What distinguishes a recording: the file by its name and size, and what of it is played.
fn fingerprint(recording: &Recording) -> Result<String, ServiceError> {
    let name = |path: &Path| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let size = std::fs::metadata(&recording.path)?.len();
    let mut told = format!("{} {size} B", name(&recording.path));
    if let Some(start) = recording.start {
        told += &format!(", from {}", time_text::format(start));
    }
    if let Some(end) = recording.end {
        told += &format!(", until {}", time_text::format(end));
    }
    if let Some(count) = recording.first_nodes {
        told += &format!(", first {count} nodes");
        if let Some(order) = &recording.nodes_file {
            told += &format!(" of {}", name(order));
        }
    }
    Ok(told)
}

fn read_recording(recording: &Recording) -> Result<Tape, ServiceError> {
    let list = lacuna_schedlog::read_holes(&recording.path)?;
    let order = recording
        .nodes_file
        .as_ref()
        .map(|path| lacuna_schedlog::read_nodes(path))
        .transpose()?;
    let chosen = recording
        .first_nodes
        .map(|count| lacuna_schedlog::first_nodes(count, order.as_deref(), &list.records));
    let window = Window {
        start: recording.start,
        end: recording.end,
    };
    let moments = lacuna_schedlog::moments(&list.records, chosen.as_ref(), window);
    let last = moments.last().map(|m| m.at);
    let recorded_end = list.end().or(last).ok_or("the recording has no holes")?;
    let end = recording
        .end
        .map_or(recorded_end, |end| end.min(recorded_end));
    let end = last.map_or(end, |last| end.max(last));
    tracing::info!(
        holes = list.records.len(),
        refused = ?list.refused,
        moments = moments.len(),
        end = %time_text::format(end),
        "recording read"
    );
    let pace = match recording.pace {
        RecordingPace::LockStep => Pace::LockStep,
        RecordingPace::Scaled => Pace::Scaled {
            rate: recording.rate,
            wall_at: clock::wall(),
        },
    };
    Ok(Tape {
        moments,
        end,
        pace,
        recording: fingerprint(recording)?,
    })
}
