//! Every subject, stream and bucket, as functions of the cluster's id.
//!
//! A [`Subject`] carries the type of its messages, so no other type can be published or read there,
//! and the name of the stream that keeps it, if one does.

use std::fmt;
use std::marker::PhantomData;

use lacuna_model::{ClusterId, NodeEvent, NodeId, Past, Span, TrainerId, TrainerRecord};

use crate::msg::{
    AgentStatus, AuditRecord, Clock, Command, Controls, DeadLetter, Leader, LeaseRecord, Members,
    ObservedHour, PilotsRequest, PlanState, PoolState, Progress, Reading, Renewal, Request,
    Settled, StoreSecret, TopologyState, Totals, TrainersState, UseState,
};
use crate::token::escape;

/// A subject (or a pattern of subjects) with the type of its messages.
pub struct Subject<M> {
    text: String,
    stream: Option<String>,
    message: PhantomData<fn() -> M>,
}

impl<M> Subject<M> {
    fn new(text: String, stream: Option<String>) -> Self {
        Self {
            text,
            stream,
            message: PhantomData,
        }
    }

    /// The subject as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The stream that keeps its messages, if one does.
    #[must_use]
    pub fn stream(&self) -> Option<&str> {
        self.stream.as_deref()
    }

    /// Whether the subject is a pattern for several subjects.
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        self.text
            .split('.')
            .any(|token| token == "*" || token == ">")
    }
}

impl<M> Clone for Subject<M> {
    fn clone(&self) -> Self {
        Self::new(self.text.clone(), self.stream.clone())
    }
}

impl<M> fmt::Display for Subject<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl<M> fmt::Debug for Subject<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subject").field(&self.text).finish()
    }
}

/// Bytes that external programs publish: JSON or MessagePack, read by [`crate::external`].
#[derive(Debug)]
pub enum Foreign {}

/// Plain text, without an envelope.
#[derive(Debug)]
pub enum Text {}

fn base(cluster: &ClusterId, rest: &str) -> String {
    format!("lacuna.v1.{cluster}.{rest}")
}

fn stream_name(cluster: &ClusterId, what: &str) -> String {
    format!("lac_{cluster}_{what}")
}

