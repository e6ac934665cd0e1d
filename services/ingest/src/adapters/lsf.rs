//! Adapter of a live LSF, which follows `lsb.events`.

use std::collections::BTreeSet;

use lacuna_model::{NodeId, Timestamp};
use lacuna_runtime::{ServiceError, clock};
use lacuna_scheduler::settings::Lsf;
use lacuna_scheduler::{LsfEvents, LsfState, NodeStatus};
use tokio_util::sync::CancellationToken;

use super::follow::{Follower, load, save};
use super::metrics::FollowMetrics;
use super::pbs::moment;
use super::source::Source;

/// The adapter of LSF.
pub(crate) struct Adapter {
    settings: Lsf,
    /// All nodes of the cluster.
    nodes: BTreeSet<NodeId>,
    source: Source,
    follow: FollowMetrics,
    events: LsfEvents,
    follower: Option<Follower>,
    /// Time of the newest event.
    newest: Option<Timestamp>,
}

impl Adapter {
    /// # Errors
    /// If the state file exists and cannot be read.
    pub(crate) fn new(
        settings: Lsf,
        nodes: BTreeSet<NodeId>,
        source: Source,
        follow: FollowMetrics,
    ) -> Result<Self, ServiceError> {
        let (position, state): (_, LsfState) = load(settings.following.state_file.as_deref())?;
        Ok(Self {
            events: LsfEvents::new(settings.pilots.clone(), state),
            follower: Some(Follower::new(&settings.events, position)),
            nodes,
            source,
            follow,
            newest: None,
            settings,
        })
    }

    /// Follows the file until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), ServiceError> {
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = self.go_on() => ended,
        }
    }

    async fn go_on(&mut self) -> Result<(), ServiceError> {
        let mut begun = false;
        loop {
            let Some(more) = self.look().await? else {
                tokio::time::sleep(self.settings.following.every.to_std()).await;
                continue;
            };
            if more {
                // The past is read first: before its end the running jobs are unknown.
                if begun {
                    self.send_changes().await;
                }
                continue;
            }
            if begun {
                self.send_changes().await;
            } else {
                begun = true;
                let _ = self.events.changes();
                let all = self.events.statuses(&self.nodes);
                let now = clock::wall();
                self.send(now, all).await;
            }
            tokio::time::sleep(self.settings.following.every.to_std()).await;
        }
    }

    /// Reads new events. Returns whether the file has more; `None` if it cannot be read.
    async fn look(&mut self) -> Result<Option<bool>, ServiceError> {
        let Some(mut follower) = self.follower.take() else {
            return Ok(None);
        };
        let (follower, looked) = lacuna_runtime::task::blocking(move || {
            let looked = follower.look();
            (follower, looked)
        })
        .await?;
        self.follow.show(follower.counts());
        self.follower = Some(follower);
        let batch = match looked {
            Ok(batch) => batch,
            Err(error) => {
                self.follow.failed(&error);
                self.source.failed(&error.to_string());
                return Ok(None);
            }
        };
        self.follow.stale.set(0);
        self.source.answered();
        for line in &batch.lines {
            match self.events.line(line) {
                Ok(at) => self.newest = self.newest.max(at),
                Err(error) => self.follow.damage(&error),
            }
        }
        self.follow.lines.inc_by(batch.lines.len() as u64);
        Ok(Some(batch.more))
    }

    async fn send_changes(&mut self) {
        let mut changes = self.events.changes();
        changes.retain(|(node, _)| self.nodes.contains(node));
        let now = clock::wall();
        let at = self.newest.map_or(now, |newest| moment(newest, now));
        self.send(at, changes).await;
    }

    async fn send(&mut self, at: Timestamp, nodes: Vec<(NodeId, NodeStatus)>) {
        let all = self.events.statuses(&self.nodes);
        self.source
            .metrics
            .count(all.iter().map(|(_, status)| status));
        let stored = match nodes.is_empty() {
            true => true,
            false => {
                let receipt = self.source.send(at, nodes, Vec::new()).await;
                receipt.is_some_and(|receipt| receipt.stored)
            }
        };
        let position = self.follower.as_ref().and_then(Follower::position);
        let path = self.settings.following.state_file.as_deref();
        if stored && let Err(error) = save(path, position, self.events.state()) {
            self.follow.unsaved(&error);
        }
    }
}
