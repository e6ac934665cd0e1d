//! Where nodes are: the topology is read again from time to time, and published when it changes.
//!
//! A file is read by a task of its own, since a file system may hang; a scheduler is asked by its
//! adapter ([`Asking`]). A source that fails leaves the topology as it was. The bus keeps the
//! topology, so a restart begins with it until the scheduler answers.

use lacuna_model::{Hole, NodeId, Span, Topology};
use lacuna_runtime::config::{Ingest, TopologySource};
use lacuna_runtime::{Bus, BusError, Context, OnError, ServiceError};
use lacuna_wire::address;
use lacuna_wire::msg::TopologyState;
use tokio::sync::mpsc;

use crate::metrics::Metrics;

/// A source that has failed is tried again after this time at the latest.
const AGAIN: Span = Span::from_secs(60);

/// Most nodes that a warning names.
const NAMED: usize = 5;

/// When the source of a topology is asked next, and where its answers go.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    source: String,
    every: Span,
    /// Resources of PBS that name the switches.
    pub(crate) keys: Vec<String>,
    to: mpsc::Sender<TopologyState>,
    metrics: Metrics,
    /// Seconds on the caller's clock.
    due_s: f64,
    /// The newest failure, if no answer has followed it.
    failing: Option<String>,
}

impl Asking {
    /// Whether the source is to be asked at `now_s` seconds.
    pub(crate) fn is_due(&self, now_s: f64) -> bool {
        now_s >= self.due_s
    }

    /// Takes an answer, at `now_s` seconds. An answer that was refused changes nothing.
    pub(crate) async fn take<E: std::fmt::Display>(
        &mut self,
        answer: Result<Topology, E>,
        now_s: f64,
    ) {
        let wait = match answer {
            Ok(topology) => {
                self.failing = None;
                let source = self.source.clone();
                let state = TopologyState { topology, source };
                // A shell that has ended needs no topology.
                let _ = self.to.send(state).await;
                self.every
            }
            Err(error) => {
                self.metrics.topology_failures.inc();
                let error = error.to_string();
                if self.failing.as_ref() != Some(&error) {
                    tracing::warn!(
                        source = self.source,
                        error,
                        "the topology cannot be read: it stays as it was"
                    );
                }
                self.failing = Some(error);
                self.every.min(AGAIN)
            }
        };
        self.due_s = now_s + wait.as_secs_f64();
    }
}

/// Answers of the source, and who is to ask it: the adapter of a scheduler, if it is one.
pub(crate) struct Source {
    pub(crate) news: Option<mpsc::Receiver<TopologyState>>,
    pub(crate) asking: Option<Asking>,
}

impl Source {
    /// The configured source. A file is read by a task.
    pub(crate) fn start(ctx: &Context, metrics: &Metrics) -> Self {
        let Ingest {
            topology_every,
            topology_keys,
            ..
        } = &ctx.config.ingest;
        let Some(source) = ctx.config.ingest.topology_source() else {
            return Self {
                news: None,
                asking: None,
            };
        };
        let (to, news) = mpsc::channel(1);
        let asking = Asking {
            source: source.to_string(),
            every: *topology_every,
            keys: topology_keys.clone(),
            to,
            metrics: metrics.clone(),
            due_s: 0.0,
            failing: None,
        };
        let TopologySource::File(path) = source else {
            return Self {
                news: Some(news),
                asking: Some(asking),
            };
        };
        let (path, every) = (path.to_owned(), asking.every);
        ctx.tasks.spawn("topology", OnError::Restart, move |stop| {
            let (mut asking, path) = (asking.clone(), path.clone());
            async move {
                loop {
                    tokio::select! {
                        biased;
                        () = stop.cancelled() => return Ok(()),
                        () = tokio::time::sleep(every.to_std()) => {}
                    }
                    let (path, keys) = (path.clone(), asking.keys.clone());
                    let read = lacuna_runtime::task::blocking(move || {
                        lacuna_trace::topology::load(&path, &keys)
                    });
                    let read = read.await?;
                    asking.take(read.map(|(_, topology)| topology), 0.0).await;
                }
            }
        });
        Self {
            news: Some(news),
            asking: None,
        }
    }
}

