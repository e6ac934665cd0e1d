//! Kinds of nodes: what a scheduler says of each node, and the rules that make a kind of it.
//!
//! A scheduler's words about a node become labels, and a kind lists the labels of its nodes:
//!
//! | Label | Source |
//! |---|---|
//! | `partition:NAME`, `feature:NAME`, `gres:NAME`, `gres:NAME:TYPE` | `sinfo` of Slurm |
//! | `queue:NAME`, `resource:NAME`, `resource:NAME=VALUE` | `pbsnodes` of PBS |
//! | `type:NAME`, `model:NAME`, `resource:NAME` | a file with the output of `lshosts -w` of LSF |
//! | `queue:NAME`, `property:NAME` | `flux resource list` of Flux |
//! | `nodes:LIST` | the setting itself, in Slurm's notation |
//! | `rest` | every node that no other kind takes |

use std::collections::BTreeMap;

use lacuna_model::{KindName, NodeId, NodeKinds, SchedulerName, SettingError};
use lacuna_records::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::labels::Labels;

use crate::answer::nodes;
use crate::list::row;

/// The label of all nodes that no other kind takes.
const REST: &str = "rest";

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
    pub fn need(&self, source: SchedulerName) -> bool {
        let of = |label: &String| sources(label).is_some_and(|all| all.contains(&source));
        self.labels().any(of)
    }

    /// Checks names and labels; `given` are the schedulers that can be asked.
    ///
    /// # Errors
    /// The first kind that has no name or no label, and a label that no source gives.
    pub fn check(&self, given: &[SchedulerName]) -> Result<(), SettingError> {
        for (name, labels) in &self.0 {
            let expected = "kinds of 1 to 64 of A-Z a-z 0-9 _ - ., each with a list of labels";
            let sound = KindName::new(name).is_ok() && !labels.is_empty();
            SettingError::unless(sound, "ingest.kinds", name, expected)?;
        }
        for label in self.labels() {
            let all = sources(label);
            let expected = "partition:, feature:, gres: (Slurm), queue:, resource: (PBS), type:, \
                            model:, resource: (LSF), queue:, property: (Flux), nodes: or rest, with a \
                            name after the colon";
            SettingError::unless(all.is_some(), "ingest.kinds", label, expected)?;
            let sound = all.is_some_and(|all| {
                all.is_empty() || all.iter().any(|source| given.contains(source))
            });
            let expected = "labels of the configured scheduler: a section [ingest.slurm], \
                            [ingest.pbs] or [ingest.flux], or for LSF the output of lshosts -w as \
                            ingest.kinds_file";
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

/// The schedulers of which one gives a label, none for a list of the setting itself. Nothing for a
/// label that is not known.
fn sources(label: &str) -> Option<Vec<SchedulerName>> {
    let (head, name) = label.split_once(':').unwrap_or((label, REST));
    let is_whole = (head == REST) != label.contains(':');
    if !is_whole || name.is_empty() {
        return None;
    }
    let all = SchedulerName::ALL.into_iter();
    match head {
        "nodes" => Some(Vec::new()),
        REST => Some(all.collect()),
        head => {
            let gives = |source: &SchedulerName| row(*source).labels().contains(&head);
            Some(all.filter(gives).collect::<Vec<_>>()).filter(|all| !all.is_empty())
        }
    }
}

fn listed(list: &str) -> Result<Vec<NodeId>, FieldError> {
    nodes("nodes", list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{RECORD_END, SEPARATOR};
    use crate::lsf::kinds::{is_lshosts, read as read_lsf};
    use crate::pbs::kinds::read as read_pbs;
    use crate::slurm::kinds::{read as read_slurm, read_json as read_slurm_json};

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
        assert!(is_lshosts(table));
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
        let fails = |list: &[(&str, &[&str])], given: &[SchedulerName]| {
            rules(list).check(given).unwrap_err().to_string()
        };
        let slurm = [SchedulerName::Slurm];
        assert!(fails(&[("a b", &["rest"])], &slurm).contains("a b"));
        assert!(fails(&[("a", &[])], &slurm).contains("labels"));
        assert!(fails(&[("a", &["partition:"])], &slurm).contains("partition:"));
        assert!(fails(&[("a", &["colour:red"])], &slurm).contains("colour:red"));
        assert!(fails(&[("a", &["rest:x"])], &slurm).contains("rest:x"));
        assert!(fails(&[("a", &["partition:a"])], &[]).contains("[ingest.slurm]"));
        assert!(fails(&[("a", &["rest"]), ("b", &["rest"])], &slurm).contains("one kind"));
        let sound = rules(&[("a", &["gres:gpu", "nodes:n[1-2]"]), ("b", &["rest"])]);
        sound.check(&slurm).unwrap();
        assert!(sound.need(SchedulerName::Slurm));
        let of_gpu = rules(&[("a", &["gres:gpu"])]);
        assert!(of_gpu.need(SchedulerName::Slurm) && !of_gpu.need(SchedulerName::Pbs));
        rules(&[("a", &["nodes:n1"])]).check(&[]).unwrap();
    }
}
