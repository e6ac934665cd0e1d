//! The messages, in their newest versions. Each travels on the subject that its [`Message`] names.
//!
//! Rules of versions:
//!
//! - A change that makes older readers misread a kind takes a new version. An optional field, a new
//!   kind and a new variant of a request need none: a reader refuses a variant that it does not
//!   know.
//! - `VERSION` is written, `OLDEST..=VERSION` is read. An older version has a type of its own,
//!   written out in full and never changed, with `From` to the newest; `message!` names it beside
//!   the kind. Tests read its golden bytes (`golden/v<version>`) for as long as the version is
//!   read. At present no kind has an older version, and the tests use an artificial kind.
//! - A message of a newer version, or one older than `OLDEST`, becomes a dead letter with the
//!   remedy, and the message before it holds. In a bucket it ends the reader (control does not
//!   start): a skipped record would count as deleted, and its nodes as free.
//! - Older versions are never written. So an upgrade replaces the readers of a new version before
//!   its writers.
//!
//! The events of other programs have a version of their own (`external::EVENT_VERSION`).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use lacuna_model::{
    Efficiency, Epoch, Generation, Harm, JudgedPlan, KindName, KindUse, NodeEvent, NodeId,
    NodeKinds, OwnerUse, Plan, Pool, RunId, Stalls, Timestamp, Topology, TrainerId, TrainerRecord,
    TrainerSpec, Trouble, Troubled, is_default,
};

pub use lacuna_model::{
    Action, Activity, AgentStatus, Assignment, Command, Controls, ControlsChange, Member, Members,
    ObservedHour, Past, Progress, UseState,
};

use crate::content::{self, ContentType};
use crate::message::Message;

/// Implements [`Message`]: the type, its kind and version, then each older version that is still
/// read, oldest first, with its type. That type never changes, and `From` makes the newest of it.
macro_rules! message {
    ($type:ty, $kind:literal, $version:literal $(signed $signed:literal)?
        $(, $past:literal = $before:ty)* $(; $message:ident => $($about:expr),+)?) => {
        impl Message for $type {
            const KIND: &'static str = $kind;
            const VERSION: u16 = $version;
            const OLDEST: u16 = first(&[$($past,)* $version]);
            $(const SIGNED: bool = $signed;)?

            $(fn about(&self) -> Vec<&str> {
                let $message = self;
                vec![$($about.as_str()),+]
            })?

            fn read(version: u16, form: ContentType, payload: &[u8]) -> Result<Self, String> {
                match version {
                    $($past => content::parse::<$before>(form, payload).map(Self::from),)*
                    _ => content::parse(form, payload),
                }
            }
        }
    };
}

/// The oldest of a kind's versions, which are in order and without a gap.
const fn first(versions: &[u16]) -> u16 {
    match versions {
        [oldest, rest @ ..] => {
            assert!(
                rest.is_empty() || first(rest) == *oldest + 1,
                "a version is missing"
            );
            *oldest
        }
        [] => 0,
    }
}

message!(Clock, "lacuna.clock", 1);
message!(NodeEvent, "lacuna.event", 1);
message!(PoolState, "lacuna.pool", 1);
message!(TrainersState, "lacuna.trainers", 2);
message!(PlanState, "lacuna.plan", 1);
message!(Command, "lacuna.command", 2 signed true; command => command.node);
message!(Members, "lacuna.members", 1 signed true; members => members.trainer);
message!(AgentStatus, "lacuna.agent", 1; status => status.node);
message!(Progress, "lacuna.progress", 2; progress => progress.node, progress.trainer);
message!(Renewal, "lacuna.renewal", 2 signed true);
message!(Settled, "lacuna.settled", 1);
message!(TrainerRecord, "lacuna.trainer", 2);
message!(Past, "lacuna.past", 1);
message!(LeaseRecord, "lacuna.lease", 1);
message!(Request, "lacuna.request", 1);
message!(Reply, "lacuna.reply", 2);
message!(Totals, "lacuna.totals", 1);
message!(DeadLetter, "lacuna.deadletter", 1);
message!(ObservedHour, "lacuna.observed", 1);
message!(PilotsRequest, "lacuna.pilots", 1);
message!(Controls, "lacuna.controls", 1);
message!(UseState, "lacuna.use", 1);
message!(AuditRecord, "lacuna.audit", 1);
message!(Leader, "lacuna.leader", 1);
message!(StoreSecret, "lacuna.secret", 1);
message!(TopologyState, "lacuna.topology", 1);
message!(Reading, "lacuna.reading", 1);

