//! Adapter of a live PBS, which follows accounting records and polls `pbsnodes`.
//!
//! Records show starts and ends of jobs at once. `pbsnodes` shows the other states of a node, and
//! repairs gaps in the records. New records are read between the answer of `pbsnodes` and its
//! classification, so that the owners of its jobs are known.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::tz::TimeZone;
use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_runtime::{ServiceError, Stopwatch, clock};
use lacuna_scheduler::settings::{Marks, Pbs};
use lacuna_scheduler::{
    MissingNodes, NodeStatus, PbsAnswer, PbsNode, PbsRecords, RunningJobs, kinds, pbs,
    pbs_node_status, topology,
};
use tokio_util::sync::CancellationToken;

use super::command::{self, Failure};
use super::follow::{Batch, Follower, load, save};
use super::metrics::FollowMetrics;
use super::pacer::{Cycle, Pacer};
use super::source::Source;
use crate::topology::{Asked, Asking};

/// A record has the second in which it was written; its events are before the end of that second.
const SECOND: Span = Span::from_ms(999);

/// Age below which a record is recent.
const RECENT: Span = Span::from_secs(60);

/// The moment of an observation from records, of which `newest` is the newest. Recent records count
/// as of `now`, since the clock of the scheduler may be some seconds off. Older records, written
/// while ingest was down, count as of their own time.
pub(super) fn moment(newest: Timestamp, now: Timestamp) -> Timestamp {
    match now.since(newest) < RECENT {
        true => now,
        false => newest + SECOND,
    }
}

/// The adapter of PBS.
pub(crate) struct Adapter {
    settings: Pbs,
    marks: Marks,
    source: Source,
    follow: FollowMetrics,
    records: PbsRecords,
    follower: Option<Follower>,
    /// Nodes of the newest answer of `pbsnodes`.
    nodes: BTreeMap<NodeId, PbsNode>,
    missing: MissingNodes,
    asking: Vec<Asking>,
}

impl Adapter {
    /// # Errors
    /// If the state file exists and cannot be read.
    pub(crate) fn new(
        settings: Pbs,
        zone: TimeZone,
        source: Source,
        follow: FollowMetrics,
        asking: Vec<Asking>,
    ) -> Result<Self, ServiceError> {
        let marks = settings.pilots.clone();
        let (position, running): (_, RunningJobs) = load(settings.following.state_file.as_deref())?;
        let follower = settings
            .accounting
            .as_ref()
            .map(|path| Follower::new(path, position));
        Ok(Self {
            records: PbsRecords::new(marks.clone(), zone, running),
            missing: MissingNodes::new(settings.absent_after),
            marks,
            source,
            follow,
            follower,
            nodes: BTreeMap::new(),
            settings,
            asking,
        })
    }

    /// Follows and polls until `stop`.
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
                        let cycle = self.poll(since.seconds()).await?;
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

    /// One polling cycle, at `now_s` seconds.
    async fn poll(&mut self, now_s: f64) -> Result<Cycle, ServiceError> {
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
        if let Ok(ended) = &ended {
            for asking in self.asking.iter_mut().filter(|asking| asking.is_due(now_s)) {
                let news = match asking.asked() {
                    Asked::Topology => topology::read_pbs(&ended.stdout, asking.keys())
                        .map(|topology| asking.topology(topology)),
                    Asked::Kinds => {
                        kinds::read_pbs(&ended.stdout).and_then(|labels| asking.kinds(&labels))
                    }
                };
                asking.take(news, now_s).await;
            }
        }
        let answer = ended.and_then(|ended| command::read(&ended, "pbsnodes", pbs::read));
        let cycle = Cycle {
            failed: answer.is_err(),
            slowest: took,
            took,
        };
        match answer {
            Ok(PbsAnswer { nodes, flaws }) => {
                while self.follow().await? {}
                self.observe(at, nodes).await;
                self.source.flawed(&flaws);
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

    async fn observe(&mut self, at: Timestamp, nodes: Vec<PbsNode>) {
        self.source.answered();
        // A node that PBS has not heard from counts as missing.
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

    /// Reads new records. Returns whether there are more.
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
            let receipt = self.source.send(at, nodes, Vec::new()).await;
            stored = receipt.is_some_and(|receipt| receipt.stored);
        }
        if !batch.lines.is_empty() && stored {
            self.save(&follower);
        }
        self.follower = Some(follower);
        Ok(batch.more)
    }

    /// Status of a node whose jobs have changed, if it is known.
    fn now(&mut self, node: NodeId, status: NodeStatus) -> Option<(NodeId, NodeStatus)> {
        if status == NodeStatus::Taken {
            return Some((node, status));
        }
        // A node without foreign jobs is a hole unless its state forbids it.
        let mut known = self.nodes.get(&node)?.clone();
        known.jobs.clear();
        known.state = known
            .state
            .replace("job-busy", "free")
            .replace("job-exclusive", "free");
        let status = pbs_node_status(&known, self.records.running(), &self.marks);
        (status == NodeStatus::Hole).then_some((node, status))
    }

    fn save(&mut self, follower: &Follower) {
        let path: Option<PathBuf> = self.settings.following.state_file.clone();
        let running = self.records.running();
        if let Err(error) = save(path.as_deref(), follower.position(), running) {
            self.follow.unsaved(&error);
        }
    }
}
