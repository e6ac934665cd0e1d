"""Programs that do what programs should not do, on real nodes: each is named, none holds a
batch job up or stays behind."""

import json
import time

from lacuna_beside import until
from tests.common import WithLacuna

SHELL = """
[[trainer]]
name = "@NAME"
launcher = "command"
program = "/bin/bash"
arguments = ["-c", @SCRIPT]
checkpoint_dir = "/shared/@NAME"
samples = 1e9
min_nodes = 1
max_nodes = 4
scaling = { nodes = [1, 4], samples_per_s = [300.0, 1000.0] }
rescale = { up = "500ms", down = "500ms" }
"""
# Longer than an undisturbed preemption takes here, shorter than KillWait (5 s) would make it.
MOST = 2.0


class BadPrograms(WithLacuna):
    def run_script(self, name: str, script: str) -> None:
        self.lacuna.submit(SHELL.replace("@NAME", name).replace("@SCRIPT", json.dumps(script)))

    def batch_seconds(self) -> float:
        """How long a batch job of one node takes."""
        script = "import sys; sys.path.insert(0, '/bed'); import slurm; print(slurm.srun_seconds(1))"
        return float(self.bed.ctl("python3", "-c", script).stdout)

    def test_a_program_that_ignores_sigterm_holds_no_batch_job_up(self):
        self.run_script("deaf", "trap '' TERM; (sleep 1000 & sleep 1000) & sleep 1000; sleep 1000")
        until("it runs everywhere", 30, lambda: self.lacuna.leased("deaf") == self.names)
        time.sleep(0.5)
        self.assertLess(self.batch_seconds(), MOST)
        self.lacuna.ask("cancel", "deaf")
        self.nothing_is_left()

    def test_garbage_for_progress_counts_nothing(self):
        self.run_script(
            "garbage",
            'while :; do head -c 300 /dev/urandom >>"$LACUNA_PROGRESS_FILE"; '
            'echo \'{"samples": -5, "t": "x"}\' >>"$LACUNA_PROGRESS_FILE"; sleep 0.2; done',
        )
        until("it runs everywhere", 30, lambda: self.lacuna.leased("garbage") == self.names)
        time.sleep(3)
        row = self.lacuna.trainer("garbage")
        self.assertEqual((row["phase"], row["samples"]), ("active", 0.0))
        self.lacuna.ask("cancel", "garbage")
        self.nothing_is_left()

    def test_a_program_that_cannot_start_is_given_up_by_name(self):
        text = SHELL.replace("@NAME", "nowhere").replace("@SCRIPT", '""').replace("/bin/bash", "/no/such/program")
        self.lacuna.submit(text)
        until("it is given up", 90, lambda: self.lacuna.trainer("nowhere")["phase"] == "failed")
        self.assertIn("/no/such/program", self.lacuna.trainer("nowhere")["reason"])
        self.nothing_is_left()
