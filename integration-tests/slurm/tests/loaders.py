"""A training that waits for its data, on one node, and idle nodes of another partition as its loaders."""

from cluster import ClusterError
from lacuna_beside import until
from loading import SETTINGS, Waits
from tests.common import WithLacuna


class Loaders(WithLacuna):
    def before(self) -> None:
        # Of 16 samples of 20 ms each: with two loaders reading is faster than the device.
        self.waits = Waits(self.cluster, self.lacuna, epoch=320, device=0.14)
        for name in self.waits.partitions:
            self.waits.create(name)
            self.addCleanup(self.waits.delete, name)
        self.configure(*SETTINGS)

    def test_loaders_come_die_and_go_and_the_training_loses_nothing(self):
        waits, lacuna = self.waits, self.lacuna
        until("kinds are known", 20, lambda: all(row.get("kind") for row in lacuna.nodes().values()))
        with self.assertRaisesRegex(ClusterError, "no node is of kind big: .*; correct the name"):
            waits.submit(kind="big")
        waits.submit()
        held = waits.load(2)
        # One dies in mid-epoch.
        since = waits.kill(sorted(held)[0])
        until("it is gone", 20, lambda: waits.loaders() == 1)
        held = waits.load(2)
        longest, usual = waits.stall(since)
        print(f"\n    killed: longest step {longest:.2f} s, usual {usual:.2f} s")
        self.assertLess(longest, 3.0)
        # What is worth no node has none, and no pilot.
        free = set(waits.cpus) - held
        self.assertFalse(free & {node for _, node in lacuna.pilots().values()})
        # A batch job takes the node of one: another node loads, and the training notices nothing else.
        taken = sorted(held)[0]
        waits.hold(taken)
        until("another node loads", 60, lambda: len(waits.held() - {taken}) == 2, every=0.5)
        self.alone()
        self.kind_vanishes()
        print(f"    {waits.epochs()} epochs whole")
        lacuna.ask("cancel", "waits")
        self.cluster.ctl("scancel", "-u", "alice")
        self.nothing_is_left()

    def alone(self) -> None:
        """No change of its loaders has touched the training's own node."""
        trainer = self.lacuna.trainer("waits")
        self.assertEqual((trainer["preemptions"], trainer["rescales"]), (0, 0))

    def kind_vanishes(self) -> None:
        """First that of the loaders, which end, then that of the training itself, which starts again."""
        waits, lacuna = self.waits, self.lacuna
        waits.delete("cpus")
        until("no node loads", 30, lambda: not waits.held())
        until("the training has none", 20, lambda: waits.loaders() == 0)
        self.alone()
        waits.create("cpus")
        waits.delete("gpus")
        until("it has no node", 30, lambda: not lacuna.trainer("waits")["nodes"])
        done = len(waits.steps())
        waits.create("gpus")
        until("it trains again", 60, lambda: len(waits.steps()) > done + 5, every=0.5)
