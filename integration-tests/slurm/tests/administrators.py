"""What administrators do to Slurm while pilots are on its nodes."""

import time

from lacuna_beside import BATCH, until
from tests.common import WithLacuna


class Administrators(WithLacuna):
    def goes_on(self, name: str, nodes: set[str], limit: float = 30) -> None:
        """A trainer trains on these nodes, and does steps."""
        until(f"it trains on {len(nodes)} nodes", limit, lambda: self.lacuna.leased(name) == nodes)
        before = len(self.lacuna.steps(name))
        until("it does steps", 30, lambda: len(self.lacuna.steps(name)) > before + 10)

    def whole(self, name: str, always: bool = True) -> None:
        """All nodes train again, and nothing is left behind. `always`: one node at least has trained all the
        time, so that no step was done again."""
        self.goes_on(name, self.names, 120)
        if always:
            self.steps_hold(name)
        self.lacuna.ask("cancel", name)
        self.nothing_is_left()

    def conf(self, text: str) -> None:
        """Another slurm.conf, and slurmctld with it."""
        (self.cluster.layout.state / "etc/slurm.conf").write_text(text)
        self.cluster.ctl("bash", "-c", "kill -TERM $(cat /run/slurm/slurmctld.pid)")
        time.sleep(1)
        self.cluster.wait_answers(30)

    def test_pilots_that_are_cancelled_leave_their_nodes_and_come_back_later(self):
        self.configure(('rest = "3s"', 'rest = "3s"\nbackoff_max = "10s"'))
        self.lacuna.restart("control")
        self.train("mine")
        gone = {"n01", "n02"}
        jobs = [job for job, (_, node) in self.lacuna.pilots().items() if node in gone]
        self.cluster.ctl("scancel", *jobs)
        self.goes_on("mine", self.names - gone)
        self.assertEqual({self.cluster.states()[node] for node in gone}, {"idle"})
        self.whole("mine")

    def test_a_node_whose_slurmd_dies_costs_its_own_share_alone(self):
        self.train("rest")
        container = self.cluster.layout.container("n02")
        self.cluster.docker("kill", container)
        try:
            self.goes_on("rest", self.names - {"n02"})
        finally:
            self.cluster.docker("start", container)
        self.whole("rest")

    def test_a_node_that_slurm_conf_no_longer_has_is_given_up(self):
        self.train("without")
        before = self.cluster.layout.slurm_conf()
        lines = [line for line in before.splitlines() if not line.startswith("NodeName=n04 ")]
        self.addCleanup(self.conf, before)
        self.conf("\n".join(lines) + "\n")
        self.goes_on("without", self.names - {"n04"})
        self.assertNotIn("n04", {node for _, node in self.lacuna.pilots().values()})
        # Slurm has forgotten the pilot, and its slurmd leaves the processes: the agent ends by itself.
        left = lambda: [line for line in self.lacuna.left_behind() if "-n04: " in line]  # noqa: E731
        took = time.monotonic()
        until("no process is left there", 90, lambda: not left())
        print(f"\n    nothing is left there {time.monotonic() - took:.0f} s later")
        self.conf(before)
        self.whole("without")

    def test_jobs_on_whole_nodes_and_more_of_them_than_nodes_all_run(self):
        self.train("between")
        words = ["--parsable", "--wait", "-p", "batch", "--exclusive", "--array=1-12", "-o", "/dev/null"]
        started = time.monotonic()
        self.cluster.ctl("sbatch", *words, "--wrap", "sleep 1", user=BATCH, limit=120)
        print(f"\n    12 jobs on 4 nodes after {time.monotonic() - started:.1f} s")
        self.whole("between", always=False)

    def test_slurm_is_reconfigured_again_and_again(self):
        self.train("same")
        pilots = self.lacuna.pilots()
        for _ in range(20):
            self.cluster.ctl("scontrol", "reconfigure")
        self.goes_on("same", self.names)
        self.assertEqual(self.lacuna.pilots(), pilots)
        self.whole("same")

    def test_a_partition_that_is_down_starts_no_batch_job_and_keeps_none_waiting_afterwards(self):
        self.train("beside")
        self.addCleanup(self.cluster.ctl, "scontrol", "update", "PartitionName=batch", "State=UP")
        self.cluster.ctl("scontrol", "update", "PartitionName=batch", "State=DOWN")
        job = self.cluster.ctl("sbatch", "--parsable", "-p", "batch", "-N4", "-o", "/dev/null", "--wrap", "true", user=BATCH)
        time.sleep(3)
        self.assertEqual(self.lacuna.leased("beside"), self.names)
        self.cluster.ctl("scontrol", "update", "PartitionName=batch", "State=UP")
        started = time.monotonic()
        until("it has run", 30, lambda: not self.cluster.ctl("squeue", "-h", "-j", job.stdout.strip(), check=False).stdout)
        print(f"\n    run after {time.monotonic() - started:.1f} s")
        self.whole("beside", always=False)
