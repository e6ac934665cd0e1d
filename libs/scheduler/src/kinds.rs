//! Kinds of nodes: what a scheduler says of each node, and the rules that make a kind of it.
//!
//! A scheduler's words about a node become labels, and a kind lists the labels of its nodes:
//!
//! | Label | Source |
//! |---|---|
//! | `partition:NAME`, `feature:NAME`, `gres:NAME`, `gres:NAME:TYPE` | `sinfo` of Slurm |
//! | `queue:NAME`, `resource:NAME`, `resource:NAME=VALUE` | `pbsnodes` of PBS |
//! | `type:NAME`, `model:NAME`, `resource:NAME` | a file with the output of `lshosts -w` of LSF |
//! | `nodes:LIST` | the setting itself, in Slurm's notation |
//! | `rest` | every node that no other kind takes |

use std::collections::{BTreeMap, BTreeSet};

use lacuna_model::{KindName, NodeId, NodeKinds, SettingError};
use lacuna_trace::{FieldError, excerpt, lenient};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::{AnswerError, each, format, nodes, text};

/// The requested fields of `sinfo`, in this order.
const FIELDS: [&str; 4] = ["NodeList", "Partition", "Features", "Gres"];

/// The label of all nodes that no other kind takes.
const REST: &str = "rest";

/// What a scheduler says of each node.
pub type Labels = BTreeMap<NodeId, BTreeSet<String>>;

/// The labels of the nodes of each kind; one of them is enough.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct KindRules(BTreeMap<String, Vec<String>>);

/// Why nodes have no kinds by these rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KindsError {
    /// A node fits two kinds.
    #[error(
        "node {node} is of kind {first} and of kind {second}: write rules in [ingest.kinds] of \
         which each node fits one"
    )]
    TwoKinds {
        /// The node.
        node: NodeId,
        /// A kind.
        first: KindName,
        /// Another kind.
        second: KindName,
    },
    /// A list of nodes cannot be read.
    #[error("ingest.kinds: {0}")]
    List(#[from] FieldError),
}

/// A source of labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelSource {
    /// `sinfo`.
    Slurm,
    /// `pbsnodes`.
    Pbs,
    /// A file with the output of `lshosts -w`.
    Lsf,
}

impl KindRules {
    /// The rules of these kinds.
    #[must_use]
    pub fn new(rules: BTreeMap<String, Vec<String>>) -> Self {
        Self(rules)
    }

