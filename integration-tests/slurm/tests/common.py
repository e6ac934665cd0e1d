"""Shared by the tests: the cluster, and Lacuna beside it with empty state."""

import unittest

from cluster import Cluster
from lacuna_beside import Lacuna, until
from trainers import counted

_cluster: Cluster | None = None


def use(cluster: Cluster) -> None:
    """The cluster on which all tests run."""
    global _cluster
    _cluster = cluster


def cluster() -> Cluster:
    assert _cluster is not None, "test.py brings the cluster up"
    return _cluster


class WithLacuna(unittest.TestCase):
    """Each test begins with empty state, no pilots and idle nodes, and ends the same way."""

    def setUp(self) -> None:
        self.cluster = cluster()
        self.lacuna = Lacuna(self.cluster)
        self.lacuna.fresh(self.before)
        self.addCleanup(self.lacuna.tidy)

    def before(self) -> None:
        """What a test makes before the services start."""

    @property
    def names(self) -> set[str]:
        return set(self.cluster.layout.node_names)

    def configure(self, *changes: tuple[str, str]) -> None:
        """Replaces text of lacuna.toml until the test ends; its readers must be restarted."""
        before = self.cluster.configure(*changes)
        self.addCleanup((self.cluster.layout.state / "conf/lacuna.toml").write_text, before)

    def partition(self, change: str, back: str | None = None) -> None:
        """Changes the pilots' partition in the live Slurm; `back` undoes it when the test ends."""
        if back:
            self.addCleanup(self.cluster.ctl, "scontrol", "update", "PartitionName=filler", back)
        self.cluster.ctl("scontrol", "update", "PartitionName=filler", change)

    def submit_one(self, name: str, **more) -> None:
        """A trainer that can use all nodes."""
        self.lacuna.submit(counted(name, **more))

    def train(self, name: str, **more) -> None:
        """A trainer that trains on all nodes."""
        self.submit_one(name, **more)
        until(f"{name} trains on all nodes", 60, lambda: self.lacuna.leased(name) == self.names)
        until("rank 0 has done steps", 60, lambda: len(self.lacuna.steps(name)) >= 10)

    def batch_seconds(self) -> float:
        """How long a batch job of one node takes."""
        script = "import sys; sys.path.insert(0, '/test-cluster'); import slurm; print(slurm.srun_seconds(1))"
        return float(self.cluster.ctl("python3", "-c", script).stdout)

    def steps_hold(self, name: str) -> list[dict]:
        """Steps come one after the other; one may come again after the loss of a member."""
        steps = self.lacuna.steps(name)
        again = 0
        for before, after in zip(steps, steps[1:]):
            ahead = after["step"] - before["step"]
            if ahead == 1:
                continue
            # The member that logged it may have died before the others got the step.
            self.assertGreater(after["run"], before["run"], f"{before} {after}")
            self.assertIn(ahead, (0, 2), f"a step was lost: {before} {after}")
            again += 1
        print(f"    {len(steps)} steps in {steps[-1]['run'] - steps[0]['run'] + 1} runs, {again} not in sequence")
        return steps

    def nothing_is_left(self) -> None:
        """No lease, no pilot, no process of a user on any node, all nodes idle."""
        until("no lease is left", 30, lambda: not any(r["trainer"] for r in self.lacuna.nodes().values()))
        self.lacuna.pilots_off()
        self.cluster.wait_idle(30)
        try:
            until("no process is left", 10, lambda: not self.lacuna.left_behind())
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.lacuna.left_behind()}") from None
