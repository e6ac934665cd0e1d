//! `scontrol show topology`, and the addresses that Slurm gives to jobs.

use lacuna_model::{NodeId, Topology};
use lacuna_trace::topology::TopologyRead;

use crate::answer::AnswerError;
use crate::submit::CommandLine;
use crate::topology::{TopologyOptions, read};

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

/// Reads the answer of `scontrol show topology`. A Slurm without a topology has an empty one; so has
/// one of an unknown kind, with a note.
///
/// # Errors
/// [`AnswerError::Unreadable`] with the line that is damaged or contradicts another.
pub fn read_slurm(answer: &str) -> Result<(Topology, Option<String>), AnswerError> {
    let text = answer.trim();
    if text.is_empty() || text.to_ascii_lowercase().contains(NONE) {
        return Ok((Topology::default(), None));
    }
    let TopologyRead { topology, note, .. } = read(answer, &TopologyOptions::default())?;
    Ok((topology, note))
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
    fn the_answer_of_slurm_is_a_topology_or_none() {
        let tree = "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]\n\
                    SwitchName=s1 Level=1 LinkSpeed=1 Nodes=n[1-2] Switches=s0\n";
        assert_eq!(read_slurm(tree).unwrap().0.leaf(&node("n2")), Some("s0"));
        for none in ["", "\n", "No topology information available.\n"] {
            assert!(read_slurm(none).unwrap().0.is_empty(), "{none}");
        }
        let (empty, note) = read_slurm("RingName=r0 Nodes=n[1-4]\n").unwrap();
        assert!(empty.is_empty() && note.unwrap().contains("kind ring"));
        let error = read_slurm("SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-\n").unwrap_err();
        assert!(error.to_string().contains("line 1: nodes"), "{error}");
        let error = read_slurm("slurm_load_topo: Unable to contact\n").unwrap_err();
        assert!(error.to_string().contains("no known topology"), "{error}");
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
