//! What `sinfo` or slurmrestd says of each node, as labels.

use std::collections::BTreeSet;

use lacuna_model::NodeId;
use lacuna_records::FieldError;

use crate::answer::{AnswerError, each, format, text};
use crate::labels::{Labels, some};

/// The requested fields of `sinfo`, in this order.
const FIELDS: [&str; 4] = ["NodeList", "Partition", "Features", "Gres"];

/// Arguments of `sinfo` for the labels of all nodes.
#[must_use]
pub fn arguments() -> Vec<String> {
    let mut arguments = ["-h", "-N", "-a", "-O"].map(str::to_owned).to_vec();
    arguments.push(format(&FIELDS));
    arguments
}

/// Reads the answer of `sinfo` to [`arguments`].
///
/// # Errors
/// [`AnswerError`] if the answer holds no node or any damaged record.
pub fn read(answer: &str) -> Result<Labels, AnswerError> {
    let mut all = Labels::new();
    each(answer, |[node, partition, features, gres]| {
        let node =
            NodeId::new(node).map_err(|error| FieldError::new("NodeList", error.expected, node))?;
        let labels = all.entry(node).or_default();
        slurm_labels(labels, &[partition], features, gres);
        Ok(())
    })?;
    some(all)
}

/// Reads the JSON of slurmrestd, `scontrol show nodes --json` or `sinfo --json`.
///
/// # Errors
/// [`AnswerError`] if the answer is no such JSON, contains an error, or holds no node that can be read.
pub fn read_json(answer: &str) -> Result<Labels, AnswerError> {
    let mut all = Labels::new();
    for facts in super::json::read_facts(answer)? {
        let labels = all.entry(facts.node).or_default();
        let partitions: Vec<&str> = facts.partitions.iter().map(String::as_str).collect();
        slurm_labels(labels, &partitions, &facts.features, &facts.gres);
    }
    some(all)
}

fn slurm_labels(labels: &mut BTreeSet<String>, partitions: &[&str], features: &str, gres: &str) {
    // `sinfo` marks the default partition with a star.
    let partitions = partitions.iter().map(|name| name.trim_end_matches('*'));
    let partitions = partitions.filter(|name| !name.is_empty());
    labels.extend(partitions.map(|name| format!("partition:{name}")));
    let features = text(features).split(',').map(str::trim);
    let features = features.filter(|name| !name.is_empty());
    labels.extend(features.map(|name| format!("feature:{name}")));
    // As in `gpu:a100:4(S:0-1),nvme:1`.
    for item in text(gres).split(',') {
        let item = item.split('(').next().unwrap_or_default();
        let mut words = item.split(':').map(str::trim);
        let Some(name) = words.next().filter(|name| !name.is_empty()) else {
            continue;
        };
        labels.insert(format!("gres:{name}"));
        let is_type =
            |word: &&str| !word.is_empty() && !word.starts_with(|c: char| c.is_ascii_digit());
        if let Some(word) = words.next().filter(is_type) {
            labels.insert(format!("gres:{name}:{word}"));
        }
    }
}
