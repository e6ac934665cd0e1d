"""A Slurm that refuses pilots, or is down: control names and counts it, and asks rarely. Nothing is
doubled when it comes back."""

import time
from collections import Counter

from lacuna_beside import until
from tests.common import WithLacuna

# Of a command that control calls in place of Slurm's.
WRAPPER = "/shared/wrapped"
# Control waits this long after a failure, doubled each time: shorter than a centre's.
BACKOFF = 'backoff = "2s"\nbackoff_max = "4s"\ncommand_limit = "3s"\n'


class Refusals(WithLacuna):
    def begin(self, *changes: tuple[str, str]) -> None:
        """Control with these settings, and work for all nodes."""
        self.control(*changes)
        self.submit_one("patient")

    def control(self, *changes: tuple[str, str]) -> None:
        self.configure(('rest = "3s"', f'rest = "3s"\n{BACKOFF}'), *changes)
        self.lacuna.restart("control")

    def commands(self, **lines: str) -> tuple[str, str]:
        """The setting that replaces some of Slurm's commands."""
        text = "".join(f'{name} = ["{line}"]\n' for name, line in lines.items())
        return ("[control.pilots.pace]", f"[control.pilots.commands]\n{text}\n[control.pilots.pace]")

    def wrap(self, text: str) -> str:
        self.lacuna.write(WRAPPER, f"#!/bin/bash\n{text}\n")
        self.cluster.ctl("chmod", "755", WRAPPER)
        return WRAPPER

    def refused(self, cause: str) -> float:
        return self.lacuna.metric(f'lacuna_control_pilots_refused_total{{cause="{cause}"}}')

    def is_named(self, cause: str, words: str) -> None:
        """The refusal is counted, logged in Slurm's words, and tried again no faster than allowed."""
        until(f"it is counted as {cause}", 20, lambda: self.refused(cause) >= 1)
        self.assertIn(words, self.lacuna.log("control"))
        # All four nodes may be asked for at once before the first answer; then one at a time.
        first = self.refused(cause)
        self.assertLessEqual(first, 4)
        time.sleep(7)
        self.assertLessEqual(self.refused(cause) - first, 4, "it is not backed off")

    def one_pilot_each(self) -> None:
        """All train, and no node has or had a second pilot."""
        until("all train", 40, lambda: self.lacuna.leased("patient") == self.names)
        time.sleep(2)
        nodes = Counter(node for _, node in self.lacuna.pilots().values())
        self.assertEqual(nodes, Counter(self.names))
        self.lacuna.ask("cancel", "patient")
        self.nothing_is_left()

    def denied(self, wrong: str, right: str, words: str) -> None:
        """Pilots are forbidden after control's check, and later allowed again."""
        before = self.lacuna.submitted_jobs()
        self.control()
        self.partition(wrong, right)
        self.submit_one("patient")
        self.is_named("denied", words)
        self.assertLessEqual(self.lacuna.submitted_jobs(), before)
        self.partition(right)
        self.one_pilot_each()

    def test_permission_denied(self):
        self.denied("RootOnly=YES", "RootOnly=NO", "Access/permission denied")

    def test_a_partition_that_is_another_group_s(self):
        self.denied("AllowGroups=alice", "AllowGroups=ALL", "not permitted to use this partition")

    def test_a_partition_that_is_not_there(self):
        self.begin(('partition = "filler"\nagent_config', 'partition = "fillers"\noverride_check = true\nagent_config'))
        self.is_named("denied", "invalid partition")
        self.assertIn('no partition \\"fillers\\" among batch, filler', self.lacuna.log("control"))
        self.assertEqual(self.lacuna.pilots(), {})

    def test_commands_that_are_not_there(self):
        before = self.lacuna.submitted_jobs()
        self.begin(self.commands(submit="/no/such/sbatch"))
        self.is_named("missing", "/no/such/sbatch")
        self.assertLessEqual(self.lacuna.submitted_jobs(), before)

    def test_who_cannot_list_pilots_submits_none(self):
        before = self.lacuna.submitted_jobs()
        # As an older squeue says.
        old = self.wrap("echo \"squeue: unrecognized option '--me'\" >&2; exit 1")
        self.begin(self.commands(list=old))
        failures = 'lacuna_control_pilots_command_failures_total{command="list"}'
        until("it is counted", 20, lambda: self.lacuna.metric(failures) >= 2)
        self.assertIn("unrecognized option '--me'", self.lacuna.log("control"))
        self.assertEqual(self.lacuna.metric("lacuna_control_pilots_blind"), 1.0)
        time.sleep(3)
        self.assertLessEqual(self.lacuna.submitted_jobs(), before)

    def test_commands_of_another_version(self):
        words = "Batch job submission failed: Incompatible versions of client and server code"
        self.begin(self.commands(submit=self.wrap(f'echo "sbatch: error: {words}" >&2; exit 1')))
        self.is_named("denied", "Incompatible versions")

    def test_a_submission_that_hangs_after_slurm_has_taken_it_is_not_made_twice(self):
        before = self.lacuna.submitted_jobs()
        self.begin(self.commands(submit=self.wrap('sbatch "$@"; sleep 60')))
        until("it is counted", 20, lambda: self.refused("unreachable") >= 1)
        until("all train", 60, lambda: self.lacuna.leased("patient") == self.names)
        self.assertEqual(len(self.lacuna.submitted_jobs() - before), 4, "a node was asked for twice")
        self.one_pilot_each()
