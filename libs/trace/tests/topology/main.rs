//! Topologies of every format: what is read of samples, what is refused, and damaged input.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on stops"
)]

pub(crate) mod samples;

use std::io::Write as _;

use crate::mutate;
use lacuna_model::{NodeId, Topology};
use lacuna_trace::topology::{
    Contradiction, Fault, TopologyFileError, TopologyFormat, TopologyOptions, TopologyRead, load,
    read,
};
use samples::*;

fn of_keys(keys: &[&str]) -> TopologyOptions {
    TopologyOptions {
        keys: keys.iter().map(ToString::to_string).collect(),
        ..TopologyOptions::default()
    }
}

fn keys() -> TopologyOptions {
    of_keys(&["switch", "cabinet"])
}

fn none() -> TopologyOptions {
    TopologyOptions::default()
}

fn topology(text: &str) -> (TopologyFormat, Topology) {
    let read = read(text, &keys()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read.note, None, "{text}");
    (read.format, read.topology)
}

fn error(text: &str) -> TopologyFileError {
    match read(text, &keys()) {
        Ok(read) => panic!("{read:?}\n{text}"),
        Err(error) => error,
    }
}

/// Each node with its switches, in a line.
fn paths(text: &str) -> Vec<String> {
    let (_, topology) = topology(text);
    topology
        .nodes()
        .map(|(node, path)| format!("{node} {}", path.join(" ")))
        .collect()
}

fn path(text: &str, node: &str) -> String {
    let (_, topology) = topology(text);
    topology
        .path(&NodeId::new(node).unwrap())
        .map_or_else(|| "-".to_owned(), |path| path.join(" "))
}

#[test]
fn every_sample_is_known_by_its_first_line() {
    use TopologyFormat as F;
    for (text, format, nodes, levels) in [
        (TREE, F::Conf, 18, 3),
        (BLOCKS, F::Conf, 54, 3),
        (YAML, F::Yaml, 4, 2),
        (SCONTROL, F::Scontrol, 12, 2),
        (SCONTROL_BLOCKS, F::Scontrol, 54, 3),
        (PBS, F::Pbsnodes, 3, 2),
        (LSF, F::Lsf, 6, 2),
        (BMGROUP, F::Lsf, 4, 1),
        (IBNETDISCOVER, F::Ibnetdiscover, 2, 1),
        (CSV, F::Csv, 4, 2),
    ] {
        let (found, topology) = topology(text);
        let figures = (found, topology.nodes().count(), topology.levels());
        assert_eq!(figures, (format, nodes, levels), "{text}");
        // Line ends of other systems change nothing.
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(
            read(&windows, &keys()).unwrap().topology,
            topology,
            "{text}"
        );
    }
}

#[test]
fn trees_of_slurm_have_their_leaf_first() {
    assert_eq!(path(TREE, "dev0"), "s0 s3 s5");
    assert_eq!(path(TREE, "dev7"), "s1 s3 s5");
    assert_eq!(path(TREE, "dev17"), "s2 s4 s5");
    assert_eq!(path(SCONTROL, "tux11"), "s2 s3");
    assert_eq!(path(YAML, "node03"), "s2 sw_root");
    // Of several topologies the first counts if none is the default.
    let first = YAML.replace("cluster_default: true", "cluster_default: false");
    assert!(read(&first, &none()).unwrap().topology.is_empty(), "flat");
}

#[test]
fn blocks_are_joined_by_their_sizes() {
    assert_eq!(
        path(BLOCKS, "node01"),
        "block1 36:block1-block2 72:block1-block3"
    );
    assert_eq!(
        path(BLOCKS, "node54"),
        "block3 36:block3-block3 72:block1-block3"
    );
    // `scontrol` names the same aggregates.
    let file = BLOCKS.replace("block", "b");
    let file = read(&file, &none()).unwrap().topology;
    let answer = read(SCONTROL_BLOCKS, &none()).unwrap().topology;
    assert_eq!(file, answer);
    let yaml = "- topology: t\n  block:\n    block_sizes: [18, 36, 72]\n    blocks:\n      \
                - block: b1\n        nodes: node[01-18]\n      - block: b2\n        nodes: \
                node[19-36]\n      - block: b3\n        nodes: node[37-54]\n";
    assert_eq!(read(yaml, &none()).unwrap().topology, file);
    let alone = "BlockName=a Nodes=n1\nBlockName=b Nodes=n2\n";
    assert_eq!(paths(alone), ["n1 a", "n2 b"]);
    for (sizes, line) in [
        ("18,30", 3),
        ("18,54", 3),
        ("18,36,36", 3),
        ("0", 3),
        ("x", 3),
    ] {
        let text = format!("BlockName=a Nodes=n1\nBlockName=b Nodes=n2\nBlockSizes={sizes}\n");
        assert_eq!(error(&text).line, line, "{sizes}");
    }
}