/// The pace of the cluster's time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "mode")]
pub enum Pace {
    /// The cluster's time is that of the wall clock.
    Real,
    /// A recording at `rate` seconds per second: cluster time is `now + (wall - wall_at) * rate`.
    Scaled {
        /// Recorded seconds per second.
        rate: f64,
        /// The wall clock's time at which the cluster's time was [`Clock::now`].
        wall_at: Timestamp,
    },
    /// A recording that advances when the loop has settled. Time stays at [`Clock::now`] until the
    /// next tick.
    LockStep,
}

/// The cluster's time, sent by ingest at its start and at every change of pace. In lock step it is
/// sent twice for every moment of the recording. The first tick says that time has advanced, with
/// the `events_upto` of the step before. The second follows when the step's events have been
/// published; at the end of the recording, where none are, it says that it has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// The cluster's time.
    pub now: Timestamp,
    /// The pace at which it advances.
    pub pace: Pace,
    /// Number of the moment, from 1; grows by one for each.
    pub step: u64,
    /// The last event published so far.
    pub events_upto: u64,
    /// Whether the events of this step have been published (the second of the two ticks).
    pub complete: bool,
    /// Whether the recording has ended, so that no further moment follows.
    pub ended: bool,
    /// Fingerprint of the recording that is replayed, from its file and the part that was chosen;
    /// empty without one. Steps and moments of different recordings cannot be compared.
    #[serde(default)]
    pub recording: String,
}

/// The pool with its forecasts, sent by forecast at every change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolState {
    /// The pool.
    pub pool: Pool,
    /// The predictor that made the forecasts.
    pub predictor: String,
}

/// What is known of nodes, sent by ingest when it differs from what was known before: where they
/// are and of which kind. Without this message nothing is known about distance, as with an empty
/// topology, and all nodes are of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyState {
    /// The switches above each node.
    pub topology: Topology,
    /// Its source: the path of a file, `slurm` or `pbs`; empty without one.
    pub source: String,
    /// The kind of each node.
    #[serde(default, skip_serializing_if = "NodeKinds::is_empty")]
    pub kinds: NodeKinds,
}

/// Which message of a queue is being read, kept for the next reader: a reader that ends meanwhile cannot
/// say so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Its sequence number in the stream; 0 for none.
    pub at: u64,
    /// Messages at which readers have ended, and how many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<(u64, u32)>,
}

/// The admitted trainers and their nodes, sent by control at every change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainersState {
    /// Grows with every change that a plan depends on, and not with changes of figures only. It is
    /// never below the wall clock's milliseconds at control's start, so an emptied server brings no
    /// old number back.
    pub version: u64,
    /// The moment, in the cluster's time.
    pub as_of: Timestamp,
    /// Trainers in phase `Active`, in order of admission.
    pub trainers: Vec<TrainerRecord>,
    /// Nodes that no trainer may have: they are quarantined, or their agent is silent.
    pub unusable: Vec<NodeId>,
    /// Seconds for which a node waits for a pilot of its trainer's owner; 0 where agents serve any
    /// trainer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pilot_s: f64,
    /// The newest plan that was followed; 0 before the first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub followed: Generation,
}

impl TrainersState {
    /// The incarnation of each trainer, as in a [`PlanState`].
    #[must_use]
    pub fn runs(&self) -> Vec<(TrainerId, RunId)> {
        let runs = self.trainers.iter().map(|t| (t.spec.id.clone(), t.run));
        runs.collect()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

/// A plan with the versions of its inputs, sent by planner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanState {
    /// The plan.
    pub plan: Plan,
    /// The [`TrainersState::version`] of its input. In lock step control refuses a plan whose
    /// version is not the present one.
    pub trainers_version: u64,
    /// The incarnation of each trainer in its input. Outside lock step control leaves out trainers
    /// whose incarnation has changed since.
    #[serde(default)]
    pub runs: Vec<(TrainerId, RunId)>,
    /// Wall-clock seconds from the arrival of the newest input to this plan.
    pub latency_s: f64,
    /// What the judge found last about an earlier plan of this planner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<JudgedPlan>,
}

/// The leases of one shard that are in force, sent by control. An agent whose lease is not renewed
/// within its lease timeout gives the node back by itself. For each leadership and number there is
/// one message for each shard of nodes ([`crate::address::shard`]). Agents ignore an older one
/// after a newer one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Renewal {
    /// When the sender took the leadership, in milliseconds since 1970; it grows with every change
    /// of leader.
    pub lead: u64,
    /// Grows with every renewal under this leadership.
    pub number: u64,
    /// Every lease of the shard that is in force.
    pub leases: Vec<Member>,
    /// Jobs of pilots in the shard that the main scheduler no longer knows. Their agents end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<String>,
}

