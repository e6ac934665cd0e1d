//! Where nodes are, and of which kind: both are read again from time to time, and published when
//! they change.
//!
//! A file is read by a task of its own, since a file system may hang; a scheduler is asked by its
//! adapter ([`Asking`]). A source that fails leaves what it says as it was. The bus keeps both, so a
//! restart begins with them until the scheduler answers.

use std::collections::BTreeMap;
use std::path::Path;

use lacuna_model::{Hole, NodeId, NodeKinds, Span, Topology};
use lacuna_runtime::{Bus, BusError, OnError, ServiceError};
use lacuna_scheduler::ingest::{Ingest, KindsSource, TopologySource};
use lacuna_scheduler::kinds::Labels;
use lacuna_scheduler::live::{Live, Question};
use lacuna_scheduler::{AnswerError, Unsupported, lsf};
use lacuna_trace::ReadError;
use lacuna_trace::topology::{self, TopologyOptions};
use lacuna_wire::address;
use lacuna_wire::msg::TopologyState;
use prometheus::IntCounter;
use tokio::sync::mpsc;

use crate::metrics::Metrics;
use crate::sections::Context;

/// A source that has failed is tried again after this time at the latest.
const AGAIN: Span = Span::from_secs(60);

/// Most nodes that a warning names.
const NAMED: usize = 5;

/// What a source says of nodes.
#[derive(Debug)]
pub(crate) enum News {
    /// Where they are, and the source.
    Topology(Topology, String),
    /// Of which kind they are.
    Kinds(NodeKinds),
}

/// What a source is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The topology.
    Topology,
    /// The kinds of nodes.
    Kinds,
}

impl Asked {
    const fn name(self) -> &'static str {
        match self {
            Self::Topology => "topology",
            Self::Kinds => "kinds",
        }
    }
}

/// When a source is asked next, and where its answers go.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    asked: Asked,
    source: String,
    settings: Ingest,
    to: mpsc::Sender<News>,
    failures: IntCounter,
    /// Seconds on the caller's clock.
    due_s: f64,
    /// The newest failure, if no answer has followed it.
    failing: Option<String>,
    /// The newest note on an answer.
    noted: Option<String>,
}

impl Asking {
    /// The topology in an answer, which is empty if it is of an unknown kind; then `note` names it.
    fn noted(&mut self, (topology, note): (Topology, Option<String>)) -> News {
        if let Some(note) = note.as_ref().filter(|_| self.noted != note) {
            tracing::warn!(source = self.source, note, "topology not used");
        }
        self.noted = note;
        self.topology(topology)
    }

    /// How a live scheduler is asked for it.
    ///
    /// # Errors
    /// If it does not say.
    pub(crate) fn question(&self, live: &dyn Live) -> Result<Question, Unsupported> {
        match self.asked {
            Asked::Topology => live.topology(&self.settings.topology_keys),
            Asked::Kinds => live.kinds(),
        }
    }

    /// Reads the answer of a live scheduler.
    ///
    /// # Errors
    /// If the answer cannot be used, or a node is of two kinds.
    pub(crate) fn read(&mut self, live: &dyn Live, answer: &str) -> Result<News, AnswerError> {
        match self.asked {
            Asked::Topology => {
                if live.has_no_topology(answer) {
                    return Ok(self.noted((Topology::default(), None)));
                }
                let read = topology::read(answer, &options(&self.settings));
                let read = read.map_err(|error| AnswerError::Unreadable {
                    reason: error.to_string(),
                })?;
                Ok(self.noted((read.topology, read.note)))
            }
            Asked::Kinds => self.kinds(&live.labels(answer)?),
        }
    }

    /// Whether the source is to be asked at `now_s` seconds.
    pub(crate) fn is_due(&self, now_s: f64) -> bool {
        now_s >= self.due_s
    }

    /// The topology in an answer.
    fn topology(&self, topology: Topology) -> News {
        News::Topology(topology, self.source.clone())
    }

    /// The kinds of nodes by what a scheduler says of them.
    ///
    /// # Errors
    /// If a node is of two kinds.
    fn kinds(&self, labels: &Labels) -> Result<News, AnswerError> {
        let kinds = self.settings.kinds.kinds(labels);
        kinds
            .map(News::Kinds)
            .map_err(|error| AnswerError::Unreadable {
                reason: error.to_string(),
            })
    }

    /// Takes an answer, at `now_s` seconds. An answer that was refused changes nothing.
    pub(crate) async fn take<E: std::fmt::Display>(&mut self, answer: Result<News, E>, now_s: f64) {
        let every = self.settings.topology_every;
        let wait = match answer {
            Ok(news) => {
                self.failing = None;
                // A shell that has ended needs no news.
                let _ = self.to.send(news).await;
                every
            }
            Err(error) => {
                self.failures.inc();
                let error = error.to_string();
                if self.failing.as_ref() != Some(&error) {
                    let what = self.asked.name();
                    tracing::warn!(
                        what,
                        source = self.source,
                        error,
                        "what is known of nodes cannot be read: it stays as it was"
                    );
                }
                self.failing = Some(error);
                every.min(AGAIN)
            }
        };
        self.due_s = now_s + wait.as_secs_f64();
    }