    /// Whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn labels(&self) -> impl Iterator<Item = &String> {
        self.0.values().flatten()
    }

    /// Whether a label can come from `source`; `rest` from any.
    #[must_use]
    pub fn need(&self, source: LabelSource) -> bool {
        let of = |label: &String| sources(label).is_some_and(|all| all.contains(&source));
        self.labels().any(of)
    }

    /// Checks names and labels; `given` are the schedulers that can be asked.
    ///
    /// # Errors
    /// The first kind that has no name or no label, and a label that no source gives.
    pub fn check(&self, given: &[LabelSource]) -> Result<(), SettingError> {
        for (name, labels) in &self.0 {
            let expected = "kinds of 1 to 64 of A-Z a-z 0-9 _ - ., each with a list of labels";
            let sound = KindName::new(name).is_ok() && !labels.is_empty();
            SettingError::unless(sound, "ingest.kinds", name, expected)?;
        }
        for label in self.labels() {
            let all = sources(label);
            let expected = "partition:, feature:, gres: (Slurm), queue:, resource: (PBS), type:, \
                            model:, resource: (LSF), nodes: or rest, with a name after the colon";
            SettingError::unless(all.is_some(), "ingest.kinds", label, expected)?;
            let sound = all.is_some_and(|all| {
                all.is_empty() || all.iter().any(|source| given.contains(source))
            });
            let expected = "labels of the configured scheduler: a section [ingest.slurm] or \
                            [ingest.pbs], or for LSF the output of lshosts -w as ingest.kinds_file";
            SettingError::unless(sound, "ingest.kinds", label, expected)?;
        }
        let all_rest = self.labels().filter(|label| *label == REST).count();
        let expected = "one kind with rest";
        SettingError::unless(all_rest <= 1, "ingest.kinds", REST, expected)
    }

    /// The kinds of the nodes with these labels, and of the nodes that the rules list.
    ///
    /// # Errors
    /// [`KindsError`] for a node of two kinds, and for a list that cannot be read.
    pub fn kinds(&self, labels: &Labels) -> Result<NodeKinds, KindsError> {
        let mut found: BTreeMap<NodeId, KindName> = BTreeMap::new();
        let mut rest = None;
        let mut take =
            |node: &NodeId, kind: &KindName| match found.insert(node.clone(), kind.clone()) {
                Some(first) if first != *kind => Err(KindsError::TwoKinds {
                    node: node.clone(),
                    first,
                    second: kind.clone(),
                }),
                _ => Ok(()),
            };
        for (name, wanted) in &self.0 {
            let kind = KindName::new(name)
                .map_err(|error| FieldError::new("kind", error.expected, name))?;
            for label in wanted {
                if let Some(list) = label.strip_prefix("nodes:") {
                    for node in listed(list)? {
                        take(&node, &kind)?;
                    }
                } else if label == REST {
                    rest = Some(kind.clone());
                }
            }
            for (node, has) in labels {
                if wanted.iter().any(|label| has.contains(label)) {
                    take(node, &kind)?;
                }
            }
        }
        if let Some(kind) = rest {
            for node in labels.keys() {
                found.entry(node.clone()).or_insert_with(|| kind.clone());
            }
        }
        Ok(NodeKinds::new(found))
    }
}

/// The sources of which one gives a label, none for a list of the setting itself. Nothing for a
/// label that is not known.
fn sources(label: &str) -> Option<&'static [LabelSource]> {
    let (head, name) = label.split_once(':').unwrap_or((label, REST));
    let all: &[LabelSource] = match head {
        "partition" | "feature" | "gres" => &[LabelSource::Slurm],
        "queue" => &[LabelSource::Pbs],
        "resource" => &[LabelSource::Pbs, LabelSource::Lsf],
        "type" | "model" => &[LabelSource::Lsf],
        "nodes" => &[],
        REST => &[LabelSource::Slurm, LabelSource::Pbs, LabelSource::Lsf],
        _ => return None,
    };
    let is_whole = (head == REST) != label.contains(':');
    (is_whole && !name.is_empty()).then_some(all)
}

