//! JSON of slurmrestd, `sinfo --json` and `squeue --json`: the same records as [`crate::sinfo`]
//! and [`crate::squeue`].
//!
//! Versions 22.05 to 25.05 are read. A state is a word with separate flags, in later versions a
//! list of words. A number is plain, in later versions an object with `set` and `infinite`. JSON
//! does not contain whether a partition is up.

use std::collections::BTreeMap;

use lacuna_model::{NodeId, Span, Timestamp};
use lacuna_trace::FieldError;
use lacuna_trace::fields::LATEST_S;
use serde_json::{Map, Value};

use crate::answer::{AnswerError, nodes};
use crate::sinfo::Partition;
use crate::{JobReport, JobState, NodeFlags, NodeReport};

/// Reads the nodes of an answer.
///
/// # Errors
/// [`AnswerError`] if the answer is no such JSON, contains an error, or holds no node.
pub fn read_nodes(answer: &str) -> Result<Vec<NodeReport>, AnswerError> {
    let list = list(answer, "nodes")?;
    let mut found = BTreeMap::new();
    for (record, value) in (1..).zip(&list) {
        let report = node(value).map_err(|at| AnswerError::Field { record, at })?;
        found.insert(report.node.clone(), report);
    }
    if found.is_empty() {
        let expected = "a node at least";
        return Err(AnswerError::Empty { expected });
    }
    Ok(found.into_values().collect())
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

/// Reads what tells nodes apart.
pub(crate) fn read_facts(answer: &str) -> Result<Vec<Facts>, AnswerError> {
    let list = list(answer, "nodes")?;
    let facts = |(record, value): (usize, &Value)| {
        let fields = object(value).map_err(|at| AnswerError::Field { record, at })?;
        let name = text(fields, "name");
        let node = NodeId::new(name).map_err(|e| {
            let at = FieldError::new("name", e.expected, name);
            AnswerError::Field { record, at }
        })?;
        let partitions = words(fields, "partitions").into_iter();
        Ok(Facts {
            node,
            partitions: partitions.map(str::to_owned).collect(),
            features: words(fields, "features").join(","),
            gres: words(fields, "gres").join(","),
        })
    };
    (1..).zip(&list).map(facts).collect()
}

/// Reads the jobs of an answer, without those that are over.
///
/// # Errors
/// [`AnswerError`] if the answer is no such JSON, or contains an error.
pub fn read_jobs(answer: &str) -> Result<Vec<JobReport>, AnswerError> {
    let mut found = Vec::new();
    for (record, value) in (1..).zip(&list(answer, "jobs")?) {
        let report = job(value).map_err(|at| AnswerError::Field { record, at })?;
        // The answer keeps jobs that are over for a while.
        if !matches!(report.state, JobState::Over(_)) {
            found.push(report);
        }
    }
    Ok(found)
}

/// The list of an answer without errors.
fn list(answer: &str, name: &str) -> Result<Vec<Value>, AnswerError> {
    let unreadable = |reason: String| AnswerError::Unreadable { reason };
    let value: Value = serde_json::from_str(answer).map_err(|e| unreadable(e.to_string()))?;
    let Value::Object(mut fields) = value else {
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
    match fields.remove(name) {
        Some(Value::Array(list)) => Ok(list),
        _ => Err(unreadable(format!("it has no list {name:?}"))),
    }
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
