//! A living PBS: accounting records followed, and `pbsnodes` asked.
//!
//! Records tell at once who starts and ends; `pbsnodes` tells what else a node may be, and
//! repairs what records have missed. Records are read after `pbsnodes` has answered and before
//! its answer is judged, so that they know whose its jobs are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_runtime::{ServiceError, Stopwatch, clock};
use lacuna_scheduler::settings::{Marks, Pbs};
use lacuna_scheduler::{
    MissingNodes, NodeStatus, PbsNode, PbsRecords, RunningJobs, pbs, pbs_node_status,
};
use tokio_util::sync::CancellationToken;

use super::command::{self, Failure};
use super::follow::{Batch, Follower, load, save};
use super::metrics::FollowMetrics;
use super::pacer::{Cycle, Pacer};
use super::source::Source;

/// A record is stamped with the second in which it was written, which has passed by its end.
const SECOND: Span = Span::from_ms(999);

/// A record younger than this is news.
const NEWS: Span = Span::from_secs(60);

/// The moment that records speak of, of which `newest` is the newest. What is news is of now, by
/// our own clock, since the scheduler's may be some seconds off; what was written while nobody
/// read is of its own time.
pub(super) fn moment(newest: Timestamp, now: Timestamp) -> Timestamp {
    match now.since(newest) < NEWS {
        true => now,
        false => newest + SECOND,
    }
}

/// The adapter's state.
pub(crate) struct Adapter {
    settings: Pbs,
    marks: Marks,
    source: Source,
    follow: FollowMetrics,
    records: PbsRecords,
    follower: Option<Follower>,
    /// The newest answer of `pbsnodes`.
    nodes: BTreeMap<NodeId, PbsNode>,
    missing: MissingNodes,
}

impl Adapter {
    /// # Errors
    /// If the state file is there and cannot be read.
    pub(crate) fn new(
        settings: Pbs,
        zone: TimeZone,
        source: Source,
        follow: FollowMetrics,
    ) -> Result<Self, ServiceError> {
        let marks = settings.pilots.clone();
        let (place, running): (_, RunningJobs) = load(settings.following.state_file.as_deref())?;
        let follower = settings
            .accounting
            .as_ref()
            .map(|path| Follower::new(path, place));
        Ok(Self {
            records: PbsRecords::new(marks.clone(), zone, running),
            missing: MissingNodes::new(settings.absent_after),
            marks,
            source,
            follow,
            follower,
            nodes: BTreeMap::new(),
            settings,
        })
    }

