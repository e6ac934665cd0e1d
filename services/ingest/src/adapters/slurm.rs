//! Asks a living Slurm: `sinfo`, then `squeue`, in each cycle.
//!
//! Nodes come first: whatever changes between the two answers then makes a node look less free
//! than it is (see `standing` in `schedlog::living`), never more.

use jiff::tz::TimeZone;
use lacuna_model::Span;
use lacuna_runtime::config::{Marks, Slurm};
use lacuna_runtime::{HealthCheck, ServiceError, Stopwatch, clock};
use lacuna_schedlog::living::{JobReport, NodeReport, PilotMarks, Rules, Watch, sinfo, squeue};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::Sighting;
use super::command::{self, Failure};
use super::metrics::SchedulerMetrics;
use super::pacer::{Cycle, Pacer};

/// The poller's state.
pub(crate) struct Poller {
    settings: Slurm,
    zone: TimeZone,
    metrics: SchedulerMetrics,
    health: HealthCheck,
    /// Since the newest answer, or the beginning.
    answered: Stopwatch,
    /// The newest failure, if no answer has come since.
    failing: Option<String>,
}

/// The marks of pilots, in the words of the core.
pub(super) fn marks(marks: &Marks) -> PilotMarks {
    PilotMarks {
        partition: marks.partition.clone(),
        account: marks.account.clone(),
        user: marks.user.clone(),
        comment: marks.comment.clone(),
        name: marks.name.clone(),
    }
}

impl Poller {
    pub(crate) fn new(
        settings: Slurm,
        zone: TimeZone,
        metrics: SchedulerMetrics,
        health: HealthCheck,
    ) -> Self {
        Self {
            settings,
            zone,
            metrics,
            health,
            answered: Stopwatch::start(),
            failing: None,
        }
    }

    /// Asks again and again, until it is to stop.
    pub(crate) async fn run(
        mut self,
        to: mpsc::Sender<Sighting>,
        stop: CancellationToken,
    ) -> Result<(), ServiceError> {
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = self.go_on(&to) => ended,
        }
    }

    async fn go_on(&mut self, to: &mpsc::Sender<Sighting>) -> Result<(), ServiceError> {
        let settings = &self.settings;
        let rules = Rules {
            pilots: marks(&settings.pilots),
            planned_are_holes: settings.planned_are_holes,
            absent_after: settings.absent_after,
            most_promises: settings.most_promises,
        };
        let mut watch = Watch::new(rules, []);
        let mut pacer = Pacer::new(settings.polling.clone());
        let since = Stopwatch::start();
        loop {
            while let Err(wait) = pacer.ask(2, since.seconds()) {
                self.metrics.delayed.inc();
                tokio::time::sleep(wait.to_std()).await;
            }
            self.metrics.show(pacer.breaker());
            let at = clock::wall();
            let cycle = Stopwatch::start();
            let mut slowest = Span::ZERO;
            let answer = self.ask(&mut slowest).await;
            let failed = answer.is_err();
            match answer {
                Ok((nodes, jobs)) => {
                    let sight = watch.take(&nodes, &jobs);
                    self.answered();
                    self.metrics
                        .count(sight.nodes.iter().map(|(_, standing)| standing));
                    let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
                    self.metrics.missing.set(number(sight.missing));
                    self.metrics.promises.set(number(watch.promises()));
                    let (done, kept) = oneshot::channel();
                    let sighting = Sighting {
                        at,
                        nodes: sight.nodes,
                        promises: sight.promises,
                        done,
                    };
                    if to.send(sighting).await.is_err() {
                        return Ok(());
                    }
                    // It may be late, while the bus is gone; the next answer waits for that.
                    if let Ok(kept) = kept.await {
                        watch.expect(kept.unseen);
                    }
                }
                Err(failure) => self.failed(&failure),
            }
            let took = cycle.span();
            let wait = pacer.done(
                Cycle {
                    failed,
                    slowest,
                    took,
                },
                rand::random(),
            );
            self.metrics.show(pacer.breaker());
            tokio::time::sleep(wait.to_std()).await;
        }
    }

    /// One cycle: two requests.
    async fn ask(
        &self,
        slowest: &mut Span,
    ) -> Result<(Vec<NodeReport>, Vec<JobReport>), (&'static str, Failure)> {
        let settings = &self.settings;
        let arguments = sinfo::arguments(settings.pilots.partition.as_deref());
        let nodes = self
            .request("sinfo", &settings.sinfo, &arguments, slowest, sinfo::read)
            .await
            .map_err(|failure| ("sinfo", failure))?;
        let zone = &self.zone;
        let read = |answer: &str| squeue::read(answer, zone);
        let jobs = self
            .request(
                "squeue",
                &settings.squeue,
                &squeue::arguments(),
                slowest,
                read,
            )
            .await
            .map_err(|failure| ("squeue", failure))?;
        Ok((nodes, jobs))
    }

    async fn request<T>(
        &self,
        label: &str,
        program: &[String],
        arguments: &[String],
        slowest: &mut Span,
        read: impl FnOnce(&str) -> Result<T, lacuna_schedlog::living::AnswerError>,
    ) -> Result<T, Failure> {
        let limit = self.settings.polling.limit;
        let since = Stopwatch::start();
        let said = command::run(program, arguments, limit).await;
        let took = since.span();
        *slowest = took.max(*slowest);
        self.metrics.requests.with_label_values(&[label]).inc();
        self.metrics
            .seconds
            .with_label_values(&[label])
            .observe(took.as_secs_f64());
        said?.read(label, read)
    }

    fn answered(&mut self) {
        if let Some(failure) = self.failing.take() {
            tracing::info!(after = %self.answered.span(), failure, "slurm answers again");
        }
        self.answered = Stopwatch::start();
        self.metrics.stale.set(0);
        let now = clock::wall().unix_ms() as f64 / 1000.0;
        self.metrics.answered.set(now);
        self.health.ok();
    }

    /// Nothing changes: what was known before still holds, as far as anybody knows.
    fn failed(&mut self, (command, failure): &(&'static str, Failure)) {
        self.metrics
            .failures
            .with_label_values(&[command, failure.label()])
            .inc();
        self.metrics.stale.set(1);
        let text = failure.to_string();
        let silent = self.answered.span();
        if self.failing.as_ref() == Some(&text) {
            tracing::debug!(command, failure = text, "slurm still does not answer");
        } else {
            tracing::warn!(
                command,
                failure = text,
                "no answer from slurm: the pool stays as it was"
            );
        }
        self.health
            .ok_but(format!("no answer from slurm for {silent}: {text}"));
        self.failing = Some(text);
    }
}