    /// Reads the file of the source.
    fn read_file(&mut self) -> Result<News, ServiceError> {
        match self.asked {
            Asked::Topology => match self.settings.topology_source() {
                Some(TopologySource::File(path)) => {
                    let read = topology::load(path, &options(&self.settings))?;
                    Ok(self.noted((read.topology, read.note)))
                }
                _ => Err("the topology is in no file".into()),
            },
            Asked::Kinds => Ok(News::Kinds(read_kinds(&self.settings)?)),
        }
    }
}

/// What the readers of topologies need besides a text.
fn options(settings: &Ingest) -> TopologyOptions {
    TopologyOptions {
        keys: settings.topology_keys.clone(),
        rails: settings.topology_rails.clone(),
    }
}

/// Reads the file with the topology. One of an unknown kind is empty, and is named.
fn load(path: &Path, settings: &Ingest) -> Result<Topology, ReadError> {
    let read = topology::load(path, &options(settings))?;
    if let Some(note) = read.note {
        tracing::warn!(file = %path.display(), note, "topology not used");
    }
    Ok(read.topology)
}

/// The kinds of nodes by the settings and their file alone.
///
/// # Errors
/// If the file cannot be read, or a node is of two kinds.
pub(crate) fn read_kinds(settings: &Ingest) -> Result<NodeKinds, ServiceError> {
    let rules = &settings.kinds;
    let Some(path) = &settings.kinds_file else {
        return Ok(rules.kinds(&Labels::new())?);
    };
    // A compressed list is no text.
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let named = |error: &dyn std::fmt::Display| {
        let text = format!("{}: {error}", path.display());
        ServiceError::from(text)
    };
    if lsf::kinds::is_lshosts(&text) {
        let labels = lsf::kinds::read(&text).map_err(|e| named(&e))?;
        return rules.kinds(&labels).map_err(|e| named(&e));
    }
    let kinds = lacuna_trace::read_kinds(path)?;
    if rules.is_empty() {
        return Ok(NodeKinds::new(kinds));
    }
    Err(named(
        &"it has the kind of each node, so ingest.kinds needs no rules: keep one of the two",
    ))
}

/// Answers of the sources, and who is to ask them: the adapter of a scheduler, if it is one.
pub(crate) struct Source {
    pub(crate) news: mpsc::Receiver<News>,
    /// Keeps the channel open where no source speaks.
    _open: mpsc::Sender<News>,
    pub(crate) asking: Vec<Asking>,
}

impl Source {
    /// The configured sources. A file is read by a task.
    pub(crate) fn start(ctx: &Context, metrics: &Metrics) -> Self {
        let settings = &ctx.config.ingest;
        let (to, news) = mpsc::channel(1);
        let make = |asked, source: String, failures: &IntCounter| Asking {
            asked,
            source,
            settings: settings.clone(),
            to: to.clone(),
            failures: failures.clone(),
            due_s: 0.0,
            failing: None,
            noted: None,
        };
        let mut asking = Vec::new();
        if let Some(source) = settings.topology_source() {
            let made = make(
                Asked::Topology,
                source.to_string(),
                &metrics.topology_failures,
            );
            match source {
                TopologySource::File(_) => made.watch(ctx),
                _ => asking.push(made),
            }
        }
        if let Some(source) = settings.kinds_source() {
            let made = make(Asked::Kinds, source.to_string(), &metrics.kinds_failures);
            match source {
                KindsSource::File(_) => made.watch(ctx),
                KindsSource::Setting => {}
                _ => asking.push(made),
            }
        }
        Self {
            news,
            _open: to,
            asking,
        }
    }
}

impl Asking {
    /// Reads a file from time to time, by a task.
    fn watch(self, ctx: &Context) {
        let every = self.settings.topology_every;
        ctx.tasks
            .spawn(self.asked.name(), OnError::Restart, move |stop| {
                let mut asking = self.clone();
                async move {
                    loop {
                        tokio::select! {
                            biased;
                            () = stop.cancelled() => return Ok(()),
                            () = tokio::time::sleep(every.to_std()) => {}
                        }
                        let read = lacuna_runtime::task::blocking(move || {
                            let read = asking.read_file();
                            (asking, read)
                        });
                        let (back, read) = read.await?;
                        asking = back;
                        asking.take(read, 0.0).await;
                    }
                }
            });
    }
}

/// What files say at a start.
#[derive(Debug, Default)]
pub(crate) struct First {
    topology: Option<Topology>,
    kinds: Option<NodeKinds>,
}

impl First {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(crate) fn read(settings: &Ingest) -> Result<Self, ServiceError> {
        let topology = match settings.topology_source() {
            Some(TopologySource::File(path)) => Some(load(path, settings)?),
            _ => None,
        };
        let kinds = match settings.kinds_source() {
            Some(KindsSource::File(_) | KindsSource::Setting) => Some(read_kinds(settings)?),
            _ => None,
        };
        Ok(Self { topology, kinds })
    }
}