#[test]
fn a_short_path_is_padded_with_its_root() {
    let text = "SwitchName=top Switches=l1,mid\nSwitchName=mid Switches=l[2-3]\n\
                SwitchName=l1 Nodes=a\nSwitchName=l2 Nodes=b\nSwitchName=l3 Nodes=c\n\
                SwitchName=island Nodes=d\n";
    assert_eq!(
        paths(text),
        [
            "a l1 top top",
            "b l2 mid top",
            "c l3 mid top",
            "d island island island"
        ]
    );
    let (_, topology) = topology(text);
    let tier = |one: &str, two: &str| {
        let nodes = [one, two].map(|name| NodeId::new(name).unwrap());
        topology.tier(&nodes).0
    };
    assert_eq!((tier("b", "c"), tier("a", "b"), tier("a", "d")), (1, 2, 3));
}

#[test]
fn other_formats_have_their_leaf_first() {
    assert_eq!(paths(PBS), ["n1 sw1 c1", "n2 sw2 c1", "n3 sw3 2"]);
    assert_eq!(path(LSF, "hostD"), "encl2 rack1");
    assert_eq!(path(LSF, "host2"), "encl3 rack2");
    assert_eq!(path(BMGROUP, "hostA"), "encl1");
    // Only the managed switch has a name of its own.
    assert_eq!(
        paths(IBNETDISCOVER),
        ["node1 leaf1", "node2 S-0008f10400410016"]
    );
    assert_eq!(paths(CSV), ["n1 l1 p1", "n2 l1 p1", "n3 l2 p1", "n4 l3 p2"]);
}

