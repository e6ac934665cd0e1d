//! One sample of each format, as in the manuals of Slurm, PBS, LSF and infiniband-diags.

/// topology.conf(5), a tree of three levels.
pub(crate) const TREE: &str = "\
##################################################################
# Slurm's network topology configuration file for use with the
# topology/tree plugin
##################################################################
SwitchName=s0 Nodes=dev[0-5]
SwitchName=s1 Nodes=dev[6-11]   LinkSpeed=100
switchname = s2 NODES = \"dev[12-14],\\
dev[15-17]\"
SwitchName=s3 Switches=s[0-1]
SwitchName=s4 Switches=s2
SwitchName=s5 Switches=s[3-4]
";

/// topology.conf(5), blocks with three sizes.
pub(crate) const BLOCKS: &str = "\
# topology/block
BlockName=block1 Nodes=node[01-18]
BlockName=block2 Nodes=node[19-36]
BlockName=block3 Nodes=node[37-54]
BlockSizes=18,36,72
";

/// topology.yaml(5).
pub(crate) const YAML: &str = "\
---
- topology: topo1
  cluster_default: false
  flat: true
- topology: topo2
  cluster_default: true
  tree:
    switches:
      - switch: sw_root
        children: s[1-2]
      - switch: s1
        nodes: node[01-02]
      - switch: s2
        nodes: node[03-04]
- topology: topo3
  cluster_default: false
  block:
    block_sizes:
      - 4
      - 16
    blocks:
      - block: b1
        nodes: node[01-04]
      - block: b2
        nodes: node[05-08]
";

/// `scontrol show topology` of a tree: above the leaves it names all nodes below.
pub(crate) const SCONTROL: &str = "\
SwitchName=s0 Level=0 LinkSpeed=1 Nodes=tux[0-3]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=tux[4-7]
SwitchName=s2 Level=0 LinkSpeed=1 Nodes=tux[8-11]
SwitchName=s3 Level=1 LinkSpeed=1 Nodes=tux[0-11] Switches=s[0-2]
";

/// `scontrol show topology` of blocks.
pub(crate) const SCONTROL_BLOCKS: &str = "\
BlockName=b1 BlockIndex=0 Nodes=node[01-18] BlockSize=18
BlockName=b2 BlockIndex=1 Nodes=node[19-36] BlockSize=18
BlockName=b3 BlockIndex=2 Nodes=node[37-54] BlockSize=18
AggregatedBlock=b[1-2] BlockIndex=3 Nodes=node[01-36] BlockSize=36
AggregatedBlock=b3 BlockIndex=4 Nodes=node[37-54] BlockSize=36
AggregatedBlock=b[1-3] BlockIndex=5 Nodes=node[01-54] BlockSize=72
";

/// `pbsnodes -a -F json` with `node_group_key = switch,cabinet`.
pub(crate) const PBS: &str = r#"{
    "timestamp":1734782400,
    "pbs_version":"23.06.06",
    "pbs_server":"srv",
    "nodes":{
        "n1":{
            "Mom":"n1.site",
            "state":"free",
            "pcpus":8,
            "resources_available":{
                "arch":"linux",
                "cabinet":"c1",
                "host":"n1",
                "mem":"16gb",
                "ncpus":8,
                "switch":"sw1",
                "vnode":"n1"
            }
        },
        "n2":{
            "state":"free",
            "resources_available":{ "cabinet":"c1", "host":"n2", "switch":"sw2", "vnode":"n2" }
        },
        "n3[0]":{
            "state":"free",
            "resources_available":{ "cabinet":2, "host":"n3", "switch":"sw3", "vnode":"n3[0]" }
        },
        "n3[1]":{
            "state":"free",
            "resources_available":{ "cabinet":2, "host":"n3", "switch":"sw3", "vnode":"n3[1]" }
        },
        "n4":{
            "state":"free",
            "resources_available":{ "host":"n4", "vnode":"n4" }
        }
    }
}
"#;

/// `lsb.hosts` with compute units.
pub(crate) const LSF: &str = "\
Begin Host
HOST_NAME     MXJ JL/U     r1m     pg    ls     tmp  DISPATCH_WINDOW
default        !    ()      ()     ()     ()     ()  ()
End Host

Begin ComputeUnit
NAME          MEMBER                TYPE
encl1         (hostA hostB)         enclosure
encl2         (hostC hostD)         enclosure   # the second
encl3         (host[1-2])           enclosure
rack1         (encl1 encl2)         rack
rack2         (encl3)               rack
End ComputeUnit
";

/// `bmgroup -cu`.
pub(crate) const BMGROUP: &str = "\
NAME       TYPE       HOSTS
encl1      enclosure  hostA hostB
encl2      enclosure  hostC hostD
";

/// `ibnetdiscover`: two leaf switches below one, a host with two adapters on one leaf, an adapter
/// inside a switch.
pub(crate) const IBNETDISCOVER: &str = "\
#
# Topology file: generated on Tue Mar  3 10:00:00 2026
#
# Initiated from node 0008f10403960558 port 0008f10403960559

vendid=0x8f1
devid=0x5a06
sysimgguid=0x5442ba00003000
switchguid=0x5442ba00003080(5442ba00003080)
Switch\t24 \"S-005442ba00003080\"\t\t# \"MF0;leaf1:MQM8700/U1\" base port 0 lid 6 lmc 0
[22]\t\"H-0008f10403961354\"[1](8f10403961355) \t\t# \"node1 HCA-1\" lid 4 4xSDR
[23]\t\"H-0008f10403961364\"[1](8f10403961365) \t\t# \"node1 HCA-2\" lid 5 4xSDR
[10]\t\"S-0008f10400410015\"[1]\t\t# \"SW-6IB4 Voltaire\" lid 3 4xSDR
[24]\t\"H-0008f10403969999\"[1](8f10403969999) \t\t# \"Mellanox Technologies Aggregation Node\" lid 9 4xHDR

vendid=0x8f1
switchguid=0x8f10400410016(8f10400410016)
Switch\t8 \"S-0008f10400410016\"\t\t# \"SW-6IB4 Voltaire\" base port 0 lid 7 lmc 0
[1]\t\"H-0008f10403961374\"[1](8f10403961375) \t\t# \"node2 HCA-1\" lid 8 4xSDR

vendid=0x8f1
switchguid=0x8f10400410015(8f10400410015)
Switch\t8 \"S-0008f10400410015\"\t\t# \"SW-6IB4 Voltaire\" base port 0 lid 3 lmc 0
[6]\t\"S-005442ba00003080\"[10]\t\t# \"MF0;leaf1:MQM8700/U1\" lid 6 4xSDR

vendid=0x8f1
caguid=0x8f10403961354
Ca\t2 \"H-0008f10403961354\"\t\t# \"node1 HCA-1\"
[1](8f10403961355) \t\"S-005442ba00003080\"[22]\t\t# lid 4 lmc 0 \"MF0;leaf1:MQM8700/U1\" lid 6 4xSDR
";

/// Lacuna's own table.
pub(crate) const CSV: &str = "\
# cabinets of the first hall
node,leaf,pod
n[1-2],l1,p1
n3,l2,p1

n4, l3 ,p2
";