macro_rules! subjects {
    ($($(#[$doc:meta])* $name:ident: $message:ty = $text:literal $(in $stream:literal)?;)*) => {
        $($(#[$doc])*
        #[must_use]
        pub fn $name(cluster: &ClusterId) -> Subject<$message> {
            let stream: Option<&str> = None $(.or(Some($stream)))?;
            Subject::new(base(cluster, $text), stream.map(|s| stream_name(cluster, s)))
        })*
    };
}

subjects! {
    /// All events of external schedulers.
    incoming: Foreign = "in.>" in "in";
    /// Numbered node events, from ingest.
    event: NodeEvent = "event" in "events";
    /// The newest full state, as a `NodeEvent` of kind snapshot, from ingest.
    snapshot: NodeEvent = "state.snapshot" in "snapshot";
    /// The cluster's time, from ingest.
    clock: Clock = "state.clock" in "state";
    /// The pool with its forecasts, from forecast.
    pool: PoolState = "state.pool" in "state";
    /// The admitted trainers, from control.
    trainers: TrainersState = "state.trainers" in "state";
    /// Totals of the cluster, from control, for itself after a restart.
    totals: Totals = "state.totals" in "state";
    /// The totals at the beginning of each day, from control, for itself.
    days: Totals = "day.*" in "days";
    /// The present effect of the operator's controls, from control.
    use_state: UseState = "state.use" in "state";
    /// The secret of the store of members, from control, for itself after a restart.
    store_secret: StoreSecret = "state.secret" in "secret";
    /// Where nodes are, from ingest.
    topology: TopologyState = "state.topology" in "state";
    /// Which external event ingest reads, for itself after a restart.
    reading: Reading = "state.reading" in "state";
    /// The newest plan, from planner.
    plan: PlanState = "state.plan" in "plan";
    /// Commands to all nodes.
    commands: Command = "cmd.*" in "cmds";
    /// Members of the present incarnations of all trainers, from control.
    members_all: Members = "run.*" in "runs";
    /// Statuses of all agents.
    agents: AgentStatus = "agent.*";
    /// Progress of all trainers, from all nodes.
    progress_all: Progress = "progress.*.*" in "progress";
    /// The leases in force, of all nodes, from control.
    renewals: Renewal = "renewal.*";
    /// The loop has settled, from control.
    settled: Settled = "settled";
    /// Requests to control of all users, answered by a [`Reply`](crate::msg::Reply).
    requests: Request = "req.*";
    /// Requests to the executor of pilots of all users, answered by a [`Reply`](crate::msg::Reply).
    pilots: PilotsRequest = "pilots.*";
    /// The operator's controls, from control.
    controls: Controls = "controls" in "controls";
    /// The audit log: commands of users and their outcome, from control alone.
    audit_all: AuditRecord = "audit.*" in "audit";
    /// Sums over the trainers of the archive, from control. Each move to the archive rewrites them,
    /// so they are never the oldest message of the stream.
    past: Past = "past" in "archive";
    /// Records of trainers that ended long ago, from control.
    archive: TrainerRecord = "archive.*" in "archive";
    /// The active instance of each service.
    leaders: Leader = "leader.*" in "leaders";
    /// Requests for lines of output, to any node.
    logs_all: Text = "logs.*";
    /// Nodes given back, from control to the main scheduler.
    released: NodeEvent = "out.released";
    /// Dead letters of all services.
    dead_all: DeadLetter = "dead.*" in "dead";
}

/// The subject on which an external program publishes its events; `source` names the program.
#[must_use]
pub fn incoming_from(cluster: &ClusterId, source: &str) -> Subject<Foreign> {
    let text = base(cluster, &format!("in.{}", escape(source)));
    Subject::new(text, Some(stream_name(cluster, "in")))
}

/// Requests of one user to control. A server with permissions lets each user publish on their own
/// subject only, so the subject proves the user.
#[must_use]
pub fn requests_of(cluster: &ClusterId, user: &str) -> Subject<Request> {
    Subject::new(base(cluster, &format!("req.{}", escape(user))), None)
}

/// Requests of one user to the executor of pilots; see [`requests_of`].
#[must_use]
pub fn pilots_of(cluster: &ClusterId, user: &str) -> Subject<PilotsRequest> {
    Subject::new(base(cluster, &format!("pilots.{}", escape(user))), None)
}

/// The audit log of one service.
#[must_use]
pub fn audit(cluster: &ClusterId, service: &str) -> Subject<AuditRecord> {
    let text = base(cluster, &format!("audit.{}", escape(service)));
    Subject::new(text, Some(stream_name(cluster, "audit")))
}

/// The active instance of a service, written by compare-and-set.
#[must_use]
pub fn leader(cluster: &ClusterId, service: &str) -> Subject<Leader> {
    let text = base(cluster, &format!("leader.{}", escape(service)));
    Subject::new(text, Some(stream_name(cluster, "leaders")))
}

/// Commands to one node.
#[must_use]
pub fn command(cluster: &ClusterId, node: &NodeId) -> Subject<Command> {
    let text = base(cluster, &format!("cmd.{}", escape(node.as_str())));
    Subject::new(text, Some(stream_name(cluster, "cmds")))
}

/// The members of the present incarnation of one trainer.
#[must_use]
pub fn members(cluster: &ClusterId, trainer: &TrainerId) -> Subject<Members> {
    let text = base(cluster, &format!("run.{}", escape(trainer.as_str())));
    Subject::new(text, Some(stream_name(cluster, "runs")))
}

/// Number of renewals that together name all leases. Control and all agents must agree on it.
pub const SHARDS: u32 = 64;

/// The renewal that names the lease of a node: the CRC-32 (IEEE) of its name, modulo [`SHARDS`].
#[must_use]
pub fn shard(node: &NodeId) -> u32 {
    crc32fast::hash(node.as_str().as_bytes()) % SHARDS
}

/// The leases of one shard that are in force, from control.
#[must_use]
pub fn renewal(cluster: &ClusterId, shard: u32) -> Subject<Renewal> {
    Subject::new(base(cluster, &format!("renewal.{shard}")), None)
}

/// Statuses of the agent of one node.
#[must_use]
pub fn agent(cluster: &ClusterId, node: &NodeId) -> Subject<AgentStatus> {
    Subject::new(
        base(cluster, &format!("agent.{}", escape(node.as_str()))),
        None,
    )
}

/// Progress of one trainer, from the agent of one node.
#[must_use]
pub fn progress(cluster: &ClusterId, node: &NodeId, trainer: &TrainerId) -> Subject<Progress> {
    progress_by(cluster, node, &escape(trainer.as_str()))
}

/// Progress of any trainer, from the agent of one node.
#[must_use]
pub fn progress_of(cluster: &ClusterId, node: &NodeId) -> Subject<Progress> {
    progress_by(cluster, node, "*")
}

fn progress_by(cluster: &ClusterId, node: &NodeId, trainer: &str) -> Subject<Progress> {
    let text = format!("progress.{}.{trainer}", escape(node.as_str()));
    Subject::new(base(cluster, &text), Some(stream_name(cluster, "progress")))
}

/// The record of one archived trainer.
#[must_use]
pub fn archived(cluster: &ClusterId, trainer: &TrainerId) -> Subject<TrainerRecord> {
    let text = base(cluster, &format!("archive.{}", escape(trainer.as_str())));
    Subject::new(text, Some(stream_name(cluster, "archive")))
}

/// Requests for lines of output, to the agent of one node.
#[must_use]
pub fn logs(cluster: &ClusterId, node: &NodeId) -> Subject<Text> {
    Subject::new(
        base(cluster, &format!("logs.{}", escape(node.as_str()))),
        None,
    )
}

/// The totals at the beginning of one day (UTC), by its number since 1970.
#[must_use]
pub fn day(cluster: &ClusterId, number: i64) -> Subject<Totals> {
    let text = format!("day.{number}");
    Subject::new(base(cluster, &text), Some(stream_name(cluster, "days")))
}

/// The dead letters of a service.
#[must_use]
pub fn dead(cluster: &ClusterId, service: &str) -> Subject<DeadLetter> {
    let text = base(cluster, &format!("dead.{}", escape(service)));
    Subject::new(text, Some(stream_name(cluster, "dead")))
}

/// Whether a subject carries a state, of which only the newest message counts.
#[must_use]
pub fn is_state(subject: &str) -> bool {
    let mut tokens = subject.split('.');
    tokens.next() == Some("lacuna") && tokens.nth(2) == Some("state")
}

/// The behaviour of a full stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The oldest messages are deleted.
    DropOldest,
    /// New messages are refused. The publisher gets an error, and no stored message is lost.
    RefuseNew,
}

/// The failures that an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Power failure, if the server runs with `sync_interval: always`.
    Synced,
    /// None at first: the server writes it a moment later. For messages that later ones repair
    /// anyway.
    Buffered,
}

/// A stream as plain data. All streams are stored in files, so they survive a restart of the
/// server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamDef {
    /// Its name: no dots, fewer than 32 characters.
    pub name: String,
    /// The subjects that it keeps.
    pub subjects: Vec<String>,
    /// Messages older than this are deleted; zero means no limit.
    pub max_age: Span,
    /// The stream is full beyond this many bytes.
    pub max_bytes: i64,
    /// Most messages that are kept for each subject; -1 means no limit.
    pub max_per_subject: i64,
    /// The behaviour when it is full.
    pub full: Full,
    /// The failures that an acknowledged write survives.
    pub durability: Durability,
}

