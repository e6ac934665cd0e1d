"""The cost of prolog and epilog of deploy/slurm for a batch job, with a good bus and with bad ones.

Runs on this machine against a running cluster: the nodes' hook.conf is rewritten, so that the
publisher meets each kind of bus.
"""

import json
import subprocess

from cluster import Cluster, ClusterError, say
from stats import seconds, summary, table

PORT = 4333
BUSES = {
    "no hooks": None,
    "good": 4222,
    "refused": PORT,
    "hang": PORT,
    "silent": PORT,
    "garbage": PORT,
    "slow": PORT,
}
TEXTS = {
    "no hooks": "no hooks in slurm.conf",
    "good": "a bus that works",
    "refused": "no bus: connection refused",
    "hang": "connection never established",
    "silent": "connection accepted, no word",
    "garbage": "bytes without sense",
    "slow": "a bus that takes 5 s for its first word",
}
# Runs the prolog alone, as slurmd does, and prints how many seconds each call took; any other
# exit code than 0 ends it.
PROLOG = r"""
import os, subprocess, sys, time
env = {"SLURMD_NODENAME": "%s", "SLURM_JOB_ID": "1", "SLURM_JOB_PARTITION": "batch", "PATH": "/usr/bin:/bin"}
for _ in range(int(sys.argv[1])):
    started = time.monotonic()
    subprocess.run(["/opt/lacuna/hooks/prolog.sh"], env=env, check=True, capture_output=True)
    print(time.monotonic() - started)
"""
SRUN = r"""
import sys
sys.path.insert(0, "/test-cluster")
import slurm
for _ in range(int(sys.argv[1])):
    slurm.all_idle()
    print(slurm.srun_seconds(1))
"""


def floats(text: str) -> list[float]:
    return [float(line) for line in text.split()]


def meet(cluster: Cluster, bus: str) -> tuple[subprocess.Popen, str] | None:
    """Points the nodes' hooks at this bus. Returns the process of a bad bus, and its pid beside the
    controller."""
    port = BUSES[bus]
    cluster.hooks(port is not None)
    if port is None:
        return None
    (cluster.layout.state / "conf/hook.conf").write_text(f"nats={cluster.layout.address(0)}:{port}\n")
    if bus in ("good", "refused"):
        return None
    container = cluster.layout.container("ctl")
    player = subprocess.Popen(
        ["docker", "exec", container, "python3", "/test-cluster/badbus.py", bus, str(port)], stdout=subprocess.PIPE, text=True
    )
    said = player.stdout.readline()
    if not said.startswith(bus):
        raise ClusterError(1, f"the bus that is to be {bus} did not start")
    return player, said.split()[-1]


def measure(cluster: Cluster, repeats: int) -> list[dict]:
    """For each bus: seconds of the prolog alone, and of a batch job's srun."""
    node = cluster.layout.node(1)
    rows = []
    good = (cluster.layout.state / "conf/hook.conf").read_text()
    try:
        for bus in BUSES:
            player = meet(cluster, bus)
            try:
                alone = ""
                if BUSES[bus] is not None:
                    where = cluster.layout.container(node)
                    alone = cluster.docker_exec(where, "python3", "-c", PROLOG % node, str(repeats), limit=300).stdout
                srun = cluster.ctl("python3", "-c", SRUN, str(repeats), limit=300).stdout
            finally:
                if player:
                    cluster.ctl("kill", player[1], check=False)
                    player[0].wait()
            rows.append(
                {
                    "bus": bus,
                    "prolog": summary(floats(alone)) if alone else None,
                    "srun": summary(floats(srun)),
                    "drained": sorted(n for n, s in cluster.states().items() if s != "idle"),
                }
            )
    finally:
        (cluster.layout.state / "conf/hook.conf").write_text(good)
        cluster.hooks(cluster.layout.hooks)
    return rows


def show(rows: list[dict]) -> str:
    def cells(figures: dict | None) -> list[str]:
        if figures is None:
            return ["", "", ""]
        return [seconds(figures["median"]), f"{seconds(figures['q1'])}-{seconds(figures['q3'])}", seconds(figures["max"])]

    head = ["hooks meet", "prolog s", "quartiles", "max", "srun s", "quartiles", "max", "n"]
    lines = [
        [TEXTS[row["bus"]], *cells(row["prolog"]), *cells(row["srun"]), str(row["srun"]["n"])] for row in rows
    ]
    return table(head, lines)


def command(cluster: Cluster, repeats: int, as_json: bool) -> int:
    """`clusterctl.py hooks`."""
    rows = measure(cluster, repeats)
    print(json.dumps({"rows": rows}) if as_json else show(rows))
    drained = sorted({node for row in rows for node in row["drained"]})
    if drained:
        say(f"not idle afterwards: {' '.join(drained)}")
    return 1 if drained else 0
