//! What was different in version 1 of the wire, and the way from it and back.
//!
//! Types of the past are written out in full and never changed: they say what services of that
//! version read and write. Version 1 knew no users: a record's `user` may be missing, and then
//! the owner that the specification names counts.

use serde::{Deserialize, Serialize};

use lacuna_model::{
    Attained, Held, Measured, NodeId, Phase, RunId, Stalls, Timestamp, TrainerId, TrainerRecord,
    TrainerSpec,
};

use super::{NodeView, Reply, Totals, TrainersState};

/// `lacuna.trainer`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Trainer {
    spec: TrainerSpec,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    user: String,
    order: u64,
    phase: Phase,
    nodes: Vec<NodeId>,
    run: RunId,
    samples_before: f64,
    samples_run: f64,
    #[serde(default)]
    saved_run: f64,
    owed: f64,
    #[serde(default)]
    run_since: Timestamp,
    #[serde(default)]
    run_owed: f64,
    rescale_cost: f64,
    preempt_cost: f64,
    preemptions: u64,
    rescales: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hit_at: Option<Timestamp>,
    started: Option<Timestamp>,
    ended: Option<Timestamp>,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    failures: u32,
    #[serde(default)]
    loss: Option<f64>,
    #[serde(default)]
    checkpoint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<Box<Measured>>,
}

impl From<Trainer> for TrainerRecord {
    fn from(past: Trainer) -> Self {
        let user = if past.user.is_empty() {
            past.spec.owner.clone().unwrap_or_default()
        } else {
            past.user
        };
        Self {
            spec: past.spec,
            user,
            order: past.order,
            phase: past.phase,
            nodes: past.nodes,
            run: past.run,
            samples_before: past.samples_before,
            samples_run: past.samples_run,
            saved_run: past.saved_run,
            owed: past.owed,
            run_since: past.run_since,
            run_owed: past.run_owed,
            rescale_cost: past.rescale_cost,
            preempt_cost: past.preempt_cost,
            restart_cost: 0.0,
            stalls: Stalls::default(),
            held: Held::default(),
            attained: Attained::default(),
            preemptions: past.preemptions,
            rescales: past.rescales,
            hit_at: past.hit_at,
            started: past.started,
            ended: past.ended,
            reason: past.reason,
            failures: past.failures,
            loss: past.loss,
            checkpoint: past.checkpoint,
            measured: past.measured,
        }
    }
}

impl From<&TrainerRecord> for Trainer {
    fn from(record: &TrainerRecord) -> Self {
        let TrainerRecord {
            spec,
            user,
            order,
            phase,
            nodes,
            run,
            samples_before,
            samples_run,
            saved_run,
            owed,
            run_since,
            run_owed,
            rescale_cost,
            preempt_cost,
            // Version 1 had none of these.
            restart_cost: _,
            stalls: _,
            held: _,
            attained: _,
            preemptions,
            rescales,
            hit_at,
            started,
            ended,
            reason,
            failures,
            loss,
            checkpoint,
            measured,
        } = record.clone();
        Self {
            spec,
            user,
            order,
            phase,
            nodes,
            run,
            samples_before,
            samples_run,
            saved_run,
            owed,
            run_since,
            run_owed,
            rescale_cost,
            preempt_cost,
            preemptions,
            rescales,
            hit_at,
            started,
            ended,
            reason,
            failures,
            loss,
            checkpoint,
            measured,
        }
    }
}

/// `lacuna.trainers`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Trainers {
    version: u64,
    as_of: Timestamp,
    trainers: Vec<Trainer>,
    unusable: Vec<NodeId>,
}

impl From<Trainers> for TrainersState {
    fn from(past: Trainers) -> Self {
        Self {
            version: past.version,
            as_of: past.as_of,
            trainers: past.trainers.into_iter().map(Into::into).collect(),
            unusable: past.unusable,
        }
    }
}

impl From<&TrainersState> for Trainers {
    fn from(state: &TrainersState) -> Self {
        Self {
            version: state.version,
            as_of: state.as_of,
            trainers: state.trainers.iter().map(Into::into).collect(),
            unusable: state.unusable.clone(),
        }
    }
}

/// `lacuna.reply`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub(super) enum Answer {
    Accepted {
        trainers: Vec<TrainerId>,
    },
    Refused {
        code: String,
        reason: String,
    },
    Trainers {
        now: Timestamp,
        trainers: Vec<Trainer>,
    },
    Nodes {
        now: Timestamp,
        nodes: Vec<NodeView>,
    },
    Logs {
        lines: Vec<String>,
    },
    Totals(Totals),
}

impl From<Answer> for Reply {
    fn from(past: Answer) -> Self {
        match past {
            Answer::Accepted { trainers } => Self::Accepted { trainers },
            Answer::Refused { code, reason } => Self::Refused { code, reason },
            Answer::Trainers { now, trainers } => Self::Trainers {
                now,
                trainers: trainers.into_iter().map(Into::into).collect(),
            },
            Answer::Nodes { now, nodes } => Self::Nodes { now, nodes },
            Answer::Logs { lines } => Self::Logs { lines },
            Answer::Totals(totals) => Self::Totals(totals),
        }
    }
}

impl From<&Reply> for Answer {
    fn from(reply: &Reply) -> Self {
        match reply.clone() {
            Reply::Accepted { trainers } => Self::Accepted { trainers },
            Reply::Refused { code, reason } => Self::Refused { code, reason },
            Reply::Trainers { now, trainers } => Self::Trainers {
                now,
                trainers: trainers.iter().map(Into::into).collect(),
            },
            Reply::Nodes { now, nodes } => Self::Nodes { now, nodes },
            Reply::Logs { lines } => Self::Logs { lines },
            Reply::Totals(totals) => Self::Totals(totals),
            // Nobody of version 1 asks for what is newer.
            _ => Self::Refused {
                code: "L0013".to_owned(),
                reason: "the answer cannot be said in version 1: upgrade the one who asks"
                    .to_owned(),
            },
        }
    }
}