/// A key-value bucket as plain data; its stream is `KV_<name>`, each key a subject, and the
/// revision of an entry is the sequence number of its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketDef<M> {
    /// Its name: no dots, fewer than 32 characters.
    pub name: String,
    /// The bucket is full beyond this many bytes.
    pub max_bytes: i64,
    message: PhantomData<fn() -> M>,
}

impl<M> BucketDef<M> {
    fn new(name: String, max_bytes: i64) -> Self {
        Self {
            name,
            max_bytes,
            message: PhantomData,
        }
    }

    /// The stream behind it.
    #[must_use]
    pub fn stream(&self) -> String {
        format!("KV_{}", self.name)
    }

    /// The subject of one key. The key is escaped.
    #[must_use]
    pub fn key(&self, key: &str) -> Subject<M> {
        let text = format!("$KV.{}.{}", self.name, escape(key));
        Subject::new(text, Some(self.stream()))
    }

    /// All keys.
    #[must_use]
    pub fn all(&self) -> Subject<M> {
        Subject::new(format!("$KV.{}.>", self.name), Some(self.stream()))
    }
}

/// The records of all trainers, by trainer.
#[must_use]
pub fn trainers_bucket(cluster: &ClusterId) -> BucketDef<TrainerRecord> {
    BucketDef::new(stream_name(cluster, "trainers"), 256 << 20)
}

