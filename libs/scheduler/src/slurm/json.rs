//! JSON of slurmrestd, `scontrol show nodes --json`, `sinfo --json` and `squeue --json`: the same
//! records as [`super::sinfo`] and [`super::squeue`].
//!
//! Versions 22.05 to 25.05 are read. A state is a word with separate flags, in later versions a
//! list of words. A number is plain, in later versions an object with `set` and `infinite`.
//!
//! Nodes have two forms. A list `nodes` has one entry a node: slurmrestd and `scontrol show nodes`
//! of all versions, `sinfo` of 22.05; it does not contain whether a partition is up. A list `sinfo`
//! has one entry a partition and state: `sinfo` since 23.02.

use std::collections::BTreeMap;

use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_records::FieldError;
use lacuna_records::fields::LATEST_S;
use serde_json::{Map, Value};

use super::sinfo::Partition;
use super::{JobReport, NodeFlags, NodeReport};
use crate::answer::{AnswerError, nodes};
use crate::job::JobState;

/// Reads the nodes of an answer. A damaged entry counts as missing, and is added to `flaws`.
///
/// # Errors
/// [`AnswerError`] if the answer is no such JSON, contains an error, or holds no node.
pub fn read_nodes(answer: &str, flaws: &mut Vec<String>) -> Result<Vec<NodeReport>, AnswerError> {
    let (list, form) = list_of_nodes(answer)?;
    let mut found: BTreeMap<NodeId, NodeReport> = BTreeMap::new();
    let mut first = None;
    for (record, value) in (1..).zip(&list) {
        let reports = match form {
            Form::Nodes => node(value).map(|report| vec![report]),
            Form::Sinfo => nodes_of_state(value),
        };
        let reports = reports.unwrap_or_else(|at| {
            let error = AnswerError::Field { record, at };
            flaws.push(error.to_string());
            first.get_or_insert(error);
            Vec::new()
        });
        for report in reports {
            match found.get_mut(&report.node) {
                Some(known) if form == Form::Sinfo => {
                    // As in `super::sinfo`: a node with two states is never a hole.
                    known.flags.strange |= known.flags != report.flags;
                    known.partitions.extend(report.partitions);
                }
                _ => {
                    found.insert(report.node.clone(), report);
                }
            }
        }
    }
    if found.is_empty() {
        let expected = "a node at least";
        return Err(first.unwrap_or(AnswerError::Empty { expected }));
    }
    Ok(found.into_values().collect())
}

/// The form of an answer with nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One entry a node.
    Nodes,
    /// One entry a partition and state.
    Sinfo,
}

/// The nodes of an answer, in either form, of one cluster.
fn list_of_nodes(answer: &str) -> Result<(Vec<Value>, Form), AnswerError> {
    let mut fields = answered(answer)?;
    let mut list = |name| match fields.remove(name) {
        Some(Value::Array(list)) => Some(list),
        _ => None,
    };
    let nodes = list("nodes").map(|list| (list, Form::Nodes));
    let (list, form) = nodes
        .or_else(|| Some((list("sinfo")?, Form::Sinfo)))
        .ok_or_else(|| AnswerError::Unreadable {
            reason:
                "it has no list \"nodes\" (scontrol show nodes --json, slurmrestd) and no list \
                     \"sinfo\" (sinfo --json)"
                    .to_owned(),
        })?;
    let mut clusters: Vec<&str> = Vec::new();
    for entry in &list {
        let names = ["cluster", "cluster_name"].map(|key| entry.get(key).and_then(Value::as_str));
        let name = names.into_iter().flatten().find(|name| !name.is_empty());
        clusters.extend(name.filter(|name| !clusters.contains(name)));
    }
    if clusters.len() > 1 {
        let reason = format!(
            "it has nodes of the clusters {}, which may have the same names: ask for one (-M {})",
            clusters.join(", "),
            clusters.first().copied().unwrap_or_default()
        );
        return Err(AnswerError::Unreadable { reason });
    }
    Ok((list, form))
}

/// The names of the nodes of an entry of a partition and state; none of an empty partition.
fn names(value: &Value) -> Result<Vec<NodeId>, FieldError> {
    match value.pointer("/nodes/nodes") {
        Some(Value::Array(list)) => {
            let all = list.iter().filter_map(Value::as_str);
            let read = all.map(|name| nodes("nodes", name));
            Ok(read.collect::<Result<Vec<_>, _>>()?.concat())
        }
        Some(Value::String(list)) => nodes("nodes", list),
        _ => Err(FieldError::new("nodes", "a list of nodes", "nothing")),
    }
}

