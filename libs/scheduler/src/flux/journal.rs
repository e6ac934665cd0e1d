//! The journal of Flux's job manager, which `deploy/flux/journal.py` writes to a file, an event a line.
//!
//! Source: RFC 21 (events of jobs), RFC 18 (form of an event), RFC 20 (R), RFC 25 (jobspec), and the
//! class `flux.job.JournalConsumer` of Flux's Python package. A line is a JSON object with `id`, `user`,
//! `event`, `jobspec` beside a `submit` and `R` beside an `alloc`. A job holds its nodes from `alloc`
//! to `free`.

use std::collections::BTreeMap;

use lacuna_model::{NodeId, Timestamp};
use lacuna_records::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::nodes;
use crate::jobs::{RunningJob, RunningJobs};
use crate::shared::Marks;

/// Jobs by the events so far, which survive a restart in the state file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct JournalState {
    /// Jobs that hold nodes.
    pub running: RunningJobs,
    /// Whether each waiting job is one of our own pilots.
    waiting: BTreeMap<u64, bool>,
}

#[derive(Deserialize)]
struct Line {
    id: u64,
    #[serde(default)]
    user: String,
    event: Event,
    #[serde(default)]
    jobspec: Value,
    #[serde(rename = "R", default)]
    resources: Value,
}

#[derive(Deserialize)]
struct Event {
    timestamp: f64,
    name: String,
}

impl JournalState {
    /// Takes a line. Returns the time of its event.
    ///
    /// # Errors
    /// [`FieldError`] if the line is damaged. It then changes nothing.
    pub fn line(&mut self, line: &[u8], marks: &Marks) -> Result<Option<Timestamp>, FieldError> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let text = || String::from_utf8_lossy(line).into_owned();
        let line: Line = serde_json::from_slice(line)
            .map_err(|_| FieldError::new("event", "a line of journal.py", text()))?;
        let id = line.id.to_string();
        match line.event.name.as_str() {
            "submit" => {
                self.waiting.insert(line.id, is_ours(&line, marks));
            }
            "alloc" => {
                let nodes = held(&line.resources)?;
                let ours = self.waiting.remove(&line.id).unwrap_or(false);
                self.running.start(&id, RunningJob { nodes, ours });
            }
            "free" | "clean" => {
                self.waiting.remove(&line.id);
                self.running.end(&id);
            }
            _ => {}
        }
        let at = (line.event.timestamp * 1000.0) as i64;
        Ok(Some(Timestamp::from_unix_ms(at)))
    }
}

fn is_ours(line: &Line, marks: &Marks) -> bool {
    let text = |pointer: &str| line.jobspec.pointer(pointer).and_then(Value::as_str);
    let queue = text("/attributes/system/queue").unwrap_or_default();
    let name = text("/attributes/system/job/name").unwrap_or_default();
    marks.fit_texts(queue, "", &line.user, None, name)
}

/// The nodes of a resource set.
fn held(resources: &Value) -> Result<Vec<NodeId>, FieldError> {
    let lists = resources.pointer("/execution/nodelist");
    let lists = lists.and_then(Value::as_array).into_iter().flatten();
    let lists: Vec<&str> = lists.filter_map(Value::as_str).collect();
    let held = nodes("nodelist", &lists.join(","))?;
    if held.is_empty() {
        let expected = "R with execution.nodelist";
        return Err(FieldError::new("R", expected, resources.to_string()));
    }
    Ok(held)
}
