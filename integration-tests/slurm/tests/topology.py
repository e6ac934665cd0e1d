"""Where nodes are, on the real Slurm: two leaves of two nodes, with a slow link between them."""

import json

from cluster import run
from lacuna_beside import until
from tests.common import WithLacuna
from trainers import counted

LEFT, RIGHT = {"n01", "n02"}, {"n03", "n04"}
TREE = "SwitchName=left Nodes=n[01-02]\nSwitchName=right Nodes=n[03-04]\nSwitchName=top Switches=left,right\n"
# The same, cabled otherwise.
MOVED = TREE.replace("n[01-02]", "n[01,03]").replace("n[03-04]", "n[02,04]")
# Two nodes are on the wrong leaf.
WRONG = "node,leaf\nn01,left\nn03,left\nn02,right\nn04,right\n"
# The speed from leaf to leaf. The state of the program is some kilobytes.
BETWEEN = "60kbit"


class Topology(WithLacuna):
    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(self.restart_slurm)
        etc = self.cluster.layout.state / "etc"
        conf = (etc / "slurm.conf").read_text()
        self.addCleanup((etc / "topology.conf").unlink)
        self.addCleanup((etc / "slurm.conf").write_text, conf)
        (etc / "slurm.conf").write_text("TopologyPlugin=topology/tree\n" + conf)
        (etc / "topology.conf").write_text(TREE)
        self.lacuna.stop()
        self.restart_slurm()
        self.slow_between_leaves()

    def restart_slurm(self) -> None:
        """All daemons of Slurm, since none takes another plugin while it runs."""
        for node in self.names:
            run("docker", "restart", "-t", "2", self.cluster.layout.container(node))
        self.cluster.ctl("pkill", "slurmctld")
        until("slurmctld answers", 30, lambda: self.cluster.ctl("scontrol", "ping", check=False).returncode == 0)
        self.cluster.wait_idle(60)

    def slow_between_leaves(self) -> None:
        """From this machine, since containers may not change their links. A restarted one forgets it."""
        layout = self.cluster.layout
        for place, node in enumerate(layout.node_names, 1):
            far = RIGHT if node in LEFT else LEFT
            link = "dev eth0 parent 1:"
            lines = [
                "qdisc add dev eth0 root handle 1: htb default 10",
                f"class add {link} classid 1:10 htb rate 1gbit quantum 60000",
                f"class add {link} classid 1:20 htb rate {BETWEEN} quantum 1600",
            ]
            for other, name in enumerate(layout.node_names, 1):
                if name in far:
                    address = layout.address(other)
                    lines.append(f"filter add {link} protocol ip u32 match ip dst {address} flowid 1:20")
            container = layout.container(node)
            pid = run("docker", "inspect", "-f", "{{.State.Pid}}", container).stdout.strip()
            for line in lines:
                run("nsenter", "-t", pid, "-n", "tc", *line.split())

    def begin(self, source: str) -> None:
        """All services, with the topology from this source."""
        self.configure(
            ("[ingest]\n", f'[ingest]\ntopology = "{source}"\ntopology_every = "2s"\n'),
            ("[agent]\n", '[control.profile]\nshare = 1.0\n\n[agent]\n'),
        )
        self.lacuna.start()
        until("the leaves are known", 20, self.leaves)

    def leaves(self) -> dict[str, str]:
        rows = self.lacuna.nodes()
        known = {node: row["above"][0] for node, row in rows.items() if row.get("above")}
        return known if len(known) == len(self.names) else {}

    def profiled(self, name: str) -> None:
        """A trainer whose owner knows no curve: near nodes are worth it, far ones are not."""
        text = counted(name, seconds=0.0)
        lines = [line for line in text.splitlines() if not line.startswith("scaling")]
        lines = [line.replace('"--seconds", "0.0"', '"--seconds", "0", "--per-sample", "0.01"') for line in lines]
        self.lacuna.submit("\n".join([*lines, "profile = true"]))

    def rates(self, name: str) -> dict[tuple[int, int], float]:
        """Measured rates by node count and tier."""
        profile = self.lacuna.trainer(name)["profile"]
        return {(row["nodes"], row["tier"]): row["rate"] for row in profile["rates"]}

    def settled(self, name: str) -> set[str]:
        """The nodes of the trainer, if no probe and no change is under way."""
        trainer = self.lacuna.trainer(name)
        nodes = self.lacuna.leased(name)
        return nodes if nodes == set(trainer["nodes"]) and not trainer["profile"]["parked"] else set()

    def test_rates_by_tier_are_learnt_and_the_plan_keeps_to_one_leaf(self):
        self.begin("slurm")
        self.assertEqual(self.leaves(), {"n01": "left", "n02": "left", "n03": "right", "n04": "right"})
        self.profiled("near")
        wanted = {(1, 0), (2, 0), (4, 1)}
        rates = until("near and far nodes are measured", 300, lambda: self.measured("near", wanted), every=1)
        print(f"\n    samples/s by nodes and tier: {rates}")
        self.assertGreater(rates[2, 0], 1.2 * rates[4, 1])
        held = until("two near nodes train", 60, lambda: self.on_one_leaf("near", 2), every=1)
        said = self.cluster.ctl("lacuna", "explain", "near", user="lacuna").stdout
        self.assertIn("at tier 1", said)
        self.assertEqual(self.lacuna.metric("lacuna_control_topology_contradictions"), 0.0)
        # A batch job takes one of its nodes; the rest of its leaf, or the other leaf, is better than both.
        gone = sorted(held)[0]
        self.cluster.ctl("sbatch", "-w", gone, "-p", "batch", "--wrap", "sleep 20", user="alice")
        until("the node has gone", 20, lambda: gone not in self.lacuna.leased("near"))
        until("it trains on one leaf", 60, lambda: self.on_one_leaf("near", 1), every=1)
        self.assertEqual(self.lacuna.metric("lacuna_control_crossing_trainers"), 0.0)
        self.cabled_otherwise("near")
        self.lacuna.ask("cancel", "near")
        self.nothing_is_left()

    def cabled_otherwise(self, name: str) -> None:
        """The topology changes while the trainer runs."""
        (self.cluster.layout.state / "etc/topology.conf").write_text(MOVED)
        self.cluster.ctl("scontrol", "reconfigure")
        leaves = {"n01": "left", "n02": "right", "n03": "left", "n04": "right"}
        until("the new leaves are known", 20, lambda: self.leaves() == leaves)
        near = [{"n01", "n03"}, {"n02", "n04"}]
        until("it trains on one new leaf", 60, lambda: self.on_one_leaf(name, 1, near), every=1)
        # Its pilots began before, so what they say of their place is old.
        self.assertEqual(self.lacuna.metric("lacuna_control_topology_contradictions"), 0.0)

    def measured(self, name: str, wanted: set[tuple[int, int]]):
        rates = self.rates(name)
        return rates if wanted <= rates.keys() else None

    def on_one_leaf(self, name: str, least: int, leaves: list[set[str]] | None = None) -> set[str]:
        nodes = self.settled(name)
        near = any(nodes <= leaf for leaf in leaves or [LEFT, RIGHT])
        return nodes if len(nodes) >= least and near else set()

    def test_a_file_that_contradicts_slurm_is_noticed(self):
        layout = self.cluster.layout
        (layout.state / "conf/leaves.csv").write_text(WRONG)
        check = ["lacuna", "check", "slurm", "--lacuna-config", "/etc/lacuna/lacuna.toml", "--json"]
        said = self.cluster.ctl(*check, "--topology", "/etc/lacuna/leaves.csv", user="lacuna", check=False)
        found = [each for each in json.loads(said.stdout)["findings"] if "topology" in each["condition"]]
        self.assertEqual([each["verdict"] for each in found], ["warning"], said.stdout)
        self.begin("/etc/lacuna/leaves.csv")
        self.submit_one("wrong")
        # The agents of pilots say where Slurm has put them.
        metric = "lacuna_control_topology_contradictions"
        until("control sees it", 60, lambda: self.lacuna.metric(metric) >= 1, every=1)
        self.lacuna.ask("cancel", "wrong")
        self.nothing_is_left()
