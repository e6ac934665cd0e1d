"""Misbehaving programs on real nodes: control names each, and none delays a batch job or stays
behind."""

import json
import time

from lacuna_beside import until
from tests.common import WithLacuna
from trainers import counted

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

    def given_up(self, name: str, words: str) -> None:
        """The trainer is given up, with the output of its program as the reason."""
        until("it is given up", 120, lambda: self.lacuna.trainer(name)["phase"] == "failed", every=0.5)
        self.assertIn(words, self.lacuna.trainer(name)["reason"])
        self.nothing_is_left()

    def test_a_program_that_fills_its_disk_is_given_up_by_its_last_words(self):
        self.run_script("greedy", "cat /dev/zero >/small/checkpoint")
        self.given_up("greedy", "No space left on device")

    def test_training_goes_on_without_room_for_a_checkpoint(self):
        # Six megabytes of state, and a disk of four.
        text = counted("roomless").replace("--hurry", "--samples=1500000\", \"--every=5\", \"--hurry")
        self.lacuna.submit(text.replace('"/shared/roomless"\nsamples', '"/small/roomless"\nsamples'))
        until("it trains", 90, lambda: self.lacuna.trainer("roomless")["samples"] > 32 * 20)
        said = self.cluster.ctl("lacuna", "logs", "roomless", user="lacuna").stdout
        self.assertIn("No space left on device", said)
        before = self.lacuna.trainer("roomless")["samples"]
        self.assertLess(self.batch_seconds(), MOST)
        until("it trains on", 30, lambda: self.lacuna.trainer("roomless")["samples"] > before + 32 * 20)
        self.lacuna.ask("cancel", "roomless")
        self.nothing_is_left()

    def test_a_program_that_hangs_at_its_start_is_given_up_and_holds_no_batch_job_up(self):
        self.configure(('grace = "2s"', 'grace = "2s"\nstart_limit = "4s"'))
        text = SHELL.replace("@NAME", "asleep").replace('"command"', '"regroup"')
        self.lacuna.submit(text.replace("@SCRIPT", '"exec sleep 1000"'))
        until("it waits everywhere", 30, lambda: len(self.lacuna.pilots()) == len(self.names))
        self.assertLess(self.batch_seconds(), MOST)
        self.given_up("asleep", "was silent for 4s since its start")

    def test_a_process_that_leaves_its_group_and_its_parent_is_found(self):
        self.run_script("hidden", "(setsid bash -c \"trap '' TERM HUP; sleep 1000 & sleep 1000\" &); exec sleep 1000")
        until("it runs everywhere", 30, lambda: self.lacuna.leased("hidden") == self.names)
        until("it hides everywhere", 10, lambda: self.sleeping() == 3 * len(self.names))
        self.assertLess(self.batch_seconds(), MOST)
        # On the batch job's node nothing is left, whatever still starts there.
        self.lacuna.pilots_off()
        until("no process is left", 5, lambda: self.sleeping() == 0)
        self.lacuna.pilots_on()
        self.lacuna.ask("cancel", "hidden")
        self.nothing_is_left()

    def sleeping(self) -> int:
        """How many processes of users on all nodes are `sleep 1000`."""
        return sum(line.split()[3:] == ["sleep", "1000"] for line in self.lacuna.left_behind())
