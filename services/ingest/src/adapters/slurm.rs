//! Adapter of a live Slurm, which polls `sinfo`, then `squeue`, in each cycle.
//!
//! Nodes come first. A change between the two answers then makes a node look less free than it is,
//! never more (see `node_status` in `lacuna_scheduler`).

use jiff::tz::TimeZone;
use lacuna_model::Span;
use lacuna_runtime::{ServiceError, Stopwatch, clock};
use lacuna_scheduler::settings::{Answers, Slurm};
use lacuna_scheduler::{
    AnswerError, JobReport, NodeReport, Tracker, json, kinds, sinfo, squeue, topology,
};
use tokio_util::sync::CancellationToken;

use super::command::{self, Failure};
use super::pacer::{Breaker, Cycle, Pacer};
use super::source::Source;
use crate::topology::{Asked, Asking, News};

/// Nodes, jobs, and what of them could not be read.
type Answer = (Vec<NodeReport>, Vec<JobReport>, Vec<String>);

/// The adapter of Slurm.
pub(crate) struct Poller {
    settings: Slurm,
    zone: TimeZone,
    source: Source,
    asking: Vec<Asking>,
}

impl Poller {
    pub(crate) fn new(
        settings: Slurm,
        zone: TimeZone,
        source: Source,
        asking: Vec<Asking>,
    ) -> Self {
        Self {
            settings,
            zone,
            source,
            asking,
        }
    }

    /// Polls until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), ServiceError> {
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = self.go_on() => ended,
        }
    }

    async fn go_on(&mut self) -> Result<(), ServiceError> {
        let settings = &self.settings;
        let mut tracker = Tracker::new(settings.clone(), []);
        let mut pacer = Pacer::new(settings.polling.clone());
        let since = Stopwatch::start();
        loop {
            self.ask_of_nodes(&mut pacer, &since).await;
            while let Err(wait) = pacer.ask(2, since.seconds()) {
                self.source.metrics.delayed.inc();
                tokio::time::sleep(wait.to_std()).await;
            }
            self.source.metrics.show(pacer.breaker());
            let at = clock::wall();
            let cycle = Stopwatch::start();
            let mut slowest = Span::ZERO;
            let answer = self.ask(&mut slowest).await;
            let failed = answer.is_err();
            match answer {
                Ok((nodes, jobs, flaws)) => {
                    let result = tracker.take(&nodes, &jobs);
                    self.source.answered();
                    self.source.flawed(&flaws);
                    let metrics = &self.source.metrics;
                    metrics.count(result.nodes.iter().map(|(_, status)| status));
                    let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
                    metrics.missing.set(number(result.missing));
                    metrics.silent.set(number(result.silent));
                    metrics.planned.set(number(tracker.planned()));
                    let sent = self.source.send(at, result.nodes, result.planned);
                    if let Some(receipt) = sent.await {
                        tracker.expect(receipt.unseen);
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
            self.source.metrics.show(pacer.breaker());
            tokio::time::sleep(wait.to_std()).await;
        }
    }

    /// Asks where nodes are and of which kind, if that is due, the budget has room, and Slurm is not
    /// slow.
    async fn ask_of_nodes(&mut self, pacer: &mut Pacer, since: &Stopwatch) {
        let mut all = std::mem::take(&mut self.asking);
        for asking in &mut all {
            if !asking.is_due(since.seconds())
                || pacer.breaker() != Breaker::Closed
                || pacer.ask(1, since.seconds()).is_err()
            {
                continue;
            }
            let (command, answer) = match asking.asked() {
                Asked::Topology => ("scontrol", self.ask_topology(asking).await),
                Asked::Kinds => ("sinfo", self.ask_kinds(asking).await),
            };
            if let Err(failure) = &answer {
                let labels = [command, failure.label()];
                let failures = &self.source.metrics.failures;
                failures.with_label_values(&labels).inc();
            }
            asking.take(answer, since.seconds()).await;
        }
        self.asking = all;
    }

    async fn ask_topology(&self, asking: &mut Asking) -> Result<News, Failure> {
        let (program, arguments) = (&self.settings.scontrol, topology::arguments());
        let mut took = Span::ZERO;
        let read = topology::read_slurm;
        let answer = self.request("scontrol", program, &arguments, &mut took, read);
        Ok(asking.noted(answer.await?))
    }

    async fn ask_kinds(&self, asking: &Asking) -> Result<News, Failure> {
        let is_json = self.settings.answers == Answers::Json;
        let arguments = match is_json {
            true => Vec::new(),
            false => kinds::arguments(),
        };
        let read = |answer: &str| {
            let labels = match is_json {
                true => kinds::read_slurm_json(answer),
                false => kinds::read_slurm(answer),
            };
            labels.and_then(|labels| asking.kinds(&labels))
        };
        let mut took = Span::ZERO;
        self.request("sinfo", &self.settings.sinfo, &arguments, &mut took, read)
            .await
    }

    /// One polling cycle of two requests: nodes, jobs, and what of them could not be read.
    async fn ask(&self, slowest: &mut Span) -> Result<Answer, (&'static str, Failure)> {
        let settings = &self.settings;
        let partition = settings.pilots.partition.as_deref();
        let zone = &self.zone;
        let is_json = settings.answers == Answers::Json;
        let (sinfo_args, squeue_args) = match is_json {
            true => (Vec::new(), Vec::new()),
            false => (sinfo::arguments(partition), squeue::arguments()),
        };
        let (mut flaws, mut more) = (Vec::new(), Vec::new());
        let read_nodes = |answer: &str| match is_json {
            true => json::read_nodes(answer, &mut flaws),
            false => sinfo::read(answer),
        };
        let read_jobs = |answer: &str| match is_json {
            true => json::read_jobs(answer, &mut more),
            false => squeue::read(answer, zone),
        };
        let nodes = self
            .request("sinfo", &settings.sinfo, &sinfo_args, slowest, read_nodes)
            .await
            .map_err(|failure| ("sinfo", failure))?;
        let jobs = self
            .request("squeue", &settings.squeue, &squeue_args, slowest, read_jobs)
            .await
            .map_err(|failure| ("squeue", failure))?;
        flaws.append(&mut more);
        Ok((nodes, jobs, flaws))
    }

    async fn request<T>(
        &self,
        label: &str,
        program: &[String],
        arguments: &[String],
        slowest: &mut Span,
        read: impl FnOnce(&str) -> Result<T, AnswerError>,
    ) -> Result<T, Failure> {
        let limit = self.settings.polling.limit;
        let since = Stopwatch::start();
        let ended = command::run(program, arguments, limit).await;
        let took = since.span();
        *slowest = took.max(*slowest);
        self.source
            .metrics
            .requests
            .with_label_values(&[label])
            .inc();
        self.source
            .metrics
            .seconds
            .with_label_values(&[label])
            .observe(took.as_secs_f64());
        command::read(&ended?, label, read)
    }

    fn failed(&mut self, (command, failure): &(&'static str, Failure)) {
        let labels = [command, failure.label()];
        self.source
            .metrics
            .failures
            .with_label_values(&labels)
            .inc();
        self.source.failed(&failure.to_string());
    }
}