/// The nodes of an entry of a partition and state.
fn nodes_of_state(value: &Value) -> Result<Vec<NodeReport>, FieldError> {
    let part = |pointer: &str| value.pointer(pointer).and_then(Value::as_object);
    let nodes = names(value)?;
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let words = part("/node").map(|fields| words(fields, "state"));
    let Some(words) = words.filter(|words| !words.is_empty()) else {
        let expected = "a word or a list of words";
        return Err(FieldError::new("state", expected, "nothing"));
    };
    let flags = NodeFlags::of_words(words);
    let partition = part("/partition").map(|fields| text(fields, "name"));
    let states = part("/partition/partition").map(|fields| self::words(fields, "state"));
    let up = states.is_none_or(|states| states.iter().any(|word| word.eq_ignore_ascii_case("up")));
    let partitions: Vec<Partition> = partition
        .filter(|name| !name.is_empty())
        .map(|name| Partition {
            name: name.to_owned(),
            up,
        })
        .into_iter()
        .collect();
    let reason = part("/reason").map_or("", |fields| text(fields, "description"));
    let report = |node: NodeId| NodeReport {
        node,
        flags,
        partitions: partitions.clone(),
        reason: reason.to_owned(),
    };
    Ok(nodes.into_iter().map(report).collect())
}

/// What tells nodes apart, in one answer.
pub(crate) struct Facts {
    pub(crate) node: NodeId,
    pub(crate) partitions: Vec<String>,
    /// Features, separated by commas.
    pub(crate) features: String,
    /// Generic resources, separated by commas.
    pub(crate) gres: String,
}