#[test]
fn a_file_that_contradicts_itself_is_refused_with_its_line() {
    for (text, line, words) in [
        // Rails: a node on two leaf switches.
        (
            "SwitchName=r1 Nodes=n[1-4]\nSwitchName=r2 Nodes=n[4-8]\n",
            2,
            "node n4 is on leaf r1 (line 1) and on leaf r2: keep one of them; of several rails",
        ),
        (
            "SwitchName=r1 Level=0 LinkSpeed=1 Nodes=n1\nSwitchName=r2 Level=0 LinkSpeed=1 Nodes=n1\n",
            2,
            "on leaf r1 (line 1) and on leaf r2",
        ),
        (
            "node,leaf\nn1,a\n\nn1,b\n",
            4,
            "on leaf a (line 2) and on leaf b",
        ),
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Switches=c\nSwitchName=c Switches=d\nSwitchName=d Switches=b\n",
            4,
            "in a circle: b < d < c < b: remove one",
        ),
        ("SwitchName=a Switches=a\n", 1, "in a circle: a < a"),
        (
            "- topology: t\n  tree:\n    switches:\n      - switch: b\n        children: c\n      - switch: c\n        children: b\n",
            7,
            "in a circle: b < c < b: remove one",
        ),
        (
            "SwitchName=a Level=0 LinkSpeed=1 Nodes=n1\nSwitchName=b Level=1 LinkSpeed=1 Switches=c\nSwitchName=c Level=2 LinkSpeed=1 Switches=b\n",
            3,
            "in a circle: b < c < b: remove one",
        ),
        (
            "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[2-3]\nBlockSizes=2\n",
            2,
            "node n2 is on leaf b1 (line 1) and on leaf b2",
        ),
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Switches=a\n",
            3,
            "switch a is below b (line 2) and below c: keep one",
        ),
        (
            "node,leaf,pod\nn1,a,p\nn2,a,q\n",
            3,
            "switch a is below p (line 2) and below q",
        ),
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Switches=a,x[1-2]\n",
            2,
            "b has x1 below it, which no line defines: define x1, or correct its name",
        ),
        (
            "SwitchName=a Nodes=n1\n\nSwitchName=a Nodes=n2\n",
            3,
            "a is already defined in line 1",
        ),
        (
            "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2 Switches=a\n",
            2,
            "b has nodes and switches below it: give its nodes a leaf switch",
        ),
        (
            "- topology: t\n  tree:\n    switches:\n      - switch: a\n        nodes: n1\n      - switch: b\n        nodes: n2\n        children: a\n",
            8,
            "b has nodes and switches",
        ),
        (
            "- topology: t\n  tree:\n    switches:\n      - switch: a\n        nodes: n1\n      - switch: b\n        nodes: n[1-2]\n",
            7,
            "node n1 is on leaf a (line 5) and on leaf b",
        ),
        (
            "SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n",
            2,
            "keep one kind",
        ),
        (
            "Begin ComputeUnit\nNAME MEMBER TYPE\na (h1 h2) e\nb (h2) e\nEnd ComputeUnit\n",
            4,
            "node h2 is on leaf a (line 3) and on leaf b",
        ),
        (
            "BlockName=b1 BlockIndex=0 Nodes=n1 BlockSize=1\nBlockName=b2 BlockIndex=1 Nodes=n2 BlockSize=1\nAggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[1-2] BlockSize=2\nAggregatedBlock=b2,b1 BlockIndex=3 Nodes=n[1-2] BlockSize=2\n",
            4,
            "switch b2 is below 2:b1-b2 (line 3)",
        ),
        (
            "Switch\t2 \"S-1\"\t# \"a\"\n[1]\t\"H-1\"[1](1)\t# \"n1 HCA-1\" lid 1\n[2]\t\"H-3\"[1](3)\t# \"n2 HCA-1\" lid 1\nSwitch\t2 \"S-2\"\t# \"b\"\n[1]\t\"H-2\"[1](2)\t# \"n1 HCA-1\" lid 1\n",
            5,
            "node n1 is on leaf S-1 (line 2) and on leaf S-2",
        ),
    ] {
        let error = error(text);
        assert_eq!(error.line, line, "{error}\n{text}");
        assert!(error.to_string().contains(words), "{error}\n{text}");
        assert!(matches!(error.fault, Fault::Contradiction(_)), "{error:?}");
    }
    let twice = error(&PBS.replace("\"sw2\"", "\"sw1\"").replace(
        "\"cabinet\":\"c1\", \"host\":\"n2\"",
        "\"cabinet\":\"c9\", \"host\":\"n2\"",
    ));
    assert!(
        matches!(
            twice.fault,
            Fault::Contradiction(Contradiction::TwoAbove { .. })
        ),
        "{twice}"
    );
    assert_eq!(twice.line, 20, "{twice}");
}

#[test]
fn a_damaged_line_is_named_with_the_remedy() {
    for (text, line, words) in [
        ("", 1, "expected topology.conf"),
        ("hello\n", 1, "\"hello\" begins no known topology"),
        ("\n# a comment\nhello\n", 3, "\"hello\""),
        ("SwitchName=a Nodes=n[1-4\n", 1, "closed brackets"),
        ("SwitchName=a Node=n1\n", 1, "key: expected SwitchName"),
        (
            "SwitchName=a Nodes=n1\nInclude more.conf\n",
            2,
            "must stand here itself",
        ),
        ("SwitchName=a Nodes=n1 LinkSpeed\n", 1, "Key=Value"),
        ("SwitchName=a[1-2] Nodes=n1\n", 1, "the name of one switch"),
        ("SwitchName=a Nodes=n/1\n", 1, "node: expected"),
        ("SwitchName=a\n", 1, "no node"),
        ("node,leaf\n", 1, "no node"),
        ("node,leaf\nn1\n", 2, "2 columns, as the header has"),
        ("node,leaf\nn1,\n", 2, "none empty"),
        ("node,leaf\nn1,a,b\n", 2, "2 columns"),
        (
            "- topology: t\n  tree:\n    switches: []\n    rings: []\n",
            4,
            "unknown field",
        ),
        ("- topology: t\n", 1, "expected tree, block or flat"),
        ("- topology: [\n", 1, "expected string"),
        (
            "- topology: t\n  tree:\n    switches:\n      - switch: a\n        nodes: n[\n",
            5,
            "closed brackets",
        ),
        ("{\"nodes\": {\"n1\": {\"state\": 3,}}}\n", 1, ""),
        ("{}\n", 1, "nodes"),
        (
            "NAME TYPE HOSTS\na enclosure\n",
            2,
            "a row with all of them",
        ),
        (
            "NAME TYPE HOSTS\na enclosure h* ~h3\n",
            2,
            "without patterns",
        ),
        ("Switch\t2 S-1\n", 1, "its GUID in quotes"),
        (
            "Switch\t2 \"S-1\"\n[1]\t\"H-1\"[1](1)\n",
            2,
            "the description of the adapter",
        ),
    ] {
        let error = error(text);
        assert_eq!(error.line, line, "{error}\n{text}");
        assert!(error.to_string().contains(words), "{error}\n{text}");
    }
}

