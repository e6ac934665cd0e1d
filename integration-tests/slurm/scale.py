"""256 nodes: pilots on all idle ones, 200 wanted at once, and the requests to slurmctld.

Runs on this machine against a running cluster of any size; trainers are simulated, everything
else is real. Polling goes at its default pace, two commands each ten seconds. On a few cores the starting of hundreds of processes is most of every figure, so the
same batch job is measured without pilots too.
"""

import json
import re
import time

from cluster import Cluster
from harm import SRUN
from lacuna_beside import PILOT, Lacuna, until
from stats import table

SIMULATED = """
[[trainer]]
name = "wide"
launcher = "simulated"
min_nodes = 1
max_nodes = @NODES
samples = 1e15
scaling = { nodes = [1, @NODES], samples_per_s = [10.0, @RATE] }
rescale = { up = "0s", down = "0s" }
"""


def ask_as_at_a_centre(cluster: Cluster) -> None:
    """The default pace of polling, in place of the test cluster's fast one."""
    file = cluster.layout.state / "conf/lacuna.toml"
    text = re.sub(r"\[ingest\.slurm\.polling\].*?(?=\n\[)", "", file.read_text(), flags=re.DOTALL)
    file.write_text(text)


def requests(cluster: Cluster) -> int:
    """RPCs of the pilots' user to slurmctld, by its own count. One command makes one to three."""
    said = cluster.ctl("sdiag").stdout
    found = re.search(rf"^\s*{PILOT}\s*\(\s*\d+\)\s*count:(\d+)", said, re.MULTILINE)
    return int(found.group(1)) if found else 0


class Scale:
    """One measurement; figures in seconds."""

    def __init__(self, cluster: Cluster, wanted: int):
        self.cluster, self.lacuna, self.wanted = cluster, Lacuna(cluster), wanted
        self.nodes = cluster.layout.nodes
        self.figures: dict[str, float] = {}

    def srun(self) -> float:
        return float(self.cluster.ctl("python3", "-c", SRUN, str(self.wanted), limit=300).stdout)

    def running(self) -> int:
        return sum(state == "RUNNING" for state, _ in self.lacuna.pilots().values())

    def walk(self) -> None:
        lacuna, figures = self.lacuna, self.figures
        ask_as_at_a_centre(self.cluster)
        lacuna.tidy()
        figures["batch_without_s"] = self.srun()
        self.cluster.wait_idle(120)
        lacuna.fresh()
        text = SIMULATED.replace("@NODES", str(self.nodes)).replace("@RATE", str(10.0 * self.nodes))
        started, before = time.monotonic(), requests(self.cluster)
        lacuna.submit(text)
        until("pilots run on all nodes", 180, lambda: self.running() == self.nodes, every=0.5)
        figures["pilots_s"] = time.monotonic() - started
        until("all nodes train", 180, lambda: len(lacuna.leased("wide")) == self.nodes, every=0.5)
        figures["training_s"] = time.monotonic() - started
        pairs = [node for _, node in lacuna.pilots().values()]
        figures["doubled"] = len(pairs) - len(set(pairs))
        figures["batch_with_s"] = self.srun()
        again = time.monotonic()
        until("all nodes train again", 240, lambda: len(lacuna.leased("wide")) == self.nodes, every=0.5)
        figures["again_s"] = time.monotonic() - again
        # A quiet minute for the requests of idle pilots, then the batch job.
        calm, begun = requests(self.cluster), time.monotonic()
        time.sleep(60)
        figures["requests_per_minute_calm"] = (requests(self.cluster) - calm) * 60 / (time.monotonic() - begun)
        figures["requests"] = requests(self.cluster) - before
        figures["minutes"] = (time.monotonic() - started) / 60
        lacuna.ask("cancel", "wide")
        until("no lease is left", 60, lambda: not any(r["trainer"] for r in lacuna.nodes().values()))
        lacuna.pilots_off()
        self.cluster.wait_idle(120)
        figures["agents_left"] = len(self.cluster.ctl("pgrep", "-x", "lacuna-agent", check=False).stdout.split())


def command(cluster: Cluster, wanted: int, as_json: bool) -> int:
    """`clusterctl.py scale`."""
    one = Scale(cluster, min(wanted, cluster.layout.nodes))
    try:
        one.walk()
    finally:
        one.lacuna.tidy()
    f = one.figures
    if as_json:
        print(json.dumps({"nodes": one.nodes, "wanted": one.wanted, **f}))
        return 0
    rows = [
        ["pilots run on all nodes after the trainer's submission", f"{f['pilots_s']:.1f} s"],
        ["all nodes train", f"{f['training_s']:.1f} s"],
        ["nodes with two pilots", f"{f['doubled']:.0f}"],
        [f"srun -N{one.wanted} without pilots", f"{f['batch_without_s']:.1f} s"],
        [f"srun -N{one.wanted} with pilots on all nodes", f"{f['batch_with_s']:.1f} s"],
        ["all nodes train again after it", f"{f['again_s']:.1f} s"],
        ["RPCs at slurmctld, in calm", f"{f['requests_per_minute_calm']:.0f} a minute"],
        ["RPCs at slurmctld, in all", f"{f['requests']:.0f} in {f['minutes']:.1f} minutes"],
        ["agents left at the end", f"{f['agents_left']:.0f}"],
    ]
    print(table([f"{one.nodes} nodes, {one.wanted} wanted at once", "measured"], rows))
    return 0