/// The leases, by node.
#[must_use]
pub fn leases_bucket(cluster: &ClusterId) -> BucketDef<LeaseRecord> {
    BucketDef::new(stream_name(cluster, "leases"), 64 << 20)
}

/// Observations while no pilots were started, by hour.
#[must_use]
pub fn observed_bucket(cluster: &ClusterId) -> BucketDef<ObservedHour> {
    BucketDef::new(stream_name(cluster, "observed"), 16 << 20)
}

/// All streams except those behind buckets. Each has a limit of size. A full stream deletes its
/// oldest messages, but the stream of external events refuses new ones.
/// States, plans, commands, members, controls, days, ended trainers, leaders and the store's secret have no
/// limit of age: the newest message of a subject holds until there is a newer one. Buckets have none either, and
/// refuse new values when they are full.
#[must_use]
pub fn streams(cluster: &ClusterId) -> Vec<StreamDef> {
    let hour = Span::from_secs(3600);
    let day = Span::from_secs(86_400);
    let year = Span::from_secs(365 * 86_400);
    let limits = |what, subject: &str, max_age, mib: i64, per_subject, durability| StreamDef {
        name: stream_name(cluster, what),
        subjects: vec![base(cluster, subject)],
        max_age,
        max_bytes: mib << 20,
        max_per_subject: per_subject,
        full: Full::DropOldest,
        durability,
    };
    let state = StreamDef {
        subjects: vec![
            clock(cluster).text,
            pool(cluster).text,
            trainers(cluster).text,
            totals(cluster).text,
            use_state(cluster).text,
            topology(cluster).text,
            reading(cluster).text,
        ],
        ..limits("state", "", Span::ZERO, 48, 1, Durability::Buffered)
    };
    let incoming = StreamDef {
        full: Full::RefuseNew,
        // Synced: an external program sends each event once.
        ..limits("in", "in.>", hour, 256, -1, Durability::Synced)
    };
    // The newest 128 MiB of ended trainers.
    let archived = StreamDef {
        subjects: vec![archive(cluster).text, past(cluster).text],
        ..limits("archive", "", Span::ZERO, 128, 1, Durability::Synced)
    };
    vec![
        incoming,
        limits("events", "event", day, 512, -1, Durability::Buffered),
        state,
        // Synced: an external event is removed from the stream `in` when a snapshot includes its
        // result.
        limits(
            "snapshot",
            "state.snapshot",
            Span::ZERO,
            16,
            1,
            Durability::Synced,
        ),
        limits("plan", "state.plan", Span::ZERO, 64, 1, Durability::Synced),
        // Commands follow from leases and records, which are synced, and are sent again until they
        // are obeyed. Waiting for the disk here would only delay them: a trainer of a hundred nodes
        // has a hundred commands at every change.
        limits("cmds", "cmd.*", Span::ZERO, 256, 1, Durability::Buffered),
        // Members are sent again with commands, and emptied when a trainer ends. There is room for
        // five lists of 262,144 nodes, the most that a trainer may have.
        limits("runs", "run.*", Span::ZERO, 32, 1, Durability::Buffered),
        // Several for each node and trainer, so that the last report of an incarnation is kept
        // until control has read it, and not replaced by the first one of the next.
        limits(
            "progress",
            "progress.*.*",
            day,
            64,
            16,
            Durability::Buffered,
        ),
        limits("dead", "dead.*", day, 64, -1, Durability::Buffered),
        limits("controls", "controls", Span::ZERO, 4, 1, Durability::Synced),
        // A day takes a kilobyte, and 50 bytes for each owner: years.
        limits("days", "day.*", Span::ZERO, 8, 1, Durability::Synced),
        limits("audit", "audit.*", year, 256, -1, Durability::Synced),
        archived,
        // Synced: a leadership is renewed after the number of the renewal before. A server that has
        // lost its newest messages gives their numbers again; a former leader would then renew the
        // leadership of another.
        limits("leaders", "leader.*", Span::ZERO, 1, 1, Durability::Synced),
        // A stream of its own, which control alone may read.
        limits(
            "secret",
            "state.secret",
            Span::ZERO,
            1,
            1,
            Durability::Synced,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_and_streams_have_their_documented_names() {
        let c = ClusterId::new("c").unwrap();
        assert_eq!(event(&c).as_str(), "lacuna.v1.c.event");
        assert_eq!(event(&c).stream(), Some("lac_c_events"));
        assert_eq!(renewals(&c).stream(), None);
        // Agents of all releases must find it where control publishes it.
        let of = |name: &str| shard(&NodeId::new(name).unwrap());
        assert_eq!(["n1", "a01n02", "123456789"].map(of), [44, 7, 38]);
        assert_eq!(renewal(&c, 38).as_str(), "lacuna.v1.c.renewal.38");
        assert!(is_state(pool(&c).as_str()) && is_state(plan(&c).as_str()));
        assert!(!is_state(event(&c).as_str()) && !is_state("$KV.lac_c_leases.state"));
        let node = NodeId::new("a01.x").unwrap();
        assert_eq!(command(&c, &node).as_str(), "lacuna.v1.c.cmd.a01_2Ex");
        let trainer = TrainerId::new("t.1").unwrap();
        assert_eq!(members(&c, &trainer).as_str(), "lacuna.v1.c.run.t_2E1");
        assert_eq!(members(&c, &trainer).stream(), members_all(&c).stream());
        assert_eq!(
            leases_bucket(&c).key("a01.x").as_str(),
            "$KV.lac_c_leases.a01_2Ex"
        );
    }

    #[test]
    fn every_stream_has_a_limit() {
        let cluster = ClusterId::new("c").unwrap();
        let mut ageless = Vec::new();
        for stream in streams(&cluster) {
            assert!(stream.max_bytes > 0, "{} has no limit of size", stream.name);
            if stream.max_age == Span::ZERO {
                // Streams without a limit of age keep one message for each subject.
                assert_eq!(stream.max_per_subject, 1, "{}", stream.name);
                ageless.push(stream.name);
            }
        }
        assert_eq!(
            ageless,
            [
                "state", "snapshot", "plan", "cmds", "runs", "controls", "days", "archive",
                "leaders", "secret"
            ]
            .map(|what| stream_name(&cluster, what))
        );
        let buckets = [
            trainers_bucket(&cluster).max_bytes,
            leases_bucket(&cluster).max_bytes,
            observed_bucket(&cluster).max_bytes,
        ];
        assert!(buckets.iter().all(|limit| *limit > 0));
        let all = streams(&cluster).iter().map(|s| s.max_bytes).sum::<i64>();
        let all = all + buckets.iter().sum::<i64>();
        // By the operator's guide, 8 GB are enough for four clusters.
        assert!(all <= 2 << 30, "{all} bytes");
    }

    #[test]
    fn names_of_streams_are_short_and_their_subjects_disjoint() {
        let longest = ClusterId::new("sixteen-chars-id").unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for stream in streams(&longest) {
            assert!(stream.name.len() < 32, "{}", stream.name);
            assert!(!stream.name.contains('.'));
            assert!(stream.max_bytes > 0, "{} is unbounded", stream.name);
            for subject in stream.subjects {
                assert!(seen.insert(subject.clone()), "{subject} is in two streams");
            }
        }
        for name in [
            trainers_bucket(&longest).name,
            leases_bucket(&longest).name,
            observed_bucket(&longest).name,
        ] {
            assert!(name.len() < 32, "{name}");
        }
        for kept in [
            snapshot(&longest).stream(),
            plan(&longest).stream(),
            progress_all(&longest).stream(),
            members_all(&longest).stream(),
        ] {
            let name = kept.unwrap();
            assert!(streams(&longest).iter().any(|s| s.name == name), "{name}");
        }
    }
}