    /// Follows and asks, until it is to stop.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), ServiceError> {
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = self.go_on() => ended,
        }
    }

    async fn go_on(&mut self) -> Result<(), ServiceError> {
        let mut pacer = Pacer::new(self.settings.polling.clone());
        let since = Stopwatch::start();
        let mut due = 0.0;
        loop {
            if since.seconds() >= due {
                match pacer.ask(1, since.seconds()) {
                    Ok(()) => {
                        self.source.metrics.show(pacer.breaker());
                        let cycle = self.poll().await?;
                        let wait = pacer.done(cycle, rand::random());
                        self.source.metrics.show(pacer.breaker());
                        due = since.seconds() + wait.as_secs_f64();
                    }
                    Err(wait) => {
                        self.source.metrics.delayed.inc();
                        due = since.seconds() + wait.as_secs_f64();
                    }
                }
            }
            let more = self.follow().await?;
            if !more {
                let left = Span::from_secs_f64((due - since.seconds()).max(0.001));
                let wait = match self.follower {
                    Some(_) => left.min(self.settings.following.every),
                    None => left,
                };
                tokio::time::sleep(wait.to_std()).await;
            }
        }
    }

    /// Asks once.
    async fn poll(&mut self) -> Result<Cycle, ServiceError> {
        let at = clock::wall();
        let since = Stopwatch::start();
        let limit = self.settings.polling.limit;
        let ended = command::run(&self.settings.pbsnodes, &[], limit).await;
        let took = since.span();
        let metrics = &self.source.metrics;
        metrics.requests.with_label_values(&["pbsnodes"]).inc();
        metrics
            .seconds
            .with_label_values(&["pbsnodes"])
            .observe(took.as_secs_f64());
        let answer = ended.and_then(|ended| command::read(&ended, "pbsnodes", pbs::read));
        let cycle = Cycle {
            failed: answer.is_err(),
            slowest: took,
            took,
        };
        match answer {
            Ok(nodes) => {
                while self.follow().await? {}
                self.judge(at, nodes).await;
            }
            Err(failure) => self.failed(&failure),
        }
        Ok(cycle)
    }

    fn failed(&mut self, failure: &Failure) {
        let labels = ["pbsnodes", failure.label()];
        self.source
            .metrics
            .failures
            .with_label_values(&labels)
            .inc();
        self.source.failed(&failure.to_string());
    }

    async fn judge(&mut self, at: Timestamp, nodes: Vec<PbsNode>) {
        self.source.answered();
        // Of a node that PBS has not heard from nothing is said; it counts as missing.
        let (unclear, nodes): (Vec<PbsNode>, Vec<PbsNode>) =
            nodes.into_iter().partition(PbsNode::is_unclear);
        let (gone, missing) = self.missing.take(nodes.iter().map(|node| &node.node));
        drop(unclear);
        let running = self.records.running();
        let classify = |node: &PbsNode| {
            let status = pbs_node_status(node, running, &self.marks);
            (node.node.clone(), status)
        };
        let mut statuses: Vec<(NodeId, NodeStatus)> = nodes.iter().map(classify).collect();
        for (node, reason) in gone {
            self.nodes.remove(&node);
            statuses.push((node, NodeStatus::Unusable { reason }));
        }
        let metrics = &self.source.metrics;
        metrics.count(statuses.iter().map(|(_, status)| status));
        metrics
            .missing
            .set(i64::try_from(missing).unwrap_or(i64::MAX));
        for node in nodes {
            self.nodes.insert(node.node.clone(), node);
        }
        if let Some(receipt) = self.source.send(at, statuses, Vec::new()).await {
            self.missing.expect(receipt.unseen);
        }
    }

    /// Reads what is new in the records; says whether more stands there.
    async fn follow(&mut self) -> Result<bool, ServiceError> {
        let Some(mut follower) = self.follower.take() else {
            return Ok(false);
        };
        let (follower, looked) = lacuna_runtime::task::blocking(move || {
            let looked = follower.look();
            (follower, looked)
        })
        .await?;
        self.follow.show(follower.counts());
        let batch = match looked {
            Ok(batch) => {
                self.follow.stale.set(0);
                batch
            }
            Err(error) => {
                self.follow.failed(&error);
                Batch::default()
            }
        };
        let mut newest = None;
        for line in &batch.lines {
            match self.records.line(line) {
                Ok(at) => newest = newest.max(at),
                Err(error) => self.follow.damage(&error),
            }
        }
        self.follow.lines.inc_by(batch.lines.len() as u64);
        let mut stored = true;
        let changes = self.records.running().changes();
        if let Some(newest) = newest.filter(|_| !changes.is_empty()) {
            let at = moment(newest, clock::wall());
            let nodes = changes
                .into_iter()
                .filter_map(|(node, status)| self.now(node, status))
                .collect();
            let kept = self.source.send(at, nodes, Vec::new()).await;
            stored = kept.is_some_and(|kept| kept.stored);
        }
        if !batch.lines.is_empty() && stored {
            self.keep(&follower);
        }
        self.follower = Some(follower);
        Ok(batch.more)
    }

    /// What a node is whose jobs have changed, if that can be said.
    fn now(&mut self, node: NodeId, status: NodeStatus) -> Option<(NodeId, NodeStatus)> {
        if status == NodeStatus::Taken {
            return Some((node, status));
        }
        // Without jobs of others it is a hole if nothing else speaks against it.
        let mut known = self.nodes.get(&node)?.clone();
        known.jobs.clear();
        known.state = known
            .state
            .replace("job-busy", "free")
            .replace("job-exclusive", "free");
        let status = pbs_node_status(&known, self.records.running(), &self.marks);
        (status == NodeStatus::Hole).then_some((node, status))
    }

    fn keep(&mut self, follower: &Follower) {
        let path: Option<PathBuf> = self.settings.following.state_file.clone();
        let running = self.records.running();
        if let Err(error) = save(path.as_deref(), follower.place(), running) {
            self.follow.unsaved(&error);
        }
    }
}