/// The loop has settled for a step of a lock-step clock, sent by control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// The step.
    pub step: u64,
    /// [`Clock::complete`] of the tick that this answers.
    pub complete: bool,
}

/// A lease in its bucket, under the key of its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// The trainer that may use the node; none after a release.
    pub trainer: Option<TrainerId>,
    /// The epoch, if control has written a lease again that the server had lost. Else it is the
    /// entry's revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Epoch>,
}

impl LeaseRecord {
    /// The epoch of the lease in an entry with this revision.
    #[must_use]
    pub fn epoch(&self, revision: u64) -> Epoch {
        self.epoch.unwrap_or(Epoch(revision))
    }
}

/// A request of the command line to control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub enum Request {
    /// Queue these trainers.
    Submit {
        /// Their specifications.
        trainers: Vec<TrainerSpec>,
        /// Only check them.
        test_only: bool,
        /// What their owners have signed, so that pilots may run their programs under the owners'
        /// accounts: packed tickets (`lacuna-owner`).
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        tickets: BTreeMap<TrainerId, String>,
    },
    /// Keep another ticket of a trainer's owner in place of the present one.
    Renew {
        /// The trainer.
        trainer: TrainerId,
        /// The packed ticket (`lacuna-owner`).
        ticket: String,
    },
    /// End a trainer.
    Cancel {
        /// The trainer.
        trainer: TrainerId,
    },
    /// All trainers, with the finished ones if `all`.
    Trainers {
        /// Whether ended trainers are included.
        all: bool,
    },
    /// One page of trainers, ended ones included.
    Page {
        /// Where they are kept.
        of: Kept,
        /// Where the page begins: 0, or [`Reply::Page`]'s `next`.
        from: u64,
    },
    /// One trainer, wherever its record is kept.
    Trainer {
        /// The trainer.
        trainer: TrainerId,
    },
    /// All nodes that control knows.
    Nodes,
    /// The last lines of a trainer's output, from the agent that runs its rank 0.
    Logs {
        /// The trainer.
        trainer: TrainerId,
        /// Number of lines.
        lines: u32,
        /// The text after this place, if its node is the trainer's or the trainer has none now.
        /// Bytes that the output does not have stand for the last lines.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<LogPlace>,
        /// Only what was written since then, by the nodes' clocks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<Timestamp>,
        /// The bytes as the program has written them, instead of lines as a terminal shows them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_raw: bool,
    },
    /// Totals since control first started.
    Totals,
    /// The totals at the beginning of the day (UTC) of this moment, or of the first day after it that
    /// is kept.
    TotalsAt {
        /// The moment, in the cluster's time.
        at: Timestamp,
    },
    /// The operator's controls.
    Controls,
    /// Change the controls; for operators only.
    Change {
        /// The changes, in this order. Either all of them apply or none.
        changes: Vec<ControlsChange>,
    },
}

/// A place in the output of a trainer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPlace {
    /// The node whose agent keeps the output.
    pub node: NodeId,
    /// Bytes before it, since the trainer first ran there.
    pub byte: u64,
}

/// Where records of trainers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// In control's state: trainers that have not ended, and those that ended recently.
    Live,
    /// In the archive: trainers that ended earlier, the newest 128 MiB of them.
    Archive,
}

/// The state of one node in control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeView {
    /// The node.
    pub node: NodeId,
    /// When it entered the pool, if it is in it.
    pub idle_since: Option<Timestamp>,
    /// The trainer that holds its lease.
    pub trainer: Option<TrainerId>,
    /// The fencing token.
    pub epoch: Epoch,
    /// The last activity that its agent reported, if it has reported any.
    pub activity: Option<Activity>,
    /// Wall-clock seconds since the agent's last status.
    pub silent_s: Option<f64>,
    /// What keeps it from being used as the others are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// Whether it left the pool as down, drained or rebooting.
    #[serde(default, skip_serializing_if = "is_default")]
    pub is_down: bool,
}

