//! What `pbsnodes` says of each node, as labels.

use lacuna_model::NodeId;
use lacuna_records::lenient;
use serde_json::Value;

use crate::answer::AnswerError;
use crate::labels::{Labels, some};

/// Reads the answer of `pbsnodes -a -F json`.
///
/// # Errors
/// [`AnswerError`] if the answer is no such JSON or holds no node.
pub fn read(answer: &str) -> Result<Labels, AnswerError> {
    let unreadable = |reason: String| AnswerError::Unreadable { reason };
    let read = lenient::read(answer).map_err(unreadable)?;
    let mut all = Labels::new();
    let nodes = read.value.get("nodes").and_then(Value::as_object);
    for (name, node) in nodes.into_iter().flatten() {
        // A damaged node is named by the reading of states.
        let Ok(id) = NodeId::new(name) else { continue };
        let labels = all.entry(id).or_default();
        let queue = node.get("queue").and_then(Value::as_str);
        labels.extend(queue.map(|queue| format!("queue:{queue}")));
        let resources = node.get("resources_available").and_then(Value::as_object);
        for (key, value) in resources.into_iter().flatten() {
            let value = match value {
                Value::String(text) => text.clone(),
                Value::Null => continue,
                other => other.to_string(),
            };
            // A count of none, as in `ngpus = 0`, is no resource of the node.
            if matches!(value.trim(), "" | "0" | "False" | "false") {
                continue;
            }
            labels.insert(format!("resource:{key}"));
            let values = value.split(',').map(str::trim);
            labels.extend(values.map(|value| format!("resource:{key}={value}")));
        }
    }
    some(all)
}
