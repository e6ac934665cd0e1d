//! The messages, in their newest versions. Each travels on the subject that its [`Message`] names.
//!
//! Rules of versions:
//!
//! - A change that makes older readers misread a kind takes a new version. A field that may be
//!   missing, a new kind and a new variant of a request need none: a reader that does not know the
//!   variant refuses it.
//! - `VERSION` is written, `OLDEST..=VERSION` is read. The shape of an older version is a type of
//!   its own, written out in full and never changed, with `From` to the newest; `message!` names it
//!   beside the kind. Tests read its golden bytes (`golden/v<version>`) for as long as the version
//!   is read. No kind has an older version now: tests have one that is made up.
//! - A version that is newer, or older than `OLDEST`, goes into dead letters with the remedy, and
//!   the message before holds. In a bucket it ends the reader (control does not start): a record
//!   left out would be taken for gone, and its nodes for free.
//! - Nothing is written in an older version. So an upgrade replaces the readers of a new version
//!   before its writers.
//!
//! The events of other programs have a version of their own (`external::EVENT_VERSION`).

use serde::{Deserialize, Serialize};

use lacuna_model::{
    Efficiency, Epoch, NodeEvent, NodeId, Plan, Pool, RunId, Stalls, Timestamp, TrainerId,
    TrainerRecord, TrainerSpec, is_default,
};

pub use lacuna_model::{
    Action, Activity, AgentStatus, Assignment, Command, Controls, ControlsChange, Member, Members,
    ObservedHour, Past, Progress, UseState,
};

use crate::content::{self, ContentType};
use crate::message::Message;

/// A message: its type, kind and version, then each older version that is still read, from the
/// oldest on, with the type that it had: that type is never changed, and the newest is made of it
/// by `From`.
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

/// The oldest of a kind's versions, which stand in their order and without a gap.
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

/// How the cluster's time runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "mode")]
pub enum Pace {
    /// The cluster's time is the wall clock's.
    Real,
    /// A recording at `rate` seconds a second: cluster time is
    /// `now + (wall - wall_at) * rate`.
    Scaled {
        /// Recorded seconds per second.
        rate: f64,
        /// The wall clock's time at which the cluster's time was [`Clock::now`].
        wall_at: Timestamp,
    },
    /// A recording that advances when the loop has settled: time stands at [`Clock::now`]
    /// until the next tick.
    LockStep,
}

/// The cluster's time, sent by ingest: at start, at every change of pace, and in lock step
/// twice for every moment of the recording: once when time has advanced (`events_upto` is
/// still that of the step before), and once more when the step's events have been published.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// The cluster's time.
    pub now: Timestamp,
    /// How it goes on.
    pub pace: Pace,
    /// Number of the moment, from 1; grows by one for each.
    pub step: u64,
    /// The last event published so far.
    pub events_upto: u64,
    /// Whether the events of this step are out (the second of the two ticks).
    pub complete: bool,
    /// Whether the recording has ended: nothing follows.
    pub ended: bool,
    /// Which recording is played (a fingerprint of what was chosen of which file); empty if
    /// none is. Steps and moments of different recordings cannot be compared.
    #[serde(default)]
    pub recording: String,
}

/// The pool with its forecasts, sent by forecast at every change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolState {
    /// The pool.
    pub pool: Pool,
    /// Which predictor made the forecasts.
    pub predictor: String,
}

/// The admitted trainers and what they hold, sent by control at every change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainersState {
    /// Grows with every change that a plan depends on: not with mere figures. Never smaller
    /// than the wall clock's milliseconds at control's start, so that a bus that has lost all
    /// does not bring old numbers back.
    pub version: u64,
    /// The moment, in the cluster's time.
    pub as_of: Timestamp,
    /// Trainers in phase `Active`, in order of admission.
    pub trainers: Vec<TrainerRecord>,
    /// Nodes that must not be given to anyone (quarantined, or their agent is silent).
    pub unusable: Vec<NodeId>,
}

/// A plan and the states that it was made from, sent by planner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanState {
    /// The plan.
    pub plan: Plan,
    /// [`TrainersState::version`] that it was made from; in lock step control refuses a plan
    /// made from another than the present one.
    pub trainers_version: u64,
    /// The run of each trainer that it was made from; else control leaves out the trainers
    /// whose run has changed since.
    #[serde(default)]
    pub runs: Vec<(TrainerId, RunId)>,
    /// Wall-clock seconds from the arrival of the newest input to this plan.
    pub latency_s: f64,
}

/// Control lives and these leases stand: an agent whose lease is not renewed for its dead-man
/// time gives the node back by itself. Of each lead and number there is one for each shard of
/// nodes ([`crate::address::shard`]); an older one is not heeded after a newer one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Renewal {
    /// When its sender took the lead, milliseconds since 1970; grows with every change of the lead.
    pub lead: u64,
    /// Grows with every renewal of the lead.
    pub number: u64,
    /// Every lease of the shard that stands.
    pub leases: Vec<Member>,
}

/// The loop has settled for a step of a lock-step clock, sent by control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// The step.
    pub step: u64,
    /// [`Clock::complete`] of the tick that this answers.
    pub complete: bool,
}

/// A lease in its bucket, under the key of its node. The entry's revision is the epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// Who may use the node; nobody after a release.
    pub trainer: Option<TrainerId>,
}