/// Totals of the cluster.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Cluster time of the first event or submission.
    pub since: Timestamp,
    /// Cluster time now.
    pub now: Timestamp,
    /// Node-seconds in the pool so far.
    pub idle_node_s: f64,
    /// Node-seconds in the pool under a lease so far.
    pub harvested_node_s: f64,
    /// Samples done by all trainers.
    pub samples: f64,
    /// Stall cost of changes of size by the planner, in samples.
    pub rescale_cost: f64,
    /// Stall cost of preemptions, in samples.
    pub preempt_cost: f64,
    /// Stall cost of restarts of programs on the same nodes, in samples.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart_cost: f64,
    /// Seconds stalled and samples redone, by cause.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stalls: Stalls,
    /// Efficiency U so far.
    #[serde(default, skip_serializing_if = "is_default")]
    pub efficiency: Efficiency,
    /// Number of preemptions.
    pub preemptions: u64,
    /// Number of changes of size by the planner.
    pub rescales: u64,
    /// Number of trainers that are done.
    pub trainers_done: u64,
    /// Nodes in the pool now.
    pub pool_nodes: u32,
    /// Number of nodes under a lease now.
    pub leased_nodes: u32,
    /// Number of queued trainers.
    pub queued: u32,
    /// Number of admitted trainers.
    pub active: u32,
    /// Node-time and harm by kind; empty where fewer than two kinds of nodes are known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<KindName, KindUse>,
    /// Waits of the main scheduler for nodes, by how it asked for them (`lacuna_control_harm_seconds`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub harm: BTreeMap<String, Harm>,
    /// Releases that no agent confirmed within the lease timeout. Their waits are not known.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unconfirmed: u64,
    /// Nodes with a trouble now, by its kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubled: Vec<Troubled>,
    /// What each owner's trainers had; those without an owner are under `""`. Only in answers, and in
    /// what is kept of a day.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub owners: BTreeMap<String, OwnerUse>,
}

/// A request of an operator to the executor of pilots, answered by a [`Reply`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub enum PilotsRequest {
    /// Cancel all pilots and submit none until [`PilotsRequest::Resume`]. A restart or a new leader
    /// of control does not change this.
    Stop,
    /// Run pilots as the configuration says.
    Resume,
}

/// An answer of control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum Reply {
    /// The request is carried out.
    Accepted {
        /// The trainers of the request.
        trainers: Vec<TrainerId>,
    },
    /// The request is refused, and nothing has changed.
    Refused {
        /// An error code with a page, e.g. `L0007`.
        code: String,
        /// The reason and the remedy.
        reason: String,
    },
    /// The trainers that were asked for.
    Trainers {
        /// Cluster time now.
        now: Timestamp,
        /// The records, in order of arrival.
        trainers: Vec<TrainerRecord>,
    },
    /// One page of trainers.
    Page {
        /// Cluster time now.
        now: Timestamp,
        /// The records in order of arrival; those of the archive in the order of their moves.
        trainers: Vec<TrainerRecord>,
        /// Where the next page begins, if there is one.
        next: Option<u64>,
    },
    /// One trainer.
    Trainer {
        /// Cluster time now.
        now: Timestamp,
        /// Its record.
        trainer: Box<TrainerRecord>,
        /// Where it is kept.
        kept: Kept,
    },
    /// All nodes that control knows.
    Nodes {
        /// Cluster time now.
        now: Timestamp,
        /// The nodes, sorted.
        nodes: Vec<NodeView>,
    },
    /// Lines of output.
    Logs {
        /// The lines, oldest first. After a place they are its text, divided at each line end.
        lines: Vec<String>,
        /// Where they end, if they are of one node.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        upto: Option<LogPlace>,
    },
    /// The totals.
    Totals(Totals),
    /// The operator's controls.
    Controls(Controls),
}

/// A command of a user with its outcome, kept in the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The wall clock's time.
    pub at: Timestamp,
    /// The user, as the bus proves it; `unknown` for a user who was not let in.
    pub user: String,
    /// Whether the bus proves the user. Without keys every user can claim any name.
    pub proven: bool,
    /// The command in one word: `submit`, `cancel`, `pause`, `pilots-stop`.
    pub action: String,
    /// Its targets: trainers, nodes.
    pub target: Vec<String>,
    /// `accepted` or `refused`.
    pub outcome: String,
    /// The code of the refusal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Details and the reason of a refusal. Never a secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// The active instance of a service, renewed again and again. When it is not renewed within its
