#!/usr/bin/env python3
"""End-to-end tests on a real Slurm cluster in containers: `make test-slurm`.

Brings a cluster of its own up (project `lacuna-slurm-test`), runs the tests, takes it down again,
also when one fails. Where no Docker engine answers, or it cannot run containers, it prints SKIPPED
and why, and ends with 0.
"""

import os
import sys
import unittest

os.environ.setdefault("LACUNA_SLURM_PROJECT", "lacuna-slurm-test")
os.environ.setdefault("LACUNA_SLURM_SUBNET", "172.31.248.0/22")

from cluster import Bed, BedError  # noqa: E402
from layout import Layout  # noqa: E402

# Something is not there, or cannot be had here; everything else is a failure.
NOT_HERE = (69, 75)


class Slurm(unittest.TestCase):
    """The cluster alone: what the figures of all else rest on."""

    bed: Bed

    def test_a_batch_job_runs_on_every_node(self):
        said = self.bed.ctl("srun", "-N", str(self.bed.layout.nodes), "-p", "batch", "hostname", user="alice")
        self.assertEqual(sorted(said.stdout.split()), self.bed.layout.node_names)

    def test_a_filler_makes_way_for_a_batch_job(self):
        said = self.bed.ctl(
            "python3", "/bed/measure.py", "--repeats", "1", "--widths", "1", "--conditions", "none,dies", limit=120
        )
        self.assertIn("fillers that end at SIGTERM", said.stdout)


def main() -> int:
    bed = Bed(Layout(nodes=4))
    try:
        bed.up()
    except BedError as error:
        if error.code in NOT_HERE:
            print(f"SKIPPED test-slurm: {error}")
            return 0
        print(f"test-slurm: {error}", file=sys.stderr)
        return 1
    Slurm.bed = bed
    try:
        done = unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]], exit=False)
        return 0 if done.result.wasSuccessful() else 1
    finally:
        bed.down()


if __name__ == "__main__":
    sys.exit(main())