/// The topology as the bus keeps it.
pub(crate) struct Places {
    bus: Bus,
    metrics: Metrics,
    state: TopologyState,
    is_stored: bool,
    /// Whether unknown nodes have been warned of.
    has_warned: bool,
}

impl Places {
    /// Begins with the topology that the bus keeps, or with `first`, which a file has. Without a
    /// source the kept one is removed.
    ///
    /// # Errors
    /// If the bus is closed for good.
    pub(crate) async fn start(
        ctx: &Context,
        first: Option<TopologyState>,
        metrics: &Metrics,
    ) -> Result<Self, ServiceError> {
        let kept = ctx.bus.last(&address::topology(&ctx.cluster)).await?;
        let mut places = Self {
            bus: ctx.bus.clone(),
            metrics: metrics.clone(),
            state: kept.map(|kept| kept.message).unwrap_or_default(),
            is_stored: true,
            has_warned: false,
        };
        places.show();
        match ctx.config.ingest.topology_source() {
            None => places.take(TopologyState::default()).await,
            Some(TopologySource::File(_)) => places.take(first.unwrap_or_default()).await,
            Some(_) => {}
        }
        Ok(places)
    }

    /// Takes what the source says, and publishes it if it differs.
    pub(crate) async fn take(&mut self, state: TopologyState) {
        if state == self.state {
            return;
        }
        let (before, now) = (&self.state.topology, &state.topology);
        tracing::info!(
            source = state.source,
            nodes = now.nodes().count(),
            leaves = now.leaves().len(),
            levels = now.levels(),
            moved = before
                .nodes()
                .filter(|(node, path)| now.path(node) != Some(*path))
                .count(),
            "topology"
        );
        self.state = state;
        self.is_stored = false;
        self.has_warned = false;
        self.show();
        self.store().await;
    }

    /// Publishes the topology again, since a server may have lost it.
    pub(crate) async fn repeat(&mut self) {
        self.is_stored &= self.state == TopologyState::default();
        self.store().await;
    }

    /// Publishes the topology, unless the bus keeps it already. A failure is repaired by the next
    /// call.
    pub(crate) async fn store(&mut self) {
        if self.is_stored {
            return;
        }
        let subject = address::topology(self.bus.cluster());
        match self.bus.store(&subject, &self.state, "").await {
            Ok(_) => self.is_stored = true,
            Err(error @ BusError::TooLarge { .. }) => {
                tracing::error!(%error, "topology not published");
                self.is_stored = true;
            }
            Err(error) => tracing::warn!(%error, "topology not kept, trying again"),
        }
    }

    /// Counts the idle nodes that the topology does not know, and warns of them once.
    pub(crate) fn check(&mut self, idle: &[Hole]) {
        let topology = &self.state.topology;
        let unknown: Vec<&NodeId> = match topology.is_empty() {
            true => Vec::new(),
            false => idle
                .iter()
                .map(|hole| &hole.node)
                .filter(|node| topology.leaf(node).is_none())
                .collect(),
        };
        self.metrics.topology_unknown.set(whole(unknown.len()));
        if unknown.is_empty() {
            self.has_warned = false;
        } else if !std::mem::replace(&mut self.has_warned, true) {
            let names: Vec<&str> = unknown
                .iter()
                .take(NAMED)
                .map(|node| node.as_str())
                .collect();
            tracing::warn!(
                source = self.state.source,
                unknown = unknown.len(),
                nodes = names.join(", "),
                "idle nodes are not in the topology: each counts as a leaf of its own"
            );
        }
    }

    fn show(&self) {
        let topology = &self.state.topology;
        self.metrics
            .topology_nodes
            .set(whole(topology.nodes().count()));
        self.metrics
            .topology_leaves
            .set(whole(topology.leaves().len()));
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