fn listed(list: &str) -> Result<Vec<NodeId>, FieldError> {
    nodes("nodes", list)
}

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
pub fn read_slurm(answer: &str) -> Result<Labels, AnswerError> {
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
pub fn read_slurm_json(answer: &str) -> Result<Labels, AnswerError> {
    let mut all = Labels::new();
    for facts in crate::json::read_facts(answer)? {
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

/// Reads the answer of `pbsnodes -a -F json`.
///
/// # Errors
/// [`AnswerError`] if the answer is no such JSON or holds no node.
pub fn read_pbs(answer: &str) -> Result<Labels, AnswerError> {
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

/// Whether a text is the output of `lshosts -w`.
#[must_use]
pub fn is_lsf(text: &str) -> bool {
    text.trim_start().starts_with("HOST_NAME")
}

/// Reads the output of `lshosts -w`: a host a line, with type, model and resources. Tried on
/// samples of the manual only (IBM Spectrum LSF 10.1, command reference, "lshosts").
///
/// # Errors
/// [`AnswerError`] if a line lacks the columns, or the text holds no host.
pub fn read_lsf(text: &str) -> Result<Labels, AnswerError> {
    let mut all = Labels::new();
    let lines = (1_usize..).zip(text.lines()).skip(1);
    for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
        let mut words = text.split_whitespace();
        let (Some(host), Some(kind), Some(model)) = (words.next(), words.next(), words.next())
        else {
            let reason = format!(
                "line {line}: expected HOST_NAME, type and model, found {:?}",
                excerpt(text)
            );
            return Err(AnswerError::Unreadable { reason });
        };
        let node = NodeId::new(host).map_err(|error| AnswerError::Unreadable {
            reason: format!("line {line}: {error}"),
        })?;
        let labels = all.entry(node).or_default();
        labels.insert(format!("type:{kind}"));
        labels.insert(format!("model:{model}"));
        if let Some((_, resources)) = text.rsplit_once('(') {
            let resources = resources.trim_end().trim_end_matches(')');
            let resources = resources.split_whitespace();
            labels.extend(resources.map(|name| format!("resource:{name}")));
        }
    }
    some(all)
}

fn some(all: Labels) -> Result<Labels, AnswerError> {
    if all.is_empty() {
        let expected = "a node at least";
        return Err(AnswerError::Empty { expected });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{RECORD_END, SEPARATOR};

    fn rules(list: &[(&str, &[&str])]) -> KindRules {
        let rule = |(name, labels): &(&str, &[&str])| {
            let labels = labels.iter().map(ToString::to_string);
            ((*name).to_owned(), labels.collect())
        };
        KindRules::new(list.iter().map(rule).collect())
    }

    fn of(rules: &KindRules, labels: &Labels, node: &str) -> Option<String> {
        let kinds = rules.kinds(labels).unwrap();
        let node = NodeId::new(node).unwrap();
        kinds.of(&node).map(ToString::to_string)
    }

    fn sinfo(rows: &[[&str; 4]]) -> String {
        let row = |row: &[&str; 4]| format!("{}{RECORD_END}\n", row.join(&SEPARATOR.to_string()));
        rows.iter().map(row).collect()
    }

    #[test]
    fn kinds_follow_from_partition_feature_or_gres() {
        let answer = sinfo(&[
            ["c1", "cpu*", "skylake,ib", "(null)"],
            ["c1", "all", "skylake,ib", "(null)"],
            ["g1", "gpu", "icelake", "gpu:a100:4(S:0-1),nvme:1"],
            ["g2", "gpu", "(null)", "gpu:2"],
        ]);
        let labels = read_slurm(&answer).unwrap();
        for rules in [
            rules(&[("cpu", &["partition:cpu"]), ("gpu", &["partition:gpu"])]),
            rules(&[("cpu", &["feature:ib"]), ("gpu", &["gres:gpu"])]),
            rules(&[
                ("cpu", &["rest"]),
                ("gpu", &["gres:gpu:a100", "nodes:g[2-3]"]),
            ]),
        ] {
            assert_eq!(of(&rules, &labels, "c1").as_deref(), Some("cpu"));
            assert_eq!(of(&rules, &labels, "g1").as_deref(), Some("gpu"));
            assert_eq!(of(&rules, &labels, "g2").as_deref(), Some("gpu"));
        }
        let a100 = rules(&[("a100", &["gres:gpu:a100"])]);
        assert_eq!(of(&a100, &labels, "g2"), None);
        let both = rules(&[("a", &["partition:all"]), ("b", &["feature:ib"])]);
        let error = both.kinds(&labels).unwrap_err().to_string();
        assert!(
            error.contains("node c1 is of kind a and of kind b"),
            "{error}"
        );
        let error = rules(&[("a", &["nodes:n[2-1]"])]).kinds(&labels);
        assert!(error.unwrap_err().to_string().contains("n[2-1]"));
        assert!(read_slurm("slurm_load_node: error\n").is_err());
        assert!(read_slurm("").is_err());
    }

    #[test]
    fn json_of_slurm_says_the_same() {
        let answer = r#"{"nodes": [
            {"name": "c1", "partitions": ["cpu"], "features": "ib,skylake", "gres": ""},
            {"name": "a node", "partitions": ["cpu"]},
            {"name": "g1", "partitions": ["gpu"], "features": ["icelake"], "gres": "gpu:a100:4"}
        ]}"#;
        let labels = read_slurm_json(answer).unwrap();
        let rules = rules(&[("cpu", &["feature:ib"]), ("gpu", &["gres:gpu"])]);
        assert_eq!(of(&rules, &labels, "c1").as_deref(), Some("cpu"));
        assert_eq!(of(&rules, &labels, "g1").as_deref(), Some("gpu"));
    }

    #[test]
    fn a_damaged_node_costs_no_other_its_labels() {
        let error = read_slurm_json(r#"{"nodes": [{"name": "a b"}]}"#).unwrap_err();
        assert!(error.to_string().contains("a b"), "{error}");
        let answer = r#"{"sinfo": [{"nodes": 7}, {"nodes": {"nodes": ["n[1-2]"]},
            "partition": {"name": "gpu"}}]}"#;
        let labels = read_slurm_json(answer).unwrap();
        let gpu = rules(&[("gpu", &["partition:gpu"])]);
        assert_eq!(of(&gpu, &labels, "n2").as_deref(), Some("gpu"));
    }

    #[test]
    fn kinds_follow_from_queue_resource_and_host_type() {
        let answer = r#"{"nodes": {
            "c1": {"state": "free", "queue": "cpuq", "resources_available": {"ngpus": 0}},
            "g1": {"state": "free", "resources_available": {"ngpus": 4, "accel": "a100,mig"}}
        }}"#;
        let labels = read_pbs(answer).unwrap();
        for rules in [
            rules(&[("cpu", &["queue:cpuq"]), ("gpu", &["resource:ngpus"])]),
            rules(&[("cpu", &["rest"]), ("gpu", &["resource:accel=a100"])]),
        ] {
            assert_eq!(of(&rules, &labels, "c1").as_deref(), Some("cpu"));
            assert_eq!(of(&rules, &labels, "g1").as_deref(), Some("gpu"));
        }
        assert!(read_pbs("{}").is_err() && read_pbs("x").is_err());
        let table = "HOST_NAME  type     model  cpuf ncpus maxmem maxswp server RESOURCES\n\
                     c1         X86_64   Xeon   60.0    40   256G     4G    Yes (mg linux)\n\
                     g1         PPC64LE  POWER9 60.0    44   512G     4G    Yes (gpu linux)\n";
        assert!(is_lsf(table));
        let labels = read_lsf(table).unwrap();
        for rules in [
            rules(&[("cpu", &["type:X86_64"]), ("gpu", &["model:POWER9"])]),
            rules(&[("cpu", &["resource:mg"]), ("gpu", &["resource:gpu"])]),
        ] {
            assert_eq!(of(&rules, &labels, "c1").as_deref(), Some("cpu"));
            assert_eq!(of(&rules, &labels, "g1").as_deref(), Some("gpu"));
        }
        let error = read_lsf("HOST_NAME type\nc1 X86_64\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn labels_need_their_source() {
        let fails = |list: &[(&str, &[&str])], given: &[LabelSource]| {
            rules(list).check(given).unwrap_err().to_string()
        };
        let slurm = [LabelSource::Slurm];
        assert!(fails(&[("a b", &["rest"])], &slurm).contains("a b"));
        assert!(fails(&[("a", &[])], &slurm).contains("labels"));
        assert!(fails(&[("a", &["partition:"])], &slurm).contains("partition:"));
        assert!(fails(&[("a", &["colour:red"])], &slurm).contains("colour:red"));
        assert!(fails(&[("a", &["rest:x"])], &slurm).contains("rest:x"));
        assert!(fails(&[("a", &["partition:a"])], &[]).contains("[ingest.slurm]"));
        assert!(fails(&[("a", &["rest"]), ("b", &["rest"])], &slurm).contains("one kind"));
        let sound = rules(&[("a", &["gres:gpu", "nodes:n[1-2]"]), ("b", &["rest"])]);
        sound.check(&slurm).unwrap();
        assert!(sound.need(LabelSource::Slurm));
        let of_gpu = rules(&[("a", &["gres:gpu"])]);
        assert!(of_gpu.need(LabelSource::Slurm) && !of_gpu.need(LabelSource::Pbs));
        rules(&[("a", &["nodes:n1"])]).check(&[]).unwrap();
    }
}