#[test]
fn placement_sets_need_the_resources_that_name_them() {
    let error = read(PBS, &none()).unwrap_err().to_string();
    assert!(error.contains("node_group_key"), "{error}");
    assert!(error.contains("the nodes have cabinet, switch"), "{error}");
    let leaf = of_keys(&["cabinet"]);
    assert_eq!(read(PBS, &leaf).unwrap().topology.levels(), 1);
    let several = PBS.replace("\"sw2\"", "\"sw2,sw3\"");
    let error = read(&several, &keys()).unwrap_err().to_string();
    assert!(error.contains("\"sw2,sw3\" of node n2"), "{error}");
}

#[test]
fn ten_thousand_nodes_on_six_hundred_leaves_are_read() {
    let mut tree = String::new();
    let mut table = "node,leaf,pod\n".to_owned();
    for leaf in 0..600 {
        let (first, last) = (leaf * 17, leaf * 17 + 16);
        tree += &format!("SwitchName=l{leaf} Nodes=n[{first:05}-{last:05}]\n");
        for node in first..=last {
            table += &format!("n{node:05},l{leaf},p{}\n", leaf / 20);
        }
    }
    for pod in 0..30 {
        tree += &format!(
            "SwitchName=p{pod} Switches=l[{}-{}]\n",
            pod * 20,
            pod * 20 + 19
        );
    }
    let mut nodes = String::new();
    for node in 0..10_200 {
        let (leaf, comma) = (node / 17, if node == 0 { "" } else { "," });
        nodes += &format!(
            "{comma}\n\"n{node:05}\":{{\n\"resources_available\":{{\n\"switch\":\"l{leaf}\",\n\
             \"cabinet\":\"p{}\"\n}}\n}}",
            leaf / 20
        );
    }
    let pbs = format!("{{\n\"nodes\":{{{nodes}\n}}\n}}\n");
    let (_, of_tree) = topology(&tree);
    assert_eq!(of_tree.nodes().count(), 10_200);
    assert_eq!(topology(&table).1, of_tree);
    assert_eq!(topology(&pbs).1, of_tree);
}

#[test]
fn files_are_read_plain_and_packed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("topology.gz");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(TREE.as_bytes()).unwrap();
    std::fs::write(&file, packed.finish().unwrap()).unwrap();
    assert_eq!(load(&file, &none()).unwrap().topology, topology(TREE).1);
    std::fs::write(&file, "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n").unwrap();
    let error = load(&file, &none()).unwrap_err().to_string();
    assert!(
        error.contains("topology.gz: cannot be read as topology.conf: line 2: a is already"),
        "{error}"
    );
    assert!(load(&dir.path().join("no"), &none()).is_err());
}

