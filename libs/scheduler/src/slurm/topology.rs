//! `scontrol show topology`, and the addresses that Slurm gives to jobs.

use lacuna_model::NodeId;

use crate::submit::CommandLine;

/// The text of `scontrol show topology` without a topology (`topology/default`, `topology/flat`).
const NONE: &str = "no topology information available";

/// A variable of `scontrol` and its value: without it, releases before 23.02 cut lines after 512
/// characters.
pub const LENGTH: (&str, &str) = ("SLURM_TOPO_LEN", "16777216");

/// The command line of `scontrol`. An empty command is replaced by Slurm's own.
#[must_use]
pub fn question(scontrol: &[String]) -> CommandLine {
    let own = ["scontrol".to_owned()];
    let command = if scontrol.is_empty() { &own } else { scontrol };
    CommandLine::new(command, arguments(), None)
}

/// Arguments of `scontrol`.
#[must_use]
pub fn arguments() -> Vec<String> {
    ["show", "topology"].map(str::to_owned).into()
}

/// Whether an answer of `scontrol show topology` is that of a Slurm without a topology.
#[must_use]
pub fn is_none(answer: &str) -> bool {
    let text = answer.trim();
    text.is_empty() || text.to_ascii_lowercase().contains(NONE)
}

/// The leaf in the address that Slurm gives to jobs (`SLURM_TOPOLOGY_ADDR`), as in
/// `top.cell1.leaf7.n386`; none if the address is the node alone, as without a topology.
#[must_use]
pub fn leaf<'a>(address: &'a str, node: &NodeId) -> Option<&'a str> {
    let above = match address.strip_suffix(node.as_str()) {
        Some(above) => above.strip_suffix('.')?,
        // Slurm's name of the node is another, as with a domain.
        None => address.rsplit_once('.')?.0,
    };
    let leaf = above.rsplit('.').next()?;
    (!leaf.is_empty()).then_some(leaf)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    #[test]
    fn a_slurm_without_a_topology_says_so() {
        for none in ["", "\n", "No topology information available.\n"] {
            assert!(is_none(none), "{none}");
        }
        assert!(!is_none("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"));
        assert!(!is_none("slurm_load_topo: Unable to contact\n"));
    }

    #[test]
    fn the_address_of_a_job_names_its_leaf() {
        for (address, name, expected) in [
            ("top.cell1.leaf7.n386", "n386", Some("leaf7")),
            ("leaf7.n386", "n386", Some("leaf7")),
            ("top.leaf7.n1.site.org", "n1.site.org", Some("leaf7")),
            ("top.leaf7.n1", "n1.site.org", Some("leaf7")),
            ("n386", "n386", None),
            (".n386", "n386", None),
            ("other", "n386", None),
            ("", "n386", None),
        ] {
            assert_eq!(leaf(address, &node(name)), expected, "{address}");
        }
    }
}
