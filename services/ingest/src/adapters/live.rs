//! Polls a live scheduler, follows its file, or both.
//!
//! New lines are read between the answers of a cycle and their judgement, so that the owners of the jobs
//! are known. A scheduler that is only followed has its past read first: before its end the running
//! jobs are unknown.

use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_runtime::command::Ended;
use lacuna_runtime::{ServiceError, Stopwatch, clock};
use lacuna_scheduler::NodeStatus;
use lacuna_scheduler::live::{Live, Question, Request};
use tokio_util::sync::CancellationToken;

use super::command::{self, Failure, Variables};
use super::follow::{Batch, Follower, load, save};
use super::metrics::FollowMetrics;
use super::pacer::{Breaker, Cycle, Pacer};
use super::source::Source;
use crate::topology::{Asking, News};

/// A record has the second in which it was written; its events are before the end of that second.
const SECOND: Span = Span::from_ms(999);

/// Age below which a record is recent.
const RECENT: Span = Span::from_secs(60);

/// The moment of an observation from records, of which `newest` is the newest. Recent records count
/// as of `now`, since the clock of the scheduler may be some seconds off. Older records, written
/// while ingest was down, count as of their own time.
fn moment(newest: Timestamp, now: Timestamp) -> Timestamp {
    match now.since(newest) < RECENT {
        true => now,
        false => newest + SECOND,
    }
}

/// A file that is followed.
struct Followed {
    follower: Follower,
    metrics: FollowMetrics,
    every: Span,
    /// Time of the newest record.
    newest: Option<Timestamp>,
}

/// The adapter of a scheduler.
pub(crate) struct Adapter {
    live: Box<dyn Live>,
    source: Source,
    asking: Vec<Asking>,
    pacer: Option<Pacer>,
    limit: Span,
    followed: Option<Followed>,
    /// Whether the past of the file was read.
    has_begun: bool,
    since: Stopwatch,
}

impl Adapter {
    /// # Errors
    /// If the state file exists and cannot be read.
    pub(crate) fn new(
        mut live: Box<dyn Live>,
        source: Source,
        metrics: Option<FollowMetrics>,
        asking: Vec<Asking>,
    ) -> Result<Self, ServiceError> {
        let polling = live.polling().ok().cloned();
        let file = live.follow().ok();
        let file = file.map(|file| (file.path.to_owned(), file.following.clone()));
        let followed = match file.zip(metrics) {
            None => None,
            Some(((path, following), metrics)) => {
                let state_file = following.state_file.as_deref();
                let position = load(state_file, |state| live.restore(state))?;
                Some(Followed {
                    follower: Follower::new(&path, position),
                    metrics,
                    every: following.every,
                    newest: None,
                })
            }
        };
        Ok(Self {
            live,
            source,
            asking,
            limit: polling.as_ref().map_or(Span::ZERO, |polling| polling.limit),
            has_begun: polling.is_some(),
            pacer: polling.map(Pacer::new),
            followed,
            since: Stopwatch::start(),
        })
    }

