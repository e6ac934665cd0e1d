//! Condition of where nodes are: the configured topology, compared with what Slurm says.

use lacuna_model::{NodeId, Topology};

use crate::check::{Finding, Verdict};

/// Most nodes that a finding names.
const NAMED: usize = 5;

const MEANING: &str = "plans take nodes that are far apart for neighbours, or the reverse: trainers \
                       train slower than planned; no batch job is harmed";

/// Compares the configured topology with Slurm's; its leaves may have other names.
#[must_use]
pub fn compare(configured: &Topology, slurm: &Topology) -> Finding {
    let finding = |verdict, seen: String, meaning: &str, remedy: &str| Finding {
        condition: "topology",
        verdict,
        seen,
        meaning: meaning.to_owned(),
        remedy: remedy.to_owned(),
    };
    if slurm.is_empty() {
        return finding(
            Verdict::Unknown,
            "Slurm has no topology".to_owned(),
            "nothing says whether the configured topology is right",
            "compare it with the cabling",
        );
    }
    let known = |node: &NodeId| configured.leaf(node).is_some();
    let leaves = slurm
        .nodes()
        .filter_map(|(node, path)| Some((node, path.first()?.as_str())));
    let moved = configured.differences(leaves);
    let absent: Vec<&NodeId> = slurm
        .nodes()
        .map(|(node, _)| node)
        .filter(|node| !known(node))
        .collect();
    let mut seen = Vec::new();
    for (nodes, what) in [(moved, "on another leaf"), (absent, "absent")] {
        if nodes.is_empty() {
            continue;
        }
        let names: Vec<&str> = nodes.iter().take(NAMED).map(|node| node.as_str()).collect();
        let more = if nodes.len() > NAMED { ", ..." } else { "" };
        seen.push(format!(
            "{} {what}: {}{more}",
            nodes.len(),
            names.join(", ")
        ));
    }
    if seen.is_empty() {
        let (nodes, leaves) = (slurm.nodes().count(), slurm.leaves().len());
        let seen = format!("{nodes} nodes on the same {leaves} leaves as in Slurm");
        return finding(Verdict::Ok, seen, "plans know which nodes are near", "");
    }
    finding(
        Verdict::Warning,
        seen.join("; "),
        MEANING,
        "ingest.topology = \"slurm\", or correct the file",
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn topology(rows: &[(&str, &str)]) -> Topology {
        let row =
            |(node, leaf): &(&str, &str)| (NodeId::new(node).unwrap(), vec![(*leaf).to_owned()]);
        let paths: BTreeMap<NodeId, Vec<String>> = rows.iter().map(row).collect();
        Topology::new(paths).unwrap()
    }

    #[test]
    fn a_topology_is_compared_with_that_of_slurm() {
        let slurm = topology(&[("a", "s1"), ("b", "s1"), ("c", "s2")]);
        let same = topology(&[("a", "l1"), ("b", "l1"), ("c", "l2"), ("d", "l9")]);
        let found = compare(&same, &slurm);
        assert_eq!(found.verdict, Verdict::Ok);
        assert_eq!(found.seen, "3 nodes on the same 2 leaves as in Slurm");
        let moved = topology(&[("a", "s2"), ("b", "s1")]);
        let found = compare(&moved, &slurm);
        assert_eq!(found.verdict, Verdict::Warning);
        assert_eq!(found.seen, "1 on another leaf: a; 1 absent: c");
        assert_eq!(
            compare(&moved, &Topology::default()).verdict,
            Verdict::Unknown
        );
    }
}
