"""What users do, with and without pilots on the nodes: how long it takes, and what Slurm refuses.

Runs on this machine against a running cluster. Each act of acts.py is done on an idle cluster, then
where a trainer trains on all nodes, then where one idle node stays free (`lacuna limits set
--keep-idle 1`). Before each act the cluster is as the column says.
"""

import json
import statistics

from acts import ACTS
from cluster import Cluster, ClusterError, say
from lacuna_beside import Lacuna, until
from stats import seconds, table
from trainers import counted

# The conditions, in the order of the table.
CONDITIONS = {"without": "without pilots", "pilots": "pilots on all nodes", "kept": "one node kept free"}
LOST = "a node lost, srun"


class Users:
    """One cluster, and a trainer that can use all of it."""

    def __init__(self, cluster: Cluster):
        self.cluster, self.lacuna = cluster, Lacuna(cluster)
        self.nodes = cluster.layout.node_names

    def idle(self) -> list[str]:
        return [node for node, state in self.cluster.states().items() if state == "idle"]

    def begin(self, condition: str) -> None:
        if condition == "without":
            self.lacuna.pilots_off()
            return
        self.lacuna.pilots_on()
        self.lacuna.ask("limits", "set", "--keep-idle", "1" if condition == "kept" else "none")

    def ready(self, condition: str) -> None:
        """The cluster is as the condition says."""
        if condition == "without":
            self.cluster.wait_idle(90)
            return
        kept = int(condition == "kept")
        trained = len(self.nodes) - kept
        until(
            f"{trained} nodes train, {kept} are idle",
            120,
            lambda: len(self.lacuna.leased("users")) == trained and len(self.idle()) == kept,
            every=0.3,
        )

    def act(self, act: str, turn: int) -> dict:
        node = self.nodes[-1 - turn % len(self.nodes)]
        if act == LOST:
            self.cluster.pause(node)
        try:
            words = ["python3", "/test-cluster/acts.py", act, node]
            return json.loads(self.cluster.ctl(*words, limit=300).stdout)
        finally:
            if act == LOST:
                self.cluster.unpause()

    def take(self, acts: list[str], conditions: list[str], repeats: int) -> list[dict]:
        taken = []
        self.lacuna.fresh()
        self.lacuna.submit(counted("users"))
        try:
            for condition in conditions:
                self.begin(condition)
                for turn in range(repeats):
                    for act in acts:
                        self.ready(condition)
                        taken.append({"act": act, "condition": condition, **self.act(act, turn)})
                    say(f"{CONDITIONS[condition]}: {turn + 1} of {repeats}")
        finally:
            self.lacuna.tidy()
        return taken


def rows(taken: list[dict]) -> list[dict]:
    """A row for each act: by condition the median, the worst and the failures."""
    found = []
    for act in dict.fromkeys(one["act"] for one in taken):
        row = {"act": act, "conditions": {}}
        for condition in dict.fromkeys(one["condition"] for one in taken):
            ours = [one for one in taken if (one["act"], one["condition"]) == (act, condition)]
            values = [one["seconds"] for one in ours if "seconds" in one]
            said = sorted({one["refused"] for one in ours if "refused" in one})
            row["conditions"][condition] = {
                "n": len(ours),
                "failed": len(ours) - len(values),
                "median": statistics.median(values) if values else None,
                "worst": max(values, default=None),
                "said": said,
            }
        found.append(row)
    return found


def show(found: list[dict]) -> str:
    """A line for each act: in each condition median and worst, and the failures if there are any."""
    head = ["seconds: median, worst", *(CONDITIONS[condition] for condition in found[0]["conditions"])]

    def cell(one: dict) -> str:
        parts = [] if one["median"] is None else [f"{seconds(one['median'])} {seconds(one['worst'])}"]
        if one["failed"]:
            parts.append(f"{one['failed']} of {one['n']} failed")
        return ", ".join(parts)

    lines = [[row["act"], *map(cell, row["conditions"].values())] for row in found]
    said = {text for row in found for one in row["conditions"].values() for text in one["said"]}
    return "\n".join([table(head, lines), *(f"failed: {text}" for text in sorted(said))])


def command(cluster: Cluster, acts: list[str], conditions: list[str], repeats: int, as_json: bool) -> int:
    """`clusterctl.py users`."""
    for given, known in [(acts, ACTS), (conditions, CONDITIONS)]:
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ClusterError(64, f"no {unknown[0]!r}: expected some of {'; '.join(known)}")
    if repeats < 1:
        raise ClusterError(64, "at least one repeat")
    found = rows(Users(cluster).take(acts, conditions, repeats))
    print(json.dumps({"nodes": cluster.layout.nodes, "rows": found}) if as_json else show(found))
    return 0