    /// Polls and follows until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), ServiceError> {
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = self.go_on() => ended,
        }
    }

    async fn go_on(&mut self) -> Result<(), ServiceError> {
        let mut due_s = self.pacer.is_some().then_some(0.0);
        loop {
            if due_s.is_some_and(|due_s| self.since.seconds() >= due_s)
                && let Some(mut pacer) = self.pacer.take()
            {
                let wait = self.poll(&mut pacer).await?;
                self.pacer = Some(pacer);
                due_s = Some(self.since.seconds() + wait.as_secs_f64());
            }
            if self.follow().await? {
                continue;
            }
            let left = due_s.map(|due_s| {
                let left_s = due_s - self.since.seconds();
                Span::from_secs_f64(left_s.max(0.001))
            });
            let every = self.followed.as_ref().map(|followed| followed.every);
            let Some(wait) = left.into_iter().chain(every).min() else {
                return Err("the scheduler is neither polled nor followed".into());
            };
            tokio::time::sleep(wait.to_std()).await;
        }
    }

    /// One polling cycle, if the budget has room. Returns the wait until the next.
    async fn poll(&mut self, pacer: &mut Pacer) -> Result<Span, ServiceError> {
        self.ask_of_nodes(pacer).await;
        let requests = self.live.requests();
        let count = u32::try_from(requests.len()).unwrap_or(u32::MAX);
        if let Err(wait) = pacer.ask(count, self.since.seconds()) {
            self.source.metrics.delayed.inc();
            return Ok(wait);
        }
        self.source.metrics.show(pacer.breaker());
        let at = clock::wall();
        let cycle = Stopwatch::start();
        let mut slowest = Span::ZERO;
        let answer = self.ask(&requests, &mut slowest).await;
        let failed = answer.is_err();
        match answer {
            Ok(()) => {
                while self.follow().await? {}
                self.observe(at).await;
            }
            Err(failure) => self.source.failed(&failure.to_string()),
        }
        let took = cycle.span();
        let cycle = Cycle {
            failed,
            slowest,
            took,
        };
        let wait = pacer.done(cycle, rand::random());
        self.source.metrics.show(pacer.breaker());
        Ok(wait)
    }

    /// Asks where nodes are and of which kind by requests of their own, if that is due, the budget has
    /// room, and the scheduler is not slow.
    async fn ask_of_nodes(&mut self, pacer: &mut Pacer) {
        let mut all = std::mem::take(&mut self.asking);
        for asking in &mut all {
            let Ok(Question::Own(request)) = asking.question(self.live.as_ref()) else {
                continue;
            };
            let now_s = self.since.seconds();
            if !asking.is_due(now_s)
                || pacer.breaker() != Breaker::Closed
                || pacer.ask(1, now_s).is_err()
            {
                continue;
            }
            let news = match self.request(&request, &mut Span::default()).await {
                Ok(ended) => {
                    let read = |answer: &str| asking.read(self.live.as_ref(), answer);
                    self.counted(&request, command::read(&ended, request.label, read))
                }
                Err(failure) => Err(failure),
            };
            asking.take(news, self.since.seconds()).await;
        }
        self.asking = all;
    }

    /// Runs the commands of a cycle, until one fails, and reads their answers.
    async fn ask(&mut self, requests: &[Request], slowest: &mut Span) -> Result<(), Failure> {
        for (at, request) in requests.iter().enumerate() {
            let ended = self.request(request, slowest).await?;
            self.tell(at, &ended).await;
            let live = &mut self.live;
            let read = command::read(&ended, request.label, |answer| live.read(at, answer));
            self.counted(request, read)?;
        }
        Ok(())
    }

    /// Reads from the answer of a cycle where nodes are and of which kind, if that is due.
    async fn tell(&mut self, request: usize, ended: &Ended) {
        let now_s = self.since.seconds();
        for asking in self.asking.iter_mut().filter(|asking| asking.is_due(now_s)) {
            if asking.question(self.live.as_ref()) == Ok(Question::Cycle(request)) {
                let news: Result<News, _> = asking.read(self.live.as_ref(), &ended.stdout);
                asking.take(news, now_s).await;
            }
        }
    }

    async fn request(&self, request: &Request, slowest: &mut Span) -> Result<Ended, Failure> {
        let since = Stopwatch::start();
        let variables = Variables::of(self.live.as_ref());
        let ended = command::run(request, variables, self.limit).await;
        let took = since.span();
        *slowest = took.max(*slowest);
        let (metrics, label) = (&self.source.metrics, [request.label]);
        metrics.requests.with_label_values(&label).inc();
        let seconds = metrics.seconds.with_label_values(&label);
        seconds.observe(took.as_secs_f64());
        self.counted(request, ended)
    }

    /// Counts a failure.
    fn counted<T>(&self, request: &Request, done: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(failure) = &done {
            let labels = [request.label, failure.label()];
            let failures = &self.source.metrics.failures;
            failures.with_label_values(&labels).inc();
        }
        done
    }

    async fn observe(&mut self, at: Timestamp) {
        let result = self.live.result();
        self.source.answered();
        self.source.flawed(&result.flaws);
        let metrics = &self.source.metrics;
        metrics.count(result.nodes.iter().map(|(_, status)| status));
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        metrics.missing.set(number(result.missing));
        metrics.silent.set(number(result.silent));
        metrics.planned.set(number(result.kept));
        let sent = self.source.send(at, result.nodes, result.planned);
        if let Some(receipt) = sent.await {
            self.live.expect(receipt.unseen);
        }
    }

    /// Reads new lines, and sends what they change. Returns whether there are more.
    async fn follow(&mut self) -> Result<bool, ServiceError> {
        let Some(mut followed) = self.followed.take() else {
            return Ok(false);
        };
        let (back, looked) = lacuna_runtime::task::blocking(move || {
            let looked = followed.follower.look();
            (followed, looked)
        })
        .await?;
        let followed = self.followed.insert(back);
        followed.metrics.show(followed.follower.counts());
        let is_polled = self.live.polling().is_ok();
        let batch = match looked {
            Ok(batch) => batch,
            Err(error) => {
                followed.metrics.failed(&error);
                if !is_polled {
                    self.source.failed(&error.to_string());
                }
                return Ok(false);
            }
        };
        followed.metrics.stale.set(0);
        if !is_polled {
            self.source.answered();
        }
        self.take(&batch);
        let mut stored = true;
        if self.has_begun || !batch.more {
            stored = self.send_changes().await;
        }
        if stored && self.has_begun && !batch.lines.is_empty() {
            self.save();
        }
        Ok(batch.more)
    }

    fn take(&mut self, batch: &Batch) {
        let Some(followed) = &mut self.followed else {
            return;
        };
        for line in &batch.lines {
            match self.live.line(line) {
                Ok(at) => followed.newest = followed.newest.max(at),
                Err(error) => followed.metrics.damage(&error),
            }
        }
        followed.metrics.lines.inc_by(batch.lines.len() as u64);
    }

    /// Sends the nodes that lines have changed: all nodes at the end of the past. Returns whether a
    /// stream keeps the events.
    async fn send_changes(&mut self) -> bool {
        let changes = self.live.changes();
        let all = self.live.statuses();
        if !all.is_empty() {
            let statuses = all.iter().map(|(_, status)| status);
            self.source.metrics.count(statuses);
        }
        let now = clock::wall();
        let newest = self.followed.as_ref().and_then(|followed| followed.newest);
        let at = newest.map_or(now, |newest| moment(newest, now));
        let (at, nodes): (Timestamp, Vec<(NodeId, NodeStatus)>) = match self.has_begun {
            true => (at, changes),
            false => (now, all),
        };
        self.has_begun = true;
        if nodes.is_empty() {
            return true;
        }
        let receipt = self.source.send(at, nodes, Vec::new()).await;
        receipt.is_some_and(|receipt| receipt.stored)
    }

    /// Saves the position of the file, if a state file is named.
    fn save(&self) {
        let (Some(followed), Ok(file)) = (&self.followed, self.live.follow()) else {
            return;
        };
        if let Some(path) = file.following.state_file.as_deref()
            && let Err(error) = save(path, followed.follower.position(), self.live.state())
        {
            followed.metrics.unsaved(&error);
        }
    }
}