/// A damaged file is read or refused with a line of it.
#[test]
fn damaged_files_stop_no_reader() {
    for (name, text, delimiters) in [
        ("tree", TREE, &b" =,[]-"[..]),
        ("blocks", BLOCKS, b" =,[]-"),
        ("yaml", YAML, b" :-[]"),
        ("scontrol", SCONTROL, b" =,[]-"),
        ("scontrol blocks", SCONTROL_BLOCKS, b" =,[]-"),
        ("pbs", PBS, b"\",:{}"),
        ("lsf", LSF, b" ()"),
        ("ibnetdiscover", IBNETDISCOVER, b" \t\"#[]"),
        ("csv", CSV, b","),
    ] {
        let good: Vec<Vec<u8>> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
        let mut mutator = mutate::Mutator::new(name, &good, delimiters);
        let (mut made, mut known, mut refused) = (0, 0_u32, 0_u32);
        while made < mutate::cases() / 9 {
            let mut lines = good.clone();
            for _ in 0..3 {
                let at = mutator.random().below(lines.len());
                let mut damaged = Vec::new();
                mutator.line(&mut damaged);
                lines[at] = damaged;
            }
            made += 3;
            let text = lines.join(&b'\n');
            let text = String::from_utf8_lossy(&text);
            match read(&text, &keys()) {
                Ok(TopologyRead { topology, .. }) => {
                    known += 1;
                    let levels = topology.levels();
                    assert!(topology.nodes().all(|(_, path)| path.len() == levels));
                }
                Err(error) => {
                    refused += 1;
                    let last = text.lines().count() as u64 + 1;
                    assert!((1..=last).contains(&error.line), "{error}");
                    assert!(!error.to_string().is_empty());
                }
            }
        }
        println!("{name}: {made} damaged lines, {known} files read, {refused} refused");
        assert!(known > 0 && refused > 0, "{name}: both happen");
    }
}

/// The names of the nodes of each leaf.
fn leaves(topology: &Topology) -> Vec<(String, String)> {
    let names = |nodes: Vec<&NodeId>| {
        let names: Vec<&str> = nodes.iter().map(|node| node.as_str()).collect();
        names.join(" ")
    };
    let leaves = topology.leaves().into_iter();
    leaves
        .map(|(leaf, nodes)| (leaf.to_owned(), names(nodes)))
        .collect()
}

fn case(name: &str) -> Result<String, lacuna_skip::Missing> {
    let path = lacuna_skip::data(&format!("cases/{name}"))?;
    Ok(std::fs::read_to_string(path).unwrap())
}

/// A fabric of switches with ports: a switch, and the descriptions behind its ports.
fn fabric(switches: &[(&str, &[&str])]) -> String {
    let mut text = String::from("vendid=0x2c9\n");
    for (switch, ports) in switches {
        text += &format!("Switch\t65 \"S-{switch}\"\t\t# \"MF0;{switch}:MQM9701/U1\" lid 1\n");
        for (port, description) in (1..).zip(*ports) {
            text += &format!("[{port}]\t\"H-{port}\"[1](1) \t# \"{description}\" lid 2 4xNDR\n");
        }
        text.push('\n');
    }
    text
}

fn rails(rails: &[&str]) -> TopologyOptions {
    TopologyOptions {
        rails: rails.iter().map(ToString::to_string).collect(),
        ..TopologyOptions::default()
    }
}

