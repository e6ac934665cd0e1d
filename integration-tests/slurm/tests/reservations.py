"""Reservations and maintenance, as administrators make them by scontrol."""

import time

from lacuna_beside import until
from tests.common import WithLacuna


class Reservations(WithLacuna):
    def reserve(self, name: str, *words: str) -> None:
        self.cluster.ctl("scontrol", "create", "reservation", f"reservationname={name}", "users=root", *words)
        self.addCleanup(self.cluster.ctl, "scontrol", "delete", f"reservationname={name}", check=False)

    def on(self, node: str) -> list[str]:
        """States of the pilots that have or want a node."""
        said = self.cluster.ctl("squeue", "-h", "-p", "filler", "-o", "%T|%N|%n").stdout
        rows = [line.split("|") for line in said.splitlines()]
        return [state for state, has, wants in rows if node in (has, wants)]

    def test_a_node_that_is_about_to_be_reserved_gets_no_pilot(self):
        # Sooner than any pilot's time could be over.
        self.reserve("soon", "starttime=now+3minutes", "duration=10", "nodes=n01", "flags=maint")
        self.submit_one("around")
        others = self.names - {"n01"}
        until("the others train", 60, lambda: self.lacuna.leased("around") == others)
        for _ in range(50):
            self.assertNotIn("RUNNING", self.on("n01"))
            time.sleep(0.2)
        # Nor does one wait there for the reservation's end.
        until("none waits", 15, lambda: not self.on("n01"))
        self.lacuna.ask("cancel", "around")
        self.nothing_is_left()

    def test_a_node_that_is_reserved_under_a_pilot_is_given_back(self):
        self.train("under")
        # Without `ignore_jobs` Slurm makes no reservation on nodes with jobs. With it the jobs stay
        # where they are.
        words = ["starttime=now", "duration=5", "nodes=n02", "users=root", "reservationname=r"]
        said = self.cluster.ctl("scontrol", "create", "reservation", *words, check=False)
        self.assertIn("Requested nodes are busy", said.stderr + said.stdout)
        self.reserve("now", "starttime=now", "duration=5", "nodes=n02", "flags=maint,ignore_jobs")
        started = time.monotonic()
        until("no pilot is there", 15, lambda: not self.on("n02"))
        print(f"\n    given back after {time.monotonic() - started:.1f} s")
        self.assertEqual(self.cluster.states()["n02"], "maint")
        others = self.names - {"n02"}
        until("the others train on", 10, lambda: self.lacuna.leased("under") == others)
        self.cluster.ctl("scontrol", "delete", "reservationname=now")
        until("it trains there again", 60, lambda: self.lacuna.leased("under") == self.names)
        self.steps_hold("under")
        self.lacuna.ask("cancel", "under")
        self.nothing_is_left()
