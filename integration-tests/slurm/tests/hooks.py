"""Prolog and epilog: they publish, and they never fail or delay a job."""

import json
import unittest

import hooks
from lacuna_beside import Lacuna, until
from tests.common import cluster

# Seconds that a prolog may take; some 10 ms were measured on an idle machine of two cores.
MOST = 0.2


class Hooks(unittest.TestCase):
    def test_a_bad_bus_neither_fails_nor_delays_a_job(self):
        rows = hooks.measure(cluster(), repeats=5)
        print("\n" + hooks.show(rows))
        plain = next(row["srun"]["median"] for row in rows if row["bus"] == "no hooks")
        for row in rows:
            with self.subTest(bus=row["bus"]):
                self.assertEqual(row["drained"], [])
                self.assertLess(row["srun"]["median"], plain + MOST)
                if row["prolog"]:
                    self.assertLess(row["prolog"]["median"], MOST)

    def test_events_of_batch_jobs_arrive_once_and_in_order(self):
        lacuna = Lacuna(cluster())
        lacuna.fresh()
        self.addCleanup(lacuna.tidy)
        script = (
            "timeout 20 lacuna events tail --json-lines >/shared/events & sleep 1; "
            "srun -Q -N2 -w n01,n02 -p batch sleep 0.3; srun -Q -p filler -w n03 true; sleep 1; kill %1"
        )
        cluster().ctl("bash", "-c", script, user="lacuna")
        events = [json.loads(line)["event"] for line in lacuna.read("/shared/events").splitlines()]
        published = [(e["type"], e["node"]) for e in events if e["type"] in ("node.busy", "node.idle")]
        for node in ("n01", "n02"):
            self.assertEqual([kind for kind, n in published if n == node], ["node.busy", "node.idle"], published)
        self.assertNotIn("n03", [n for _, n in published], "a pilot's job was published")

    def test_an_event_outlives_a_bus_that_starts_late(self):
        lacuna = Lacuna(cluster())
        lacuna.fresh()
        self.addCleanup(lacuna.tidy)
        lacuna.services("stop", "nats")
        cluster().ctl("srun", "-Q", "-w", "n01", "-p", "batch", "true", user="alice")
        lacuna.services("start", "nats")
        until("the event came after all", 20, lambda: (lacuna.ask("nodes", check=False) or {}).get("nodes"))