/// What is known of nodes, as the bus keeps it.
pub(crate) struct Places {
    bus: Bus,
    metrics: Metrics,
    state: TopologyState,
    is_stored: bool,
    /// Whether nodes that the topology does not know have been warned of.
    has_warned: bool,
    /// Whether nodes without a kind have been warned of.
    has_warned_of_kinds: bool,
}

impl Places {
    /// Begins with what the bus keeps, or with `first`, which files have. What has no source is
    /// removed.
    ///
    /// # Errors
    /// If the bus is closed for good.
    pub(crate) async fn start(
        ctx: &Context,
        first: First,
        metrics: &Metrics,
    ) -> Result<Self, ServiceError> {
        let kept = ctx.bus.last(&address::topology(&ctx.cluster)).await?;
        let mut places = Self {
            bus: ctx.bus.clone(),
            metrics: metrics.clone(),
            state: kept.map(|kept| kept.message).unwrap_or_default(),
            is_stored: true,
            has_warned: false,
            has_warned_of_kinds: false,
        };
        places.show();
        let settings = &ctx.config.ingest;
        let source = settings.topology_source();
        let mut state = places.state.clone();
        if first.topology.is_some() || source.is_none() {
            state.source = source.map_or_else(String::new, |source| source.to_string());
            state.topology = first.topology.unwrap_or_default();
        }
        if first.kinds.is_some() || settings.kinds_source().is_none() {
            state.kinds = first.kinds.unwrap_or_default();
        }
        places.set(state).await;
        Ok(places)
    }

    /// Takes what a source says, and publishes it if it differs.
    pub(crate) async fn take(&mut self, news: News) {
        let mut state = self.state.clone();
        match news {
            News::Topology(topology, source) => {
                state.topology = topology;
                state.source = source;
            }
            News::Kinds(kinds) => state.kinds = kinds,
        }
        self.set(state).await;
    }

    async fn set(&mut self, state: TopologyState) {
        let (before, now) = (&self.state.topology, &state.topology);
        if (before, &self.state.source) != (now, &state.source) {
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
        }
        let (before, now) = (&self.state.kinds, &state.kinds);
        if before != now {
            let kinds: Vec<String> = now.names().iter().map(ToString::to_string).collect();
            tracing::info!(
                kinds = kinds.join(", "),
                nodes = now.iter().count(),
                changed = before
                    .iter()
                    .filter(|(node, kind)| now.of(node) != Some(*kind))
                    .count(),
                "kinds of nodes"
            );
        }
        if state == self.state {
            return;
        }
        self.state = state;
        self.is_stored = false;
        self.has_warned = false;
        self.has_warned_of_kinds = false;
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

    /// Counts the idle nodes of each kind and those of which the topology or the kinds do not know,
    /// and warns of the latter once.
    pub(crate) fn check(&mut self, idle: &[Hole]) {
        let TopologyState {
            topology,
            source,
            kinds,
        } = &self.state;
        let (no_place, no_kind): (Vec<&NodeId>, Vec<&NodeId>) = {
            let nodes = || idle.iter().map(|hole| &hole.node);
            let no_place =
                nodes().filter(|node| !topology.is_empty() && topology.leaf(node).is_none());
            let no_kind = nodes().filter(|node| !kinds.is_empty() && kinds.of(node).is_none());
            (no_place.collect(), no_kind.collect())
        };
        self.metrics.topology_unknown.set(whole(no_place.len()));
        let mut count: BTreeMap<&str, u32> = BTreeMap::from([("", 0)]);
        count.extend(kinds.names().into_iter().map(|kind| (kind.as_str(), 0)));
        for hole in idle.iter().filter(|_| !kinds.is_empty()) {
            let kind = kinds.of(&hole.node).map_or("", |kind| kind.as_str());
            *count.entry(kind).or_default() += 1;
        }
        self.metrics.kind_idle.reset();
        for (kind, count) in count {
            let gauge = self.metrics.kind_idle.with_label_values(&[kind]);
            gauge.set(f64::from(count));
        }
        if warn_once(&mut self.has_warned, &no_place) {
            tracing::warn!(
                source,
                unknown = no_place.len(),
                nodes = names(&no_place),
                "idle nodes are not in the topology: each counts as a leaf of its own"
            );
        }
        if warn_once(&mut self.has_warned_of_kinds, &no_kind) {
            tracing::warn!(
                unknown = no_kind.len(),
                nodes = names(&no_kind),
                "idle nodes have no kind: no trainer gets them (ingest.kinds, ingest.kinds_file)"
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

/// Whether unknown nodes are to be warned of: the first time, until there are none.
fn warn_once(has_warned: &mut bool, unknown: &[&NodeId]) -> bool {
    let is_new = !unknown.is_empty() && !*has_warned;
    *has_warned = !unknown.is_empty();
    is_new
}

/// The first names of nodes, for a warning.
fn names(nodes: &[&NodeId]) -> String {
    let names: Vec<&str> = nodes.iter().take(NAMED).map(|node| node.as_str()).collect();
    names.join(", ")
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