/// What the command line asks of control (request and reply).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub enum Request {
    /// Take these trainers into the queue.
    Submit {
        /// What their owner wrote.
        trainers: Vec<TrainerSpec>,
        /// Only check, do not queue.
        test_only: bool,
    },
    /// End a trainer.
    Cancel {
        /// Which.
        trainer: TrainerId,
    },
    /// All trainers, with the finished ones if `all`.
    Trainers {
        /// Whether finished ones are wanted too.
        all: bool,
    },
    /// One page of trainers, ended ones too.
    Page {
        /// Where they are kept.
        of: Kept,
        /// Where the page begins: 0, or [`Reply::Page`]'s `next`.
        from: u64,
    },
    /// One trainer, wherever its record is kept.
    Trainer {
        /// Which.
        trainer: TrainerId,
    },
    /// All nodes that control knows of.
    Nodes,
    /// The last lines of a trainer's output, from the agent that runs its rank 0.
    Logs {
        /// Which trainer.
        trainer: TrainerId,
        /// How many lines.
        lines: u32,
    },
    /// Totals since control first started.
    Totals,
    /// What the operator wants of the use of nodes.
    Controls,
    /// Change what is wanted; only operators may.
    Change {
        /// What, in this order: all or nothing.
        changes: Vec<ControlsChange>,
    },
}

/// Where records of trainers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// In control's books: those that are not over, and those that ended lately.
    Books,
    /// In the archive: those that ended longer ago, the newest 128 MiB.
    Archive,
}

/// One node as control sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeView {
    /// Which node.
    pub node: NodeId,
    /// Whether it is in the pool, and since when.
    pub idle_since: Option<Timestamp>,
    /// Who holds its lease.
    pub trainer: Option<TrainerId>,
    /// The fencing token.
    pub epoch: Epoch,
    /// What its agent last said, if it ever did.
    pub activity: Option<Activity>,
    /// Wall-clock seconds since the agent's last word.
    pub silent_s: Option<f64>,
}

/// What has come of it all.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Cluster time of the first event or submission.
    pub since: Timestamp,
    /// Cluster time now.
    pub now: Timestamp,
    /// Node-seconds in the pool so far.
    pub idle_node_s: f64,
    /// Node-seconds under a lease so far.
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
    /// Times that a trainer lost nodes unasked.
    pub preemptions: u64,
    /// Times that the planner changed a trainer's size.
    pub rescales: u64,
    /// Trainers that have done their work.
    pub trainers_done: u64,
    /// Nodes in the pool now.
    pub pool_nodes: u32,
    /// Nodes under a lease now.
    pub leased_nodes: u32,
    /// Trainers waiting.
    pub queued: u32,
    /// Trainers admitted.
    pub active: u32,
}

/// What an operator asks of the executor of pilots; answered by a [`Reply`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub enum PilotsRequest {
    /// Submit nothing more and cancel all pilots, until control is told to resume: a restart or
    /// another control changes nothing of it.
    Stop,
    /// Do again as the configuration says.
    Resume,
}

/// An answer of control.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum Reply {
    /// Done.
    Accepted {
        /// The trainers concerned.
        trainers: Vec<TrainerId>,
    },
    /// Refused; nothing was changed.
    Refused {
        /// A code with a page, e.g. `L0007`.
        code: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// Trainers.
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
        /// The records: in order of arrival, of the archive in the order of their moves.
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
    /// Nodes.
    Nodes {
        /// Cluster time now.
        now: Timestamp,
        /// The nodes, sorted.
        nodes: Vec<NodeView>,
    },
    /// Lines of output.
    Logs {
        /// The lines, oldest first.
        lines: Vec<String>,
    },
    /// Totals.
    Totals(Totals),
    /// What the operator wants of the use of nodes.
    Controls(Controls),
}

/// What somebody asked, and what came of it: kept for whoever looks into it later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The wall clock's time.
    pub at: Timestamp,
    /// Who asked, as the bus proves it; `unknown` of one who was not let in.
    pub user: String,
    /// Whether the bus proves who asked. Without keys anybody may say any name.
    pub proven: bool,
    /// What was asked, in one word: `submit`, `cancel`, `pause`, `pilots-stop`.
    pub action: String,
    /// Of what: trainers, nodes.
    pub target: Vec<String>,
    /// `accepted` or `refused`.
    pub outcome: String,
    /// The code of the refusal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// Details, and why it was refused. Never a secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// The active instance of a service, as it says again and again. Who sees no newer word for the
/// time that it names may take its place, by compare-and-set on the number of this message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// Unique for the process.
    pub instance: String,
    /// Where it runs: machine, network namespace and the address it listens on. Whoever holds the
    /// same place knows that it is gone.
    pub seat: String,
    /// The wall clock's time at which it took the lead.
    pub since: Timestamp,
    /// Milliseconds without a newer word after which it has lost the lead.
    pub ttl_ms: u64,
    /// Whether it has given the lead up.
    #[serde(default)]
    pub resigned: bool,
}

/// A message that could not be understood, kept for the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The subject that it came on.
    pub subject: String,
    /// Which service refused it.
    pub service: String,
    /// Why.
    pub reason: String,
    /// The payload, as it came (cut at 64 KiB).
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

    /// A kind that has changed twice, and whose first version is read no more.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Made {
        node: String,
        cores: u32,
    }

    /// It as version 2 had it.
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
            ..Envelope::of::<Made>("1".to_owned(), String::new(), Timestamp::default(), "")
        }
    }

    #[test]
    fn an_older_version_is_read_by_the_type_that_it_had() {
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
        // What is written is of the newest version, and no version is read by another's type.
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
