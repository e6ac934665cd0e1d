"""Nodes that change hands: how long no program trains on them.

Runs on this machine against a running cluster. Two trainers share all nodes, one ends, and the other
gets its nodes. Counted is the time from the last step of the one to the first step of the other on
all nodes. Three sites: pilots of one account; pilots by the helper, for two trainers of one owner,
and for those of two.
"""

import json
import time

from cluster import Cluster, say
from helper_site import ALL_USERS, CALLS_HELPER, OPERATORS, HelperSite
from lacuna_beside import BATCH, TRAIN, Lacuna, until
from stats import seconds, summary, table
from trainers import counted

SITES = {
    "one account": None,
    "helper, one owner": (BATCH, BATCH),
    "helper, two owners": (BATCH, TRAIN),
}


class Hands:
    """One site. `owners` are those of the trainer that ends and of the other."""

    def __init__(self, cluster: Cluster, owners: tuple[str, str] | None):
        self.lacuna, self.owners = Lacuna(cluster), owners
        self.nodes = set(cluster.layout.node_names)
        self.site = HelperSite(cluster, self.lacuna)

    def begin(self) -> None:
        self.lacuna.fresh(self.prepare if self.owners else lambda: None)

    def prepare(self) -> None:
        self.site.keys()
        self.site.helper()
        self.site.agents()

    def submit(self, name: str, place: int) -> None:
        if self.owners:
            self.site.submit_as(self.owners[place], name)
        else:
            self.lacuna.submit(counted(name))

    def once(self, turn: int) -> float:
        """Seconds from the last step of the one to the first of the other on all nodes."""
        names = [f"ends{turn}", f"stays{turn}"]
        for place, name in enumerate(names):
            self.submit(name, place)

        def both() -> bool:
            held = [self.lacuna.leased(name) for name in names]
            return all(held) and held[0] | held[1] == self.nodes

        until("both train, on all nodes together", 120, both)
        for name in names:
            until(f"{name} has done steps", 60, lambda name=name: len(self.lacuna.steps(name)) >= 20)
        until("both train, on all nodes together", 120, both)
        self.lacuna.ask("cancel", names[0])
        until("the other trains on all nodes", 120, lambda: self.lacuna.leased(names[1]) == self.nodes)
        time.sleep(1)
        last = self.lacuna.steps(names[0])[-1]["t"]
        whole = [row["t"] for row in self.lacuna.steps(names[1]) if row["t"] > last and row["world"] == len(self.nodes)]
        self.lacuna.ask("cancel", names[1])
        until("no lease is left", 60, lambda: not any(row["trainer"] for row in self.lacuna.nodes().values()))
        return whole[0] - last


def command(cluster: Cluster, repeats: int, as_json: bool) -> int:
    rows = []
    for site, owners in SITES.items():
        before = cluster.configure(*([CALLS_HELPER, ALL_USERS, OPERATORS] if owners else []))
        hands = Hands(cluster, owners)
        try:
            hands.begin()
            taken = [hands.once(turn) for turn in range(repeats)]
        finally:
            (cluster.layout.state / "conf/lacuna.toml").write_text(before)
            hands.lacuna.tidy()
            cluster.ctl("rm", "-rf", "/var/lib/lacuna/keys")
        say(f"{site}: {', '.join(f'{value:.1f}' for value in taken)} s")
        rows.append({"site": site, **summary(taken), "values": taken})
    head = ["nodes go over", "n", "median s", "quartiles", "range"]
    lines = [
        [
            row["site"],
            str(row["n"]),
            seconds(row["median"]),
            f"{seconds(row['q1'])}-{seconds(row['q3'])}",
            f"{seconds(row['min'])}-{seconds(row['max'])}",
        ]
        for row in rows
    ]
    print(json.dumps({"nodes": len(hands.nodes), "rows": rows}) if as_json else table(head, lines))
    return 0