#[test]
fn rails_that_agree_are_one_and_others_are_named() {
    let text = lacuna_skip::or_skip!(case("ibnetdiscover-rails/input.out"));
    let expected = [("leaf1-rail1", "g01 g02"), ("leaf2-rail1", "g03 g04")]
        .map(|(leaf, nodes)| (leaf.to_owned(), nodes.to_owned()));
    assert_eq!(leaves(&topology(&text).1), expected);
    // A node that lacks an adapter is where its others are.
    let lost: String = text
        .lines()
        .filter(|line| !line.contains("g02 mlx5_0"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(leaves(&topology(&lost).1), expected);
    let second = read(&text, &rails(&["mlx5_1"])).unwrap().topology;
    assert_eq!(leaves(&second)[0].0, "leaf1-rail2");

    // A rail of storage joins all nodes.
    let storage = ["a mlx5_10", "b mlx5_10", "c mlx5_10", "oss mlx5_0"];
    let text = fabric(&[
        ("l1", &["a mlx5_2", "b mlx5_2", "a mlx5_3"]),
        ("l2", &["c mlx5_2"]),
        ("s", &storage),
    ]);
    let error = error(&text).to_string();
    assert!(
        error.contains("\"mlx5_10\" has nodes together on s"),
        "{error}"
    );
    assert!(error.contains("--rail"), "{error}");
    assert!(
        error.contains("(mlx5_0, mlx5_2, mlx5_3, mlx5_10)"),
        "{error}"
    );
    for options in [
        rails(&["mlx5_2"]),
        rails(&["none", "*_2"]),
        rails(&["* mlx5_2"]),
    ] {
        let read = read(&text, &options).unwrap().topology;
        let expected = [("l1", "a b"), ("l2", "c")];
        let expected = expected.map(|(leaf, nodes)| (leaf.to_owned(), nodes.to_owned()));
        assert_eq!(leaves(&read), expected, "{options:?}");
    }
    let error = read(&text, &rails(&["ib0"])).unwrap_err().to_string();
    assert!(error.contains("one of mlx5_0, mlx5_10, mlx5_2"), "{error}");
}

#[test]
fn a_topology_that_is_not_used_is_not_looked_into() {
    for name in ["input.yaml", "input-torus.yaml"] {
        let text = lacuna_skip::or_skip!(case(&format!("topology-yaml-ring/{name}")));
        let (_, found) = topology(&text);
        let expected = [("l1", "a01 a02"), ("l2", "a03 a04")];
        let expected = expected.map(|(leaf, nodes)| (leaf.to_owned(), nodes.to_owned()));
        assert_eq!(leaves(&found), expected, "{name}");
        // The other one is the default now.
        let other = text
            .replace("default: true", "default: no")
            .replace("false", "true");
        let read = read(&other, &none()).unwrap();
        let note = read.note.unwrap();
        let kind = if name == "input.yaml" {
            "ring"
        } else {
            "torus3d"
        };
        assert!(
            note.contains(kind) && note.contains("nothing is known"),
            "{note}"
        );
        assert!(read.topology.is_empty());
    }
    // A part that is not used may be of a later release.
    let later = "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n      \
                 - switch: a\n        nodes: n[1-2]\n- topology: u\n  speed: 9\n  tree:\n    \
                 colour: red\n    switches: 7\n";
    assert_eq!(topology(later).1.leaves().len(), 1);
    for text in [
        "RingName=r0 Nodes=n[1-4]\n",
        "# made by hand\nTorusName=t Dims=2,2,1 Nodes=n[1-4] \\\n  More=x\n",
    ] {
        let read = read(text, &none()).unwrap();
        assert!(read.topology.is_empty() && read.note.is_some(), "{text}");
    }
    let both = "RingName=r0 Nodes=n[1-4]\nSwitchName=s Nodes=n[1-4]\n";
    assert_eq!(topology(both).1.leaves().len(), 1);
}

/// A fabric of 1,000 leaf switches, 100 spines, and 10,000 nodes with an adapter on each of four
/// rails, as `ibnetdiscover` prints it.
fn large_fabric() -> String {
    use std::fmt::Write as _;
    let mut text = String::from("vendid=0x2c9\ndevid=0xd2f2\n");
    for switch in 0..1_100 {
        let _ = writeln!(
            text,
            "\nSwitch\t64 \"S-{switch:016x}\"\t\t# \"MF0;sw{switch}:MQM8700/U1\" enhanced port 0 lid {switch} lmc 0"
        );
        // Four neighbouring switches are the rails of 40 nodes.
        let (group, rail) = (switch / 4, switch % 4);
        for node in (group * 40)..(group * 40 + 40) {
            if switch < 1_000 {
                let _ = writeln!(
                    text,
                    "[{}]\t\"H-{node:08x}{rail:08x}\"[1]({node:x}) \t\t# \"g{node:05} mlx5_{rail}\" lid {node} 4xHDR",
                    node % 40 + 1
                );
            }
        }
        for spine in 1_000..1_024 {
            let _ = writeln!(
                text,
                "[{}]\t\"S-{spine:016x}\"[{}]\t\t# \"MF0;sw{spine}:MQM8700/U1\" lid {spine} 4xHDR",
                spine - 959,
                switch % 64
            );
        }
    }
    text
}

#[test]
fn a_fabric_of_ten_thousand_nodes_is_read() {
    let text = large_fabric();
    let found = read(&text, &none()).unwrap().topology;
    assert_eq!((found.nodes().count(), found.leaves().len()), (10_000, 250));
    // Rails that do not agree name one fault, however many there are.
    let node = "g00039 mlx5_3";
    assert_eq!(text.matches(node).count(), 1);
    let crossed = text.replacen(node, "g09999 mlx5_3", 1);
    let error = read(&crossed, &none()).unwrap_err().to_string();
    assert!(error.contains("g09999"), "{error}");
}
