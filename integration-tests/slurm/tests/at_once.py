"""Jobs that must start at once, and nodes that an administrator drains."""

import time

from lacuna_beside import BATCH, until
from tests.common import WithLacuna

IMMEDIATE = ["-Q", "-p", "batch", "-N1", "--immediate", "true"]


class AtOnce(WithLacuna):
    def idle(self) -> set[str]:
        """Nodes that `sinfo -t idle` shows to a user."""
        said = self.cluster.ctl("sinfo", "-h", "-N", "-p", "batch", "-t", "idle", "-o", "%N", user=BATCH)
        return set(said.stdout.split())

    def on(self, node: str) -> str:
        """Jobs on a node."""
        return self.cluster.ctl("squeue", "-h", "-w", node, "-o", "%i %T").stdout.strip()

    def test_immediate_jobs_start_while_idle_nodes_stay_free(self):
        self.train("beside")
        self.assertEqual(self.idle(), set())
        # Slurm preempts for no immediate job, but for one that may wait a moment.
        said = self.cluster.ctl("srun", *IMMEDIATE, user=BATCH, check=False)
        self.assertIn("Unable to allocate resources", said.stderr)
        self.cluster.ctl("srun", "-Q", "-p", "batch", "-N1", "--immediate=5", "true", user=BATCH)
        self.lacuna.ask("limits", "set", "--keep-idle", "1")

        def settled() -> bool:
            return len(self.idle()) == 1 and len(self.lacuna.leased("beside")) == 3

        for command in ("srun", "salloc", "srun"):
            until("one node is idle, three train", 60, settled)
            self.cluster.ctl(command, *IMMEDIATE, user=BATCH)
        until("one node is idle, three train", 60, settled)
        # A job that stays takes the idle node: a trainer gives another one back.
        (kept,) = self.idle()
        job = self.cluster.ctl("sbatch", "--parsable", "-p", "batch", "-w", kept, "-o", "/dev/null", "--wrap", "sleep 60", user=BATCH)
        started = time.monotonic()
        until("another node is idle", 30, lambda: len(self.idle() - {kept}) == 1)
        print(f"\n    another node is idle after {time.monotonic() - started:.1f} s")
        self.cluster.ctl("srun", *IMMEDIATE, user=BATCH)
        self.cluster.ctl("scancel", job.stdout.strip())
        self.lacuna.ask("limits", "set", "--keep-idle", "none")
        until("it trains on all nodes", 60, lambda: self.lacuna.leased("beside") == self.names)
        self.steps_hold("beside")
        self.lacuna.ask("cancel", "beside")
        self.nothing_is_left()

    def test_a_node_that_scontrol_drains_is_given_back_at_the_next_poll(self):
        self.train("drains")
        for node in sorted(self.names)[:2]:
            self.cluster.ctl("scontrol", "update", f"nodename={node}", "state=drain", "reason=fan")
            started = time.monotonic()
            # Polls come every second here.
            until("no job is there", 10, lambda node=node: not self.on(node))
            print(f"\n    given back after {time.monotonic() - started:.1f} s")
            until("it is drained", 5, lambda node=node: self.cluster.states()[node] == "drained")
        until("the others train", 20, lambda: self.lacuna.leased("drains") == set(sorted(self.names)[2:]))
        self.cluster.ctl("scontrol", "update", f"nodename={','.join(sorted(self.names)[:2])}", "state=resume")
        until("it trains on all nodes", 60, lambda: self.lacuna.leased("drains") == self.names)
        self.steps_hold("drains")
        self.lacuna.ask("cancel", "drains")
        self.nothing_is_left()