/// length, a standby may take over by compare-and-set on the number of this message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// Unique for each process.
    pub instance: String,
    /// Where the instance runs: machine, network namespace and the address that it listens on. A
    /// process that has bound the same address knows that this instance has ended.
    pub seat: String,
    /// When it took the leadership, by its wall clock.
    pub since: Timestamp,
    /// Length of the leadership without renewal, in milliseconds.
    pub ttl_ms: u64,
    /// Whether it has resigned.
    #[serde(default)]
    pub resigned: bool,
    /// Checks of its `/healthz` that fail, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
}

/// The secret of which control makes the tokens of incarnations. It outlives a control, so members
/// keep their tokens.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreSecret {
    /// Text that nothing else can guess.
    pub secret: String,
}

impl fmt::Debug for StoreSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreSecret").finish_non_exhaustive()
    }
}

/// A message that could not be decoded, kept for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The subject that it came on.
    pub subject: String,
    /// The service that refused it.
    pub service: String,
    /// The reason.
    pub reason: String,
    /// The payload as received, cut at 64 KiB.
    #[serde(with = "bytes")]
    pub payload: Vec<u8>,
}

/// Binary payloads as MessagePack binaries.
mod bytes {
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<u8>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }
            fn visit_bytes<E: serde::de::Error>(self, v: &[u8]) -> Result<Vec<u8>, E> {
                Ok(v.to_vec())
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut s: A,
            ) -> Result<Vec<u8>, A::Error> {
                let mut v = Vec::new();
                while let Some(b) = s.next_element()? {
                    v.push(b);
                }
                Ok(v)
            }
        }
        from.deserialize_byte_buf(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{self, DecodeError, Envelope};

    /// A kind that has changed twice, and whose first version is no longer read.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Made {
        node: String,
        cores: u32,
    }

    /// Its version 2.
    #[derive(Serialize, Deserialize)]
    struct Before {
        name: String,
    }

    impl From<Before> for Made {
        fn from(past: Before) -> Self {
            Self {
                node: past.name,
                cores: 1,
            }
        }
    }

    message!(Made, "lacuna.made", 3, 2 = Before);

    /// `{"name": "a"}` as MessagePack.
    const OF_VERSION_2: &[u8] = b"\x81\xa4name\xa1a";

    fn envelope(version: u16) -> Envelope {
        Envelope {
            version,
            ..Envelope::of::<Made>("1", "", Timestamp::default(), "")
        }
    }

    #[test]
    fn an_older_version_is_read_by_its_own_type() {
        let then = Made {
            node: "a".to_owned(),
            cores: 1,
        };
        assert_eq!(codec::decode(&envelope(2), OF_VERSION_2), Ok(then));
        let json = Envelope {
            content_type: ContentType::Json,
            ..envelope(2)
        };
        let read = codec::decode::<Made>(&json, br#"{"name": "b"}"#).unwrap();
        assert_eq!(read.node, "b");
        // The newest version is written, and no version is read by the type of another.
        let now = Made {
            node: "c".to_owned(),
            cores: 4,
        };
        let written = codec::encode(&now).unwrap();
        for (version, payload) in [(2, written.as_slice()), (3, OF_VERSION_2)] {
            let error = codec::decode::<Made>(&envelope(version), payload).unwrap_err();
            assert!(matches!(error, DecodeError::Payload { .. }), "{error}");
        }
        assert_eq!(codec::decode(&envelope(Made::VERSION), &written), Ok(now));
    }

    #[test]
    fn any_other_version_is_refused_with_the_remedy() {
        for found in [0, 1] {
            let error = codec::decode::<Made>(&envelope(found), OF_VERSION_2).unwrap_err();
            let expected = DecodeError::Older {
                kind: Made::KIND,
                found,
                oldest: 2,
            };
            assert_eq!(error, expected);
            assert!(error.to_string().contains("stop all services"), "{error}");
        }
        let error = codec::decode::<Made>(&envelope(4), OF_VERSION_2).unwrap_err();
        let expected = DecodeError::Newer {
            kind: Made::KIND,
            found: 4,
            known: 3,
        };
        assert_eq!(error, expected);
        assert!(
            error.to_string().contains("upgrade the older side"),
            "{error}"
        );
    }

    #[test]
    #[should_panic(expected = "a version is missing")]
    fn no_version_between_the_oldest_and_the_newest_is_left_out() {
        first(&[1, 3]);
    }
}