/// Reads what tells nodes apart. A damaged entry is left out: [`read_nodes`] names it.
///
/// # Errors
/// As [`read_nodes`].
pub(crate) fn read_facts(answer: &str) -> Result<Vec<Facts>, AnswerError> {
    let (list, form) = list_of_nodes(answer)?;
    let (mut found, mut first) = (Vec::new(), None);
    for (record, value) in (1..).zip(&list) {
        let facts = match form {
            Form::Nodes => facts(value).map(|facts| vec![facts]),
            Form::Sinfo => facts_of_state(value),
        };
        match facts {
            Ok(facts) => found.extend(facts),
            Err(at) => first = first.or(Some(AnswerError::Field { record, at })),
        }
    }
    match first {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

fn facts(value: &Value) -> Result<Facts, FieldError> {
    let fields = object(value)?;
    let name = text(fields, "name");
    let node = NodeId::new(name).map_err(|e| FieldError::new("name", e.expected, name))?;
    let partitions = words(fields, "partitions").into_iter();
    Ok(Facts {
        node,
        partitions: partitions.map(str::to_owned).collect(),
        features: words(fields, "features").join(","),
        gres: words(fields, "gres").join(","),
    })
}

/// The facts of the nodes of an entry of a partition and state.
fn facts_of_state(value: &Value) -> Result<Vec<Facts>, FieldError> {
    let plain = |pointer: &str| {
        let text = value.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let partition = plain("/partition/name");
    let facts = |node| Facts {
        node,
        partitions: vec![partition.clone()],
        features: plain("/features/total"),
        gres: plain("/gres/total"),
    };
    Ok(names(value)?.into_iter().map(facts).collect())
}

/// Reads the jobs of an answer, without those that are over. A damaged job is left out, and is added
/// to `flaws`: the state of its nodes shows that they are taken.
///
/// # Errors
/// [`AnswerError`] if the answer is no such JSON, or contains an error.
pub fn read_jobs(answer: &str, flaws: &mut Vec<String>) -> Result<Vec<JobReport>, AnswerError> {
    let mut found = Vec::new();
    for (record, value) in (1..).zip(&list(answer, "jobs")?) {
        match job(value) {
            // The answer keeps jobs that are over for a while.
            Ok(report) if matches!(report.state, JobState::Over(_)) => {}
            Ok(report) => found.push(report),
            Err(at) => flaws.push(AnswerError::Field { record, at }.to_string()),
        }
    }
    Ok(found)
}

/// The list of an answer without errors.
fn list(answer: &str, name: &str) -> Result<Vec<Value>, AnswerError> {
    match answered(answer)?.remove(name) {
        Some(Value::Array(list)) => Ok(list),
        _ => Err(AnswerError::Unreadable {
            reason: format!("it has no list {name:?}"),
        }),
    }
}

/// The fields of an answer without errors.
fn answered(answer: &str) -> Result<Map<String, Value>, AnswerError> {
    let unreadable = |reason: String| AnswerError::Unreadable { reason };
    let value: Value = serde_json::from_str(answer).map_err(|e| unreadable(e.to_string()))?;
    let Value::Object(fields) = value else {
        return Err(unreadable("it is no object".to_owned()));
    };
    if let Some(error) = fields.get("errors").and_then(|errors| errors.get(0)) {
        let message = ["description", "error"]
            .iter()
            .find_map(|key| error.get(key)?.as_str());
        return Err(unreadable(
            message.unwrap_or("it contains an error").to_owned(),
        ));
    }
    Ok(fields)
}

fn node(value: &Value) -> Result<NodeReport, FieldError> {
    let fields = object(value)?;
    let name = text(fields, "name");
    let node = NodeId::new(name).map_err(|e| FieldError::new("name", e.expected, name))?;
    let mut words = words(fields, "state");
    words.extend(self::words(fields, "state_flags"));
    if words.is_empty() {
        return Err(FieldError::new(
            "state",
            "a word or a list of words",
            "nothing",
        ));
    }
    let partitions = self::words(fields, "partitions");
    let partition = |name: &str| Partition {
        name: name.to_owned(),
        up: true,
    };
    Ok(NodeReport {
        node,
        flags: NodeFlags::of_words(words),
        partitions: partitions.into_iter().map(partition).collect(),
        reason: text(fields, "reason").to_owned(),
    })
}

fn job(value: &Value) -> Result<JobReport, FieldError> {
    let fields = object(value)?;
    let Some(id) = number(fields, "job_id").filter(|id| *id > 0) else {
        return Err(FieldError::new("job_id", "a number", "nothing"));
    };
    let array = number(fields, "array_job_id").filter(|id| *id > 0);
    let waiting = text(fields, "array_task_string");
    let task = number(fields, "array_task_id");
    let id = match (array, task) {
        (Some(array), _) if !waiting.is_empty() => format!("{array}_[{waiting}]"),
        (Some(array), Some(task)) => format!("{array}_{task}"),
        _ => id.to_string(),
    };
    let states = words(fields, "job_state");
    let state = match states.as_slice() {
        [] => {
            return Err(FieldError::new(
                "job_state",
                "a word or a list of words",
                "nothing",
            ));
        }
        [one] => JobState::parse(one),
        // A state with flags, as in `RUNNING`, `COMPLETING`.
        several => {
            let has = |wanted| several.iter().any(|word| JobState::parse(word) == wanted);
            let order = [
                JobState::Completing,
                JobState::Configuring,
                JobState::Suspended,
                JobState::Other,
            ];
            let first = order.into_iter().find(|&state| has(state));
            first.unwrap_or_else(|| JobState::parse(several.first().copied().unwrap_or_default()))
        }
    };
    let minutes = number(fields, "time_limit").filter(|minutes| (1..1 << 31).contains(minutes));
    Ok(JobReport {
        id,
        submitted: number(fields, "submit_time")
            .map(|seconds| seconds.to_string())
            .unwrap_or_default(),
        asked: NodeId::new(text(fields, "required_nodes")).ok(),
        state,
        partition: text(fields, "partition").to_owned(),
        account: text(fields, "account").to_owned(),
        user: text(fields, "user_name").to_owned(),
        nodes: nodes("nodes", text(fields, "nodes"))?,
        time_limit: minutes.map(|minutes| Span::from_secs(minutes.saturating_mul(60))),
        start: time(fields, "start_time"),
        preempted: time(fields, "preempt_time"),
        planned: nodes("scheduled_nodes", text(fields, "scheduled_nodes"))?,
        comment: match fields.get("comment") {
            // Later releases have separate comments of user, administrator and system.
            Some(Value::Object(comments)) => text(comments, "job").to_owned(),
            _ => text(fields, "comment").to_owned(),
        },
        name: text(fields, "name").to_owned(),
    })
}

fn object(value: &Value) -> Result<&Map<String, Value>, FieldError> {
    let unexpected = || FieldError::new("record", "an object", value.to_string());
    value.as_object().ok_or_else(unexpected)
}

fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> &'a str {
    fields.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A word, or a list of words.
fn words<'a>(fields: &'a Map<String, Value>, key: &str) -> Vec<&'a str> {
    match fields.get(key) {
        Some(Value::String(word)) if !word.is_empty() => vec![word],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// A number, plain or in an object with `set` and `infinite`.
fn number(fields: &Map<String, Value>, key: &str) -> Option<i64> {
    match fields.get(key)? {
        Value::Object(object) => {
            let is = |key: &str| object.get(key).and_then(Value::as_bool).unwrap_or(false);
            let number = object.get("number").and_then(Value::as_i64);
            number.filter(|_| is("set") && !is("infinite"))
        }
        plain => plain.as_i64(),
    }
}

/// A time in Unix seconds, from 1 to [`LATEST_S`]; other numbers mean none.
fn time(fields: &Map<String, Value>, key: &str) -> Option<Timestamp> {
    number(fields, key)
        .filter(|seconds| (1..=LATEST_S).contains(seconds))
        .map(Timestamp::from_unix)
}
