"""The first steps of a site: the check of its Slurm, and observation without pilots."""

import json
import time

from lacuna_beside import until
from tests.common import WithLacuna

# Control stores its observations every ten seconds.
KEPT = 25


class Site(WithLacuna):
    def check(self) -> tuple[int, dict]:
        """Exit code and answer of `lacuna check slurm` against the live cluster."""
        words = ["lacuna", "check", "slurm", "--lacuna-config", "/etc/lacuna/lacuna.toml", "--json"]
        said = self.cluster.ctl(*words, user="lacuna", check=False)
        return said.returncode, json.loads(said.stdout)

    def fatal(self) -> list[str]:
        code, said = self.check()
        found = [each["condition"] for each in said["findings"] if each["verdict"] == "fatal"]
        self.assertEqual(code, 1 if found else 0)
        return found

    def test_the_check_proves_this_cluster_and_finds_what_breaks_it(self):
        self.assertEqual(self.fatal(), [])
        _, said = self.check()
        held = {each["condition"] for each in said["findings"] if each["verdict"] == "ok"}
        self.assertLessEqual({"version", "partition", "preempt type", "priority tier"}, held, said)
        for wrong, right, condition in [
            ("PriorityTier=10", "PriorityTier=1", "priority tier"),
            ("PreemptMode=OFF", "PreemptMode=CANCEL", "preempt mode"),
            ("State=DOWN", "State=UP", "partition"),
        ]:
            with self.subTest(wrong=wrong):
                self.partition(wrong, right)
                self.assertEqual(self.fatal(), [condition])
                self.partition(right)
        self.assertEqual(self.fatal(), [])

    def test_control_starts_no_pilot_where_batch_jobs_would_be_harmed_unless_it_is_told_to(self):
        self.partition("PriorityTier=10", "PriorityTier=1")
        self.lacuna.restart("control")
        before = self.lacuna.submitted_jobs()
        self.submit_one("forbidden")
        self.assertEqual(self.lacuna.metric('lacuna_control_pilots_mode{mode="observe"}'), 1.0)
        self.assertGreaterEqual(self.lacuna.metric('lacuna_control_pilots_check_conditions{verdict="fatal"}'), 1.0)
        until("a plan would use the nodes", 20, lambda: self.lacuna.metric("lacuna_control_observed_planned_nodes") == 4)
        time.sleep(3)
        self.assertLessEqual(self.lacuna.submitted_jobs(), before)
        self.assertIn("no pilot is started", self.lacuna.log("control"))
        self.configure(('mode = "on"', 'mode = "on"\noverride_check = true'))
        self.lacuna.restart("control")
        until("pilots start all the same", 30, lambda: self.lacuna.leased("forbidden") == self.names)
        self.partition("PriorityTier=1")
        self.lacuna.ask("cancel", "forbidden")
        self.nothing_is_left()

    def test_pilots_end_while_batch_jobs_would_wait_for_them_and_then_come_back(self):
        self.configure(('mode = "on"', 'mode = "on"\ncheck_every = "2s"'))
        self.lacuna.restart("control")
        self.train("trusted")
        for wrong, right in [("PreemptMode=OFF", "PreemptMode=CANCEL"), ("State=DOWN", "State=UP")]:
            with self.subTest(wrong=wrong):
                self.partition(wrong, right)
                until("no pilot is left", 20, lambda: not self.lacuna.pilots())
                self.cluster.ctl("srun", "-Q", "-p", "batch", "-N4", "true", user="alice")
                # A control that is started meanwhile comes back to pilots as well.
                self.lacuna.restart("control")
                time.sleep(5)
                self.assertEqual(self.lacuna.pilots(), {})
                self.partition(right)
                # Control starts again, and does not answer meanwhile.
                until("pilots come back", 60, lambda: len(self.lacuna.pilots()) == 4)
                until("it trains on all nodes", 60, lambda: self.lacuna.leased("trusted") == self.names)
        self.lacuna.ask("cancel", "trusted")
        self.nothing_is_left()

    def test_who_observes_starts_nothing_and_says_what_would_have_been(self):
        start = '[control.pilots.assumed]\nstart = "1s"\ndelay = "2s"\n'
        self.configure(('mode = "on"', 'mode = "observe"'), ("[control.pilots.pace]", f"{start}\n[control.pilots.pace]"))
        self.lacuna.restart("control")
        before = self.lacuna.submitted_jobs()
        self.submit_one("watched")
        until("a plan would use the nodes", 20, lambda: self.lacuna.metric("lacuna_control_observed_planned_nodes") == 4)
        time.sleep(5)
        self.cluster.ctl("srun", "-Q", "-w", "n01", "-p", "batch", "sleep", "3", user="alice")
        until(
            "the report tells of it",
            KEPT,
            lambda: self.lacuna.ask("observe", "report", check=False)
            and self.lacuna.ask("observe", "report")["total"]["wanted_nodes"] >= 1,
            every=1,
        )
        total = self.lacuna.ask("observe", "report")["total"]
        print(f"\n    {json.dumps(total)}")
        self.assertLessEqual(self.lacuna.submitted_jobs(), before, "a job was submitted")
        self.assertEqual((total["wanted_nodes"], total["wanted_moments"], total["assumed_delay_s"]), (1, 1, 2.0))
        # The other three went on, after the cost of shrinking, which the trainer states.
        self.assertGreaterEqual(total["restarts"], 1)
        self.assertGreater(total["restart_node_s"], 0.0)
        self.assertGreater(total["harvested_node_s"], 4 * 3.0)
        self.assertLess(total["harvested_node_s"] + total["restart_node_s"], total["planned_node_s"])
        self.assertLessEqual(total["planned_node_s"], total["idle_node_s"])
        self.assertEqual(self.lacuna.trainer("watched")["samples"], 0.0)
